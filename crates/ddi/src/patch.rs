//! Arguments of packets with physical addresses: allocation lists, commands, patch locations, and
//! offsets at which the kernel may split a buffer.

use crate::memory::PagingBuffer;
use crate::{DriverHandle, EngineId, SubmitCommandFlags};
use std::cell::RefCell;
use tidegate_platform::{Bulk, PhysicalAddress};

/// D3DDDI_PATCHLOCATIONLIST. From `split_offset` on, the buffer uses an allocation in a slot, or no
/// longer uses the slot. A binding lasts until the next entry for its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchLocation {
    /// Index into the allocation list; `None` unbinds the slot.
    pub allocation: Option<u32>,
    /// The row of the binding table.
    pub slot_id: u32,
    /// DriverId: a number that only the driver reads.
    pub driver_id: u32,
    /// Offset in the buffer of the patched address, in bytes; unused for `None`.
    pub patch_offset: u32,
    /// Offset in the allocation, in bytes.
    pub allocation_offset: u64,
    /// The part of the buffer before this offset, in bytes, runs without the allocation. Rises
    /// strictly from entry to entry.
    pub split_offset: u32,
}

/// DXGK_ALLOCATIONLIST: an allocation that the commands may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderAllocation {
    /// The address by which commands name its first byte.
    pub gpu_va: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// WriteOperation: whether the commands may store to it.
    pub write: bool,
    /// hDeviceSpecificAllocation; `None` from a driver that opens no allocations.
    pub opened: Option<DriverHandle>,
}

/// DXGKARG_RENDER: a DMA buffer is made from a copy of the commands of a process.
#[derive(Clone, Copy, Debug)]
pub struct Render<'a> {
    /// The driver's context.
    pub context: DriverHandle,
    /// The commands. Untrusted.
    pub commands: &'a [u8],
    /// The allocations that they may use.
    pub allocations: &'a [RenderAllocation],
    /// Destination of the DMA buffer.
    pub dma_buffer: &'a PagingBuffer,
    /// pDmaBufferPrivateData: memory that the driver sets here, if it keeps private data for the
    /// buffer. The kernel keeps it as long as the buffer.
    pub private_data: &'a RefCell<Option<Bulk>>,
}

/// DXGKARG_PATCH: patches the part of a DMA buffer that is submitted next.
#[derive(Clone, Copy, Debug)]
pub struct Patch<'a> {
    /// The driver's context.
    pub context: DriverHandle,
    /// The whole buffer, kernel CPU address.
    pub dma_buffer: &'a Bulk,
    /// DmaBufferPhysicalAddress: start of the whole buffer.
    pub dma_buffer_at: PhysicalAddress,
    /// The buffer's private data.
    pub private_data: Option<&'a Bulk>,
    /// The submission that needs the addresses.
    pub submission_fence_id: u32,
    /// First byte of the part.
    pub start_offset: u32,
    /// First byte after the part.
    pub end_offset: u32,
    /// The whole patch list. An entry before the part may bind an operand in the part.
    pub locations: &'a [PatchLocation],
    /// Address of each allocation of the list; `None` if it is not paged in.
    pub allocations: &'a [Option<PhysicalAddress>],
    /// hDeviceSpecificAllocation of each allocation of the list; `None` from a driver that opens no
    /// allocations.
    pub opened: &'a [Option<DriverHandle>],
}

/// DXGKARG_SUBMITCOMMAND: one DMA packet with physical addresses, or a part of one.
#[derive(Clone, Copy, Debug)]
pub struct SubmitCommandPhysical {
    /// The driver's context.
    pub context: DriverHandle,
    /// The engine: NodeOrdinal and EngineOrdinal.
    pub engine: EngineId,
    /// DmaBufferPhysicalAddress: start of the whole buffer.
    pub dma_buffer: PhysicalAddress,
    /// DmaBufferSubmissionStartOffset
    pub start_offset: u32,
    /// DmaBufferSubmissionEndOffset
    pub end_offset: u32,
    /// pDmaBufferPrivateData: kernel CPU address of the buffer's private data; 0 for none.
    pub private_data_at: u64,
    /// Returned by the completion interrupt.
    pub submission_fence_id: u32,
    /// Flags of the submission.
    pub flags: SubmitCommandFlags,
}
