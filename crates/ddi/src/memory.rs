//! Owns the arguments by which the kernel's memory manager has page tables written in the driver's format.

use tidegate_platform::{Bulk, PhysicalAddress, PhysicalMemory};

/// A segment of local memory (DXGK_SEGMENTDESCRIPTOR4).
#[derive(Clone)]
pub struct Segment {
    /// The memory.
    pub memory: PhysicalMemory,
    /// Whether the CPU reaches it through the bus.
    pub cpu_visible: bool,
}

/// DXGK_GPUMMUCAPS: the shape of the driver's page tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageTableShape {
    /// Bytes in a page.
    pub page_bytes: u64,
    /// Levels; level 0 is the root.
    pub levels: u32,
    /// Index bits per level.
    pub index_bits: u32,
    /// Bytes in one table.
    pub table_bytes: u64,
}

impl PageTableShape {
    /// Index into the table of `level` for `gpu_va`.
    pub fn index(&self, gpu_va: u64, level: u32) -> u64 {
        let shift = self.page_bytes.trailing_zeros() + self.index_bits * (self.levels - 1 - level);
        (gpu_va >> shift) & ((1 << self.index_bits) - 1)
    }

    /// First address beyond the address space.
    pub fn va_end(&self) -> u64 {
        self.page_bytes << (self.index_bits * self.levels)
    }
}

/// One entry to write (DXGK_PTE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageTableEntry {
    /// Points nowhere.
    Invalid,
    /// Points to the next table.
    Table(PhysicalAddress),
    /// Points to a page.
    Page {
        /// Where it stands on the bus.
        at: PhysicalAddress,
        /// Whether engines may store through it.
        writable: bool,
        /// Whether fence values stand in it, with their histories behind it on the bus (see `fence_cell`): the hardware keeps
        /// them, if its caps say so.
        fence_values: bool,
    },
}

/// DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE, done by the CPU at once.
#[derive(Debug)]
pub struct UpdatePageTable<'a> {
    /// The address space.
    pub address_space: u32,
    /// The table, kernel CPU address.
    pub table: &'a Bulk,
    /// Which level the table is of.
    pub level: u32,
    /// First entry to write.
    pub start_index: u64,
    /// The entries.
    pub entries: &'a [PageTableEntry],
}
