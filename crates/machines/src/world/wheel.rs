//! The entries of a run queue behind the earliest one.
//!
//! Entries of the near future lie in slots, each for a span of time, in a ring: an entry is put in
//! and taken out in constant time. A slot's entries are a sorted list. Entries beyond the ring lie
//! in a heap.
//!
//! Invariants: all entries of the ring lie in slots from the cursor on, less than one turn of the
//! ring ahead. The cursor is the slot of the last entry that ran, so it only advances.
//!
//! Entry points: [`Wheel::insert`], [`Wheel::pop`].

use crate::explorer::AgentIx;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Time in nanoseconds, number of the entry and agent, in 64, 48 and 16 bits. Entries are compared
/// as one number: equal times run in the order in which they entered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry(u128);

impl Entry {
    /// Comes after all entries.
    pub(super) const NONE: Entry = Entry(u128::MAX);

    pub(super) fn new(at: u64, number: u64, agent: AgentIx) -> Entry {
        Entry(u128::from(at) << 64 | u128::from(number << 16 | u64::from(agent.0)))
    }

    pub(super) fn time(self) -> u64 {
        (self.0 >> 64) as u64
    }

    pub(super) fn number(self) -> u64 {
        self.0 as u64 >> 16
    }

    pub(super) fn agent(self) -> AgentIx {
        AgentIx(self.0 as u16)
    }
}

/// The span of the ring: 16 µs, which steps and short work of an engine do not exceed.
const SPAN_BITS: u32 = 14;
const FIRST_SLOT_BITS: u32 = 10;
/// Slots of one nanosecond.
const MOST_SLOT_BITS: u32 = SPAN_BITS;

/// No node.
const NONE: u32 = u32::MAX;

/// An entry in the list of its slot.
struct Node {
    entry: Entry,
    /// The next one; behind the last one the first. Of a free node, the next free one.
    next: u32,
}

/// Entries in order of time.
pub(super) struct Wheel {
    /// The last node of each slot, [`NONE`] for an empty slot.
    last: Box<[u32]>,
    /// A bit for each slot, set while it has entries.
    occupied: Box<[u64]>,
    /// The time of a slot in nanoseconds, as a power of two.
    slot_ns_bits: u32,
    /// The slot of the last entry that ran, counted from time 0.
    cursor: u64,
    nodes: Vec<Node>,
    /// The first free node.
    free: u32,
    /// The number of entries in the ring.
    entries: usize,
    beyond: BinaryHeap<Reverse<Entry>>,
}

impl Default for Wheel {
    fn default() -> Wheel {
        Wheel::with_slots(FIRST_SLOT_BITS)
    }
}

impl Wheel {
    fn with_slots(slot_bits: u32) -> Wheel {
        let slots = 1 << slot_bits;
        Wheel {
            last: vec![NONE; slots].into(),
            occupied: vec![0; slots / 64].into(),
            slot_ns_bits: SPAN_BITS - slot_bits,
            cursor: 0,
            nodes: Vec::new(),
            free: NONE,
            entries: 0,
            beyond: BinaryHeap::new(),
        }
    }

    #[inline]
    pub(super) fn insert(&mut self, entry: Entry) {
        let slots = self.last.len();
        let slot = entry.time() >> self.slot_ns_bits;
        // A slot before the cursor is far ahead of it in this difference.
        if slot.wrapping_sub(self.cursor) >= slots as u64 {
            self.beyond.push(Reverse(entry));
            return;
        }
        let at = slot as usize & (slots - 1);
        let new = self.take_node(entry);
        let last = self.last[at];
        self.entries += 1;
        if last == NONE {
            self.occupied[at / 64] |= 1 << (at % 64);
            self.nodes[new as usize].next = new;
            self.last[at] = new;
        } else if self.nodes[last as usize].entry < entry {
            self.link(last, new);
            self.last[at] = new;
        } else {
            let mut before = last;
            loop {
                let next = self.nodes[before as usize].next;
                if self.nodes[next as usize].entry > entry {
                    break;
                }
                before = next;
            }
            self.link(before, new);
        }
        if self.entries > 2 * slots {
            self.refine();
        }
    }

    /// Links the node `new` behind `before`.
    fn link(&mut self, before: u32, new: u32) {
        let next = std::mem::replace(&mut self.nodes[before as usize].next, new);
        self.nodes[new as usize].next = next;
    }

    #[inline]
    fn take_node(&mut self, entry: Entry) -> u32 {
        let node = self.free;
        if node == NONE {
            self.nodes.push(Node { entry, next: NONE });
            return (self.nodes.len() - 1) as u32;
        }
        let taken = &mut self.nodes[node as usize];
        taken.entry = entry;
        self.free = taken.next;
        node
    }

    /// Takes out the earliest entry, after the entry `ran` has left the queue.
    #[inline]
    pub(super) fn pop(&mut self, ran: Entry) -> Option<Entry> {
        self.cursor = self.cursor.max(ran.time() >> self.slot_ns_bits);
        if self.entries == 0 {
            return self.beyond.pop().map(|Reverse(entry)| entry);
        }
        let at = self.first_occupied();
        let last = self.last[at];
        let first = self.nodes[last as usize].next;
        let Node { entry, next } = self.nodes[first as usize];
        if self.beyond.peek().is_some_and(|Reverse(beyond)| *beyond < entry) {
            return self.beyond.pop().map(|Reverse(entry)| entry);
        }
        if first == last {
            self.last[at] = NONE;
            self.occupied[at / 64] &= !(1 << (at % 64));
        } else {
            self.nodes[last as usize].next = next;
        }
        self.nodes[first as usize].next = self.free;
        self.free = first;
        self.entries -= 1;
        Some(entry)
    }

    /// Returns the first occupied place from the cursor on. There is one.
    #[inline]
    fn first_occupied(&self) -> usize {
        let start = self.cursor as usize & (self.last.len() - 1);
        let mut word = start / 64;
        let mut bits = self.occupied[word] & u64::MAX << (start % 64);
        while bits == 0 {
            word = (word + 1) & (self.occupied.len() - 1);
            bits = self.occupied[word];
        }
        word * 64 + bits.trailing_zeros() as usize
    }

    /// Makes slots of a quarter of the time, so that their lists stay short.
    #[cold]
    fn refine(&mut self) {
        let slot_bits = self.last.len().ilog2();
        if slot_bits == MOST_SLOT_BITS {
            return;
        }
        let fine = Wheel::with_slots((slot_bits + 2).min(MOST_SLOT_BITS));
        let coarse = std::mem::replace(self, fine);
        self.cursor = coarse.cursor << (coarse.slot_ns_bits - self.slot_ns_bits);
        self.beyond = coarse.beyond;
        for last in coarse.last.iter().filter(|last| **last != NONE) {
            let mut node = *last;
            loop {
                node = coarse.nodes[node as usize].next;
                self.insert(coarse.nodes[node as usize].entry);
                if node == *last {
                    break;
                }
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.last.fill(NONE);
        self.occupied.fill(0);
        self.nodes.clear();
        (self.free, self.entries) = (NONE, 0);
        self.beyond.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_leave_in_order_whatever_their_time_is() {
        let mut random = 7u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        let (mut wheel, mut expected) = (Wheel::default(), BinaryHeap::new());
        let (mut number, mut ran) = (0, Entry::new(0, 0, AgentIx(0)));
        for round in 0..60_000 {
            // Fills, until the slots are as fine as can be, and empties.
            let fills = round < 40_000;
            for _ in 0..next(if fills { 4 } else { 2 }) {
                number += 1;
                let most = [1, 300, 12_000, 20_000, 2_000_000][next(5) as usize];
                let ahead = next(most);
                let entry = Entry::new(ran.time() + ahead, number, AgentIx(3));
                wheel.insert(entry);
                expected.push(Reverse(entry));
            }
            let popped = wheel.pop(ran);
            assert!(popped == expected.pop().map(|Reverse(entry)| entry), "in round {round}");
            ran = popped.unwrap_or(ran).max(ran);
        }
        assert!(wheel.last.len() > 1 << FIRST_SLOT_BITS, "the slots were never refined");
        while let Some(entry) = wheel.pop(ran) {
            assert!(Some(Reverse(entry)) == expected.pop());
        }
        assert!(expected.is_empty() && wheel.entries == 0);
    }
}
