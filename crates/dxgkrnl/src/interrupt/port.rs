//! What the rooms above do about a report of the driver. The adapter implements it; see
//! `interrupt_port`.

use crate::object::device::Device;
use std::sync::Arc;
use tidegate_calls::DeviceState;
use tidegate_ddi::{EngineId, HwContextLoss, OsHandle, Status};

/// The rooms above. Every method may be called at DISPATCH level.
pub(crate) trait InterruptPort: Send + Sync {
    /// The driver offers an idle engine for F1.
    fn engine_idle(self: Arc<Self>, engine: EngineId);

    /// The driver says that an engine hangs.
    fn engine_hung(self: Arc<Self>, engine: EngineId);

    /// A fault after which the driver wants the engine reset.
    fn engine_faulted(self: Arc<Self>, engine: EngineId);

    /// A fault on an engine after which the driver wants the adapter reset. The devices of all
    /// processes are lost.
    fn adapter_faulted(self: Arc<Self>, engine: EngineId);

    /// Devices are in error from now on.
    fn devices_faulted(self: Arc<Self>, devices: Vec<Arc<Device>>, reason: DeviceState);

    /// What a reset did to a hardware context.
    ///
    /// # Errors
    /// INVALID_PARAMETER for an unknown context, and outside of a reset.
    fn hw_context_invalidated(&self, context: OsHandle, loss: HwContextLoss) -> Result<(), Status>;
}
