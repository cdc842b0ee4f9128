//! Owns the published layout of a native fence log: header, entries, numbers, and the arithmetic of its index word.
//!
//! A log is 4 KiB: a header of 40 bytes, then 84 entries of 48 bytes, then 24 bytes that nobody uses. The first word of the
//! header is the only one that changes while the log lives; index and wraparound count are its halves, so that they change as
//! one. The GPU writes entries and that word, the kernel reads both, the user-mode driver chooses which entry an operation
//! writes. Entries are written by commands of an untrusted process: nothing in them is believed here or checked beyond its range.

use super::Raw;
use crate::{Status, layout};

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
pub const LOG_ENTRIES: u32 = log_entries(LOG_BYTES);

const _: () = assert!(LOG_ENTRIES == 84 && LOG_BYTES - LOG_HEADER_BYTES - 84 * LOG_ENTRY_BYTES == 24);

/// How many entries fit into a log of that many bytes, header included.
pub const fn log_entries(log_bytes: usize) -> u32 {
    (log_bytes.saturating_sub(LOG_HEADER_BYTES) / LOG_ENTRY_BYTES) as u32
}

layout! {
    /// Header of a log.
    LogHeader = "DXGK_NATIVE_FENCE_LOG_HEADER", 40 bytes {
        /// See [`LogIndex`]: written by the GPU, as one word.
        0 "AtomicWraparoundAndEntryIndex" index: u64,
        /// See [`LogType`].
        8 "Type" log_type: u32,
        /// How many entries follow.
        16 "NumberOfEntries" number_of_entries: u64,
        /// Zero.
        24 "Reserved" reserved: [u64; 2],
    }

    /// One entry of a log.
    LogEntry = "DXGK_NATIVE_FENCE_LOG_ENTRY", 48 bytes {
        /// The value signalled or reached. From the process.
        0 "FenceValue" fence_value: u64,
        /// The process's handle of the fence. From the process.
        8 "hNativeFence" fence_handle: u32,
        /// See [`LogOperation`]. From the process.
        12 "OperationType" operation: u32,
        /// Nothing.
        16 "Reserved0" reserved_0: u64,
        /// When an unmet wait was first seen and stalled its queue, GPU time; 0 for signals and waits that never stalled.
        24 "FenceObservedGpuTimestamp" observed_gpu_timestamp: u64,
        /// Nothing.
        32 "Reserved1" reserved_1: u64,
        /// When the operation was complete, GPU time; 0 when the adapter left it out.
        40 "FenceEndGpuTimestamp" end_gpu_timestamp: u64,
    }
}

/// Which of a queue's two logs.
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
}

impl TryFrom<u32> for LogType {
    type Error = Status;

    fn try_from(number: u32) -> Result<LogType, Status> {
        match number {
            1 => Ok(LogType::Waits),
            2 => Ok(LogType::Signals),
            _ => Err(Status::INVALID_PARAMETER),
        }
    }
}

/// What an entry reports.
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
}

impl TryFrom<u32> for LogOperation {
    type Error = Status;

    fn try_from(number: u32) -> Result<LogOperation, Status> {
        match number {
            0 => Ok(LogOperation::SignalExecuted),
            1 => Ok(LogOperation::WaitUnblocked),
            _ => Err(Status::INVALID_PARAMETER),
        }
    }
}

impl LogHeader {
    /// Header of a new log that nothing was written to.
    pub fn new(log_type: LogType, number_of_entries: u32) -> LogHeader {
        LogHeader { log_type: log_type as u32, number_of_entries: u64::from(number_of_entries), ..Self::ZERO }
    }

    /// Its words, as the kernel stores them into a page of words.
    pub fn words(&self) -> [u64; LOG_HEADER_WORDS] {
        <[u64; LOG_HEADER_WORDS]>::read(&self.to_bytes())
    }
}

impl LogEntry {
    /// The entry's bytes.
    pub fn encode(&self) -> [u8; LOG_ENTRY_BYTES] {
        let mut bytes = [0; LOG_ENTRY_BYTES];
        self.write(&mut bytes);
        bytes
    }

    /// Reads an entry.
    pub fn decode(bytes: &[u8; LOG_ENTRY_BYTES]) -> LogEntry {
        LogEntry::read(bytes)
    }
}

/// The word of the header that moves: FirstFreeEntryIndex in the low half, WraparoundCount in the high one.
#[doc(alias = "FirstFreeEntryIndex")]
#[doc(alias = "WraparoundCount")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogIndex(pub u64);

impl LogIndex {
    /// Both halves.
    pub fn new(wraparound_count: u32, first_free_entry: u32) -> LogIndex {
        LogIndex(u64::from(wraparound_count) << 32 | u64::from(first_free_entry))
    }

    /// Where the next entry goes.
    pub fn first_free_entry(self) -> u32 {
        self.0 as u32
    }

    /// How often the log began anew.
    pub fn wraparound_count(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The word after entry `index` of `entries` was written: the next one, or the first of one more round.
    pub fn after(self, index: u32, entries: u32) -> LogIndex {
        match index.checked_add(1) {
            Some(next) if next < entries => LogIndex::new(self.wraparound_count(), next),
            _ => LogIndex::new(self.wraparound_count().wrapping_add(1), 0),
        }
    }

    /// How many entries were written between `earlier` and this, of a log of `entries`; more than `entries` means that some
    /// were lost. `None` when an index lies outside of the log.
    pub fn written_since(self, earlier: LogIndex, entries: u32) -> Option<u64> {
        if self.first_free_entry() >= entries || earlier.first_free_entry() >= entries {
            return None;
        }
        // The positions of a log go round at 2^32 rounds, as the count in the word does.
        let round = u128::from(entries) << 32;
        let distance = round + self.position(entries) - earlier.position(entries);
        Some((distance % round) as u64)
    }

    fn position(self, entries: u32) -> u128 {
        u128::from(self.wraparound_count()) * u128::from(entries) + u128::from(self.first_free_entry())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_and_entry_stand_where_the_header_has_them() {
        let header =
            LogHeader { index: 0x11, reserved: [0x44, 0x55], ..LogHeader::new(LogType::Signals, 84) };
        let bytes = header.to_bytes();
        assert_eq!(bytes.len(), 40);
        for (at, byte) in [(0, 0x11), (8, 2), (16, 84), (24, 0x44), (32, 0x55)] {
            assert_eq!(bytes[at], byte, "byte {at}");
        }
        assert_eq!(header.words(), [0x11, 2, 84, 0x44, 0x55]);

        let entry = LogEntry {
            fence_value: 1,
            fence_handle: 2,
            operation: 3,
            reserved_0: 4,
            observed_gpu_timestamp: 5,
            reserved_1: 6,
            end_gpu_timestamp: 7,
        };
        let bytes = entry.encode();
        for (at, byte) in [(0, 1), (8, 2), (12, 3), (16, 4), (24, 5), (32, 6), (40, 7)] {
            assert_eq!(bytes[at], byte, "byte {at}");
        }
        assert_eq!(LogEntry::decode(&bytes), entry);
    }

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
        assert_eq!(word.written_since(LogIndex::default(), 84), Some(85));
        assert_eq!(word.written_since(word, 84), Some(0));
    }

    #[test]
    fn counting_survives_the_wrap_of_the_count_and_refuses_what_is_outside() {
        let earlier = LogIndex::new(u32::MAX, 83);
        let now = earlier.after(83, 84);
        assert_eq!(now, LogIndex::default());
        assert_eq!(now.written_since(earlier, 84), Some(1));
        assert_eq!(LogIndex::new(0, 84).written_since(LogIndex::default(), 84), None);
        assert_eq!(now.written_since(LogIndex::new(7, 900), 84), None);
        assert_eq!(now.written_since(earlier, 0), None);
        assert_eq!(LogIndex::default().after(u32::MAX, 84), LogIndex::new(1, 0));
    }

    #[test]
    fn types_and_operations_have_the_headers_numbers() {
        assert_eq!([LogType::try_from(1), LogType::try_from(2)], [Ok(LogType::Waits), Ok(LogType::Signals)]);
        assert_eq!(LogType::try_from(0), Err(Status::INVALID_PARAMETER));
        assert_eq!(LogOperation::try_from(0), Ok(LogOperation::SignalExecuted));
        assert_eq!(LogOperation::try_from(1), Ok(LogOperation::WaitUnblocked));
        assert_eq!(LogOperation::try_from(2), Err(Status::INVALID_PARAMETER));
    }
}
