//! Arguments of the scheduler's entries: preemption, cancellation, submission flags, and the save
//! areas of contexts.

use crate::engine::EngineId;
use crate::{DriverHandle, OsHandle};

/// DXGKARG_PREEMPTCOMMAND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreemptCommand {
    /// The engine that returns its packets.
    pub engine: EngineId,
    /// Returned by [`crate::InterruptData::DmaPreempted`]. From the same sequence as submission
    /// fence ids.
    pub preemption_fence_id: u32,
}

/// DXGKARG_CANCELCOMMAND: a packet of a device in error that never reached the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CancelCommand {
    /// The driver's context.
    pub context: DriverHandle,
    /// The engine of the packet.
    pub engine: EngineId,
    /// Process GPU address of its commands.
    pub dma_buffer_gpu_va: u64,
    /// Size in bytes.
    pub dma_buffer_bytes: u32,
}

bitflags::bitflags! {
    /// DXGK_SUBMITCOMMANDFLAGS.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SubmitCommandFlags: u32 {
        /// A paging packet of the memory manager.
        const PAGING = 1;
        /// A copy to the screen.
        const PRESENT = 1 << 1;
        /// A copy to a redirected surface.
        const REDIRECTED_PRESENT = 1 << 2;
        /// Nothing is drawn.
        const NULL_RENDERING = 1 << 3;
        /// A flip.
        const FLIP = 1 << 4;
        /// A flip that does not wait for the vertical sync.
        const FLIP_WITH_NO_WAIT = 1 << 5;
        /// No commands: the hardware switches to the context.
        const CONTEXT_SWITCH = 1 << 6;
        /// A resubmission after a preemption.
        // spec: PRE-032
        const RESUBMISSION = 1 << 7;
        /// It carries data of a virtual machine.
        const VIRTUAL_MACHINE_DATA = 1 << 8;
    }
}

/// DXGKARGCB_CREATECONTEXTALLOCATION: memory for the state of a context that is not on an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateContextAllocation {
    /// The allocation lives no longer than its owner.
    pub owner: ContextAllocationOwner,
    /// Size in bytes; a multiple of the page size.
    pub bytes: u64,
}

/// The owner of the state in a context allocation. The published structure has a handle of each
/// kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextAllocationOwner {
    /// One GPU context, by the kernel's handle.
    Context(OsHandle),
    /// A device, for all its contexts, by the kernel's handle.
    Device(OsHandle),
}

/// A created context allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextAllocation {
    /// The kernel's handle.
    pub os_handle: OsHandle,
    /// Its address in the system process's GPU address space. It stays when the memory manager
    /// moves the allocation.
    pub system_gpu_va: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: PRE-032
    #[test]
    fn submission_flags_have_their_published_bits() {
        assert_eq!(SubmitCommandFlags::PAGING.bits(), 1);
        assert_eq!(SubmitCommandFlags::CONTEXT_SWITCH.bits(), 1 << 6);
        assert_eq!(SubmitCommandFlags::RESUBMISSION.bits(), 1 << 7);
        assert_eq!(SubmitCommandFlags::all().bits(), 0x1FF);
    }
}
