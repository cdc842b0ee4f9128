//! Power of the adapter and of its engines.
//!
//! Component n is engine n: no page has the size of DXGK_POWER_RUNTIME_COMPONENT, so the driver is
//! not asked which component an engine is. A driver that does not have as many components as nodes
//! keeps its engines in F0.

use crate::CDriver;
use crate::foreign::place;
use tidegate_ddi::{
    ComponentState, DevicePowerState, EngineId, Irql, Passive, PowerAction, PowerDdi, Status,
};
use tidegate_platform::level::Level;

/// DISPLAY_ADAPTER_HW_ID: the adapter, and not a child.
const ADAPTER: u32 = u32::MAX;

impl PowerDdi for CDriver {
    fn set_power_state(
        &self,
        _level: &Passive,
        state: DevicePowerState,
        action: PowerAction,
    ) -> Result<(), Status> {
        self.call("DxgkDdiSetPowerState", |entries| {
            entries.set_power_state(self.adapter, ADAPTER, state as u32, action as u32)
        })
    }

    fn set_power_component_f_state(
        &self,
        level: Irql<'_>,
        engine: EngineId,
        state: ComponentState,
    ) -> Result<(), Status> {
        if !self.objects.lock_device().declared.has_components {
            return match state {
                ComponentState::F0 => Ok(()),
                ComponentState::F1 => Err(Status::NOT_SUPPORTED),
            };
        }
        let at = if level.passive().is_some() { Level::Passive } else { Level::Dispatch };
        self.call_at("DxgkDdiSetPowerComponentFState", at, |entries| {
            entries.set_power_component_f_state(self.adapter, engine.node_ordinal, state as u32)
        })
    }
}

impl CDriver {
    /// Returns whether the driver has a component for each of its nodes.
    pub(crate) fn has_components(&self, nodes: u32) -> bool {
        self.entries.has(place::SET_POWER_COMPONENT_F_STATE)
            && self.component_count().is_ok_and(|count| count == nodes)
    }
}
