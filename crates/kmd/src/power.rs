//! Owns power: the commands to the hardware when the kernel changes power states, and which engines
//! report that they are idle.

use crate::{KmdError, ReferenceDriver};
use tidegate_ddi::{ComponentState, DevicePowerState, EngineId, PowerAction};
use tidegate_gpu_abi::AdminCommand;

impl ReferenceDriver {
    /// D3 is refused when it is for idleness alone and the hardware has work. After D0 nothing is
    /// known of the registers.
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

    /// Gives an engine its power or takes it, where asked for only from an engine without work.
    pub(crate) fn set_power(
        &self,
        engine: EngineId,
        on: bool,
        if_idle: bool,
    ) -> Result<(), KmdError> {
        let engine = self.engine_number(engine)?;
        self.mailbox.run(AdminCommand::PowerEngine { engine, on, if_idle })
    }

    /// Has every engine report when it was idle for as long as the policy wants to know.
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
