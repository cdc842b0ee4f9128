//! The kernel callbacks that a driver calls (DxgkCb*).
//!
//! Invariant: a callback takes the token of its level and passes it on.

use super::interrupts::Interrupts;
use super::{dpc, isr};
use crate::stats::Count;
use std::sync::{Arc, OnceLock, Weak};
use tidegate_ddi::doorbell::DisconnectReason;
use tidegate_ddi::{
    Callbacks, ContextAllocation, CreateContextAllocation, Dirql, Dispatch, HwContextLoss,
    InterruptData, OsHandle, Passive, Status,
};
use tidegate_platform::planted;

/// The kernel callbacks of one adapter. Created before the adapter, which is attached
/// immediately afterwards.
pub(crate) struct KernelCallbacks {
    interrupts: OnceLock<Weak<Interrupts>>,
}

impl KernelCallbacks {
    pub(crate) fn new() -> KernelCallbacks {
        KernelCallbacks { interrupts: OnceLock::new() }
    }

    pub(crate) fn attach(&self, interrupts: &Arc<Interrupts>) {
        let first = self.interrupts.set(Arc::downgrade(interrupts)).is_ok();
        debug_assert!(first, "callbacks serve one adapter");
    }

    /// Returns `None` before the adapter exists, when a driver has nothing to report.
    fn interrupts(&self) -> Option<Arc<Interrupts>> {
        self.interrupts.get().and_then(Weak::upgrade)
    }
}

impl Callbacks for KernelCallbacks {
    fn notify_interrupt(&self, level: &Dirql<'_>, data: InterruptData) {
        if let Some(interrupts) = self.interrupts()
            && let Some(reported) = isr::resolve(&interrupts.objects, data)
        {
            let engine = reported.engine_of_packets();
            {
                let mut reports = interrupts.dpc.reported.lock();
                if engine.is_none_or(|engine| !reports.ignored.contains(&engine)) {
                    reports.push(&interrupts.port, reported);
                }
            }
            // The driver has forgotten to queue its DPC before, or to take reports in it.
            if interrupts.port.stats.get(Count::missed_dpcs) != 0 {
                self.queue_dpc(level);
            }
        }
    }

    // spec: PRE-168
    fn queue_dpc(&self, level: &Dirql<'_>) {
        if let Some(interrupts) = self.interrupts() {
            interrupts.dpc.wanted.exchange(1);
            if !level.is_interrupt() && !planted!(interrupts.port.platform, DPCOfACallIsLeft) {
                dpc::run_soon(&interrupts);
            }
        }
    }

    fn notify_dpc(&self, level: &Dispatch) {
        if let Some(interrupts) = self.interrupts() {
            dpc::at_its_level(level, |level| dpc::take_reported(&interrupts, level));
        }
    }

    fn disconnect_doorbell(
        &self,
        level: &Passive,
        hw_queue: OsHandle,
        doorbell: OsHandle,
        reason: DisconnectReason,
    ) -> Result<(), Status> {
        let interrupts = self.interrupts().ok_or(Status::DEVICE_REMOVED)?;
        interrupts.objects.doorbells.disconnected_by_driver(level, hw_queue, doorbell, reason)
    }

    fn create_context_allocation(
        &self,
        level: &Passive,
        args: CreateContextAllocation,
    ) -> Result<ContextAllocation, Status> {
        let interrupts = self.interrupts().ok_or(Status::DEVICE_REMOVED)?;
        interrupts.objects.memory.create_context_allocation(level, args)
    }

    fn destroy_context_allocation(
        &self,
        _level: &Passive,
        allocation: OsHandle,
    ) -> Result<(), Status> {
        let interrupts = self.interrupts().ok_or(Status::DEVICE_REMOVED)?;
        interrupts.objects.memory.destroy_context_allocation(allocation)
    }

    fn invalidate_hw_context(
        &self,
        _level: &Passive,
        context: OsHandle,
        loss: HwContextLoss,
    ) -> Result<(), Status> {
        let interrupts = self.interrupts().ok_or(Status::DEVICE_REMOVED)?;
        interrupts.recovery.invalidated(context, loss)
    }
}
