//! Stores that engines have made and that are not yet in memory: log entries and fence values, in
//! the order in which they were made.
//!
//! Invariant: everything posted before a barrier is in memory after it. Barriers are an engine's at
//! its signal, the CMP's against the engines when it changes a shadow, and the flush register. One
//! agent empties the queue at a time, so after [`PostedStores::flush`] everything that any engine
//! posted before is in memory. Hardware without posted stores skips all of this.

use tidegate_d3dukmdt::FenceCell;
use tidegate_gpu_abi::log::LOG_ENTRY_BYTES;
use tidegate_platform::{Bulk, Mutex, Platform};

use crate::config::Config;

/// The words of a log entry.
pub(crate) type EntryWords = [u64; LOG_ENTRY_BYTES / 8];

enum Store {
    LogEntry(Bulk, u64, EntryWords),
    Fence(FenceCell, u64),
}

/// The queue of posted stores.
pub(crate) struct PostedStores {
    log_entries: bool,
    fence_writes: bool,
    /// Whether it posts one of the two.
    any: bool,
    stores: Mutex<Vec<Store>>,
}

impl PostedStores {
    pub(crate) fn new(platform: &Platform, config: &Config) -> PostedStores {
        PostedStores {
            log_entries: config.posted_log_entries,
            fence_writes: config.posted_fence_writes,
            any: config.posted_log_entries || config.posted_fence_writes,
            stores: platform.mutex("posted stores", Vec::new()),
        }
    }

    /// Stores a log entry, directly or posted.
    #[inline(always)]
    pub(crate) fn write_entry(&self, bytes: &Bulk, at: u64, entry: EntryWords) {
        if self.log_entries {
            self.post_entry(bytes, at, entry);
        } else {
            put(bytes, at, entry);
        }
    }

    #[cold]
    fn post_entry(&self, bytes: &Bulk, at: u64, entry: EntryWords) {
        self.stores.lock_device().push(Store::LogEntry(bytes.clone(), at, entry));
    }

    /// Posts the store of a fence value. Returns `false` without effect if this hardware does not
    /// post such stores.
    #[inline]
    pub(crate) fn post_fence(&self, cell: &FenceCell, value: u64) -> bool {
        if self.fence_writes {
            self.stores.lock_device().push(Store::Fence(cell.clone(), value));
        }
        self.fence_writes
    }

    /// Returns whether the hardware posts stores.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.any
    }

    /// Makes all posted stores visible. A full barrier if the hardware posts stores.
    #[inline]
    pub(crate) fn flush(&self) {
        if self.any {
            self.empty();
        }
    }

    #[cold]
    fn empty(&self) {
        for store in self.stores.lock_device().drain(..) {
            match store {
                Store::LogEntry(bytes, at, entry) => put(&bytes, at, entry),
                Store::Fence(cell, value) => {
                    cell.store(value);
                }
            }
        }
    }
}

#[inline]
fn put(bytes: &Bulk, at: u64, entry: EntryWords) {
    bytes.write_words(at, entry).expect("the log's memory was checked when it was set");
}
