//! Native fence logs: numbers of types and operations, and the arithmetic of the index word.
//!
//! - A log is 4 KiB: a header of 40 bytes, 84 entries of 48 bytes, 24 unused bytes.
//! - Only the first word of the header changes: index and wraparound count, updated as one word.
//! - The GPU writes entries and that word. The kernel reads both. The user-mode driver chooses the
//!   entry of an operation; the hardware takes its number modulo the capacity of the current log.
//! - Commands of an untrusted process write the entries: readers check every field.

use crate::Status;
pub use tidegate_wddm_abi::d3dukmdt::{LogEntry, LogHeader};

/// Bytes of a log.
pub const LOG_BYTES: usize = 4096;
/// Bytes of the header.
pub const LOG_HEADER_BYTES: usize = size_of::<LogHeader>();
/// Words of the header.
pub const LOG_HEADER_WORDS: usize = LOG_HEADER_BYTES / size_of::<u64>();
/// Bytes of one entry.
pub const LOG_ENTRY_BYTES: usize = size_of::<LogEntry>();
/// Word of the header that holds index and wraparound count.
pub const LOG_INDEX_WORD: usize = 0;
/// Word of the header whose low half is the log's type.
pub const LOG_TYPE_WORD: usize = 1;
/// Word of the header that says how many entries there are.
pub const LOG_ENTRY_COUNT_WORD: usize = 2;
/// Entries of a log of [`LOG_BYTES`].
// spec: NF-186
pub const LOG_ENTRIES: u32 = log_entries(LOG_BYTES);

const _: () =
    assert!(LOG_ENTRIES == 84 && LOG_BYTES - LOG_HEADER_BYTES - 84 * LOG_ENTRY_BYTES == 24);

/// Number of entries in a log of this many bytes, header included.
pub const fn log_entries(log_bytes: usize) -> u32 {
    (log_bytes.saturating_sub(LOG_HEADER_BYTES) / LOG_ENTRY_BYTES) as u32
}

/// Log of a queue.
#[doc(alias = "DXGK_NATIVE_FENCE_LOG_TYPE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum LogType {
    /// Waits that were unblocked.
    #[doc(alias = "DXGK_NATIVE_FENCE_LOG_TYPE_WAITS")]
    Waits = 1,
    /// Signals that were executed.
    #[doc(alias = "DXGK_NATIVE_FENCE_LOG_TYPE_SIGNALS")]
    Signals = 2,
    /// Begin and end of command buffers: verbose, switched by the kernel. Not published; numbers
    /// from 256 on are not expected to be.
    Commands = 256,
}

impl LogType {
    /// All of them.
    pub const ALL: [LogType; 3] = [LogType::Waits, LogType::Signals, LogType::Commands];
}

impl TryFrom<u32> for LogType {
    type Error = Status;

    fn try_from(number: u32) -> Result<LogType, Status> {
        match number {
            1 => Ok(LogType::Waits),
            2 => Ok(LogType::Signals),
            256 => Ok(LogType::Commands),
            _ => Err(Status::INVALID_PARAMETER),
        }
    }
}

// spec: NF-187
/// Operation that an entry reports.
#[doc(alias = "DXGK_NATIVE_FENCE_LOG_OPERATION")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum LogOperation {
    /// A signal's value was stored.
    #[doc(alias = "DXGK_NATIVE_FENCE_LOG_OPERATION_SIGNAL_EXECUTED")]
    SignalExecuted = 0,
    /// A wait's value was reached.
    #[doc(alias = "DXGK_NATIVE_FENCE_LOG_OPERATION_WAIT_UNBLOCKED")]
    WaitUnblocked = 1,
    /// A command buffer was carried out (verbose, not published): observed is its begin, the value
    /// its progress value.
    CommandsExecuted = 256,
}

impl TryFrom<u32> for LogOperation {
    type Error = Status;

    fn try_from(number: u32) -> Result<LogOperation, Status> {
        match number {
            0 => Ok(LogOperation::SignalExecuted),
            1 => Ok(LogOperation::WaitUnblocked),
            256 => Ok(LogOperation::CommandsExecuted),
            _ => Err(Status::INVALID_PARAMETER),
        }
    }
}

/// The index word of the header: FirstFreeEntryIndex in the low half, WraparoundCount in the high
/// one.
#[doc(alias = "FirstFreeEntryIndex")]
#[doc(alias = "WraparoundCount")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogIndex(pub u64);

impl LogIndex {
    /// Both halves.
    pub fn new(wraparound_count: u32, first_free_entry: u32) -> LogIndex {
        LogIndex(u64::from(wraparound_count) << 32 | u64::from(first_free_entry))
    }

    /// Index of the next entry.
    pub fn first_free_entry(self) -> u32 {
        self.0 as u32
    }

    /// Count of finished rounds.
    pub fn wraparound_count(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the word after entry `index` of `entries` was written: the next index, or index 0 of
    /// the next round. An index below the first free one belongs to the next round, so the word
    /// never falls, whatever indices a process names.
    // spec: NF-184
    #[inline]
    pub fn after(self, index: u32, entries: u32) -> LogIndex {
        let skipped = u32::from(index < self.first_free_entry());
        let rounds = self.wraparound_count().wrapping_add(skipped);
        match index.checked_add(1) {
            Some(next) if next < entries => LogIndex::new(rounds, next),
            _ => LogIndex::new(rounds.wrapping_add(1), 0),
        }
    }

    /// Returns the entries written since `earlier` in a log of `entries`. More than `entries` means
    /// that some were lost. The count of rounds has 32 bits, so a reader that missed 2^32 rounds
    /// counts too few. Both indices are untrusted and are bounded by `entries`.
    // spec: NF-192
    // spec: NF-202
    pub fn written_since(self, earlier: LogIndex, entries: u32) -> u64 {
        let rounds = self.wraparound_count().wrapping_sub(earlier.wraparound_count());
        let index = |word: LogIndex| u64::from(word.first_free_entry().min(entries));
        (u64::from(rounds) * u64::from(entries) + index(self)).saturating_sub(index(earlier))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eighty_four_entries_fit_into_4_kib() {
        assert_eq!(log_entries(4096), 84);
        assert_eq!(log_entries(88), 1);
        assert_eq!(log_entries(39), 0);
    }

    #[test]
    fn the_85th_entry_begins_a_new_round_and_loses_one() {
        let mut word = LogIndex::default();
        for written in 0..85 {
            word = word.after(written % 84, 84);
        }
        assert_eq!((word.wraparound_count(), word.first_free_entry()), (1, 1));
        assert_eq!(word.written_since(LogIndex::default(), 84), 85);
        assert_eq!(word.written_since(word, 84), 0);
    }

    #[test]
    fn counting_survives_the_wrap_of_the_count_and_bounds_what_is_outside() {
        let earlier = LogIndex::new(u32::MAX, 83);
        let now = earlier.after(83, 84);
        assert_eq!(now, LogIndex::default());
        assert_eq!(now.written_since(earlier, 84), 1);
        assert_eq!(LogIndex::new(0, 900).written_since(LogIndex::default(), 84), 84);
        assert_eq!(LogIndex::new(7, 3).written_since(LogIndex::new(7, 900), 84), 0);
        assert_eq!(LogIndex::default().after(u32::MAX, 84), LogIndex::new(1, 0));
    }

    // spec: NF-184, NF-201
    #[test]
    fn the_index_word_never_falls() {
        let after = |rounds, first_free, index| LogIndex::new(rounds, first_free).after(index, 4);
        assert_eq!(after(0, 0, 0), LogIndex::new(0, 1));
        assert_eq!(after(0, 3, 3), LogIndex::new(1, 0), "the end of a round");
        assert_eq!(after(0, 1, 3), LogIndex::new(1, 0), "entries were left out");
        assert_eq!(after(0, 3, 1), LogIndex::new(1, 2), "a round was cut short");
        assert_eq!(after(0, 2, 1), LogIndex::new(1, 2), "the same entry again is a round on");
        assert_eq!(LogIndex::default().after(0, 1), LogIndex::new(1, 0), "a log of one entry");
    }

    // spec: NF-192, NF-202
    #[test]
    fn new_entries_are_counted_over_rounds_and_bounded() {
        let since = |(rounds, index), (earlier_rounds, earlier)| {
            LogIndex::new(rounds, index).written_since(LogIndex::new(earlier_rounds, earlier), 84)
        };
        assert_eq!(since((0, 83), (0, 0)), 83);
        assert_eq!(since((1, 0), (0, 0)), 84, "exactly full");
        assert_eq!(since((1, 1), (0, 0)), 85, "one too many");
        assert_eq!(since((8, 4), (7, 80)), 8);
        assert_eq!(since((11, 80), (7, 80)), 4 * 84, "several rounds asleep");
        assert_eq!(since((0, 4), (u32::MAX, 80)), 8, "the count of rounds wrapped");
        assert_eq!(since((0, 5), (0, 9)), 0, "an index that went back");
        assert_eq!(since((0, u32::MAX), (0, 0)), 84, "an index beyond the end");
        assert_eq!(since((1, 0), (0, u32::MAX)), 0);
        assert_eq!(since((4, 83), (5, 0)), 0xFFFF_FFFF * 84 + 83, "no overflow");
    }

    #[test]
    fn types_and_operations_have_the_headers_numbers() {
        assert_eq!(
            [LogType::try_from(1), LogType::try_from(2)],
            [Ok(LogType::Waits), Ok(LogType::Signals)]
        );
        assert_eq!(LogType::ALL.map(|t| LogType::try_from(t as u32)), LogType::ALL.map(Ok));
        assert_eq!(LogType::try_from(0), Err(Status::INVALID_PARAMETER));
        assert_eq!(LogOperation::try_from(0), Ok(LogOperation::SignalExecuted));
        assert_eq!(LogOperation::try_from(1), Ok(LogOperation::WaitUnblocked));
        assert_eq!(LogOperation::try_from(2), Err(Status::INVALID_PARAMETER));
    }
}
