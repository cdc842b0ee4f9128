//! The power of engines (F-states): an idle engine goes from F0 to F1, and its next user
//! restores F0.
//!
//! Invariant: an engine in F1 has no queue with work, suspended queues included, and its driver
//! owes no report. A driver refuses F1 to an engine with work. A call that may bring work restores
//! F0 before it calls the driver. So a resume needs no power (decision 149 has the table).
//!
//! An engine is powered down when its driver offers it, or when `progress` finds it idle. A process
//! that rings afterwards reads RETRY and connects, which restores power.
//!
//! Entry points: [`PowerTransitions::engine_is_idle`],
//! [`PowerTransitions::power_down_idle_engines`].

use super::progress::Announced;
use super::state::{Device, EngineState, end_change};
use super::transitions::PowerTransitions;
use crate::stats::Count;
use crate::wait_classes::ENGINE_POWER;
use tidegate_ddi::doorbell::DisconnectReason;
use tidegate_ddi::{ComponentState, EngineId, Passive};

impl PowerTransitions {
    /// Powers down every idle engine, as the driver's offer does for one.
    pub(crate) fn power_down_idle_engines(&self, level: &Passive) {
        let engines = self.objects.port.declared.caps.engines();
        engines.for_each(|engine| self.engine_is_idle(level, engine));
    }

    /// DXGK_INTERRUPT_GPU_ENGINE_STATE_CHANGE with TRANSITION_TO_F1: the driver offers an idle
    /// engine.
    pub(crate) fn engine_is_idle(&self, level: &Passive, engine: EngineId) {
        self.power_down_engine(level, engine, Announced::Counts);
    }

    /// Moves an engine from F0 to F1, unless it has work.
    pub(super) fn power_down_engine(
        &self,
        level: &Passive,
        engine: EngineId,
        announced: Announced,
    ) {
        let port = &self.objects.port;
        if !self.power.is_managed() {
            return;
        }
        let start_ns = port.platform.stamp_ns();
        {
            let mut state = self.power.state.lock();
            let awake = matches!(state.device, Device::D0);
            let engine = &mut state.engines[engine];
            if !awake || engine.users > 0 || !matches!(engine.state, EngineState::F0) {
                return;
            }
            (engine.state, engine.wanted) = (EngineState::GoingDown, false);
        }
        // 1. All doorbells of the engine's queues are disconnected.
        // spec: UMS-052
        for doorbell in self.objects.doorbells_of(|d| d.queue.engine() == engine) {
            doorbell.disconnect(level, DisconnectReason::Retry);
        }
        // 2. An engine with work rung before the disconnect stays in F0. The disconnect notified
        //    the driver of that work.
        // spec: UMS-055
        let of = |e: EngineId| e == engine;
        // spec: PRE-172
        let owes_report = self.objects.sched.lock().owes_report(engine);
        let stays = owes_report
            || match announced {
                Announced::Counts => self.has_announced_work(of),
                Announced::IsStale => self.has_kernel_mode_work(of),
            };
        // 3. An engine used concurrently stays in F0.
        let change = port.platform.event(true);
        let goes = {
            let mut state = self.power.state.lock();
            let engine = &mut state.engines[engine];
            let goes = !stays && !engine.wanted && engine.users == 0;
            engine.state =
                if goes { EngineState::Changing(change.clone()) } else { EngineState::F0 };
            goes
        };
        let owed = goes.then(|| port.platform.owe(&ENGINE_POWER));
        let f1 = ComponentState::F1;
        let power_off = || port.driver(level).set_power_component_f_state(level.into(), engine, f1);
        let gone = goes && power_off().is_ok();
        if goes {
            let becomes = if gone { EngineState::F1 } else { EngineState::F0 };
            end_change(&self.power, engine, becomes, 0, &change);
        }
        drop(owed);
        port.count(if gone { Count::engines_in_f1 } else { Count::power_downs_given_up });
        port.record_engine_power(if gone { "F0 to F1" } else { "F0, not F1" }, start_ns, engine);
    }
}
