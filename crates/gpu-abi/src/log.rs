//! Owns the layout of native fence logs as the hardware writes them (DXGK_NATIVE_FENCE_LOG_BUFFER).
//!
//! A log is 4 KiB: a header of 40 bytes whose first word is a protocol word (low half FirstFreeEntryIndex, high half
//! WraparoundCount), then entries of 48 bytes. Header and entries stand in two regions of memory, one of words and one of
//! bytes, that a process's address space joins to one buffer: the header's page cannot be stored to by a command.
//!
//! A packet names its entry by a number, which the hardware takes modulo the entries of the log that is in place when the
//! operation is carried out; numbers that go round in a multiple of every capacity are right whatever log that is.

/// Bytes of a log as allocated.
pub const LOG_BYTES: u64 = 4096;
/// Bytes of the header.
pub const LOG_HEADER_BYTES: u64 = 40;
/// Words of the header.
pub const LOG_HEADER_WORDS: usize = 5;
/// Bytes of one entry.
pub const LOG_ENTRY_BYTES: u64 = 48;
/// Entries in a log of 4 KiB.
// spec: NF-186
pub const LOG_ENTRIES: u32 = ((LOG_BYTES - LOG_HEADER_BYTES) / LOG_ENTRY_BYTES) as u32;
/// Word of the header with index and wraparound count.
pub const LOG_INDEX_WORD: usize = 0;

const _: () = assert!(LOG_ENTRIES == 84);

/// Which of a queue's logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum LogKind {
    /// DXGK_NATIVE_FENCE_LOG_TYPE_WAITS
    Waits = 1,
    /// DXGK_NATIVE_FENCE_LOG_TYPE_SIGNALS
    Signals = 2,
    /// Begin and end of command buffers: verbose, and this project's own. Its numbers begin at 256, where published ones are
    /// not expected.
    Commands = 256,
}

impl LogKind {
    /// All of them.
    pub const ALL: [LogKind; 3] = [LogKind::Waits, LogKind::Signals, LogKind::Commands];

    /// The kind with this number.
    pub fn from_number(number: u64) -> Option<LogKind> {
        LogKind::ALL.into_iter().find(|kind| *kind as u64 == number)
    }
}

// spec: NF-187
/// What a log entry reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum LogOperation {
    /// DXGK_NATIVE_FENCE_LOG_OPERATION_SIGNAL_EXECUTED
    SignalExecuted = 0,
    /// DXGK_NATIVE_FENCE_LOG_OPERATION_WAIT_UNBLOCKED
    WaitUnblocked = 1,
    /// A command buffer was carried out (verbose, this project's own): observed is its begin, the value its progress value.
    CommandsExecuted = 256,
}

// spec: NF-193
/// One entry (DXGK_NATIVE_FENCE_LOG_ENTRY).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The value signalled or reached.
    pub fence_value: u64,
    /// The process's handle of the fence: a hint from an untrusted process.
    pub fence_handle: u32,
    /// Raw operation type; see [`LogOperation`].
    pub operation: u32,
    /// When an unsatisfied wait was first seen, or a command buffer begun, GPU ns; 0 for signals and for waits that never
    /// stalled.
    pub observed_ns: u64,
    /// When the operation was complete, GPU ns.
    pub end_ns: u64,
}

impl LogEntry {
    // spec: NF-185
    /// The entry's 48 bytes.
    pub fn encode(&self) -> [u8; LOG_ENTRY_BYTES as usize] {
        let mut bytes = [0; LOG_ENTRY_BYTES as usize];
        bytes[0..8].copy_from_slice(&self.fence_value.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.fence_handle.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.operation.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.observed_ns.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.end_ns.to_le_bytes());
        bytes
    }

    /// Reads an entry.
    pub fn decode(bytes: &[u8; LOG_ENTRY_BYTES as usize]) -> LogEntry {
        let long = |at: usize| {
            let mut raw = [0; 8];
            raw.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(raw)
        };
        LogEntry {
            fence_value: long(0),
            fence_handle: long(8) as u32,
            operation: (long(8) >> 32) as u32,
            observed_ns: long(24),
            end_ns: long(40),
        }
    }
}

// spec: NF-184
/// The header word after the entry at `index` was written: the next index, or 0 with one more wraparound. An index below the
/// first free one is of the next lap, so that what a reader sees never goes back, whatever numbers a process names.
pub fn next_index_word(word: u64, index: u32, entries: u32) -> u64 {
    let skipped = u32::from(u64::from(index) < word & 0xFFFF_FFFF);
    let wraparounds = ((word >> 32) as u32).wrapping_add(skipped);
    match index.checked_add(1) {
        Some(next) if next < entries => u64::from(wraparounds) << 32 | u64::from(next),
        _ => u64::from(wraparounds.wrapping_add(1)) << 32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    // spec: NF-184, NF-201
    fn the_index_word_rises_whatever_is_named() {
        assert_eq!(next_index_word(0, 0, 4), 1);
        assert_eq!(next_index_word(3, 3, 4), 1 << 32, "the end of a lap");
        assert_eq!(next_index_word(1, 3, 4), 1 << 32, "entries were left out");
        assert_eq!(next_index_word(3, 1, 4), 1 << 32 | 2, "a lap was cut short");
        assert_eq!(next_index_word(2, 1, 4), 1 << 32 | 2, "the same entry again is a lap on");
        assert_eq!(next_index_word(0xFFFF_FFFF << 32 | 3, 3, 4), 0, "the count of laps wraps in silence");
        assert_eq!(next_index_word(0, 0, 1), 1 << 32, "a log of one entry");
    }

    #[test]
    fn kinds_have_the_numbers_of_the_header() {
        for kind in LogKind::ALL {
            assert_eq!(LogKind::from_number(kind as u64), Some(kind));
        }
        assert_eq!((LogKind::from_number(0), LogKind::from_number(3)), (None, None));
    }
}
