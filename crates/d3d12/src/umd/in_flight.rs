//! The list of command memory in use by the GPU. Memory is kept alive until the queue's progress
//! has passed it.
//!
//! Memory is released lazily, when the list has grown, because reading progress costs a miss on a
//! cache line that the engine writes.

use crate::umd::command_memory::CommandMemory;
use crate::umd::progress::FenceReader;
use std::collections::VecDeque;
use std::sync::Arc;

const COLLECT_FIRST: usize = 64;

struct Entry {
    progress: u64,
    /// Ring slot or packet number of the last use.
    position: u64,
    memory: Arc<CommandMemory>,
}

pub(crate) struct InFlight {
    entries: VecDeque<Entry>,
    collect_at: usize,
}

impl InFlight {
    pub(crate) fn new() -> InFlight {
        InFlight { entries: VecDeque::with_capacity(2 * COLLECT_FIRST), collect_at: COLLECT_FIRST }
    }

    /// Holds `memory` until progress reaches `progress`. Consecutive submissions of one list share
    /// an entry.
    #[inline]
    pub(crate) fn hold(&mut self, memory: &Arc<CommandMemory>, progress: u64, position: u64) {
        match self.entries.back_mut() {
            Some(last) if Arc::ptr_eq(&last.memory, memory) => {
                (last.progress, last.position) = (progress, position)
            }
            _ => self.hold_another(memory, progress, position),
        }
    }

    #[inline(never)]
    fn hold_another(&mut self, memory: &Arc<CommandMemory>, progress: u64, position: u64) {
        self.entries.push_back(Entry { progress, position, memory: Arc::clone(memory) });
    }

    /// Releases the memory that `progress` has passed, if the list has grown enough to justify the
    /// read.
    #[inline]
    pub(crate) fn collect(&mut self, progress: &FenceReader) {
        if self.entries.len() >= self.collect_at {
            self.collect_now(progress);
        }
    }

    /// Releases the memory that `progress` has passed.
    #[inline(never)]
    pub(crate) fn collect_now(&mut self, progress: &FenceReader) {
        let reached = progress.load();
        // Fences of a lost device read UINT64_MAX, which does not show that the GPU has finished.
        while reached != u64::MAX && self.entries.front().is_some_and(|e| e.progress <= reached) {
            self.entries.pop_front();
        }
        self.collect_at = COLLECT_FIRST.max(2 * self.entries.len());
    }

    /// Returns the command buffer at this ring slot or packet number, if it is still known.
    pub(crate) fn memory_at(&self, position: u64) -> Option<&Arc<CommandMemory>> {
        self.entries.iter().find(|e| e.position >= position).map(|e| &e.memory)
    }

    /// Returns the command buffer with this progress value, if it is still known.
    pub(crate) fn memory_of_progress(&self, value: u64) -> Option<&Arc<CommandMemory>> {
        self.entries.iter().find(|e| e.progress >= value).map(|e| &e.memory)
    }

    /// Returns the command buffer at this GPU address, if it is still known.
    pub(crate) fn memory_at_address(&self, gpu_va: u64) -> Option<&Arc<CommandMemory>> {
        self.entries.iter().map(|e| &e.memory).find(|memory| memory.gpu_va().0 == gpu_va)
    }
}
