//! Owns what everybody who stands between a driver and the kernel's callbacks has in common: each
//! callback is passed on. A driver around a driver gives its inner one such callbacks, and says
//! only what they do differently.

use crate::doorbell::DisconnectReason;
use crate::driver::Callbacks;
use crate::interrupt::InterruptData;
use crate::preemption::{ContextAllocation, CreateContextAllocation};
use crate::timeout::HwContextLoss;
use crate::{Dirql, Dispatch, OsHandle, Passive, Status};

/// Callbacks that stand in front of others.
pub trait CallbackLayer: Send + Sync {
    /// The callbacks behind them.
    fn inner(&self) -> &dyn Callbacks;

    /// See [`Callbacks::notify_interrupt`].
    fn notify_interrupt(&self, level: &Dirql<'_>, data: InterruptData) {
        self.inner().notify_interrupt(level, data);
    }

    /// See [`Callbacks::queue_dpc`].
    fn queue_dpc(&self, level: &Dirql<'_>) {
        self.inner().queue_dpc(level);
    }

    /// See [`Callbacks::notify_dpc`].
    fn notify_dpc(&self, level: &Dispatch) {
        self.inner().notify_dpc(level);
    }

    /// See [`Callbacks::disconnect_doorbell`].
    fn disconnect_doorbell(
        &self,
        level: &Passive,
        hw_queue: OsHandle,
        doorbell: OsHandle,
        reason: DisconnectReason,
    ) -> Result<(), Status> {
        self.inner().disconnect_doorbell(level, hw_queue, doorbell, reason)
    }

    /// See [`Callbacks::create_context_allocation`].
    fn create_context_allocation(
        &self,
        level: &Passive,
        args: CreateContextAllocation,
    ) -> Result<ContextAllocation, Status> {
        self.inner().create_context_allocation(level, args)
    }

    /// See [`Callbacks::destroy_context_allocation`].
    fn destroy_context_allocation(
        &self,
        level: &Passive,
        allocation: OsHandle,
    ) -> Result<(), Status> {
        self.inner().destroy_context_allocation(level, allocation)
    }

    /// See [`Callbacks::invalidate_hw_context`].
    fn invalidate_hw_context(
        &self,
        level: &Passive,
        context: OsHandle,
        loss: HwContextLoss,
    ) -> Result<(), Status> {
        self.inner().invalidate_hw_context(level, context, loss)
    }
}

impl<L: CallbackLayer> Callbacks for L {
    fn notify_interrupt(&self, level: &Dirql<'_>, data: InterruptData) {
        CallbackLayer::notify_interrupt(self, level, data);
    }

    fn queue_dpc(&self, level: &Dirql<'_>) {
        CallbackLayer::queue_dpc(self, level);
    }

    fn notify_dpc(&self, level: &Dispatch) {
        CallbackLayer::notify_dpc(self, level);
    }

    fn disconnect_doorbell(
        &self,
        level: &Passive,
        hw_queue: OsHandle,
        doorbell: OsHandle,
        reason: DisconnectReason,
    ) -> Result<(), Status> {
        CallbackLayer::disconnect_doorbell(self, level, hw_queue, doorbell, reason)
    }

    fn create_context_allocation(
        &self,
        level: &Passive,
        args: CreateContextAllocation,
    ) -> Result<ContextAllocation, Status> {
        CallbackLayer::create_context_allocation(self, level, args)
    }

    fn destroy_context_allocation(
        &self,
        level: &Passive,
        allocation: OsHandle,
    ) -> Result<(), Status> {
        CallbackLayer::destroy_context_allocation(self, level, allocation)
    }

    fn invalidate_hw_context(
        &self,
        level: &Passive,
        context: OsHandle,
        loss: HwContextLoss,
    ) -> Result<(), Status> {
        CallbackLayer::invalidate_hw_context(self, level, context, loss)
    }
}
