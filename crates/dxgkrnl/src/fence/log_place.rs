//! Owns where a fence log stands: its memory, its three mappings, and how large it is.
//!
//! The published buffer is a header of 40 bytes with the entries right behind it. Here the header is the end of a page of words
//! and the entries begin the next page, in the process's GPU address space, so that the addresses are the published ones and
//! yet commands cannot store to the header: its page is mapped for loads. The kernel's CPU has both as memory, the CMP by their
//! places on the bus, through which alone the index is written; user mode's CPU has nothing.

use crate::adapter::Adapter;
use crate::memory::{Access, AddressSpace};
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_d3dukmdt::layout::log::{LOG_ENTRY_BYTES, LOG_HEADER_BYTES};
use tidegate_ddi::DriverHandle;
use tidegate_ddi::fence::{LogType, SetNativeFenceLogBuffer};
use tidegate_platform::{Bulk, PhysicalAddress, Untrusted, Word};

const HEADER_BYTES: u64 = LOG_HEADER_BYTES as u64;
const ENTRY_BYTES: u64 = LOG_ENTRY_BYTES as u64;
/// Bytes of the largest log.
const LARGEST_BYTES: u64 = 64 << 10;

/// The capacity of a log while a timeline is recorded: `standard` doubled as long as the log fits into 64 KiB.
pub(crate) fn capacity_while_traced(standard: u32) -> u32 {
    let fits = |entries: u32| HEADER_BYTES + u64::from(entries) * ENTRY_BYTES <= LARGEST_BYTES;
    let doubled = std::iter::successors(Some(standard), |entries| entries.checked_mul(2));
    doubled.take_while(|entries| *entries > 0 && fits(*entries)).last().unwrap_or(standard)
}

/// A log's memory and mappings; they end with it.
pub(crate) struct Place {
    adapter: Arc<Adapter>,
    space: Arc<AddressSpace>,
    pub(crate) capacity: u32,
    /// The index word.
    pub(crate) header: Word,
    header_page_at: PhysicalAddress,
    /// Commands of the process store to them as they like.
    pub(crate) entries: Untrusted<Bulk>,
    entries_at: PhysicalAddress,
    mapped_at: u64,
    mapped_bytes: u64,
    /// LogBufferGpuVa.
    pub(crate) gpu_va: u64,
}

impl Place {
    // spec: NF-174
    pub(crate) fn new(
        adapter: &Arc<Adapter>,
        space: &Arc<AddressSpace>,
        log_type: LogType,
        capacity: u32,
    ) -> Result<Place, Status> {
        let page_bytes = adapter.shape.page_bytes;
        let memory = &adapter.system_memory;
        let (header_page_at, page) = memory.protocol((page_bytes / 8) as usize);
        let bytes = u64::from(capacity) * ENTRY_BYTES;
        let (entries_at, entries) = memory.bulk(bytes as usize);
        let first_word = ((page_bytes - HEADER_BYTES) / 8) as usize;
        // spec: NF-183
        page.store(first_word + 1, log_type as u64);
        page.store(first_word + 2, u64::from(capacity));
        let parts = [(header_page_at, page_bytes, Access::Read), (entries_at, bytes, Access::ReadWrite)];
        let mapped_at = space.map_parts(&parts).inspect_err(|_| {
            memory.remove(header_page_at);
            memory.remove(entries_at);
        })?;
        Ok(Place {
            adapter: adapter.clone(),
            space: space.clone(),
            capacity,
            header: page.word(first_word),
            header_page_at,
            entries: Untrusted::new(entries),
            entries_at,
            mapped_at,
            mapped_bytes: page_bytes + bytes,
            gpu_va: mapped_at + page_bytes - HEADER_BYTES,
        })
    }

    pub(crate) fn set_args(
        &self,
        hw_queue: DriverHandle,
        log_type: LogType,
        notify_every: u32,
    ) -> SetNativeFenceLogBuffer {
        let header_address =
            PhysicalAddress(self.header_page_at.0 + self.adapter.shape.page_bytes - HEADER_BYTES);
        SetNativeFenceLogBuffer {
            hw_queue,
            log_type,
            number_of_entries: self.capacity,
            notify_every,
            gpu_va: self.gpu_va,
            header: self.header.clone(),
            header_address,
            entries: self.entries.trusted().clone(),
            entries_address: self.entries_at,
        }
    }

    /// What the driver is told of a log that is no more.
    pub(crate) fn taken_away(
        adapter: &Adapter,
        hw_queue: DriverHandle,
        log_type: LogType,
    ) -> SetNativeFenceLogBuffer {
        SetNativeFenceLogBuffer {
            hw_queue,
            log_type,
            number_of_entries: 0,
            notify_every: 0,
            gpu_va: 0,
            header: adapter.platform.page(1).word(0),
            header_address: PhysicalAddress(0),
            entries: adapter.platform.bulk(0),
            entries_address: PhysicalAddress(0),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.space.unmap(self.mapped_at, self.mapped_bytes);
        self.adapter.system_memory.remove(self.header_page_at);
        self.adapter.system_memory.remove(self.entries_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    // spec: NF-206
    fn a_traced_log_has_doubled_up_to_64_kib() {
        assert_eq!(capacity_while_traced(84), 1_344);
        assert_eq!(HEADER_BYTES + 1_344 * ENTRY_BYTES, 64_552, "the next doubling would not fit");
        for standard in [1, 3, 4, 8, 84, 1_364] {
            let largest = capacity_while_traced(standard);
            assert!(largest.is_multiple_of(standard) && (largest / standard).is_power_of_two());
            assert!((683..=1_364).contains(&largest), "{standard} became {largest}");
        }
        assert_eq!((capacity_while_traced(5_000), capacity_while_traced(0)), (5_000, 0));
    }
}
