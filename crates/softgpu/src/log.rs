//! The engine's side of a native fence log.
//!
//! The order that matters: the entry's bytes first, then the header word. No barrier between the
//! two: the driver gives one to the log's reader. Hardware with
//! [`crate::Config::posted_log_entries`] posts the entry (`posted_stores`)
//! until the next barrier of a signal, or until the driver reads the flush register, while the
//! index is there at once.
//!
//! The process chooses the entry: its number is taken modulo the hardware's own count, never the
//! header's, so a number that was chosen for another log, or in malice, writes an entry of the
//! queue's own log and no other memory.

use tidegate_gpu_abi::log::{LOG_ENTRY_BYTES, LOG_INDEX_WORD, LogEntry, LogIndex};
use tidegate_platform::{Bulk, PhysicalAddress, Target, Word};

use crate::bus::Bus;
use crate::posted_stores::PostedStores;

/// A log that was set for a queue.
pub(crate) struct LogBuffer {
    header: Word,
    payload: Bulk,
    start: u64,
    entries: u32,
    /// An interrupt is asked for behind each so many entries; 0 for never.
    notify_every: u32,
    written: u32,
}

impl LogBuffer {
    /// The log whose header and entries stand at these addresses, or `None` if there is no such
    /// memory of that kind.
    pub(crate) fn find(
        bus: &Bus,
        header: PhysicalAddress,
        payload: PhysicalAddress,
        entries: u32,
        notify_every: u32,
    ) -> Option<LogBuffer> {
        let Some(Target::Protocol(page, offset)) = bus.resolve(header) else { return None };
        let index = (offset / 8) as usize + LOG_INDEX_WORD;
        if offset % 8 != 0 || index >= page.len() {
            return None;
        }
        let Some(Target::Bulk(bytes, start)) = bus.resolve(payload) else { return None };
        let end = start.checked_add(u64::from(entries) * LOG_ENTRY_BYTES as u64)?;
        let fits = entries > 0 && end <= bytes.len();
        let header = page.word(index);
        fits.then_some(LogBuffer {
            header,
            payload: bytes,
            start,
            entries,
            notify_every,
            written: 0,
        })
    }

    /// Writes the entry of this number and counts it in the header. Readers that are behind are
    /// overrun. Returns whether an interrupt is due, with or without a waiter.
    // spec: NF-171, NF-179, NF-181, NF-200, NF-201
    // spec: NF-212
    pub(crate) fn write(&mut self, posted: &PostedStores, number: u32, entry: &LogEntry) -> bool {
        let index = number % self.entries;
        let at = self.start + u64::from(index) * LOG_ENTRY_BYTES as u64;
        posted.write_entry(&self.payload, at, entry.encode());
        let word = LogIndex(self.header.load());
        self.header.store(word.after(index, self.entries).0);
        self.written = self.written.wrapping_add(1);
        self.notify_every != 0 && self.written.is_multiple_of(self.notify_every)
    }

    /// Counts a signal that interrupts and was not logged: the log is overrun, so that its reader
    /// reads the fences themselves.
    pub(crate) fn overrun(&self) {
        let word = LogIndex(self.header.load());
        let next = LogIndex::new(word.wraparound_count().wrapping_add(1), word.first_free_entry());
        self.header.store(next.0);
    }
}
