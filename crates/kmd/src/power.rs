//! Owns power: the hardware commands for the kernel's power transitions, and the engines' reports
//! that they are idle.

use crate::{KmdError, ReferenceDriver};
use tidegate_ddi::{ComponentState, DevicePowerState, EngineId, PowerAction};
use tidegate_gpu_abi::AdminCommand;

impl ReferenceDriver {
    /// Sets the device's power state. D3 is refused if it is for idleness only and the hardware has
    /// work. After D0 the register contents are unknown.
    pub(crate) fn power_device(
        &self,
        state: DevicePowerState,
        action: PowerAction,
    ) -> Result<(), KmdError> {
        let on = state == DevicePowerState::D0;
        if on {
            self.mailbox.forget();
        }
        let if_idle = action == PowerAction::None && self.config.idle.looks_at_queues;
        self.mailbox.run(AdminCommand::PowerDevice { on, if_idle })
    }

    pub(crate) fn power_engine(
        &self,
        engine: EngineId,
        state: ComponentState,
    ) -> Result<(), KmdError> {
        self.set_power(engine, state == ComponentState::F0, self.config.idle.looks_at_queues)
    }

    /// Powers an engine on or off. If requested, power is removed only from an engine without work.
    pub(crate) fn set_power(
        &self,
        engine: EngineId,
        on: bool,
        if_idle: bool,
    ) -> Result<(), KmdError> {
        let engine = self.engine_number(engine)?;
        self.mailbox.run(AdminCommand::PowerEngine { engine, on, if_idle })
    }

    /// Has every engine report once it was idle for the configured time.
    pub(crate) fn watch_idle_engines(&self) -> Result<(), KmdError> {
        let after_ns = self.config.idle.engine_after_ns;
        if after_ns == 0 {
            return Ok(());
        }
        self.engines().try_for_each(|engine| {
            let engine = self.engine_number(engine)?;
            self.mailbox.run(AdminCommand::ReportIdle { engine, after_ns })
        })
    }
}
