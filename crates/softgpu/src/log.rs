//! Owns the engine's side of a native fence log: where it stands, and how an entry gets into it.
//!
//! The order that matters: the entry's bytes first, then the header word. No barrier between the two: whoever reads the log
//! is given one by its driver.
//!
//! The process chooses the entry, so its number is checked against the hardware's own count, never the header's.

use tidegate_gpu_abi::log::{LOG_ENTRY_BYTES, LOG_INDEX_WORD, LogEntry, next_index_word};
use tidegate_platform::{Bulk, PhysicalAddress, Target, Word};

use crate::memory::Bus;

/// A log that was set for a queue.
pub(crate) struct LogBuffer {
    header: Word,
    payload: Bulk,
    start: u64,
    entries: u32,
}

impl LogBuffer {
    /// The log whose header and entries stand at these addresses, or `None` if there is no such memory of that kind.
    pub(crate) fn find(
        bus: &Bus,
        header: PhysicalAddress,
        payload: PhysicalAddress,
        entries: u32,
    ) -> Option<LogBuffer> {
        let Some(Target::Protocol(page, offset)) = bus.resolve(header) else { return None };
        let index = (offset / 8) as usize + LOG_INDEX_WORD;
        if offset % 8 != 0 || index >= page.len() {
            return None;
        }
        let Some(Target::Bulk(bytes, start)) = bus.resolve(payload) else { return None };
        let end = start.checked_add(u64::from(entries) * LOG_ENTRY_BYTES)?;
        (end <= bytes.len()).then(|| LogBuffer { header: page.word(index), payload: bytes, start, entries })
    }

    /// Whether the log has an entry of this number.
    pub(crate) fn has(&self, index: u32) -> bool {
        index < self.entries
    }

    /// Writes the entry at `index` and says so in the header. Readers that are behind are overrun.
    // spec: NF-171, NF-179, NF-181, NF-200, NF-201
    pub(crate) fn write(&self, index: u32, entry: &LogEntry) {
        let at = self.start + u64::from(index) * LOG_ENTRY_BYTES;
        self.payload.write(at, &entry.encode()).expect("the log's place was checked when it was set");
        let word = self.header.load();
        self.header.store(next_index_word(word, index, self.entries));
    }
}
