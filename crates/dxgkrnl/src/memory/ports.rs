//! What memory needs of the layers above. Each trait is implemented there and attached at
//! composition ([`super::Memory`] has the ports).
//!
//! Invariant: no lock of `memory` is held over a call.

use super::address_space::AddressSpace;
use super::use_mark::UseMark;
use std::any::Any;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::{Irql, OsHandle, Passive};
use tidegate_platform::Event;
use tidegate_vidmm::{AllocationId, FencePageId};

/// The device that owns an allocation. It lives as long as the allocation.
pub(crate) trait OwningDevice: Send + Sync {
    /// Its handle.
    fn os_handle(&self) -> OsHandle;
}

/// Devices and contexts, as far as they use memory.
pub(crate) trait EngineWork: Send + Sync {
    /// Marks all work that the device has queued. `None` when it is complete; else `over` is set
    /// when it is.
    fn mark_last_use(
        self: Arc<Self>,
        level: &Passive,
        device: OsHandle,
        over: &Event,
    ) -> Option<UseMark>;

    /// A context that runs paging operations before the packets of all others.
    fn open_paging_context(
        self: Arc<Self>,
        level: &Passive,
        space: &Arc<AddressSpace>,
    ) -> Result<Arc<dyn PagingPackets>, Status>;

    /// A device of a process that is not being destroyed.
    fn live_device(&self, device: OsHandle) -> Option<Arc<dyn OwningDevice>>;
}

/// What holds the packets of contexts while their save areas change.
pub(crate) trait ContextHolds: Send + Sync {
    /// Holds a context until [`ContextHolds::release_initialised`]: its save area has no content.
    fn hold_uninitialised(&self, context: OsHandle);

    /// A save area of the context has its initial content.
    fn release_initialised(&self, level: &Passive, context: OsHandle);

    /// Holds contexts whose save areas are to move. Returns the areas whose context has no packet
    /// on an engine. When that changes, [`super::Memory::wake_pager`] is called.
    fn hold_for_move(&self, areas: Vec<(AllocationId, OsHandle)>) -> Vec<AllocationId>;

    /// The save areas of these contexts have moved, or stay.
    fn release_moved(&self, level: &Passive, contexts: &[OsHandle]);

    /// The same during a reset: nothing is submitted before its end.
    fn release_moved_in_reset(&self, contexts: &[OsHandle]);

    /// Drops `area` once no packet of the context is on an engine.
    fn drop_when_idle(&self, context: OsHandle, area: Arc<dyn Any + Send + Sync>);
}

/// The memory manager's own context.
pub(crate) trait PagingPackets: Send + Sync {
    /// Its handle.
    fn os_handle(&self) -> OsHandle;

    /// Queues commands at a GPU address, of so many bytes. `done` is set when they are complete, or
    /// were given up.
    fn submit(&self, level: &Passive, commands: (u64, u32), done: &Event);

    /// Gives up what is queued.
    fn give_up(&self, level: Irql<'_>);

    /// Whether its device is lost.
    fn is_lost(&self) -> bool;
}

/// The fence of a paging queue.
pub(crate) trait PagingFence: Send + Sync {
    /// All operations up to `value` are over.
    fn signal(self: Arc<Self>, level: Irql<'_>, value: u64);
}

/// Local memory, as what stands in it knows it.
pub(crate) trait LocalMemoryMembers: Send + Sync {
    /// An allocation has ended.
    fn remove_allocation(&self, id: AllocationId);

    /// A page of fence values has ended.
    fn remove_fence_page(&self, id: FencePageId);
}
