//! Owns engines of hardware queues in timeouts: the looks at them, and their reset.
//!
//! The order that matters in a look: 1. it is said that nobody expects one; 2. the engines are
//! looked at. Who announces work afterwards asks for another look; what was announced before is
//! seen in 2.
//!
//! A probe suspends a context. When the driver acknowledges it the engine does not hang, and the
//! supervisor resumes the context at once; a probe without an answer until the next look is a
//! timeout.
//!
//! A device without power is not looked at, and does not get any for it: nothing runs there.

use super::hw_watch::{Judgement, Look};
use super::{
    Blame, Failure, Noticed, Reset, TdrDebugMode, adapter_timed_out, engine_timed_out, naming,
};
use crate::adapter::Adapter;
use crate::context::Context;
use crate::fence::{self, monitor};
use crate::hwqueue::HwQueue;
use crate::stats::Count;
use crate::supervisor::Watch;
use crate::{interrupt, suspend};
use std::sync::Arc;
use tidegate_ddi::{DevicePowerState, EngineId, EngineStatus, OsHandle, Passive};
use tidegate_platform::CpuTime;

/// The looks at engines, and the recoveries that are due.
pub(crate) const WATCH: Watch = Watch { name: "timeouts of hardware queues", next, look };

fn next(adapter: &Adapter) -> Option<CpuTime> {
    if !answered(adapter).is_empty() {
        return Some(CpuTime(0));
    }
    let state = adapter.tdr.state.lock();
    let nobody_hangs = state.hanging.is_empty() && state.adapter_hangs.is_none();
    let recheck = state.unreleased.as_ref().map(|(at, _)| *at);
    if nobody_hangs {
        state.cadence.next().into_iter().chain(recheck).min()
    } else {
        Some(CpuTime(0))
    }
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
    changed |= release_missed(adapter);
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
    interrupt::take_overdue(adapter);
    note_unreleased(adapter);
    true
}

/// How long an interrupt may be under way when a satisfied waiter is found that was not released.
const GRACE_NS: u64 = 1_000_000;

/// Notes the fences that have satisfied waiters, for a second check: the interrupt that releases
/// them may be under way.
fn note_unreleased(adapter: &Arc<Adapter>) {
    let found = fence::unreleased(adapter);
    if !found.is_empty() {
        let recheck = adapter.platform.now().after(GRACE_NS);
        let handles = found.iter().map(|fence| fence.os_handle).collect();
        adapter.tdr.state.lock().unreleased = Some((recheck, handles));
    }
}

/// Releases waiters that no interrupt has released within the grace. Returns whether a check was
/// due.
// spec: PRE-097
fn release_missed(adapter: &Arc<Adapter>) -> bool {
    let now = adapter.platform.now();
    let due = adapter.tdr.state.lock().unreleased.take_if(|(at, _)| *at <= now);
    let Some((_, handles)) = due else { return false };
    for fence in
        fence::unreleased(adapter).iter().filter(|fence| handles.contains(&fence.os_handle))
    {
        let (entry, what) = fence.missed_text();
        adapter.count(Count::missed_interrupts);
        adapter.note_driver_fault(entry, what);
        monitor::look(fence);
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
    note_if_served(adapter, number);
    let judgement = adapter.tdr.state.lock().watches.entry(number).or_default().judge(look);
    match judgement {
        Judgement::Rest => false,
        Judgement::LookAgain => true,
        Judgement::Ask(context) => {
            if look.unserved == Some(context) {
                note_unserved(adapter, number, context);
            }
            ask(adapter, number, context);
            true
        }
        Judgement::Lost(context) => {
            lost(adapter, number, (context, look));
            true
        }
    }
}

/// Keeps the unserved work for a report, in case the preemption request makes it run.
fn note_unserved(adapter: &Arc<Adapter>, number: u32, context: OsHandle) {
    let work = adapter.outstanding_work().into_iter().find(|work| work.context == context);
    if let Some(work) = work {
        adapter.tdr.state.lock().unserved.insert(number, work);
    }
}

/// Notes a driver fault where the preemption request made unserved work run: the driver had lost
/// track of the work.
// spec: PRE-099
fn note_if_served(adapter: &Arc<Adapter>, number: u32) {
    let Some(work) = adapter.tdr.state.lock().unserved.remove(&number) else { return };
    let of_work =
        |queue: &HwQueue| queue.context.os_handle == work.context && queue.tag == work.tag;
    let moved = |queue: &Arc<HwQueue>| {
        queue.device.check().is_ok() && queue.progress.fence.value() > work.reported
    };
    if let Some(call) = work.calls.last()
        && adapter.hw_queues_of(of_work).iter().any(moved)
    {
        adapter.note_driver_fault(
            call.entry,
            format!("work ran only after DxgkDdiResumeContext: {work}"),
        );
    }
}

/// Loses the device of work that the driver accepted, does not run, and does not count as held
/// back.
fn lost(adapter: &Arc<Adapter>, number: u32, (context, look): (OsHandle, Look)) {
    let found = adapter.hw_contexts.lock().get(context);
    let Some(context) = found else { return };
    let of_context =
        adapter.outstanding_work().into_iter().filter(|work| work.context == context.os_handle);
    let calls: Vec<String> = of_context.map(|work| work.to_string()).collect();
    let what = format!(
        "{} works for no context, and DxgkDdiQueryEngineStatus counts work as neither running nor held back: {}",
        context.engine,
        calls.join("; ")
    );
    let noticed = Noticed { unserved: true, ..Noticed::new(what, vec![context.device.clone()]) };
    engine_timed_out(adapter, context.engine, &noticed);
    if adapter.config.tdr.debug_mode == TdrDebugMode::Ignore {
        adapter.tdr.state.lock().watches.entry(number).or_default().ignore(look);
    }
}

fn observe(adapter: &Arc<Adapter>, engine: EngineId) -> Look {
    let busy = |q: &crate::hwqueue::HwQueue| {
        q.engine() == engine && q.has_timeout() && q.device.check().is_ok() && q.has_work(adapter)
    };
    let queues = adapter.hw_queues_of(busy);
    let Some(first) = queues.first() else {
        return Look {
            announced: 0,
            responsive: true,
            works_for: None,
            progress: 0,
            unserved: None,
        };
    };
    let done: u64 = queues.iter().map(|q| q.progress.fence.value()).fold(0, u64::wrapping_add);
    let wanted: u64 =
        queues.iter().map(|q| q.announced_by_anyone(adapter)).fold(0, u64::wrapping_add);
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
            unserved: unserved(adapter, &queues, &status),
        },
        // A driver that cannot tell who waits is asked about whoever stands still: who waits is let
        // go of at once.
        Err(_) => {
            let works_for = Some(first.context.os_handle);
            Look { announced, responsive: true, works_for, progress: done, unserved: None }
        }
    }
}

/// Returns the context of the first queue that the driver does not count as held back, while the
/// engine works for no context. All `queues` have work. A ring without a connected doorbell is left
/// out: its process has to connect and ring again.
fn unserved(adapter: &Adapter, queues: &[Arc<HwQueue>], status: &EngineStatus) -> Option<OsHandle> {
    let held_back = status.held_back.as_ref().filter(|_| status.hw_context.is_none())?;
    let connected = |queue: &HwQueue| {
        let doorbells = adapter.doorbells_of_queue(queue.os_handle);
        !queue.user_mode_submission || doorbells.iter().any(|doorbell| doorbell.is_connected())
    };
    let mut unserved = queues.iter().filter(|queue| !held_back.contains(&queue.os_handle));
    let queue = unserved.find(|queue| connected(queue))?;
    Some(queue.context.os_handle)
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
    reset.map_err(|status| {
        Failure::Promoted(format!("DxgkDdiResetHwEngine failed with {status}"))
    })?;
    // Nothing is left on the engine: whoever was to be suspended is.
    suspend::settle_all(adapter, |context| context.engine == engine);
    Ok(Reset::Done(blame))
}

/// DxgkDdiResumeHwEngine: whoever is not lost goes on.
pub(super) fn resume(adapter: &Arc<Adapter>, engine: EngineId) -> Result<(), Failure> {
    let resumed = adapter.driver().resume_hw_engine(&Passive::enter(), engine);
    resumed
        .map_err(|status| Failure::Promoted(format!("DxgkDdiResumeHwEngine failed with {status}")))
}
