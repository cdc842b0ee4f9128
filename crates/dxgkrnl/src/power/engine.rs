//! Owns the power of engines (F-states): an idle engine that its driver offers goes from F0 to F1,
//! and whoever uses it brings it back.
//!
//! The order that matters on the way down: 1. the doorbells of the engine's queues are
//! disconnected, to be connected again; 2. what was rung before that is looked for, and with work
//! pending the engine stays; 3. unless somebody has used the engine meanwhile, it goes. A process
//! that rings afterwards reads RETRY and connects, which brings the engine back.
//!
//! Runs in the deferred routine and for `progress`, and waits for no interrupt.

use super::{Device, Power};
use crate::adapter::Adapter;
use crate::driver::DriverPort;
use crate::error::BugCheck;
use crate::stats::Count;
use std::sync::Arc;
use tidegate_ddi::doorbell::DisconnectReason;
use tidegate_ddi::{ComponentState, Dispatch, EngineId, Passive};
use tidegate_platform::{Event, Step, WaitEnd};

/// What the kernel knows about one engine's power.
#[derive(Default)]
pub(super) struct Engine {
    state: EngineState,
    /// How many callers use it now.
    pub(super) users: u64,
    /// Somebody used it while power was being taken.
    wanted: bool,
}

#[derive(Default)]
enum EngineState {
    #[default]
    F0,
    /// Steps 1 and 2 of losing power.
    GoingDown,
    /// Power goes or comes; the event says that it has.
    Changing(Event),
    F1,
}

/// What a user finds.
enum Found {
    Powered,
    Wait(Event),
    Unpowered(Event),
}

/// Power for the engine until its user releases it. Returns `false` when the machine stopped.
// spec: UMS-054
pub(super) fn use_engine(power: &Power, port: &DriverPort, number: u32) -> bool {
    let index = number as usize;
    loop {
        match enter(power, index) {
            Found::Powered => return true,
            Found::Wait(change) => {
                if change.wait_for(None, "the power of an engine") == WaitEnd::Stopped {
                    return false;
                }
            }
            Found::Unpowered(change) => {
                let start_ns = port.platform.stamp_ns();
                let (level, f0) = (Dispatch::enter(), ComponentState::F0);
                let given = port.driver().set_power_component_f_state(&level, number, f0);
                end_change(power, index, EngineState::F0, 1, &change);
                port.record_power("F1 to F0", start_ns, u64::from(number));
                if let Err(status) = given {
                    let ddi = "DxgkDdiSetPowerComponentFState";
                    port.bug_check(BugCheck::DdiFailed { ddi, status });
                }
                return true;
            }
        }
    }
}

fn enter(power: &Power, index: usize) -> Found {
    let mut state = power.state.lock();
    let engine = &mut state.engines[index];
    match &engine.state {
        EngineState::F0 => {
            engine.users += 1;
            Found::Powered
        }
        EngineState::GoingDown => {
            engine.users += 1;
            engine.wanted = true;
            Found::Powered
        }
        EngineState::Changing(change) => Found::Wait(change.clone()),
        EngineState::F1 => {
            let change = power.platform.event(true);
            engine.state = EngineState::Changing(change.clone());
            Found::Unpowered(change)
        }
    }
}

fn end_change(power: &Power, index: usize, becomes: EngineState, users: u64, change: &Event) {
    {
        let mut state = power.state.lock();
        if matches!(becomes, EngineState::F1) {
            state.check.unpowered(index);
        }
        let engine = &mut state.engines[index];
        engine.state = becomes;
        engine.users += users;
    }
    change.set(Step::ThreadWake);
}

impl Adapter {
    /// Takes the power of every engine that has nothing to do, at once, as the driver's request
    /// does for one.
    pub fn power_down_idle_engines(self: &Arc<Adapter>) {
        let level = &Passive::enter();
        (0..self.caps.engine_count())
            .for_each(|number| engine_is_idle(self, level, self.caps.engine(number)));
    }

    /// Whether the engine has power, as far as it is a matter of its own: an adapter in D3 has none
    /// to give.
    ///
    /// # Panics
    /// When there is no such engine.
    pub fn engine_power_state(&self, engine: EngineId) -> ComponentState {
        let number = self.caps.engine_number(engine).expect("an engine of this adapter");
        match self.power.state.lock().engines[number as usize].state {
            EngineState::F0 | EngineState::GoingDown => ComponentState::F0,
            EngineState::Changing(_) | EngineState::F1 => ComponentState::F1,
        }
    }
}

/// What processes announced to have queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announced {
    /// An engine with announced work keeps its power.
    Counts,
    /// It did not change while nobody could ring unheard: the driver knows of all that was
    /// submitted.
    IsStale,
}

/// DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE with TRANSITION_TO_F1: the driver offers an idle engine.
pub(crate) fn engine_is_idle(adapter: &Arc<Adapter>, level: &Passive, engine: EngineId) {
    power_down(adapter, level, engine, Announced::Counts);
}

/// F0 to F1, unless the engine has work.
pub(super) fn power_down(
    adapter: &Arc<Adapter>,
    level: &Passive,
    engine: EngineId,
    announced: Announced,
) {
    let number = adapter.caps.engine_number(engine).filter(|_| adapter.power.is_managed());
    let Some(number) = number else { return };
    let index = number as usize;
    let start_ns = adapter.platform.stamp_ns();
    {
        let mut state = adapter.power.state.lock();
        let awake = matches!(state.device, Device::D0);
        let engine = &mut state.engines[index];
        if !awake || engine.users > 0 || !matches!(engine.state, EngineState::F0) {
            return;
        }
        (engine.state, engine.wanted) = (EngineState::GoingDown, false);
    }
    // 1. All doorbells of the engine's queues are disconnected.
    // spec: UMS-052
    for doorbell in adapter.doorbells_of(|d| d.queue.engine() == engine) {
        doorbell.disconnect(level, DisconnectReason::Retry);
    }
    // 2. Work that was rung before its doorbell went. Its queue was given to the driver with the
    //    disconnect; it runs in F0.
    // spec: UMS-055
    let of = |e: EngineId| e == engine;
    let stays = adapter.sched.has_packets(engine)
        || match announced {
            Announced::Counts => adapter.has_announced_work(of),
            Announced::IsStale => adapter.has_kernel_mode_work(of),
        };
    // 3. Unless somebody has used it.
    let change = adapter.platform.event(true);
    let goes = {
        let mut state = adapter.power.state.lock();
        let engine = &mut state.engines[index];
        let goes = !stays && !engine.wanted && engine.users == 0;
        engine.state = if goes { EngineState::Changing(change.clone()) } else { EngineState::F0 };
        goes
    };
    let (dispatch, f1) = (Dispatch::enter(), ComponentState::F1);
    let gone = goes && adapter.driver().set_power_component_f_state(&dispatch, number, f1).is_ok();
    if goes {
        let becomes = if gone { EngineState::F1 } else { EngineState::F0 };
        end_change(&adapter.power, index, becomes, 0, &change);
    }
    adapter.count(if gone { Count::engines_in_f1 } else { Count::power_downs_given_up });
    adapter.record_power(if gone { "F0 to F1" } else { "F0, not F1" }, start_ns, u64::from(number));
}
