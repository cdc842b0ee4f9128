//! What the driver calls back: [`Callbacks`], and what else it gets at start.

use crate::doorbell::DisconnectReason;
use crate::feature::FeatureInterface;
use crate::interrupt::InterruptData;
use crate::preemption::{ContextAllocation, CreateContextAllocation};
use crate::table::callback_table;
use crate::timeout::HwContextLoss;
use crate::{Dirql, Dispatch, OsHandle, Passive, Status};
use std::sync::Arc;
use tidegate_platform::PhysicalMemory;

/// What the kernel gives a driver at start (DXGKRNL_INTERFACE).
#[derive(Clone)]
pub struct StartInfo {
    /// The driver's way back into the kernel.
    pub callbacks: Arc<dyn Callbacks>,
    /// What the kernel has enabled: the service DxgkServicesFeature, which a driver may use from
    /// StartDevice on.
    pub features: Arc<dyn FeatureInterface>,
    /// System memory, for the driver's own rings.
    pub system_memory: PhysicalMemory,
}

/// The kernel's interrupt dispatch, as the bus calls it.
pub trait InterruptService: Send + Sync {
    /// The line went up.
    fn raise(&self);
    /// The raising agent's turn is over.
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

    /// Lets the scheduler take what was reported. Called from the DPC.
    "DxgkCbNotifyDpc"
    fn notify_dpc(&self, level: &Dispatch);

    // spec: UMS-068
    /// Disconnects a doorbell from a queue that the driver victimises. Only after it returns may
    /// the driver treat the physical doorbell as free. INVALID_PARAMETER when the kernel knows no
    /// such doorbell for that queue; success in every other case, also if it is disconnected
    /// already.
    "DxgkCbDisconnectDoorbell"
    fn disconnect_doorbell(
        &self, level: &Passive, hw_queue: OsHandle, doorbell: OsHandle, reason: DisconnectReason
    ) -> Result<(), Status>;

    /// Allocates memory for the state of a context, or of a device for all its contexts. The kernel
    /// keeps its content over eviction and moves; its first content is built by
    /// DxgkDdiBuildPagingBuffer. Memory of a device has its content when the call returns, so the
    /// call waits for the GPU. It must not be made from a reset or a change of power, nor from
    /// DxgkDdiCreateDevice, where the kernel does not know the device yet.
    "DxgkCbCreateContextAllocation"
    fn create_context_allocation(&self, level: &Passive, args: CreateContextAllocation)
        -> Result<ContextAllocation, Status>;

    /// Frees a context allocation. INVALID_HANDLE when there is none.
    // spec: PRE-014
    "DxgkCbDestroyContextAllocation"
    fn destroy_context_allocation(&self, level: &Passive, allocation: OsHandle)
        -> Result<(), Status>;

    /// Reports what a reset did to a context. Called from [`crate::HwQueueDdi::reset_hw_engine`].
    "DxgkCbInvalidateHwContext"
    fn invalidate_hw_context(&self, level: &Passive, context: OsHandle, loss: HwContextLoss)
        -> Result<(), Status>;
}
}
