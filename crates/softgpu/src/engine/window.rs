//! The copied-out parts of a command buffer and of a ring. A process may change both at any time,
//! so each command and each slot is copied once and decoded from the copy.

use super::port::Port;
use crate::mmu::{Fault, Mmu, Space, piece};
use crate::queue::{Execution, RunState};
use tidegate_gpu_abi::command::MAX_COMMAND_WORDS;
use tidegate_gpu_abi::regs::FaultKind;
use tidegate_gpu_abi::{CommandReader, GpuTime, GpuVa, SLOT_BYTES};
use zerocopy::IntoBytes;

pub(super) struct Window {
    words: [u64; MAX_COMMAND_WORDS],
    /// The byte offset of the first word in its buffer, and the number of words.
    start: u32,
    len: usize,
}

impl Default for Window {
    fn default() -> Window {
        Window { words: [0; MAX_COMMAND_WORDS], start: 0, len: 0 }
    }
}

impl Window {
    /// Drops the copy, for another buffer or another turn.
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Returns the copied words starting at offset `at`.
    pub(super) fn from(&self, at: u32) -> &[u64] {
        let skip = (at.wrapping_sub(self.start) / 8) as usize;
        if at < self.start || skip >= self.len { &[] } else { &self.words[skip..self.len] }
    }

    /// Copies the command of `work` at `at` unless it is already copied. Returns its length
    /// in words.
    pub(super) fn fetch(
        &mut self,
        port: &mut Port,
        space: Space,
        work: &Execution,
        at: GpuVa,
    ) -> Result<usize, Fault> {
        let bad = |_| Fault::new(FaultKind::BadPacket, at);
        let left = u64::from(work.bytes - work.at) / 8;
        if let [head, rest @ ..] = self.from(work.at) {
            let words = CommandReader::words(*head, left).map_err(bad)?;
            if words <= rest.len() + 1 {
                return Ok(words);
            }
        }
        self.len = 0;
        let len = left.min(MAX_COMMAND_WORDS as u64) as usize;
        // The window may reach past the end of mapped memory although the command does not. Then
        // only that command is copied, head first.
        let len = match port.mmu.read(space, at, self.words[..len].as_mut_bytes()) {
            Ok(()) => len,
            Err(_) => {
                let (head, rest) = self.words.split_at_mut(1);
                port.mmu.read(space, at, head.as_mut_bytes())?;
                let words = CommandReader::words(u64::from_le(head[0]), left).map_err(bad)?;
                port.mmu.read(space, at.plus(8), rest[..words - 1].as_mut_bytes())?;
                words
            }
        };
        self.words[..len].iter_mut().for_each(|word| *word = u64::from_le(*word));
        (self.start, self.len) = (work.at, len);
        CommandReader::words(self.words[0], left).map_err(bad)
    }
}

/// The most slots that are copied at once.
const SLOTS_AT_ONCE: u64 = 8;

type SlotBytes = [u8; SLOT_BYTES as usize];

/// Published slots of the current queue's ring.
pub(super) struct SlotWindow {
    slots: [SlotBytes; SLOTS_AT_ONCE as usize],
    /// The number of the first slot, and how many there are.
    first: u64,
    len: u64,
    /// The GPU's time as it was last read for one of these slots in this turn.
    stamp: Option<GpuTime>,
}

impl Default for SlotWindow {
    fn default() -> SlotWindow {
        let slots = [[0; SLOT_BYTES as usize]; SLOTS_AT_ONCE as usize];
        SlotWindow { slots, first: 0, len: 0, stamp: None }
    }
}

impl SlotWindow {
    /// Drops the copy.
    pub(super) fn clear(&mut self) {
        (self.len, self.stamp) = (0, None);
    }

    /// Returns the time for the log of a slot. Slots of one copy share one reading of `clock` until
    /// something between them takes time or sees another engine's signal ([`Self::set_stamp`]).
    /// All of them were published before that reading.
    #[inline]
    pub(super) fn stamp(&mut self, clock: impl FnOnce() -> GpuTime) -> GpuTime {
        *self.stamp.get_or_insert_with(clock)
    }

    /// Sets the time for the next slots; without one, the next of them reads the clock.
    #[inline]
    pub(super) fn set_stamp(&mut self, stamp: Option<GpuTime>) {
        self.stamp = stamp;
    }

    /// Returns the next slot of the ring. `own` is the queue's address space. If the slot is not
    /// yet copied, all published slots are copied with it that lie in its page, up to a limit.
    #[inline]
    pub(super) fn next(
        &mut self,
        mmu: &mut Mmu,
        own: Space,
        state: &RunState,
    ) -> Result<&SlotBytes, Fault> {
        let mut number = state.taken.wrapping_sub(self.first);
        if number >= self.len {
            self.fetch(mmu, state.shape.ring_space(own), state)?;
            number = 0;
        }
        Ok(&self.slots[(number % SLOTS_AT_ONCE) as usize])
    }

    #[inline(never)]
    fn fetch(&mut self, mmu: &mut Mmu, space: Space, state: &RunState) -> Result<(), Fault> {
        (self.len, self.stamp) = (0, None);
        let (in_ring, at) = state.next_slot();
        let published = (state.known - state.taken).min(state.shape.slots - in_ring);
        let len = piece(at, published.clamp(1, SLOTS_AT_ONCE) * SLOT_BYTES) / SLOT_BYTES;
        let bytes = self.slots.as_flattened_mut();
        mmu.read_piece(space, at, &mut bytes[..(len * SLOT_BYTES) as usize])?;
        (self.first, self.len) = (state.taken, len);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_share_a_reading_of_the_clock_until_it_is_replaced() {
        let mut slots = SlotWindow::default();
        let mut next = 0;
        let mut clock = || {
            next += 1;
            GpuTime(next)
        };
        assert_eq!([slots.stamp(&mut clock), slots.stamp(&mut clock)], [GpuTime(1), GpuTime(1)]);
        slots.set_stamp(Some(GpuTime(7)));
        assert_eq!(slots.stamp(&mut clock), GpuTime(7));
        slots.set_stamp(None);
        assert_eq!(slots.stamp(&mut clock), GpuTime(2));
        slots.clear();
        assert_eq!(slots.stamp(&mut clock), GpuTime(3), "another queue's slots");
    }
}
