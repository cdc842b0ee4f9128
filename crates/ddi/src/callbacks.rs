//! The kernel as the driver sees it: [`Callbacks`], and what the driver receives at start.

use crate::doorbell::DisconnectReason;
use crate::feature::FeatureInterface;
use crate::interrupt::InterruptData;
use crate::preemption::{ContextAllocation, CreateContextAllocation};
use crate::table::callback_table;
use crate::timeout::HwContextLoss;
use crate::{Dirql, Dispatch, OsHandle, Passive, Status};
use std::sync::Arc;
use tidegate_platform::PhysicalMemory;

/// What a driver receives at start (DXGKRNL_INTERFACE).
#[derive(Clone)]
pub struct StartInfo {
    /// The callbacks.
    pub callbacks: Arc<dyn Callbacks>,
    /// The enabled features: the service DxgkServicesFeature. A driver may use it from StartDevice
    /// on.
    pub features: Arc<dyn FeatureInterface>,
    /// System memory, for the driver's own rings.
    pub system_memory: PhysicalMemory,
}

/// The kernel's interrupt dispatch, as the bus calls it.
pub trait InterruptService: Send + Sync {
    /// The line went up.
    fn raise(&self);
    /// The raising agent's turn ended.
    fn turn_ended(&self);
}

callback_table! {
/// The kernel, as a driver calls it.
trait Callbacks, CallbackLayer {
    /// Reports one interrupt's data.
    "DxgkCbNotifyInterrupt"
    fn notify_interrupt(&self, level: &Dirql<'_>, data: InterruptData);

    /// Requests the DPC.
    "DxgkCbQueueDpc"
    fn queue_dpc(&self, level: &Dirql<'_>);

    /// Lets the scheduler process the reports. Called from the DPC.
    "DxgkCbNotifyDpc"
    fn notify_dpc(&self, level: &Dispatch);

    // spec: UMS-068
    /// Disconnects the doorbell of a queue that the driver victimises. The driver may reuse the
    /// physical doorbell only after this returns. INVALID_PARAMETER when the queue has no such
    /// doorbell. Succeeds for a doorbell that is already disconnected.
    "DxgkCbDisconnectDoorbell"
    fn disconnect_doorbell(
        &self, level: &Passive, hw_queue: OsHandle, doorbell: OsHandle, reason: DisconnectReason
    ) -> Result<(), Status>;

    /// Allocates memory for the state of a context, or of a device for all its contexts. Its
    /// content survives eviction and moves. DxgkDdiBuildPagingBuffer builds the first content.
    /// Memory of a device has its content when the call returns, so the call waits for the GPU. It
    /// must not be made from a reset, from a change of power, or from DxgkDdiCreateDevice, because
    /// the device does not exist in the kernel yet.
    "DxgkCbCreateContextAllocation"
    fn create_context_allocation(&self, level: &Passive, args: CreateContextAllocation)
        -> Result<ContextAllocation, Status>;

    /// Frees a context allocation. INVALID_HANDLE when there is none.
    // spec: PRE-014
    "DxgkCbDestroyContextAllocation"
    fn destroy_context_allocation(&self, level: &Passive, allocation: OsHandle)
        -> Result<(), Status>;

    /// Reports that a context lost its work in a reset. Called from
    /// [`crate::HwQueueDdi::reset_hw_engine`].
    "DxgkCbInvalidateHwContext"
    fn invalidate_hw_context(&self, level: &Passive, context: OsHandle, loss: HwContextLoss)
        -> Result<(), Status>;
}
}
