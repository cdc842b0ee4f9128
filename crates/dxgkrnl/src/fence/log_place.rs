//! The buffer of a fence log: its memory, its mappings and its size.
//!
//! The published buffer is a header of 40 bytes with the entries right behind it. Here the header
//! is the end of a page of words, and the entries begin the next page. Both are mapped to read and
//! write in the GPU address spaces of the process and of the system process, which the CMP uses.
//! They are not mapped for the CPU in user mode (decisions/0014).
//!
//! Invariant: every word of a log may change at any moment, header included, since commands of the
//! process store there. The kernel uses its own copy of type and capacity.

use crate::driver::DriverPort;
use crate::memory::{Access, AddressSpace, Memory};
use crate::timer::{AtPassive, EndAtPassive};
use std::sync::{Arc, OnceLock};
use tidegate_calls::Status;
use tidegate_d3dukmdt::log::{LOG_ENTRY_BYTES, LOG_HEADER_BYTES};
use tidegate_ddi::fence::{LogType, SetNativeFenceLogBuffer};
use tidegate_ddi::{DriverHandle, Passive};
use tidegate_platform::{Bulk, PhysicalAddress, Untrusted, Word};

const HEADER_BYTES: u64 = LOG_HEADER_BYTES as u64;
const ENTRY_BYTES: u64 = LOG_ENTRY_BYTES as u64;
/// Bytes of the largest log.
const LARGEST_BYTES: u64 = 64 << 10;

/// The capacity of a log while a timeline is recorded: `standard` doubled as long as the log fits
/// into 64 KiB.
pub(crate) fn capacity_while_traced(standard: u32) -> u32 {
    let fits = |entries: u32| HEADER_BYTES + u64::from(entries) * ENTRY_BYTES <= LARGEST_BYTES;
    let doubled = std::iter::successors(Some(standard), |entries| entries.checked_mul(2));
    doubled.take_while(|entries| *entries > 0 && fits(*entries)).last().unwrap_or(standard)
}

/// A log's memory and mappings, released on drop.
pub(crate) type LogBuffer = AtPassive<LogBufferBody>;

/// The parts of a log.
pub(crate) struct LogBufferBody {
    pub(crate) capacity: u32,
    /// The index word.
    pub(crate) header: Untrusted<Word>,
    pub(crate) entries: Untrusted<Bulk>,
    /// LogBufferGpuVa.
    pub(crate) gpu_va: u64,
    in_process: Mapped,
    in_system_process: Mapped,
    /// Set once it is mapped nowhere.
    unmapped: OnceLock<()>,
    /// Declared after the mappings: memory leaves the bus once it is mapped nowhere.
    on_bus: OnBus,
}

/// Header page and entries in an address space.
struct Mapped {
    space: Arc<AddressSpace>,
    at: u64,
    bytes: u64,
}

impl Mapped {
    fn new(
        level: &Passive,
        space: &Arc<AddressSpace>,
        header_page: (PhysicalAddress, u64),
        entries: (PhysicalAddress, u64),
    ) -> Result<Mapped, Status> {
        let parts = [header_page, entries].map(|(at, bytes)| (at, bytes, Access::ReadWrite));
        let at = space.map_regions(level, &parts)?;
        Ok(Mapped { space: space.clone(), at, bytes: header_page.1 + entries.1 })
    }

    /// Where the header begins, at the end of its page.
    fn header_va(&self, page_bytes: u64) -> u64 {
        self.at + page_bytes - HEADER_BYTES
    }

    fn unmap(&self, level: &Passive) {
        self.space.unmap(level, self.at, self.bytes);
    }
}

impl EndAtPassive for LogBufferBody {
    fn end(&mut self, level: &Passive) {
        self.unmap(level);
    }
}

impl LogBufferBody {
    /// Unmaps the log. Afterwards no engine is in a turn that began before, so none writes it.
    pub(crate) fn unmap(&self, level: &Passive) {
        if self.unmapped.set(()).is_ok() {
            self.in_process.unmap(level);
            self.in_system_process.unmap(level);
        }
    }
}

/// Memory on the bus: the page with the header, and the entries.
struct OnBus {
    driver: Arc<DriverPort>,
    header_page_at: PhysicalAddress,
    entries_at: PhysicalAddress,
}

impl Drop for OnBus {
    fn drop(&mut self) {
        self.driver.system_memory.remove(self.header_page_at);
        self.driver.system_memory.remove(self.entries_at);
    }
}

impl LogBuffer {
    // spec: NF-174
    pub(crate) fn new(
        level: &Passive,
        memory: &Memory,
        space: &Arc<AddressSpace>,
        log_type: LogType,
        capacity: u32,
    ) -> Result<LogBuffer, Status> {
        let driver = &memory.driver;
        let (page_bytes, system_memory) = (driver.declared.shape.page_bytes, &driver.system_memory);
        let (header_page_at, page) = system_memory.protocol((page_bytes / 8) as usize);
        let bytes = u64::from(capacity) * ENTRY_BYTES;
        let (entries_at, entries) = system_memory.bulk(bytes as usize);
        let first_word = ((page_bytes - HEADER_BYTES) / 8) as usize;
        // spec: NF-183
        page.store(first_word + 1, log_type as u64);
        page.store(first_word + 2, u64::from(capacity));
        let on_bus = OnBus { driver: driver.clone(), header_page_at, entries_at };
        let mapped_in = |space: &Arc<AddressSpace>| {
            Mapped::new(level, space, (header_page_at, page_bytes), (entries_at, bytes))
        };
        let in_process = mapped_in(space)?;
        let in_system_process = memory.system_space(level).and_then(|space| mapped_in(&space));
        let in_system_process = in_system_process.inspect_err(|_| in_process.unmap(level))?;
        let body = LogBufferBody {
            capacity,
            header: Untrusted::new(page.word(first_word)),
            entries: Untrusted::new(entries),
            gpu_va: in_process.header_va(page_bytes),
            in_process,
            in_system_process,
            unmapped: OnceLock::new(),
            on_bus,
        };
        Ok(AtPassive::wrap(&driver.timer, body))
    }

    pub(crate) fn set_args(
        &self,
        hw_queue: DriverHandle,
        log_type: LogType,
        notify_every: u32,
    ) -> SetNativeFenceLogBuffer {
        let OnBus { driver, header_page_at, entries_at } = &self.on_bus;
        let page_bytes = driver.declared.shape.page_bytes;
        let header_address = PhysicalAddress(header_page_at.0 + page_bytes - HEADER_BYTES);
        SetNativeFenceLogBuffer {
            hw_queue,
            log_type,
            number_of_entries: self.capacity,
            notify_every,
            gpu_va: self.gpu_va,
            system_process_gpu_va: self.in_system_process.header_va(page_bytes),
            header: self.header.trusted().clone(),
            header_address,
            entries: self.entries.trusted().clone(),
            entries_address: *entries_at,
        }
    }

    /// Returns the argument that tells the driver a log has ended.
    pub(crate) fn none(
        driver: &DriverPort,
        hw_queue: DriverHandle,
        log_type: LogType,
    ) -> SetNativeFenceLogBuffer {
        SetNativeFenceLogBuffer {
            hw_queue,
            log_type,
            number_of_entries: 0,
            notify_every: 0,
            gpu_va: 0,
            system_process_gpu_va: 0,
            header: driver.platform.page(1).word(0),
            header_address: PhysicalAddress(0),
            entries: driver.platform.bulk(0),
            entries_address: PhysicalAddress(0),
        }
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
