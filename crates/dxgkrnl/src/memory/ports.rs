//! Ports of memory to the layers above, which implement each trait. Ports are attached at
//! composition ([`super::Memory`] holds them).
//!
//! Invariant: no lock of `memory` is held over a call.

use super::address_space::AddressSpace;
use super::use_mark::UseMark;
use std::any::Any;
use std::sync::Arc;
use tidegate_calls::Status;
use tidegate_ddi::{DriverHandle, Irql, OsHandle, Passive};
use tidegate_platform::Event;
use tidegate_vidmm::{AllocationId, FencePageId};
use tidegate_vidsch::CommandRange;

/// The device that owns an allocation. It lives as long as the allocation.
pub(crate) trait OwningDevice: Send + Sync {
    /// Its handle.
    fn os_handle(&self) -> OsHandle;

    /// The driver's handle.
    fn driver_handle(&self) -> DriverHandle;
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

/// Holds the packets of contexts while their save areas change.
pub(crate) trait ContextHolds: Send + Sync {
    /// Holds a context until [`ContextHolds::release_initialised`]: its save area has no content.
    fn hold_uninitialised(&self, context: OsHandle);

    /// A save area of the context has its initial content.
    fn release_initialised(&self, level: &Passive, context: OsHandle);

    /// Holds contexts whose save areas are to move. Returns the areas whose context has no packet
    /// on an engine. When that changes, [`super::Memory::wake_pager`] is called.
    fn hold_for_move(&self, areas: Vec<(AllocationId, OsHandle)>) -> Vec<AllocationId>;

    /// Releases contexts whose save areas have moved or will not move.
    fn release_moved(&self, level: &Passive, contexts: &[OsHandle]);

    /// Releases contexts during a reset, without submitting packets before its end.
    fn release_moved_in_reset(&self, contexts: &[OsHandle]);

    /// Drops `area` once no packet of the context is on an engine.
    fn drop_when_idle(&self, context: OsHandle, area: Arc<dyn Any + Send + Sync>);
}

/// The memory manager's own context.
pub(crate) trait PagingPackets: Send + Sync {
    /// Its handle.
    fn os_handle(&self) -> OsHandle;

    /// Queues commands: GPU address and bytes.
    fn submit(&self, level: &Passive, commands: CommandRange);

    /// Sets `done` when all queued commands are complete or abandoned.
    fn signal(&self, level: &Passive, done: &Event);

    /// Abandons queued commands.
    fn give_up(&self, level: Irql<'_>);

    /// Returns whether the context's device is lost.
    fn is_lost(&self) -> bool;
}

/// The fence of a paging queue.
pub(crate) trait PagingFence: Send + Sync {
    /// Signals that all operations up to `value` are over.
    fn signal(self: Arc<Self>, level: Irql<'_>, value: u64);
}

/// Local memory as seen by its members.
pub(crate) trait LocalMemoryMembers: Send + Sync {
    /// Removes an allocation that has ended.
    fn remove_allocation(&self, id: AllocationId);

    /// Removes a page of fence values that has ended.
    fn remove_fence_page(&self, id: FencePageId);
}
