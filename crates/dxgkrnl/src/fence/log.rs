//! Owns native fence logs: two per user-mode queue, written by the GPU, read here.
//!
//! Order of a reading: 1. the index word; 2. UpdateNativeFenceLogs, by which the driver supplies the barrier between entries
//! and index; 3. the entries. The GPU may run over entries that nobody has read: then what is lost is counted, and the reader
//! falls back to the fences' live values. The layout is the published one; payloads are a process's word and only hints.

use crate::adapter::Adapter;
use crate::stats::Count;
use std::sync::Arc;
use tidegate_ddi::fence::{LogType, SetNativeFenceLogBuffer};
use tidegate_ddi::{Dispatch, DriverHandle};
use tidegate_platform::{Bulk, Mutex, PhysicalAddress, Word};

/// Words of the header (DXGK_NATIVE_FENCE_LOG_HEADER).
const HEADER_WORDS: usize = 5;
/// Bytes of an entry (DXGK_NATIVE_FENCE_LOG_ENTRY).
const ENTRY_BYTES: u64 = 48;

/// What of an entry the kernel uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogEntry {
    /// The process's handle of the fence.
    pub(crate) fence_handle: u32,
}

/// What was new in a log.
pub(crate) enum LogNews {
    /// All of it.
    Entries(Vec<LogEntry>),
    /// Some was overwritten before it was read.
    Overrun {
        /// How many entries are lost at least.
        lost: u64,
    },
}

/// One log.
pub(crate) struct FenceLog {
    log_type: LogType,
    capacity: u32,
    header: Word,
    header_at: PhysicalAddress,
    entries: Bulk,
    entries_at: PhysicalAddress,
    /// Entries read so far, as wraparounds times capacity plus index.
    seen: Mutex<u64>,
}

/// The two logs of a user-mode queue.
pub(crate) struct FenceLogs {
    pub(crate) waits: FenceLog,
    pub(crate) signals: FenceLog,
}

impl FenceLogs {
    // spec: NF-173
    pub(crate) fn new(adapter: &Arc<Adapter>) -> FenceLogs {
        FenceLogs {
            waits: FenceLog::new(adapter, LogType::Waits),
            signals: FenceLog::new(adapter, LogType::Signals),
        }
    }

    /// Tells the driver where both are.
    // spec: NF-176
    pub(crate) fn set(&self, adapter: &Adapter, queue: DriverHandle) {
        for log in [&self.waits, &self.signals] {
            let args = SetNativeFenceLogBuffer {
                hw_queue: queue,
                log_type: log.log_type,
                number_of_entries: log.capacity,
                header: log.header.clone(),
                header_address: log.header_at,
                entries: log.entries.clone(),
                entries_address: log.entries_at,
            };
            adapter.driver().set_native_fence_log_buffer(&Dispatch::enter(), args);
        }
    }

    /// Takes both off the bus.
    pub(crate) fn remove(&self, adapter: &Adapter) {
        for log in [&self.waits, &self.signals] {
            adapter.system_memory.remove(log.header_at);
            adapter.system_memory.remove(log.entries_at);
        }
    }
}

impl FenceLog {
    fn new(adapter: &Arc<Adapter>, log_type: LogType) -> FenceLog {
        let capacity = adapter.config.log_entries;
        let (header_at, header) = adapter.system_memory.protocol(HEADER_WORDS);
        // spec: NF-183
        header.word(1).store(log_type as u64);
        header.word(2).store(u64::from(capacity));
        let (entries_at, entries) = adapter.system_memory.bulk((u64::from(capacity) * ENTRY_BYTES) as usize);
        let seen = adapter.platform.mutex("fence log reader", 0);
        FenceLog { log_type, capacity, header: header.word(0), header_at, entries, entries_at, seen }
    }

    /// Entries that fit.
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Reads what is new since the last reading.
    pub(crate) fn read_news(&self, adapter: &Adapter, level: &Dispatch, queue: DriverHandle) -> LogNews {
        let capacity = u64::from(self.capacity);
        // 1. The index, as one word: wraparounds above, first free entry below. It comes from hardware that a process feeds, so
        // the index is bounded by our own capacity.
        // spec: NF-192, NF-214
        let word = self.header.load();
        let position = (word >> 32) * capacity + (word & 0xFFFF_FFFF).min(capacity);
        let from = {
            let mut seen = self.seen.lock();
            let from = (*seen).min(position);
            *seen = position;
            from
        };
        if from == position {
            return LogNews::Entries(Vec::new());
        }
        // 2. The driver's barrier.
        // spec: NF-215
        adapter.driver().update_native_fence_logs(level, &[queue]);
        // 3. The entries.
        // spec: NF-217
        // spec: NF-202
        if position - from > capacity {
            let lost = position - from - capacity;
            adapter.stats.add(Count::log_entries_lost, lost);
            return LogNews::Overrun { lost };
        }
        LogNews::Entries((from..position).map(|p| self.entry(p % capacity)).collect())
    }

    // spec: NF-208
    fn entry(&self, index: u64) -> LogEntry {
        // The index is below the capacity that the bytes were made for.
        let word = self.entries.read_u64(index * ENTRY_BYTES + 8).unwrap_or(0);
        LogEntry { fence_handle: word as u32 }
    }
}
