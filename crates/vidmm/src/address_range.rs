//! Allocation of GPU virtual addresses in one process.
//!
//! Invariants
//! - Addresses increase and are never reused, so a stale address faults.
//! - One unmapped page follows each range, so an access beyond its end faults.
//! - The range that a driver states for fence values contains only fence values.
//!
//! With an IOMMU, engines use the CPU addresses of the process. Fence values are then at
//! [`cpu_va`], and other addresses end below [`CPU_WINDOW`].

use std::ops::Range;
use tidegate_ddi::Status;
use tidegate_ddi::caps::NativeFenceCaps;
use tidegate_ddi::memory::PageTableShape;
use tidegate_platform::PhysicalAddress;

/// First address that is assigned. Lower pages stay unmapped, so small integers are never valid.
const FIRST_VA: u64 = 0x1_0000;

/// Base of the CPU mapping of system memory. Each physical address has its own CPU address.
const CPU_WINDOW: u64 = 0x7000_0000_0000;

/// Returns the CPU address of physical address `at` in a process that may map it.
pub fn cpu_va(at: PhysicalAddress) -> u64 {
    CPU_WINDOW + at.0
}

/// Returns the page-aligned range that a driver states for fence values, if any.
pub fn fence_window(caps: &NativeFenceCaps, shape: PageTableShape) -> Option<Range<u64>> {
    let page = shape.page_bytes;
    let (lowest, highest) =
        (caps.minimum_address.unwrap_or(0), caps.maximum_address.unwrap_or(u64::MAX));
    let start = lowest.max(FIRST_VA).checked_next_multiple_of(page).unwrap_or(u64::MAX);
    let end = highest.saturating_add(1).min(shape.va_end()) / page * page;
    let everything = start == FIRST_VA && end == shape.va_end();
    (!everything).then_some(start..end)
}

/// The next free addresses of one process.
#[derive(Debug)]
pub struct AddressRanges {
    shape: PageTableShape,
    /// Whether engines use CPU addresses.
    io_mmu: bool,
    fence_window: Option<Range<u64>>,
    next: u64,
    next_fence: u64,
}

impl AddressRanges {
    /// Creates the address space of a process. `io_mmu`: whether engines use its CPU addresses.
    pub fn new(caps: &NativeFenceCaps, shape: PageTableShape, io_mmu: bool) -> AddressRanges {
        let fence_window = fence_window(caps, shape);
        let next_fence = fence_window.as_ref().map_or(0, |window| window.start);
        AddressRanges { shape, io_mmu, fence_window, next: FIRST_VA, next_fence }
    }

    /// Reserves consecutive addresses for regions of these sizes, each with pages of its own.
    ///
    /// # Errors
    /// `NO_MEMORY` if the address space is exhausted.
    pub fn reserve(&mut self, regions: &[u64]) -> Result<u64, Status> {
        self.reserve_aligned(regions, self.shape.page_bytes)
    }

    /// As [`AddressRanges::reserve`]; the range begins at a multiple of `alignment` bytes.
    ///
    /// # Errors
    /// `NO_MEMORY` if the address space is exhausted.
    pub fn reserve_aligned(&mut self, regions: &[u64], alignment: u64) -> Result<u64, Status> {
        let end = self.end();
        let aligned = |va: u64| va.checked_next_multiple_of(alignment).ok_or(Status::NO_MEMORY);
        let mut range = self.range_at(aligned(self.next)?, regions, end)?;
        if let Some(window) = &self.fence_window
            && range.start < window.end
            && range.end > window.start
        {
            range = self.range_at(aligned(window.end)?, regions, end)?;
        }
        self.next = range.end + self.shape.page_bytes;
        Ok(range.start)
    }

    /// Reserves addresses for a page of fence values, within the driver's range.
    ///
    /// # Errors
    /// `NO_MEMORY` if the address space is exhausted.
    pub fn reserve_fence_values(&mut self, bytes: u64) -> Result<u64, Status> {
        let Some(window) = &self.fence_window else { return self.reserve(&[bytes]) };
        let range = self.range_at(self.next_fence, &[bytes], window.end)?;
        self.next_fence = range.end + self.shape.page_bytes;
        Ok(range.start)
    }

    /// Returns the CPU address of fence values at `at`, for engines that use CPU addresses.
    ///
    /// # Errors
    /// `NO_MEMORY` if the address is outside of the driver's range.
    pub fn at_cpu_va(&self, at: PhysicalAddress, bytes: u64) -> Result<u64, Status> {
        let range = cpu_va(at)..cpu_va(at).saturating_add(bytes);
        let bounds = self.fence_window.clone().unwrap_or(0..self.shape.va_end());
        match bounds.start <= range.start && range.end <= bounds.end {
            true => Ok(range.start),
            false => Err(Status::NO_MEMORY),
        }
    }

    /// Reserves an address that is never mapped.
    pub fn reserve_unmapped(&mut self) -> u64 {
        let va = self.next;
        self.next += self.shape.page_bytes;
        va
    }

    /// Returns the number of pages of a region; an empty region has one.
    pub fn pages(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.shape.page_bytes).max(1)
    }

    /// Returns the end of the assignable addresses.
    fn end(&self) -> u64 {
        let end = self.shape.va_end();
        if self.io_mmu { end.min(CPU_WINDOW) } else { end }
    }

    fn range_at(&self, va: u64, regions: &[u64], limit: u64) -> Result<Range<u64>, Status> {
        let pages: u64 = regions.iter().map(|bytes| self.pages(*bytes)).sum();
        let end = pages.checked_mul(self.shape.page_bytes).and_then(|bytes| va.checked_add(bytes));
        let end = end.filter(|end| *end <= limit).ok_or(Status::NO_MEMORY)?;
        Ok(va..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 0x1_0000;

    /// 2 levels of 4 bits with pages of 64 KiB: 256 pages.
    const SHAPE: PageTableShape =
        PageTableShape { page_bytes: PAGE, levels: 2, index_bits: 4, table_bytes: 128 };

    fn caps(minimum: Option<u64>, maximum: Option<u64>) -> NativeFenceCaps {
        NativeFenceCaps {
            minimum_address: minimum,
            maximum_address: maximum,
            ..NativeFenceCaps::default()
        }
    }

    fn ranges(minimum: Option<u64>, maximum: Option<u64>) -> AddressRanges {
        AddressRanges::new(&caps(minimum, maximum), SHAPE, false)
    }

    #[test]
    fn ranges_rise_with_an_unmapped_page_behind_each() {
        let mut ranges = ranges(None, None);
        assert_eq!(ranges.reserve(&[1]), Ok(PAGE));
        assert_eq!(ranges.reserve(&[PAGE + 1]), Ok(3 * PAGE));
        assert_eq!(ranges.reserve(&[0]), Ok(6 * PAGE), "two pages and an unmapped one");
        assert_eq!(ranges.reserve(&[1, 1, PAGE]), Ok(8 * PAGE));
        assert_eq!(ranges.reserve_unmapped(), 12 * PAGE);
        assert_eq!(
            ranges.reserve_fence_values(8),
            Ok(13 * PAGE),
            "without bounds, addresses are assigned as usual"
        );
    }

    #[test]
    fn aligned_ranges_begin_at_a_multiple() {
        let mut ranges = ranges(Some(6 * PAGE), Some(11 * PAGE - 1));
        assert_eq!(
            ranges.reserve_aligned(&[4 * PAGE], 4 * PAGE),
            Ok(12 * PAGE),
            "behind the window"
        );
        assert_eq!(ranges.reserve(&[PAGE]), Ok(17 * PAGE));
        assert_eq!(ranges.reserve_aligned(&[PAGE], 4 * PAGE), Ok(20 * PAGE));
        assert_eq!(ranges.reserve_aligned(&[1, 1], 4 * PAGE), Ok(24 * PAGE));
        assert_eq!(ranges.reserve_aligned(&[1], 1 << 63), Err(Status::NO_MEMORY));
        assert_eq!(ranges.reserve(&[PAGE]), Ok(27 * PAGE), "a failed call reserves nothing");
    }

    #[test]
    fn an_exhausted_address_space_refuses() {
        let mut ranges = ranges(None, None);
        assert_eq!(ranges.reserve(&[256 * PAGE]), Err(Status::NO_MEMORY));
        assert_eq!(ranges.reserve(&[u64::MAX]), Err(Status::NO_MEMORY));
        assert_eq!(ranges.reserve(&[255 * PAGE]), Ok(PAGE), "a failed call reserves nothing");
        assert_eq!(ranges.reserve(&[1]), Err(Status::NO_MEMORY));
    }

    #[test]
    fn only_fence_values_are_between_the_bounds() {
        let mut ranges = ranges(Some(4 * PAGE), Some(8 * PAGE - 1));
        assert_eq!(ranges.reserve(&[PAGE]), Ok(PAGE));
        assert_eq!(ranges.reserve(&[2 * PAGE]), Ok(8 * PAGE), "it would reach into the window");
        assert_eq!(ranges.reserve_fence_values(PAGE), Ok(4 * PAGE));
        assert_eq!(ranges.reserve_fence_values(PAGE), Ok(6 * PAGE));
        assert_eq!(ranges.reserve_fence_values(PAGE), Err(Status::NO_MEMORY));
        assert_eq!(ranges.reserve(&[PAGE]), Ok(11 * PAGE));
    }

    #[test]
    fn bounds_are_rounded_to_whole_pages() {
        assert_eq!(fence_window(&caps(None, None), SHAPE), None);
        assert_eq!(fence_window(&caps(Some(0), Some(u64::MAX)), SHAPE), None);
        let odd = caps(Some(2 * PAGE + 1), Some(5 * PAGE));
        assert_eq!(fence_window(&odd, SHAPE), Some(3 * PAGE..5 * PAGE));
        let empty = fence_window(&caps(Some(6 * PAGE), Some(3 * PAGE)), SHAPE);
        assert!(empty.is_some_and(|window| window.is_empty()));
    }

    #[test]
    fn behind_an_io_mmu_fence_values_have_their_cpu_address() {
        let wide = PageTableShape { levels: 4, index_bits: 9, ..SHAPE };
        let mut ranges = AddressRanges::new(&caps(None, None), wide, true);
        let at = PhysicalAddress(0x5000);
        assert_eq!(ranges.at_cpu_va(at, 0x1000), Ok(cpu_va(at)));
        assert_eq!(ranges.reserve(&[CPU_WINDOW - 2 * PAGE]), Ok(PAGE));
        assert_eq!(ranges.reserve(&[1]), Err(Status::NO_MEMORY), "CPU addresses begin here");
        let bounded = AddressRanges::new(&caps(None, Some(CPU_WINDOW + 0x5fff)), wide, true);
        assert_eq!(bounded.at_cpu_va(at, 0x1000), Err(Status::NO_MEMORY), "no whole page");
        assert_eq!(bounded.at_cpu_va(PhysicalAddress(0), 0), Ok(CPU_WINDOW));
    }
}
