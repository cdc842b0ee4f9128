//! The kernel as the driver calls it. Exists before the adapter, which is attached right after.
//!
//! Levels: a callback demands the token of its level, and hands it on.

use super::port::InterruptPort;
use super::{dpc, isr};
use crate::adapter::Adapter;
use std::sync::{Arc, OnceLock, Weak};
use tidegate_ddi::doorbell::DisconnectReason;
use tidegate_ddi::{
    Callbacks, ContextAllocation, CreateContextAllocation, Dirql, Dispatch, HwContextLoss,
    InterruptData, OsHandle, Passive, Status,
};

/// The kernel as the driver calls it. Made before the adapter, attached to it right after.
pub(crate) struct KernelCallbacks {
    adapter: OnceLock<Weak<Adapter>>,
}

impl KernelCallbacks {
    pub(crate) fn new() -> KernelCallbacks {
        KernelCallbacks { adapter: OnceLock::new() }
    }

    pub(crate) fn attach(&self, adapter: &Arc<Adapter>) {
        let first = self.adapter.set(Arc::downgrade(adapter)).is_ok();
        debug_assert!(first, "callbacks serve one adapter");
    }

    /// `None` before the adapter exists: a driver has nothing to report then.
    fn adapter(&self) -> Option<Arc<Adapter>> {
        self.adapter.get().and_then(Weak::upgrade)
    }
}

impl Callbacks for KernelCallbacks {
    fn notify_interrupt(&self, _level: &Dirql<'_>, data: InterruptData) {
        if let Some(adapter) = self.adapter()
            && let Some(reported) = isr::resolve(&adapter, data)
        {
            let number =
                reported.engine_of_packets().and_then(|engine| adapter.caps.engine_number(engine));
            let mut reports = adapter.dpc.reported.lock();
            if number.is_none_or(|n| reports.ignored >> n & 1 == 0) {
                if reports.list.is_empty() {
                    reports.since = Some((adapter.platform.now(), adapter.stats().dpcs));
                }
                reports.list.push(reported);
            }
        }
    }

    fn queue_dpc(&self, _level: &Dirql<'_>) {
        if let Some(adapter) = self.adapter() {
            adapter.dpc.wanted.exchange(1);
        }
    }

    fn notify_dpc(&self, level: &Dispatch) {
        if let Some(adapter) = self.adapter() {
            dpc::take_reported(&adapter, level);
        }
    }

    fn disconnect_doorbell(
        &self,
        level: &Passive,
        hw_queue: OsHandle,
        doorbell: OsHandle,
        reason: DisconnectReason,
    ) -> Result<(), Status> {
        let adapter = self.adapter().ok_or(Status::DEVICE_REMOVED)?;
        adapter.objects.doorbells.disconnected_by_driver(level, hw_queue, doorbell, reason)
    }

    fn create_context_allocation(
        &self,
        _level: &Passive,
        args: CreateContextAllocation,
    ) -> Result<ContextAllocation, Status> {
        let adapter = self.adapter().ok_or(Status::DEVICE_REMOVED)?;
        adapter.memory.create_context_allocation(args)
    }

    fn destroy_context_allocation(
        &self,
        _level: &Passive,
        allocation: OsHandle,
    ) -> Result<(), Status> {
        let adapter = self.adapter().ok_or(Status::DEVICE_REMOVED)?;
        adapter.memory.destroy_context_allocation(allocation)
    }

    fn invalidate_hw_context(
        &self,
        _level: &Passive,
        context: OsHandle,
        loss: HwContextLoss,
    ) -> Result<(), Status> {
        let adapter = self.adapter().ok_or(Status::DEVICE_REMOVED)?;
        adapter.hw_context_invalidated(context, loss)
    }
}
