//! Power: the hardware commands for the kernel's power transitions, and the engines' reports that
//! they are idle.

use crate::{KmdError, ReferenceDriver};
use tidegate_ddi::{ComponentState, DevicePowerState, EngineId, Irql, Passive, PowerAction};
use tidegate_gpu_abi::AdminCommand;

impl ReferenceDriver {
    /// Sets the device's power state. D3 is refused if it is for idleness only and the hardware has
    /// work. After D0 the register contents are unknown.
    pub(crate) fn power_device(
        &self,
        level: &Passive,
        state: DevicePowerState,
        action: PowerAction,
    ) -> Result<(), KmdError> {
        let on = state == DevicePowerState::D0;
        if on {
            self.mailbox.forget();
        }
        let if_idle = action == PowerAction::None && self.config.idle.looks_at_queues;
        self.mailbox.complete(level, AdminCommand::PowerDevice { on, if_idle })
    }

    /// Sets an engine's power state. F1 is refused while the hardware has work for the engine.
    pub(crate) fn power_engine(
        &self,
        level: Irql<'_>,
        engine: EngineId,
        state: ComponentState,
    ) -> Result<(), KmdError> {
        match state {
            ComponentState::F0 => self.power_on(engine),
            ComponentState::F1 => {
                let level = level.passive().ok_or(KmdError::Argument(
                    "F1 waits for the end of a turn: request it at PASSIVE level",
                ))?;
                self.power_off(level, engine, self.config.idle.looks_at_queues)
            }
        }
    }

    /// Powers an engine on, at any level.
    pub(crate) fn power_on(&self, engine: EngineId) -> Result<(), KmdError> {
        let engine = self.engine_number(engine)?;
        self.mailbox.run(AdminCommand::PowerEngine { engine, on: true, if_idle: false })
    }

    /// Powers an engine off. If requested, only an engine without work.
    pub(crate) fn power_off(
        &self,
        level: &Passive,
        engine: EngineId,
        if_idle: bool,
    ) -> Result<(), KmdError> {
        let engine = self.engine_number(engine)?;
        let command = AdminCommand::PowerEngine { engine, on: false, if_idle };
        self.mailbox.complete(level, command)
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
