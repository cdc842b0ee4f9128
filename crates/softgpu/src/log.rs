//! The engine's side of a native fence log.
//!
//! Order: the entry's bytes, then the header word, without a barrier between; the driver executes
//! one for the reader. Hardware with [`crate::Config::posted_log_entries`] posts the entry
//! (`posted_stores`) until the next barrier of a signal or the driver's flush, while the index is
//! visible immediately.
//!
//! The process chooses the entry's number. It is taken modulo the hardware's own count, never the
//! header's, so any number writes an entry of the queue's own log and no other memory.

use tidegate_gpu_abi::log::{LOG_ENTRY_BYTES, LOG_INDEX_WORD, LogEntry, LogIndex};
use tidegate_platform::{Bulk, PhysicalAddress, Target, Word};

use crate::bus::Bus;
use crate::posted_stores::PostedStores;

/// The log buffer of a queue.
pub(crate) struct LogBuffer {
    header: Word,
    payload: Bulk,
    start: u64,
    entries: u32,
    /// The number of entries after which an interrupt is requested each time; 0 for never.
    notify_every: u32,
    written: u32,
}

impl LogBuffer {
    /// Returns the log whose header and entries have these addresses; `None` if the memory does not
    /// exist or has the wrong kind.
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

    /// Writes the entry with this number and counts it in the header. A slow reader is overrun.
    /// Returns whether an interrupt is due, with or without a waiter.
    // spec: NF-171, NF-179, NF-181, NF-200, NF-201
    // spec: NF-212
    #[inline(always)]
    pub(crate) fn write(&mut self, posted: &PostedStores, number: u32, entry: &LogEntry) -> bool {
        let index = number % self.entries;
        let at = self.start + u64::from(index) * LOG_ENTRY_BYTES as u64;
        posted.write_entry(&self.payload, at, entry.words());
        let word = LogIndex(self.header.load());
        self.header.store(word.after(index, self.entries).0);
        self.written = self.written.wrapping_add(1);
        self.notify_every != 0 && self.written.is_multiple_of(self.notify_every)
    }

    /// Counts a signal that interrupts but is not logged. This marks the log as overrun, so that
    /// its reader checks the fences themselves.
    pub(crate) fn overrun(&self) {
        let word = LogIndex(self.header.load());
        let next = LogIndex::new(word.wraparound_count().wrapping_add(1), word.first_free_entry());
        self.header.store(next.0);
    }
}
