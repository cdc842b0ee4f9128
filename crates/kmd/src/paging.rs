//! Page tables. The kernel decides what is mapped, and this file writes it in the hardware's
//! format.
//!
//! Order: 1. the entries; 2. a barrier; 3. if one of them was valid, cached translations are
//! invalidated. Stale translations may be used until 3 returns, new ones from 1 on. The hardware
//! caches no translation that failed, so there is none of an entry that was invalid.

use crate::{KmdError, ReferenceDriver};
use smallvec::SmallVec;
use tidegate_ddi::Passive;
use tidegate_ddi::memory::{PageTableEntry, PageTableShape, UpdatePageTable};
use tidegate_ddi::queue::SetRootPageTable;
use tidegate_gpu_abi::address::{TABLE_ENTRIES, TABLE_LEVELS};
use tidegate_gpu_abi::{AddressSpaceId, AdminCommand, PAGE_BYTES, Pte};
use tidegate_platform::PhysicalAddress;

const ENTRY_BYTES: usize = 8;

/// The bytes of each of some entries. Those of few take no memory.
type EntryBytes = SmallVec<[[u8; ENTRY_BYTES]; 8]>;

/// Returns the page table shape: 4 levels of 512 entries, pages of 4 KiB.
pub(crate) fn shape() -> PageTableShape {
    PageTableShape {
        page_bytes: PAGE_BYTES,
        levels: TABLE_LEVELS,
        index_bits: TABLE_ENTRIES.trailing_zeros(),
        table_bytes: TABLE_ENTRIES * ENTRY_BYTES as u64,
    }
}

/// Encodes one entry of a table of `level`. The last level maps pages, the others point to tables.
fn encode(entry: PageTableEntry, level: u32) -> Result<Pte, KmdError> {
    let last = level + 1 == TABLE_LEVELS;
    let aligned = |at: PhysicalAddress| at.0.is_multiple_of(PAGE_BYTES);
    let (pte, at) = match entry {
        PageTableEntry::Invalid => return Ok(Pte::default()),
        PageTableEntry::Table(at) if !last => (Pte::new(at, false), at),
        PageTableEntry::Page { at, writable, fence_values, cache_coherent } if last => {
            let pte = Pte::new(at, writable);
            let pte = if fence_values { pte.of_fence_values() } else { pte };
            (if cache_coherent { pte.coherent() } else { pte }, at)
        }
        PageTableEntry::Table(_) => {
            return Err(KmdError::Argument("a table of the last level maps pages only"));
        }
        PageTableEntry::Page { .. } => {
            return Err(KmdError::Argument("only a table of the last level maps pages"));
        }
    };
    if !aligned(at) || pte.address() != at {
        return Err(KmdError::Argument(
            "a page table entry points to a multiple of 4 KiB below 2^52",
        ));
    }
    Ok(pte)
}

impl ReferenceDriver {
    pub(crate) fn write_page_table(
        &self,
        level: &Passive,
        args: &UpdatePageTable<'_>,
    ) -> Result<(), KmdError> {
        let end = args.start_index.checked_add(args.entries.len() as u64);
        if args.level >= TABLE_LEVELS || end.is_none_or(|end| end > TABLE_ENTRIES) {
            return Err(KmdError::Argument(
                "the entries lie outside the table, or the level does not exist",
            ));
        }
        let mut entries = EntryBytes::with_capacity(args.entries.len());
        for entry in args.entries {
            entries.push(encode(*entry, args.level)?.0.to_le_bytes());
        }
        let start = args.start_index * ENTRY_BYTES as u64;
        let mut replaced = EntryBytes::from_elem([0; ENTRY_BYTES], entries.len());
        args.table.read(start, replaced.as_flattened_mut())?;
        args.table.write(start, entries.as_flattened())?;
        self.platform.fence();
        let was_valid = replaced.iter().any(|entry| *entry != [0; ENTRY_BYTES]);
        let (address_space, physical_gpu) =
            (AddressSpaceId(args.address_space), args.physical_adapter);
        // Without a root nothing can have been translated, so nothing is cached.
        if was_valid && self.objects.lock().rooted.contains(&(address_space, physical_gpu)) {
            let command = AdminCommand::InvalidateTlb { address_space, physical_gpu };
            self.mailbox.complete(level, command)?;
        }
        Ok(())
    }

    pub(crate) fn set_root(&self, level: &Passive, args: SetRootPageTable) -> Result<(), KmdError> {
        let (address_space, physical_gpu) =
            (AddressSpaceId(args.address_space), args.physical_adapter);
        if physical_gpu >= self.device.physical_gpu_count() {
            return Err(KmdError::Argument(
                "a root page table names a physical GPU that is not there",
            ));
        }
        let replaced = {
            let mut objects = self.objects.lock();
            match args.root {
                Some(_) => !objects.rooted.insert((address_space, physical_gpu)),
                None => objects.rooted.remove(&(address_space, physical_gpu)),
            }
        };
        let root = args.root.unwrap_or_default();
        let command = AdminCommand::SetAddressSpace { address_space, root, physical_gpu };
        self.mailbox.complete(level, command)?;
        if replaced && args.root.is_some() {
            let command = AdminCommand::InvalidateTlb { address_space, physical_gpu };
            self.mailbox.complete(level, command)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_written_in_the_hardware_s_format() {
        let at = PhysicalAddress(0x7_8000);
        let entry = |writable, fence_values, cache_coherent| PageTableEntry::Page {
            at,
            writable,
            fence_values,
            cache_coherent,
        };
        let page = |writable| entry(writable, false, false);
        let fences = entry(true, true, false);
        assert_eq!(encode(entry(true, true, true), 3), Ok(Pte(0x7_800F)));
        assert_eq!(encode(page(true), 3), Ok(Pte(0x7_8003)));
        assert_eq!(encode(page(false), 3), Ok(Pte(0x7_8001)));
        assert_eq!(encode(fences, 3), Ok(Pte(0x7_8007)));
        assert_eq!(encode(PageTableEntry::Table(PhysicalAddress(0x9000)), 0), Ok(Pte(0x9001)));
        assert_eq!(encode(PageTableEntry::Invalid, 2), Ok(Pte(0)));
    }

    #[test]
    fn entries_that_the_hardware_cannot_have_are_refused() {
        let page_at = |at| PageTableEntry::Page {
            at: PhysicalAddress(at),
            writable: true,
            fence_values: false,
            cache_coherent: true,
        };
        let odd = page_at(0x7_8008);
        let far = PageTableEntry::Table(PhysicalAddress(1 << 52));
        let page = page_at(0x1000);
        let table = PageTableEntry::Table(PhysicalAddress(0x1000));
        for (entry, level) in [(odd, 3), (far, 1), (page, 0), (page, 2), (table, 3)] {
            assert!(encode(entry, level).is_err(), "{entry:?} at level {level}");
        }
    }

    #[test]
    fn the_shape_covers_48_bits() {
        assert_eq!(shape().va_end(), tidegate_gpu_abi::address::VA_END);
        assert_eq!(shape().table_bytes, 4096);
    }
}
