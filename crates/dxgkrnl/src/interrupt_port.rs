//! The adapter as interrupts see it.

use crate::adapter::Adapter;
use crate::interrupt::InterruptPort;
use crate::object::device::Device;
use crate::power;
use crate::recovery::detect::report_finding;
use crate::recovery::{TimeoutCause, device_loss};
use std::sync::Arc;
use tidegate_calls::DeviceState;
use tidegate_ddi::{EngineId, HwContextLoss, OsHandle, Status};

impl InterruptPort for Adapter {
    fn engine_idle(self: Arc<Adapter>, engine: EngineId) {
        let port = self.port.clone();
        port.timer.queue_work(Box::new(move |level| power::engine_is_idle(&self, level, engine)));
    }

    fn engine_hung(self: Arc<Adapter>, engine: EngineId) {
        report_finding(&self, TimeoutCause::EngineReportedHung { engine });
    }

    fn engine_faulted(self: Arc<Adapter>, engine: EngineId) {
        report_finding(&self, TimeoutCause::EngineFaulted { engine });
    }

    fn adapter_faulted(self: Arc<Adapter>, engine: EngineId) {
        let cause = TimeoutCause::AdapterFaulted { engine };
        let reason = DeviceState::Reset(cause.to_string());
        device_loss::lose_devices_later(&self, self.devices_of_processes(), &reason);
        report_finding(&self, cause);
    }

    fn devices_faulted(self: Arc<Adapter>, devices: Vec<Arc<Device>>, reason: DeviceState) {
        device_loss::lose_devices_later(&self, devices, &reason);
    }

    fn hw_context_invalidated(&self, context: OsHandle, loss: HwContextLoss) -> Result<(), Status> {
        self.recovery.invalidated(self, context, loss)
    }
}
