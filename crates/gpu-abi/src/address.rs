//! Owns GPU addresses and the page table format.
//!
//! A virtual address has 48 bits: 4 levels of 9 bits, then 12 bits inside a page of 4 KiB. A table
//! is 512 entries of 8 bytes, one page. Tables stand in memory that the GPU reads by physical
//! address.

use tidegate_platform::PhysicalAddress;

/// Bytes in a GPU page.
pub const PAGE_BYTES: u64 = 4096;
/// Entries in one page table.
pub const TABLE_ENTRIES: u64 = 512;
/// Levels of page tables; level 0 is the root, the last one maps pages.
pub const TABLE_LEVELS: u32 = 4;
/// First address beyond the virtual address space.
pub const VA_END: u64 = 1 << 48;

/// An address in a process's GPU address space, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuVa(pub u64);

impl GpuVa {
    /// This address plus `bytes`, wrapping (a wrapped address is never mapped).
    pub fn plus(self, bytes: u64) -> GpuVa {
        GpuVa(self.0.wrapping_add(bytes))
    }

    /// Index into the table of `level` (0 is the root).
    pub fn table_index(self, level: u32) -> u64 {
        let shift = 12 + 9 * (TABLE_LEVELS - 1 - level);
        (self.0 >> shift) & (TABLE_ENTRIES - 1)
    }
}

/// Names an address space to the GPU. 0 is the system (paging) process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressSpaceId(pub u32);

/// A point on the GPU's clock, in nanoseconds since the adapter started. CPU time has a type of its
/// own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuTime(pub u64);

/// One page table entry.
///
/// Bit 0 valid, bit 1 writable, bit 2 fence values and bit 3 coherent (last level only), bits 12 to
/// 51 the physical page.
///
/// Fence values: the page holds values of fences, behind which their histories stand on the bus
/// (see `fence_cell`). The hardware stores to such a page by words and keeps the histories; nothing
/// else can reach them.
///
/// Coherent: accesses look into the CPUs' caches. Hardware that cannot stops a queue that comes to
/// such an entry; one that comes to an entry without it stops when CPUs cache the page (see
/// [`crate::regs::FaultKind::Incoherent`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pte(pub u64);

impl Pte {
    const VALID: u64 = 1;
    const WRITABLE: u64 = 2;
    const FENCE_VALUES: u64 = 4;
    const COHERENT: u64 = 8;
    const ADDRESS: u64 = 0x000F_FFFF_FFFF_F000;

    /// An entry that points to a page or to the next table.
    pub fn new(to: PhysicalAddress, writable: bool) -> Pte {
        Pte((to.0 & Pte::ADDRESS) | Pte::VALID | if writable { Pte::WRITABLE } else { 0 })
    }

    /// The same entry for a page of fence values.
    pub fn of_fence_values(self) -> Pte {
        Pte(self.0 | Pte::FENCE_VALUES)
    }

    /// The same entry for accesses that are coherent with the CPUs' caches.
    pub fn coherent(self) -> Pte {
        Pte(self.0 | Pte::COHERENT)
    }

    /// Whether accesses are coherent with the CPUs' caches.
    pub fn is_coherent(self) -> bool {
        self.0 & Pte::COHERENT != 0
    }

    /// Whether the page holds fence values.
    pub fn has_fence_values(self) -> bool {
        self.0 & Pte::FENCE_VALUES != 0
    }

    /// Whether it points anywhere.
    pub fn is_valid(self) -> bool {
        self.0 & Pte::VALID != 0
    }

    /// Whether engines may store through it.
    pub fn is_writable(self) -> bool {
        self.0 & Pte::WRITABLE != 0
    }

    /// Where it points.
    pub fn address(self) -> PhysicalAddress {
        PhysicalAddress(self.0 & Pte::ADDRESS)
    }
}
