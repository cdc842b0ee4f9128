//! Arguments of the memory manager's entries: segments, page tables in the driver's format, fence
//! storage, paging operations.
//!
//! Segments are numbered from 1, in the order of the driver's report. In a set, bit 0 is segment 1.

use crate::{DriverHandle, NativeFenceType, OsHandle, Status};
use std::cell::Cell;
use tidegate_d3dukmdt::FenceCell;
use tidegate_platform::{Bulk, PhysicalAddress, PhysicalMemory, Word};

/// A segment of local memory (DXGK_SEGMENTDESCRIPTOR4).
#[derive(Clone)]
pub struct Segment {
    /// The memory.
    pub memory: PhysicalMemory,
    /// The physical adapter that owns it; linked ones reach it, too.
    pub physical_adapter: u32,
    /// Whether the CPU reaches it through the bus. If not, the kernel assigns addresses and never
    /// accesses the memory.
    pub cpu_visible: bool,
    /// Size in bytes.
    pub bytes: u64,
}

/// DXGK_GPUMMUCAPS: the shape of the driver's page tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Returns the index into the table of `level` for `gpu_va`.
    pub fn index(&self, gpu_va: u64, level: u32) -> u64 {
        let shift = self.page_bytes.trailing_zeros() + self.index_bits * (self.levels - 1 - level);
        (gpu_va >> shift) & ((1 << self.index_bits) - 1)
    }

    /// Returns the first address beyond the address space.
    pub fn va_end(&self) -> u64 {
        self.page_bytes << (self.index_bits * self.levels)
    }
}

/// One entry to write (DXGK_PTE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageTableEntry {
    /// Not mapped.
    Invalid,
    /// Points to the next table.
    Table(PhysicalAddress),
    /// Points to a page.
    Page {
        /// Its bus address.
        at: PhysicalAddress,
        /// Whether engines may store through it.
        writable: bool,
        /// Whether it holds fence values, with their histories after it on the bus (see
        /// `fence_cell`).
        fence_values: bool,
        /// CacheCoherent: accesses are coherent with the CPUs' caches.
        cache_coherent: bool,
    },
}

/// DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE, carried out by the CPU during the call.
#[derive(Debug)]
pub struct UpdatePageTable<'a> {
    /// The address space.
    pub address_space: u32,
    /// The physical adapter of the page tables.
    pub physical_adapter: u32,
    /// The table, kernel CPU address.
    pub table: &'a Bulk,
    /// Level of the table.
    pub level: u32,
    /// First entry to write.
    pub start_index: u64,
    /// The entries.
    pub entries: &'a [PageTableEntry],
}

/// D3DKMDT_STANDARDALLOCATION_TYPE: allocations of the kernel whose segment the driver chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum StandardAllocationType {
    /// D3DKMDT_STANDARDALLOCATION_FENCESTORAGE
    // spec: NF-110
    FenceStorage = 6,
}

/// One of a fence's two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum FenceStorageValueType {
    /// CurrentValue
    CurrentValue = 0,
    /// MonitoredValue
    MonitoredValue = 1,
}

/// D3DKMDT_FENCESTORAGESURFACEDATA, in.
// spec: NF-111
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceStorageSurfaceData<'a> {
    /// The physical adapter.
    pub physical_adapter_index: u32,
    /// The fence value in the storage.
    pub value: FenceStorageValueType,
    /// Type of the fences.
    pub fence_type: NativeFenceType,
    /// Private data. Empty for storage that serves many fences.
    pub private_driver_data: &'a [u8],
}

/// DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandardAllocation<'a> {
    /// Type of the allocation.
    pub allocation_type: StandardAllocationType,
    /// Its description.
    pub surface: FenceStorageSurfaceData<'a>,
}

/// Segments of a standard allocation (of DXGK_ALLOCATIONINFO).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationSegments {
    /// Segments in which it may be written; at least one.
    pub supported_write_segment_set: u32,
    /// Segments to which it may be evicted instead of to system memory; 0 for none.
    pub eviction_segment_set: u32,
    /// The preferred segment; 0 leaves the choice to the kernel.
    pub preferred_segment: u32,
}

/// A DMA buffer of the kernel. The driver writes the commands of a paging operation into it, after
/// those of earlier operations.
#[derive(Debug)]
pub struct PagingBuffer {
    memory: Bulk,
    bytes: u32,
    gpu_va: u64,
    used: Cell<u32>,
    multipass_offset: Cell<u32>,
}

impl PagingBuffer {
    /// Creates an empty buffer over `memory`, without a GPU virtual address.
    pub fn new(memory: Bulk) -> PagingBuffer {
        let bytes = u32::try_from(memory.len()).unwrap_or(u32::MAX);
        PagingBuffer::at(memory, bytes, 0)
    }

    /// Creates an empty buffer over the first `bytes` of `memory`, with the GPU virtual address of
    /// its start, which may be 0.
    pub fn at(memory: Bulk, bytes: u32, gpu_va: u64) -> PagingBuffer {
        PagingBuffer { memory, bytes, gpu_va, used: Cell::new(0), multipass_offset: Cell::new(0) }
    }

    /// Returns the GPU virtual address of the start (DmaBufferGpuVirtualAddress).
    pub fn gpu_va(&self) -> u64 {
        self.gpu_va
    }

    /// Returns the number of bytes that are left (DmaSize).
    pub fn room(&self) -> u32 {
        self.bytes.saturating_sub(self.used())
    }

    /// Returns the driver's progress in an operation whose commands did not fit the buffer before
    /// (MultipassOffset); 0 when the operation begins.
    pub fn multipass_offset(&self) -> u32 {
        self.multipass_offset.get()
    }

    /// Sets the progress. The driver calls it before it returns GRAPHICS_INSUFFICIENT_DMA_BUFFER.
    pub fn set_multipass_offset(&self, offset: u32) {
        self.multipass_offset.set(offset);
    }

    /// Appends commands.
    ///
    /// # Errors
    /// GRAPHICS_INSUFFICIENT_DMA_BUFFER: the commands do not fit.
    pub fn append(&self, commands: &[u8]) -> Result<(), Status> {
        let at = self.used.get();
        let full = Status::GRAPHICS_INSUFFICIENT_DMA_BUFFER;
        let end = u32::try_from(commands.len())
            .ok()
            .and_then(|bytes| at.checked_add(bytes))
            .filter(|end| *end <= self.bytes)
            .ok_or(full)?;
        self.memory.write(u64::from(at), commands).map_err(|_| full)?;
        self.used.set(end);
        Ok(())
    }

    /// Returns the number of bytes written.
    pub fn used(&self) -> u32 {
        self.used.get()
    }
}

/// DXGKARG_BUILDPAGINGBUFFER. An operation with a buffer is complete when the commands in the
/// buffer have run; any other is complete when the call returns.
#[derive(Clone, Copy, Debug)]
pub enum PagingOperation<'a> {
    /// Holds all engines: when it returns, no engine runs. It stands for the suspension of every
    /// context that may use the moved memory. Holds nest. Not published.
    HoldEngines,
    /// Ends a hold. Engines evaluate every wait again.
    ReleaseEngines,
    /// Moves a page of INTRA_GPU fence values, with their histories and waiting queues. Only while
    /// engines are held.
    TransferFenceValues {
        /// Source.
        from: PhysicalAddress,
        /// Destination, of the same size.
        to: PhysicalAddress,
    },
    /// DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL: copies bytes, at addresses of the kernel's paging
    /// process. With 0 bytes it reports that a reset destroyed the content of an allocation in
    /// device memory; the driver writes no commands then.
    #[doc(alias = "DXGK_OPERATION_VIRTUAL_TRANSFER")]
    VirtualTransfer {
        /// Source.
        source_gpu_va: u64,
        /// Destination.
        destination_gpu_va: u64,
        /// Size in bytes; a page or less, or whole pages.
        bytes: u64,
        /// Buffer for the commands.
        buffer: &'a PagingBuffer,
    },
    /// DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL: fills bytes with a value.
    #[doc(alias = "DXGK_OPERATION_VIRTUAL_FILL")]
    VirtualFill {
        /// Destination.
        destination_gpu_va: u64,
        /// Size in bytes.
        bytes: u64,
        /// The value that is repeated.
        value: u32,
        /// Buffer for the commands.
        buffer: &'a PagingBuffer,
    },
    /// Copies bytes at physical addresses, for a driver before WDDM 2.0. With 0 bytes as
    /// [`PagingOperation::VirtualTransfer`].
    #[doc(alias = "DXGK_OPERATION_TRANSFER")]
    Transfer {
        /// Source.
        source: PhysicalAddress,
        /// Destination.
        destination: PhysicalAddress,
        /// Size in bytes; a page or less, or whole pages.
        bytes: u64,
        /// Buffer for the commands.
        buffer: &'a PagingBuffer,
    },
    /// Fills bytes at a physical address with a value, for a driver before WDDM 2.0.
    #[doc(alias = "DXGK_OPERATION_FILL")]
    Fill {
        /// Destination.
        destination: PhysicalAddress,
        /// Size in bytes.
        bytes: u64,
        /// The value that is repeated.
        value: u32,
        /// Buffer for the commands.
        buffer: &'a PagingBuffer,
    },
    /// DXGK_BUILDPAGINGBUFFER_INITCONTEXTRESOURCE: initialises a context allocation, before any
    /// packet of its context is submitted. The address is one of the kernel's paging process.
    #[doc(alias = "DXGK_OPERATION_INIT_CONTEXT_RESOURCE")]
    InitContextResource {
        /// The kernel's handle that DxgkCbCreateContextAllocation returned.
        allocation: OsHandle,
        /// Its address.
        destination_gpu_va: u64,
        /// Size in bytes.
        bytes: u64,
        /// Buffer for the commands.
        buffer: &'a PagingBuffer,
    },
    /// DXGK_BUILDPAGINGBUFFER_NOTIFY_FENCE_RESIDENCY: reports the new addresses of these fences,
    /// and the first address of a fence in local memory.
    #[doc(alias = "NOTIFY_FENCE_RESIDENCY")]
    NotifyFenceResidency(&'a [FenceResidency<'a>]),
}

impl<'a> PagingOperation<'a> {
    /// Returns the bytes of an operation with commands, and the buffer for them.
    pub fn commands(&self) -> Option<(u64, &'a PagingBuffer)> {
        match *self {
            PagingOperation::VirtualTransfer { bytes, buffer, .. }
            | PagingOperation::VirtualFill { bytes, buffer, .. }
            | PagingOperation::Transfer { bytes, buffer, .. }
            | PagingOperation::Fill { bytes, buffer, .. }
            | PagingOperation::InitContextResource { bytes, buffer, .. } => Some((bytes, buffer)),
            PagingOperation::HoldEngines
            | PagingOperation::ReleaseEngines
            | PagingOperation::TransferFenceValues { .. }
            | PagingOperation::NotifyFenceResidency(_) => None,
        }
    }
}

/// Addresses of a fence's values.
#[derive(Clone, Copy, Debug)]
pub struct FenceResidency<'a> {
    /// The driver's handle of the fence.
    pub fence: DriverHandle,
    /// Bus address of CurrentValue.
    pub current_value: PhysicalAddress,
    /// Bus address of MonitoredValue.
    pub monitored_value: PhysicalAddress,
    /// Kernel CPU address of CurrentValue, for the duration of the call, if the CPU reaches it.
    pub current_value_cpu: Option<&'a FenceCell>,
    /// Kernel CPU address of MonitoredValue, for the duration of the call, if the CPU reaches it.
    pub monitored_value_cpu: Option<&'a Word>,
}
