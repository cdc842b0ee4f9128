//! The power of engines (F-states): an idle engine goes from F0 to F1, and its next user brings it
//! back.
//!
//! An engine goes down when its driver offers it, or when `progress` finds that it stands still. A
//! process that rings afterwards reads RETRY and connects, which gives the engine its power.
//!
//! Entry points: [`engine_is_idle`], [`power_down`].

use super::progress::Announced;
use super::state::{Device, EngineState, end_change};
use crate::adapter::Adapter;
use crate::stats::Count;
use std::sync::Arc;
use tidegate_ddi::doorbell::DisconnectReason;
use tidegate_ddi::{ComponentState, Dispatch, EngineId, Passive};

impl Adapter {
    /// Takes the power of every idle engine, as the driver's offer does for one.
    pub fn power_down_idle_engines(self: &Arc<Adapter>) {
        let level = &Passive::enter();
        (0..self.caps.engine_count())
            .for_each(|number| engine_is_idle(self, level, self.caps.engine(number)));
    }

    /// The engine's own power state. An engine in F0 has no power while its adapter is in D3.
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
    for doorbell in adapter.objects.doorbells_of(|d| d.queue.engine() == engine) {
        doorbell.disconnect(level, DisconnectReason::Retry);
    }
    // 2. An engine with work that was rung before the disconnect stays in F0. The disconnect told
    //    the driver of it.
    // spec: UMS-055
    let of = |e: EngineId| e == engine;
    let has_packets = adapter.sched.lock().has_packets(engine);
    let stays = has_packets
        || match announced {
            Announced::Counts => adapter.has_announced_work(of),
            Announced::IsStale => adapter.has_kernel_mode_work(of),
        };
    // 3. An engine that was used meanwhile stays.
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
