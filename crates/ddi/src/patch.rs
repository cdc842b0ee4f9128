//! Owns the arguments of packets with physical addresses: what a process lists, what the driver
//! makes of its commands, where it patches addresses in, and where the kernel may split a buffer.

use crate::memory::PagingBuffer;
use crate::{DriverHandle, SubmitCommandFlags};
use tidegate_platform::{Bulk, PhysicalAddress};

/// D3DDDI_PATCHLOCATIONLIST: from `split_offset` on the buffer uses an allocation in a slot, or
/// does not use the slot any more. What was bound to a slot stays bound until the next entry for
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchLocation {
    /// Index into the allocation list; `None` unbinds the slot.
    pub allocation: Option<u32>,
    /// The row of the binding table.
    pub slot_id: u32,
    /// Where in the buffer the address is patched in, in bytes; without meaning for `None`.
    pub patch_offset: u32,
    /// Which byte of the allocation is meant.
    pub allocation_offset: u64,
    /// Up to here the buffer can run without the allocation, in bytes. Rises strictly from entry to
    /// entry.
    pub split_offset: u32,
}

/// DXGK_ALLOCATIONLIST: an allocation that the commands may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderAllocation {
    /// The address by which commands mean its first byte.
    pub gpu_va: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// WriteOperation: whether the commands may store to it.
    pub write: bool,
}

/// DXGKARG_RENDER: commands of a process, copied out of its reach, are to become a DMA buffer.
#[derive(Clone, Copy, Debug)]
pub struct Render<'a> {
    /// The driver's context.
    pub context: DriverHandle,
    /// The commands. Whatever a process wrote.
    pub commands: &'a [u8],
    /// What they may use, and nothing else.
    pub allocations: &'a [RenderAllocation],
    /// Where the DMA buffer goes.
    pub dma_buffer: &'a PagingBuffer,
}

/// DXGKARG_PATCH: addresses go into the part of a DMA buffer that is submitted next.
#[derive(Clone, Copy, Debug)]
pub struct Patch<'a> {
    /// The driver's context.
    pub context: DriverHandle,
    /// The whole buffer, kernel CPU address.
    pub dma_buffer: &'a Bulk,
    /// First byte of the part ...
    pub start_offset: u32,
    /// ... and the first behind it.
    pub end_offset: u32,
    /// The whole patch list. An operand in the part may be bound by an entry before it.
    pub locations: &'a [PatchLocation],
    /// Where each allocation of the list stands; `None` for one that is not paged in.
    pub allocations: &'a [Option<PhysicalAddress>],
}

/// DXGKARG_SUBMITCOMMAND: one DMA packet with physical addresses, or a part of one.
#[derive(Clone, Copy, Debug)]
pub struct SubmitCommandPhysical {
    /// The driver's context.
    pub context: DriverHandle,
    /// Which engine: its node.
    pub node_ordinal: u32,
    /// And its physical adapter.
    pub engine_ordinal: u32,
    /// DmaBufferPhysicalAddress: where the whole buffer begins.
    pub dma_buffer: PhysicalAddress,
    /// DmaBufferSubmissionStartOffset
    pub start_offset: u32,
    /// DmaBufferSubmissionEndOffset
    pub end_offset: u32,
    /// Comes back with the completion interrupt.
    pub submission_fence_id: u32,
    /// What is particular about it.
    pub flags: SubmitCommandFlags,
}
