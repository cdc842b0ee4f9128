//! Owns the copied-out parts of a command buffer and of a ring. A process may change both at any
//! time, so each command and each slot is copied once and decoded from the copy.

use super::port::Port;
use crate::mmu::{Fault, Mmu, Space, piece};
use crate::queue::{Execution, RunState};
use tidegate_gpu_abi::command::MAX_COMMAND_WORDS;
use tidegate_gpu_abi::regs::FaultKind;
use tidegate_gpu_abi::{CommandReader, GpuVa, SLOT_BYTES};

pub(super) struct Window {
    words: [u64; MAX_COMMAND_WORDS],
    /// The words as they were copied.
    bytes: [[u8; 8]; MAX_COMMAND_WORDS],
    /// The byte offset of the first word in its buffer, and the number of words.
    start: u32,
    len: usize,
}

impl Default for Window {
    fn default() -> Window {
        Window {
            words: [0; MAX_COMMAND_WORDS],
            bytes: [[0; 8]; MAX_COMMAND_WORDS],
            start: 0,
            len: 0,
        }
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
        let len = left.min(MAX_COMMAND_WORDS as u64) as usize;
        let bytes = self.bytes.as_flattened_mut();
        // The window may reach past the end of mapped memory although the command does not. Then
        // only that command is copied, head first.
        let len = match port.mmu.read(space, at, &mut bytes[..len * 8]) {
            Ok(()) => len,
            Err(_) => {
                let (head, rest) = bytes.split_at_mut(8);
                port.mmu.read(space, at, head)?;
                let mut word = [0; 8];
                word.copy_from_slice(head);
                let words = CommandReader::words(u64::from_le_bytes(word), left).map_err(bad)?;
                port.mmu.read(space, at.plus(8), &mut rest[..(words - 1) * 8])?;
                words
            }
        };
        for (word, bytes) in self.words[..len].iter_mut().zip(&self.bytes) {
            *word = u64::from_le_bytes(*bytes);
        }
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
}

impl Default for SlotWindow {
    fn default() -> SlotWindow {
        SlotWindow { slots: [[0; SLOT_BYTES as usize]; SLOTS_AT_ONCE as usize], first: 0, len: 0 }
    }
}

impl SlotWindow {
    /// Drops the copy.
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Returns the next slot of the ring. `own` is the queue's address space. If the slot is not yet
    /// copied, all published slots are copied with it that lie in its page, up to a limit.
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
        self.len = 0;
        let (in_ring, at) = state.next_slot();
        let published = (state.known - state.taken).min(state.shape.slots - in_ring);
        let len = piece(at, published.clamp(1, SLOTS_AT_ONCE) * SLOT_BYTES) / SLOT_BYTES;
        let bytes = self.slots.as_flattened_mut();
        mmu.read_piece(space, at, &mut bytes[..(len * SLOT_BYTES) as usize])?;
        (self.first, self.len) = (state.taken, len);
        Ok(())
    }
}
