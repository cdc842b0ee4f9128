//! Clauses of the transitions between D-states, and of F0.

use crate::clause::{Clause, Family};
use crate::journal::Event;
use crate::tally::Tally;
use crate::twin::Twin;
use tidegate::ddi::{ComponentState, DdiCall, DevicePowerState, Entry, Overrides, Status};

const D0: &str = "power-d0";
const F0: &str = "power-f0";
const D3: &str = "power-d3";

const fn clause(
    id: &'static str,
    rule: &'static str,
    source: &'static str,
    twin: fn(Overrides) -> Overrides,
) -> Clause {
    let (family, situations) = (Family::Power, &["user-sleep"]);
    Clause::new(family, id, rule, source, situations, Twin::Layer(twin))
}

pub(super) static CLAUSES: [Clause; 3] = [
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

/// The states of the calls that have not returned.
#[derive(Default)]
pub(super) struct Walk {
    device: Option<DevicePowerState>,
    component: Option<ComponentState>,
}

impl super::Walk for Walk {
    fn event(&mut self, tally: &mut Tally, event: &Event) {
        match event {
            Event::Called(DdiCall::SetPowerState { state, .. }) => self.device = Some(*state),
            Event::Called(DdiCall::SetPowerComponentFState { state, .. }) => {
                self.component = Some(*state);
            }
            Event::Returned(Entry::SetPowerComponentFState, Some(status))
                if self.component == Some(ComponentState::F0) =>
            {
                tally.check(F0, status.is_success(), || format!("it returned {status:?}"));
            }
            Event::Returned(Entry::SetPowerState, Some(status)) => {
                let id = match self.device {
                    Some(DevicePowerState::D3) => D3,
                    _ => D0,
                };
                tally.check(id, status.is_success(), || format!("it returned {status:?}"));
            }
            _ => {}
        }
    }
}
