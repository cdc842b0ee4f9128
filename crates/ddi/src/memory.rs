//! Owns the arguments by which the kernel's memory manager has page tables written in the driver's
//! format, asks where fence storage may stand, and moves it.
//!
//! Segments are named by numbers from 1 on, in the order of the driver's report; in a set, bit 0 is
//! segment 1.

use crate::{DriverHandle, NativeFenceType, OsHandle, Status};
use std::cell::Cell;
use tidegate_d3dukmdt::FenceCell;
use tidegate_platform::{Bulk, PhysicalAddress, PhysicalMemory, Word};

/// A segment of local memory (DXGK_SEGMENTDESCRIPTOR4).
#[derive(Clone)]
pub struct Segment {
    /// The memory.
    pub memory: PhysicalMemory,
    /// The physical adapter that it belongs to; linked ones reach it too.
    pub physical_adapter: u32,
    /// Whether the CPU reaches it through the bus. Where it does not, the kernel gives out
    /// addresses and looks at nothing.
    pub cpu_visible: bool,
    /// How many bytes it has.
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
        /// Whether fence values stand in it, with their histories behind it on the bus (see
        /// `fence_cell`): the hardware keeps them, if its caps say so.
        fence_values: bool,
        /// CacheCoherent: accesses look into the CPUs' caches.
        cache_coherent: bool,
    },
}

/// DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE, done by the CPU at once.
#[derive(Debug)]
pub struct UpdatePageTable<'a> {
    /// The address space.
    pub address_space: u32,
    /// Whose page tables: those of this physical adapter.
    pub physical_adapter: u32,
    /// The table, kernel CPU address.
    pub table: &'a Bulk,
    /// Which level the table is of.
    pub level: u32,
    /// First entry to write.
    pub start_index: u64,
    /// The entries.
    pub entries: &'a [PageTableEntry],
}

/// D3DKMDT_STANDARDALLOCATION_TYPE: allocations that the kernel makes for itself and the driver
/// knows the place of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum StandardAllocationType {
    /// D3DKMDT_STANDARDALLOCATION_FENCESTORAGE
    // spec: NF-110
    FenceStorage = 6,
}

/// Which of a fence's two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum FenceStorageValueType {
    /// CurrentValue
    CurrentValue = 0,
    /// MonitoredValue
    MonitoredValue = 1,
}

/// D3DKMDT_FENCESTORAGESURFACEDATA, what goes in.
// spec: NF-111
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceStorageSurfaceData<'a> {
    /// Which of linked adapters.
    pub physical_adapter_index: u32,
    /// Which value is to be stored.
    pub value: FenceStorageValueType,
    /// Of which kind of fences.
    pub fence_type: NativeFenceType,
    /// Private data; a driver must do without, since storage serves many fences.
    pub private_driver_data: &'a [u8],
}

/// DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandardAllocation<'a> {
    /// What is to be made.
    pub allocation_type: StandardAllocationType,
    /// Its description.
    pub surface: FenceStorageSurfaceData<'a>,
}

/// What a driver answers about a standard allocation (of DXGK_ALLOCATIONINFO).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationSegments {
    /// Segments in which it may stand and be written; at least one.
    pub supported_write_segment_set: u32,
    /// Segments to which it may be evicted instead of to system memory; 0 for none.
    pub eviction_segment_set: u32,
    /// The segment to begin with; 0 leaves the choice to the kernel.
    pub preferred_segment: u32,
}

/// A DMA buffer of the kernel's, into which a driver writes the commands of a paging operation.
#[derive(Debug)]
pub struct PagingBuffer {
    memory: Bulk,
    used: Cell<u32>,
}

impl PagingBuffer {
    /// An empty one over `memory`.
    pub fn new(memory: Bulk) -> PagingBuffer {
        PagingBuffer { memory, used: Cell::new(0) }
    }

    /// Appends commands.
    ///
    /// # Errors
    /// GRAPHICS_INSUFFICIENT_DMA_BUFFER.
    pub fn append(&self, commands: &[u8]) -> Result<(), Status> {
        let at = self.used.get();
        let full = Status::GRAPHICS_INSUFFICIENT_DMA_BUFFER;
        let end = u32::try_from(commands.len())
            .ok()
            .and_then(|bytes| at.checked_add(bytes))
            .ok_or(full)?;
        self.memory.write(u64::from(at), commands).map_err(|_| full)?;
        self.used.set(end);
        Ok(())
    }

    /// How many bytes were written.
    pub fn used(&self) -> u32 {
        self.used.get()
    }
}

/// DXGKARG_BUILDPAGINGBUFFER. An operation with a buffer is done when the kernel has had the
/// commands in it executed; any other when the call returns.
#[derive(Clone, Copy, Debug)]
pub enum PagingOperation<'a> {
    /// No engine of the adapter begins a turn from now on, and none is in one. Ours; it stands for
    /// the suspension of every context that may use what is moved. Counts: as many releases end it.
    HoldEngines,
    /// The engines go on, and look at every wait anew.
    ReleaseEngines,
    /// A page of fence values that no CPU reaches goes from one place to another, with what
    /// hardware knows of it: histories and the queues that wait. Only while engines are held.
    TransferFenceValues {
        /// Where it stands.
        from: PhysicalAddress,
        /// Where it will stand; as large.
        to: PhysicalAddress,
    },
    /// DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL: copies bytes. Addresses are of the kernel's paging
    /// process. Of 0 bytes, with nothing to be written to the buffer: the adapter was reset, and
    /// what an allocation held in the device's memory is lost.
    #[doc(alias = "DXGK_OPERATION_VIRTUAL_TRANSFER")]
    VirtualTransfer {
        /// From here.
        source_gpu_va: u64,
        /// To here.
        destination_gpu_va: u64,
        /// How many; whole pages or less.
        bytes: u64,
        /// Where the commands go.
        buffer: &'a PagingBuffer,
    },
    /// DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL: fills bytes with a value.
    #[doc(alias = "DXGK_OPERATION_VIRTUAL_FILL")]
    VirtualFill {
        /// From here on.
        destination_gpu_va: u64,
        /// How many.
        bytes: u64,
        /// With this, again and again.
        value: u32,
        /// Where the commands go.
        buffer: &'a PagingBuffer,
    },
    /// DXGK_BUILDPAGINGBUFFER_INITCONTEXTRESOURCE: gives a context allocation its first content,
    /// before any packet of its context is submitted. The address is of the kernel's paging
    /// process.
    #[doc(alias = "DXGK_OPERATION_INIT_CONTEXT_RESOURCE")]
    InitContextResource {
        /// Which: the kernel's handle, as DxgkCbCreateContextAllocation returned it.
        allocation: OsHandle,
        /// Where it begins.
        destination_gpu_va: u64,
        /// How many bytes it has.
        bytes: u64,
        /// Where the commands go.
        buffer: &'a PagingBuffer,
    },
    /// DXGK_BUILDPAGINGBUFFER_NOTIFY_FENCE_RESIDENCY: these fences stand elsewhere now. A fence in
    /// local memory is told of when it is made, too.
    #[doc(alias = "NOTIFY_FENCE_RESIDENCY")]
    NotifyFenceResidency(&'a [FenceResidency<'a>]),
}

/// Where a fence's values stand.
#[derive(Clone, Copy, Debug)]
pub struct FenceResidency<'a> {
    /// The driver's handle of the fence.
    pub fence: DriverHandle,
    /// CurrentValue on the bus.
    pub current_value: PhysicalAddress,
    /// MonitoredValue on the bus.
    pub monitored_value: PhysicalAddress,
    /// Kernel CPU address of CurrentValue, for the duration of the call, if there is one.
    pub current_value_cpu: Option<&'a FenceCell>,
    /// Kernel CPU address of MonitoredValue, for the duration of the call, if there is one.
    pub monitored_value_cpu: Option<&'a Word>,
}
