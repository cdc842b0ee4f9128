//! The doorbell page, and the summary by which a busy or sleeping engine finds a ring.
//!
//! A doorbell is one word of a page that is fresh for each connect. It holds the absolute write
//! pointer, so ringing twice is harmless. Each process has one [`Summary`] per engine, so that the
//! engine need not scan idle doorbells: a bitmap and a wake word. The first doorbells have their
//! bits in the root itself, the rest in leaves below it (decisions/0024).
//!
//! Order of a ring: 1. doorbell; 2. full barrier; 3. leaf bit, if there is a leaf; 4. root bit; 5.
//! wake word. Steps 2 to 4 are [`RingBits::set`]. Order of a scan: 1. take the root's bits; 2. take
//! the leaves' bits; 3. load the doorbells. The next scan finds a bit that is set after its word
//! was taken.
//!
//! A global doorbell is one location that all queues of a process share, or of all processes. Its
//! value also names the queue. Memory keeps only the last ring, where a bus delivers each, so no
//! engine reads it: the summary names the rung queues, and their control areas have the write
//! pointers.

use crate::QueueId;
use std::ops::Range;
use tidegate_d3dukmdt::RingBits;
use tidegate_platform::planted;
use tidegate_platform::{ClientAccess, Page, Platform, Step, WakeWord, Word};

/// The word of a doorbell page that holds the write pointer.
pub const DOORBELL_VALUE_WORD: usize = 0;
/// Bits of a global doorbell's value that hold the write pointer. The queue's place is above them.
pub const GLOBAL_POINTER_BITS: u32 = u64::BITS - QueueId::PLACE_BITS;

/// Returns the amount to add to the write pointer of `queue` for a global doorbell.
// spec: UMS-005
pub fn global_base(queue: QueueId) -> u64 {
    u64::from(queue.place()) << GLOBAL_POINTER_BITS
}

/// Returns the place of the queue and the write pointer in the value of a global doorbell.
pub fn global_parts(value: u64) -> (u32, u64) {
    ((value >> GLOBAL_POINTER_BITS) as u32, value & ((1 << GLOBAL_POINTER_BITS) - 1))
}

/// Doorbells whose bit is in the root. The root's other bits stand for groups of leaves.
const IN_ROOT: u32 = 48;
/// Leaves below one bit of the root. Their words share a cache line.
const LEAVES_IN_GROUP: u32 = 4;
const DOORBELLS_IN_GROUP: u32 = LEAVES_IN_GROUP * u64::BITS;
const GROUPS: u32 = u64::BITS - IN_ROOT;
/// The number of doorbells in one summary.
pub const SUMMARY_BITS: u32 = IN_ROOT + GROUPS * DOORBELLS_IN_GROUP;
/// The word of the first leaf. The root has the line before it.
const FIRST_LEAF: usize = 8;

/// The doorbells of one process and one engine that may have been rung, and the engine's wake word.
#[derive(Clone, Debug)]
pub struct Summary {
    root: Word,
    leaves: Page,
    wake: WakeWord,
}

/// The place of a doorbell's bit in its summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryPlace {
    in_root: u64,
    /// The word of its leaf and the bit there; `None` if the root has its bit.
    in_leaf: Option<(usize, u64)>,
}

impl SummaryPlace {
    /// Returns the place of doorbell number `doorbell` of its group.
    pub fn of(doorbell: u32) -> SummaryPlace {
        let Some(below) = doorbell.checked_sub(IN_ROOT) else {
            return SummaryPlace { in_root: 1 << doorbell, in_leaf: None };
        };
        let (group, leaf) = (below / DOORBELLS_IN_GROUP % GROUPS, below / u64::BITS);
        let word = FIRST_LEAF + (leaf % (GROUPS * LEAVES_IN_GROUP)) as usize;
        SummaryPlace {
            in_root: 1 << (IN_ROOT + group),
            in_leaf: Some((word, 1 << (below % u64::BITS))),
        }
    }
}

/// Returns the words of the leaves below a bit of the root.
fn leaves_of(in_root: u64) -> Range<usize> {
    let group = in_root.trailing_zeros() - IN_ROOT;
    let first = FIRST_LEAF + (group * LEAVES_IN_GROUP) as usize;
    first..first + LEAVES_IN_GROUP as usize
}

impl Summary {
    /// Returns an empty summary for an engine that sleeps on `wake`.
    pub fn new(platform: &Platform, wake: WakeWord) -> Summary {
        let words = FIRST_LEAF + (GROUPS * LEAVES_IN_GROUP) as usize;
        let leaves = platform.client_page(words, ClientAccess::ReadWrite);
        let leaves = leaves.named("the doorbell summary");
        Summary { root: leaves.word(0), leaves, wake }
    }

    /// Returns the place of doorbell number `bit`, for its ringer.
    pub fn ringer(&self, bit: u32) -> Ringer {
        let SummaryPlace { in_root, in_leaf } = SummaryPlace::of(bit);
        let leaf = in_leaf.map(|(word, bit)| (self.leaves.word(word), bit));
        let root = (self.root.clone(), in_root);
        Ringer { bits: RingBits { leaf, root, sleeper: self.wake.word() }, wake: self.wake.clone() }
    }

    /// Returns whether a doorbell other than the one at `place` may have been rung since the last
    /// scan.
    #[inline(always)]
    pub fn is_rung_besides(&self, place: &SummaryPlace) -> bool {
        let SummaryPlace { in_root, in_leaf } = *place;
        let root = self.root.load();
        if root & !in_root != 0 {
            return true;
        }
        match in_leaf {
            Some((own, bit)) if root != 0 => self.is_leaf_rung_besides(in_root, own, bit),
            _ => false,
        }
    }

    #[cold]
    fn is_leaf_rung_besides(&self, in_root: u64, own: usize, own_bit: u64) -> bool {
        let others = |leaf: usize| if leaf == own { !own_bit } else { u64::MAX };
        leaves_of(in_root).any(|leaf| self.leaves.load(leaf) & others(leaf) != 0)
    }

    /// Returns whether a doorbell may have been rung since the last scan.
    #[inline]
    pub fn is_rung(&self) -> bool {
        self.root.load() != 0
    }

    /// Takes the numbers of all doorbells rung since the last scan.
    #[inline]
    pub fn take(&self, mut rung: impl FnMut(u32)) {
        if self.root.load() != 0 {
            self.take_bits(&mut rung);
        }
    }

    #[inline(never)]
    fn take_bits(&self, rung: &mut impl FnMut(u32)) {
        // The fault is the mistake that the scenario leaf-ring-against-scan must find.
        let is_late = planted!(self.root.platform(), RootClearedAfterItsLeaves);
        let taken = if is_late { self.root.load() } else { self.root.exchange(0) };
        let mut root = taken;
        while root != 0 {
            let in_root = root & root.wrapping_neg();
            root &= !in_root;
            if in_root.trailing_zeros() < IN_ROOT {
                rung(in_root.trailing_zeros());
            } else {
                self.take_leaves(in_root, rung);
            }
        }
        if is_late {
            self.root.fetch_and(!taken);
        }
    }

    fn take_leaves(&self, in_root: u64, rung: &mut impl FnMut(u32)) {
        for leaf in leaves_of(in_root) {
            if self.leaves.load(leaf) == 0 {
                continue;
            }
            let mut bits = self.leaves.exchange(leaf, 0);
            let first = IN_ROOT + (leaf - FIRST_LEAF) as u32 * u64::BITS;
            while bits != 0 {
                rung(first + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }
}

/// The place of one doorbell in a summary.
#[derive(Clone, Debug)]
pub struct Ringer {
    bits: RingBits,
    wake: WakeWord,
}

impl Ringer {
    /// Carries out the ringer's steps 2 to 5.
    #[inline]
    pub fn ring(&self) {
        self.bits.set();
        self.wake.ring_after_barrier(Step::DoorbellToFetch);
    }

    /// Returns the same steps as data, for a ringer in another process.
    pub fn bits(&self) -> RingBits {
        self.bits.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: UMS-005, UMS-008
    #[test]
    fn a_global_value_names_queue_and_pointer() {
        for (queue, pointer) in [(0, 0), (1, 1), (0xF_FFFF, (1 << 44) - 1), (7, 1 << 40)] {
            for before in [0, QueueId::QUEUES_OF_A_PLACE - 1] {
                let base = global_base(QueueId::new(queue, before));
                assert_eq!(global_parts(base + pointer), (queue, pointer));
            }
        }
    }

    fn taken(summary: &Summary) -> Vec<u32> {
        let mut taken = Vec::new();
        summary.take(|bit| taken.push(bit));
        taken
    }

    #[test]
    fn each_doorbell_is_taken_once_and_by_its_number() {
        let platform = Platform::host();
        let summary = Summary::new(&platform, WakeWord::new(&platform));
        let bits = [0, 47, 48, 111, 112, 303, 304, 4_000, SUMMARY_BITS - 1];
        for bit in bits {
            summary.ringer(bit).ring();
            summary.ringer(bit).ring();
            assert!(summary.is_rung() && !summary.is_rung_besides(&SummaryPlace::of(bit)), "{bit}");
            for other in bits.into_iter().filter(|other| *other != bit) {
                assert!(summary.is_rung_besides(&SummaryPlace::of(other)), "{bit} beside {other}");
            }
            assert_eq!((taken(&summary), summary.is_rung()), (vec![bit], false));
        }
        bits.iter().for_each(|bit| summary.ringer(*bit).ring());
        assert_eq!((taken(&summary), taken(&summary)), (bits.to_vec(), vec![]));
    }
}
