//! Clauses of the transitions between D-states, and of F0.

use crate::clause::{Clause, Family};
use crate::journal::Event;
use crate::tally::Tally;
use crate::twin::{Twin, Wrong};
use tidegate::ddi::{ComponentState, DdiCall, DevicePowerState, Overrides, PowerAction, Status};

const D0: &str = "power-d0";
const F0: &str = "power-f0";
pub(super) const F1_QUIET: &str = "power-f1-quiet";
const D3: &str = "power-d3";
const FOREIGN: &str = "power-foreign";

const fn clause(
    id: &'static str,
    rule: &'static str,
    source: &'static str,
    twin: fn(Overrides) -> Overrides,
) -> Clause {
    let (family, situations) = (Family::Power, &["user-sleep"]);
    Clause::new(family, id, rule, source, situations, Twin::Layer(twin))
}

pub(super) static CLAUSES: [Clause; 5] = [
    Clause::new(
        Family::Power,
        F1_QUIET,
        "no packet of an engine is reported as complete while the engine is in F1",
        "UMS-202",
        &["packets"],
        Twin::Callbacks(Wrong::ReportsInF1),
    )
    .on("managed-power"),
    clause(
        D0,
        "DxgkDdiSetPowerState to D0 succeeds",
        "page DXGKDDI_SET_POWER_STATE",
        |overrides| {
            overrides.set_power_state(|inner, level, state, action| match state {
                DevicePowerState::D0 => Err(Status::INTERNAL_ERROR),
                DevicePowerState::D3 => inner.set_power_state(level, state, action),
            })
        },
    ),
    clause(
        D3,
        "DxgkDdiSetPowerState to D3 succeeds when the system sleeps",
        "page DXGKDDI_SET_POWER_STATE",
        |overrides| {
            overrides.set_power_state(|inner, level, state, action| match state {
                DevicePowerState::D3 => Err(Status::INTERNAL_ERROR),
                DevicePowerState::D0 => inner.set_power_state(level, state, action),
            })
        },
    ),
    Clause {
        situations: &["sleep-idle"],
        ..clause(
            FOREIGN,
            "in D3 DxgkDdiInterruptRoutine returns FALSE, once it has taken the causes from before",
            "page DXGKDDI_INTERRUPT_ROUTINE",
            |overrides| {
                overrides.interrupt_routine(|inner, level| {
                    inner.interrupt_routine(level);
                    true
                })
            },
        )
    },
    Clause {
        situations: &["packets", "user-queues", "sleep", "user-sleep", "flips"],
        ..clause(
            F0,
            "DxgkDdiSetPowerComponentFState to F0 succeeds",
            "page DXGKDDISETPOWERCOMPONENTFSTATE",
            |overrides| {
                overrides.set_power_component_f_state(|inner, level, engine, state| match state {
                    ComponentState::F0 => Err(Status::INTERNAL_ERROR),
                    ComponentState::F1 => inner.set_power_component_f_state(level, engine, state),
                })
            },
        )
    }
    .on("managed-power"),
];

/// Each answer has its arguments, so calls that overlap are not mixed up.
#[derive(Default)]
pub(super) struct Walk {
    /// Whether the device is in D3.
    sleeps: bool,
    /// Calls of the interrupt routine since then. The first may take causes from before.
    calls_in_d3: u32,
}

impl crate::walk::Walk for Walk {
    fn event(&mut self, tally: &mut Tally, event: &Event) {
        match event {
            Event::Power(DevicePowerState::D3, _, status) => {
                *self = Walk { sleeps: status.is_success(), calls_in_d3: 0 };
            }
            Event::Called(DdiCall::SetPowerState { .. }) => self.sleeps = false,
            Event::Called(DdiCall::InterruptRoutine {}) => self.calls_in_d3 += 1,
            Event::Interrupted(ours) if self.sleeps && self.calls_in_d3 > 1 => {
                tally.check(FOREIGN, !ours, || "it returned TRUE".to_owned());
            }
            _ => {}
        }
        let (id, status, may_fail) = match event {
            Event::Power(DevicePowerState::D0, _, status) => (D0, status, false),
            // It may be refused when the system does not sleep.
            Event::Power(DevicePowerState::D3, action, status) => {
                (D3, status, *action == PowerAction::None)
            }
            Event::ComponentPower(_, ComponentState::F0, status) => (F0, status, false),
            _ => return,
        };
        tally.check(id, may_fail || status.is_success(), || format!("it returned {status:?}"));
    }
}
