//! The ring of a user-mode queue: slots, the control area's two pointers, and the free space.
//!
//! When the ring is full, the backlog's worker sleeps on the progress fence. So every quarter of
//! the ring has a *checkpoint*: a slot that runs a command buffer and hence stores a progress
//! value. A quarter with only waits and signals gets an empty command buffer in its last slot. When
//! progress has reached a checkpoint, all slots up to it were taken.
//!
//! Called under the queue's submitter lock. Order: [`Ring::put`] slots, then [`Ring::publish`]; the
//! bytes of a slot are visible before the write pointer that covers it.

use crate::model::{MAX_RING_SLOTS, MIN_RING_SLOTS};
use tidegate_gpu_abi::{
    CONTROL_INTERRUPTED_WORD, CONTROL_READ_WORD, CONTROL_WRITE_WORD, RingPacket, SLOT_BYTES,
};
use tidegate_platform::{Bulk, Page, Word};

const QUARTERS: u64 = 4;

/// Returns whether a ring may have this many slots.
pub(crate) fn slots_are_valid(slots: u64) -> bool {
    slots.is_power_of_two() && (MIN_RING_SLOTS..=MAX_RING_SLOTS).contains(&slots)
}

/// The last slot of a quarter that stores a progress value. Progress is 0 if there is none yet.
#[derive(Clone, Copy, Debug, Default)]
struct Checkpoint {
    slot: u64,
    progress: u64,
}

/// The availability of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Enough slots are free.
    Enough,
    /// Enough slots will be free when progress has reached this value.
    AfterProgress(u64),
}

pub(crate) struct Ring {
    memory: Bulk,
    write_pointer: Word,
    read_pointer: Word,
    interrupted: Word,
    /// A power of two, as is a quarter of it.
    slots: u64,
    /// The binary logarithm of a quarter's slots: no submission divides.
    quarter_bits: u32,
    /// The last slot of a quarter, counted from its first one.
    last_in_quarter: u64,
    /// Slots written since the queue was created.
    written: u64,
    /// Slots that the engine is known to have taken; it may have taken more.
    taken: u64,
    checkpoints: [Checkpoint; QUARTERS as usize],
}

impl Ring {
    pub(crate) fn new(memory: Bulk, control: &Page, slots: u64) -> Ring {
        Ring {
            memory: memory.named("the ring's slots"),
            write_pointer: control.word(CONTROL_WRITE_WORD).named("the ring's write pointer"),
            read_pointer: control.word(CONTROL_READ_WORD).named("the ring's read pointer"),
            interrupted: control
                .word(CONTROL_INTERRUPTED_WORD)
                .named("the ring's interrupted slot"),
            slots,
            quarter_bits: (slots / QUARTERS).ilog2(),
            last_in_quarter: slots / QUARTERS - 1,
            written: 0,
            taken: 0,
            checkpoints: [Checkpoint::default(); QUARTERS as usize],
        }
    }

    /// Returns the maximum number of slots per submission. It ensures that waiting for half the
    /// ring always makes room.
    pub(crate) fn most_per_submission(&self) -> u64 {
        self.slots / 2
    }

    /// Returns the number of slots.
    pub(crate) fn slots(&self) -> u64 {
        self.slots
    }

    /// Returns the packets that the engine has not taken, with their slots, and the slot in which
    /// the engine was stopped. Must be called after the hardware has stopped reading the ring.
    pub(crate) fn unfinished(&self) -> (Vec<(u64, RingPacket)>, Option<u64>) {
        let taken =
            self.read_pointer.load().clamp(self.written.saturating_sub(self.slots), self.written);
        let packets = (taken..self.written).filter_map(|slot| {
            let mut bytes = [0; SLOT_BYTES as usize];
            self.memory.read(self.offset(slot), &mut bytes).ok()?;
            Some((slot, RingPacket::decode(&bytes).ok()?))
        });
        let interrupted = self.interrupted.load().checked_sub(1);
        (packets.collect(), interrupted.filter(|slot| *slot == taken && taken < self.written))
    }

    /// Returns the number of the next slot.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Returns how many slots the engine has taken by now.
    pub(crate) fn taken_now(&self) -> u64 {
        self.read_pointer.load().min(self.written)
    }

    /// Returns whether the engine has taken every slot.
    pub(crate) fn is_drained(&self) -> bool {
        self.read_pointer.load() >= self.written
    }

    /// Returns the place of a slot's bytes.
    #[inline]
    fn offset(&self, slot: u64) -> u64 {
        (slot & (self.slots - 1)) * SLOT_BYTES
    }

    /// Returns the place of the checkpoint of a slot's quarter.
    #[inline]
    fn checkpoint_of(&self, slot: u64) -> usize {
        (slot >> self.quarter_bits) as usize % self.checkpoints.len()
    }

    /// Returns whether the next slot is the last one of a quarter without a checkpoint.
    #[inline]
    pub(crate) fn needs_checkpoint(&self) -> bool {
        let last = self.last_in_quarter;
        self.written & last == last && self.lacks_checkpoint()
    }

    /// Returns whether the quarter, whose last slot is the next one, has no checkpoint.
    #[inline(never)]
    fn lacks_checkpoint(&self) -> bool {
        let checkpoint = self.checkpoints[self.checkpoint_of(self.written)];
        checkpoint.progress == 0 || checkpoint.slot < self.written - self.last_in_quarter
    }

    /// Returns whether `need` slots can be written. `progress` is read only if the pointers show no
    /// room.
    #[inline]
    pub(crate) fn room(&mut self, need: u64, progress: impl FnOnce() -> u64) -> Room {
        if self.fits(need) { Room::Enough } else { self.make_room(need, progress) }
    }

    fn fits(&self, need: u64) -> bool {
        self.written + need - self.taken <= self.slots
    }

    #[inline(never)]
    fn make_room(&mut self, need: u64, progress: impl FnOnce() -> u64) -> Room {
        self.taken = self.taken.max(self.read_pointer.load().min(self.written));
        if self.fits(need) {
            return Room::Enough;
        }
        // The engine stores the progress value first and its read pointer later. Either shows that
        // a slot was taken.
        let reached = progress();
        for checkpoint in self.checkpoints {
            if checkpoint.progress != 0 && checkpoint.progress <= reached {
                self.taken = self.taken.max(checkpoint.slot + 1);
            }
        }
        if self.fits(need) {
            return Room::Enough;
        }
        // Sleep until the engine is at most half a ring behind. This is soon enough, and long
        // enough to justify the sleep. At least one whole quarter lies between that slot and the
        // next one, so there is a checkpoint.
        let half_back = self.written - self.slots / 2;
        let later = self.checkpoints.iter().filter(|c| c.progress != 0 && c.slot >= half_back);
        let next =
            later.min_by_key(|c| c.slot).expect("every whole quarter of a ring has a checkpoint");
        Room::AfterProgress(next.progress)
    }

    /// Writes the next slot, which runs a command buffer and then stores `progress`.
    #[inline]
    pub(crate) fn put_execute(&mut self, packet: &RingPacket, progress: u64) {
        let slot = self.written;
        self.checkpoints[self.checkpoint_of(slot)] = Checkpoint { slot, progress };
        self.put(packet);
    }

    /// Writes the next slot. It is part of each caller, which knows the kind of the packet.
    #[inline(always)]
    pub(crate) fn put(&mut self, packet: &RingPacket) {
        self.memory
            .write_words(self.offset(self.written), packet.words())
            .expect("a slot lies inside the ring");
        self.written += 1;
    }

    /// Stores the write pointer, which makes the new slots visible to readers of the control area.
    #[inline]
    pub(crate) fn publish(&self) {
        self.write_pointer.store(self.written);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_gpu_abi::CONTROL_WORDS;
    use tidegate_platform::Platform;

    fn ring(slots: u64) -> (Ring, Word) {
        let platform = Platform::host();
        let control = platform.page(CONTROL_WORDS);
        (
            Ring::new(platform.bulk((slots * SLOT_BYTES) as usize), &control, slots),
            control.word(CONTROL_READ_WORD),
        )
    }

    #[test]
    fn every_mix_of_slots_leaves_something_to_sleep_on() {
        for slots in [8, 16, 64] {
            for pattern in 0..64u64 {
                let (mut ring, read) = ring(slots);
                let mut progress = 0;
                for n in 0..20 * slots {
                    let execute = pattern >> (n % 6) & 1 == 1;
                    let need = 1 + u64::from(!execute && ring.needs_checkpoint());
                    if let Room::AfterProgress(value) = ring.room(need, || 0) {
                        assert!(value <= progress && value > 0);
                        // Progress makes room even before the read pointer has moved.
                        assert_eq!(
                            ring.room(need, || value),
                            Room::Enough,
                            "{slots} {pattern:b} {n}"
                        );
                        let at =
                            ring.checkpoints.iter().find(|c| c.progress == value).unwrap().slot;
                        read.store(at + 1);
                    }
                    if !execute && ring.needs_checkpoint() {
                        progress += 1;
                        ring.put_execute(&RingPacket::Nop, progress);
                    }
                    if execute {
                        progress += 1;
                        ring.put_execute(&RingPacket::Nop, progress);
                    } else {
                        ring.put(&RingPacket::Nop);
                    }
                    assert!(
                        ring.written() - read.load() <= slots,
                        "a slot was overwritten before it was taken"
                    );
                }
            }
        }
    }

    #[test]
    fn a_half_ring_batch_always_fits_after_one_sleep() {
        let (mut ring, _) = ring(16);
        let mut progress = 0;
        for _ in 0..40 {
            if let Room::AfterProgress(value) = ring.room(8, || 0) {
                assert_eq!(ring.room(8, || value), Room::Enough);
            }
            for _ in 0..8 {
                progress += 1;
                ring.put_execute(&RingPacket::Nop, progress);
            }
        }
    }

    #[test]
    fn ring_sizes() {
        assert!([8, 1024, 1 << 20].into_iter().all(slots_are_valid));
        assert!([0, 4, 9, 1000, 1 << 21].into_iter().all(|s| !slots_are_valid(s)));
    }
}
