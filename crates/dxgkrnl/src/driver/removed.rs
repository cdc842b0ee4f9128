//! The driver of an adapter after DxgkDdiStopDevice.
//!
//! Purpose: objects that outlive the adapter (fences of NT handles, calls that were in flight) end
//! without a call to a driver that has stopped. Every call is refused with DEVICE_REMOVED, and a
//! call that cannot fail does nothing. Power states succeed: a stopped device has none.

use std::sync::Arc;
use tidegate_ddi::{
    ComponentState, DdiCall, DevicePowerState, Driver, DriverLayer, EngineId, Entry, Irql, Passive,
    PowerAction, Status,
};

/// Stands in front of a driver that has stopped.
pub(super) struct RemovedDriver(pub(super) Arc<dyn Driver>);

impl DriverLayer for RemovedDriver {
    fn inner(&self) -> &dyn Driver {
        &*self.0
    }

    fn before(&self, entry: Entry, _call: &dyn Fn() -> DdiCall) -> Result<(), Status> {
        match entry {
            Entry::SetPowerState | Entry::SetPowerComponentFState => Ok(()),
            _ => Err(Status::DEVICE_REMOVED),
        }
    }

    fn set_power_state(
        &self,
        _: &Passive,
        _: DevicePowerState,
        _: PowerAction,
    ) -> Result<(), Status> {
        Ok(())
    }

    fn set_power_component_f_state(
        &self,
        _: Irql<'_>,
        _: EngineId,
        _: ComponentState,
    ) -> Result<(), Status> {
        Ok(())
    }
}
