//! GPU addresses and the page table format.
//!
//! A virtual address has 48 bits: 4 levels of 9 bits, then 12 bits inside a page of 4 KiB. A
//! table has 512 entries of 8 bytes, one page. Tables are in memory that the GPU reads by
//! physical address.

use tidegate_platform::PhysicalAddress;

/// Bytes in a GPU page.
pub const PAGE_BYTES: u64 = 4096;
/// Entries in one page table.
pub const TABLE_ENTRIES: u64 = 512;
/// Levels of page tables; level 0 is the root, the last level maps pages.
pub const TABLE_LEVELS: u32 = 4;
/// The end of the virtual address space.
pub const VA_END: u64 = 1 << 48;

/// An address in a process's GPU address space, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuVa(pub u64);

impl GpuVa {
    /// Returns this address plus `bytes`, wrapping (a wrapped address is never mapped).
    pub fn plus(self, bytes: u64) -> GpuVa {
        GpuVa(self.0.wrapping_add(bytes))
    }

    /// Returns the index into the table of `level` (0 is the root).
    pub fn table_index(self, level: u32) -> u64 {
        let shift = 12 + 9 * (TABLE_LEVELS - 1 - level);
        (self.0 >> shift) & (TABLE_ENTRIES - 1)
    }
}

/// The number of an address space on the GPU. 0 is the system (paging) process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressSpaceId(pub u32);

/// A time on the GPU's clock, in nanoseconds since the adapter started. CPU time has a
/// separate type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuTime(pub u64);

/// One page table entry.
///
/// Bits: 0 valid, 1 writable, 2 fence values, 3 coherent (bits 2 and 3 in the last level only), 12
/// to 51 the physical page.
///
/// Fence values: the page holds values of fences, followed on the bus by their histories (see
/// `fence_cell`). The hardware stores to such a page by words and keeps the histories, which
/// nothing else can access.
///
/// Coherent: accesses snoop the CPUs' caches. Hardware that cannot snoop stops a queue at such
/// an entry. An access through an entry without the bit stops the queue if CPUs cache the page
/// (see [`crate::regs::FaultKind::Incoherent`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pte(pub u64);

impl Pte {
    const VALID: u64 = 1;
    const WRITABLE: u64 = 2;
    const FENCE_VALUES: u64 = 4;
    const COHERENT: u64 = 8;
    const ADDRESS: u64 = 0x000F_FFFF_FFFF_F000;

    /// Returns an entry that points to a page or to the next table.
    pub fn new(to: PhysicalAddress, writable: bool) -> Pte {
        Pte((to.0 & Pte::ADDRESS) | Pte::VALID | if writable { Pte::WRITABLE } else { 0 })
    }

    /// Returns this entry for a page of fence values.
    pub fn of_fence_values(self) -> Pte {
        Pte(self.0 | Pte::FENCE_VALUES)
    }

    /// Returns this entry with accesses coherent with the CPUs' caches.
    pub fn coherent(self) -> Pte {
        Pte(self.0 | Pte::COHERENT)
    }

    /// Returns whether accesses are coherent with the CPUs' caches.
    pub fn is_coherent(self) -> bool {
        self.0 & Pte::COHERENT != 0
    }

    /// Returns whether the page holds fence values.
    pub fn has_fence_values(self) -> bool {
        self.0 & Pte::FENCE_VALUES != 0
    }

    /// Returns whether the entry is valid.
    pub fn is_valid(self) -> bool {
        self.0 & Pte::VALID != 0
    }

    /// Returns whether engines may store through it.
    pub fn is_writable(self) -> bool {
        self.0 & Pte::WRITABLE != 0
    }

    /// Returns the address of the page or table.
    pub fn address(self) -> PhysicalAddress {
        PhysicalAddress(self.0 & Pte::ADDRESS)
    }
}
