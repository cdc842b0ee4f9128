//! Owns engines of hardware queues in timeouts: the looks at them, and their reset.
//!
//! The order that matters in a look: 1. it is said that nobody expects one; 2. the engines are looked at. Who announces work afterwards
//! asks for another look; what was announced before is seen in 2.
//!
//! A probe suspends a context. When the driver acknowledges it the engine does not hang, and the supervisor resumes the context
//! at once; a probe without an answer until the next look is a timeout.
//!
//! A device without power is not looked at, and does not get any for it: nothing runs there.

use super::hw_watch::{Judgement, Look};
use super::{Blame, Failure, Noticed, Reset, TdrDebugMode, adapter_timed_out, engine_timed_out, naming};
use crate::adapter::Adapter;
use crate::context::Context;
use crate::supervisor::Watch;
use crate::suspend;
use std::sync::Arc;
use tidegate_ddi::{DevicePowerState, EngineId, OsHandle, Passive};
use tidegate_platform::CpuTime;

/// The looks at engines, and the recoveries that are due.
pub(crate) const WATCH: Watch = Watch { name: "timeouts of hardware queues", next, look };

fn next(adapter: &Adapter) -> Option<CpuTime> {
    if !answered(adapter).is_empty() {
        return Some(CpuTime(0));
    }
    let state = adapter.tdr.state.lock();
    let nobody_hangs = state.hanging.is_empty() && state.adapter_hangs.is_none();
    if nobody_hangs { state.cadence.next() } else { Some(CpuTime(0)) }
}

fn look(adapter: &Arc<Adapter>) -> bool {
    let mut changed = false;
    loop {
        let (whole, found) = {
            let mut state = adapter.tdr.state.lock();
            let whole = state.adapter_hangs.take();
            // Its reset is one of every engine.
            if whole.is_some() {
                state.hanging.clear();
            }
            (whole, state.hanging.pop_first())
        };
        changed |= whole.is_some() || found.is_some();
        if let Some(what) = whole {
            adapter_timed_out(adapter, what);
        }
        let Some((number, what)) = found else { break };
        let engine = adapter.caps.engine(number);
        engine_timed_out(adapter, engine, &Noticed::of_all_on(adapter, engine, what));
    }
    for (number, context) in answered(adapter) {
        changed = true;
        end_probe(adapter, number, &context);
    }
    let tdr = &adapter.tdr;
    if !tdr.state.lock().cadence.take_due(adapter.platform.now()) {
        return changed;
    }
    // 1.
    tdr.watched.store(0);
    adapter.platform.fence();
    // 2.
    let powered = adapter.power_state() == DevicePowerState::D0;
    let mut again = false;
    for number in 0..adapter.caps.engine_count() {
        again |= powered && look_at(adapter, number);
    }
    if again {
        adapter.stir_watch();
    }
    true
}

/// Engines, by number, whose probe was acknowledged, and the contexts that it suspended.
fn answered(adapter: &Adapter) -> Vec<(u32, Arc<Context>)> {
    let asked: Vec<_> = {
        let state = adapter.tdr.state.lock();
        state.asked.iter().map(|(number, context)| (*number, context.clone())).collect()
    };
    asked.into_iter().filter(|(_, context)| suspend::is_settled(context)).collect()
}

/// Resumes the context that a probe suspended.
fn end_probe(adapter: &Adapter, number: u32, context: &Arc<Context>) {
    let probed = {
        let mut state = adapter.tdr.state.lock();
        state.watches.entry(number).or_default().forget();
        state.asked.remove(&number)
    };
    if probed.is_some() {
        suspend::let_go(context);
    }
}

/// Looks at one engine; whether it is to be looked at again.
fn look_at(adapter: &Arc<Adapter>, number: u32) -> bool {
    let engine = adapter.caps.engine(number);
    let asked = adapter.tdr.state.lock().asked.get(&number).cloned();
    if let Some(context) = asked {
        let hangs = !suspend::is_settled(&context);
        if hangs {
            super::not_suspended(adapter, &context);
        }
        end_probe(adapter, number, &context);
        if hangs && adapter.config.tdr.debug_mode == TdrDebugMode::Ignore {
            let look = observe(adapter, engine);
            adapter.tdr.state.lock().watches.entry(number).or_default().ignore(look);
        }
        return true;
    }
    let look = observe(adapter, engine);
    let judgement = adapter.tdr.state.lock().watches.entry(number).or_default().judge(look);
    match judgement {
        Judgement::Rest => false,
        Judgement::LookAgain => true,
        Judgement::Ask(context) => {
            ask(adapter, number, context);
            true
        }
    }
}

fn observe(adapter: &Arc<Adapter>, engine: EngineId) -> Look {
    let busy = |q: &crate::hwqueue::HwQueue| {
        q.engine() == engine && q.has_timeout() && q.device.check().is_ok() && q.has_work(adapter)
    };
    let queues = adapter.hw_queues_of(busy);
    let Some(first) = queues.first() else {
        return Look { announced: 0, responsive: true, works_for: None, progress: 0 };
    };
    let done: u64 = queues.iter().map(|q| q.progress.fence.value()).fold(0, u64::wrapping_add);
    let wanted: u64 = queues.iter().map(|q| q.announced_by_anyone(adapter)).fold(0, u64::wrapping_add);
    let announced = (done.wrapping_mul(3) ^ wanted.wrapping_mul(5)).max(1);
    let exempt = |context: OsHandle| {
        !adapter.hw_queues_of(|q| q.context.os_handle == context && !q.has_timeout()).is_empty()
    };
    match adapter.driver().query_engine_status(&Passive::enter(), engine) {
        Ok(status) => Look {
            announced,
            responsive: status.responsive,
            works_for: status.hw_context.filter(|context| !exempt(*context)),
            progress: status.progress,
        },
        // A driver that cannot tell who waits is asked about whoever stands still: who waits is let go of at once.
        Err(_) => {
            Look { announced, responsive: true, works_for: Some(first.context.os_handle), progress: done }
        }
    }
}

/// The preemption request of hardware queues.
fn ask(adapter: &Arc<Adapter>, number: u32, context: OsHandle) {
    let found = adapter.hw_contexts.lock().get(context);
    let Some(context) = found.filter(|c| c.device.check().is_ok()) else { return };
    suspend::ask(&context);
    adapter.tdr.state.lock().asked.insert(number, context);
}

/// DxgkDdiResetHwEngine, in which the driver names whose work was cut off.
pub(super) fn reset(adapter: &Arc<Adapter>, engine: EngineId) -> Result<Reset, Failure> {
    let (reset, blame): (_, Blame) =
        naming(adapter, || adapter.driver().reset_hw_engine(&Passive::enter(), engine));
    reset.map_err(|status| Failure::Promoted(format!("DxgkDdiResetHwEngine failed with {status}")))?;
    // Nothing is left on the engine: whoever was to be suspended is.
    suspend::settle_all(adapter, |context| context.engine == engine);
    Ok(Reset::Done(blame))
}

/// DxgkDdiResumeHwEngine: whoever is not lost goes on.
pub(super) fn resume(adapter: &Arc<Adapter>, engine: EngineId) -> Result<(), Failure> {
    let resumed = adapter.driver().resume_hw_engine(&Passive::enter(), engine);
    resumed.map_err(|status| Failure::Promoted(format!("DxgkDdiResumeHwEngine failed with {status}")))
}
