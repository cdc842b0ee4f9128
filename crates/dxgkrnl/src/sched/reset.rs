//! Owns what timeout recovery (`tdr`) does to packets: engines stop, what they had is over or comes
//! back, they go on. Decisions are `vidsch::reset`'s; here they are carried out.
//!
//! Only one thread at a time submits, preempts and resets: who recovers takes the right to carry
//! out decisions to stop an engine, so that nobody is in the middle of a submission to it.

use super::{carry_out_all, now, preempt, run};
use crate::adapter::Adapter;
use crate::context::Context;
use crate::interrupt;
use std::sync::Arc;
use tidegate_ddi::{EngineId, OsHandle};
use tidegate_platform::{CpuTime, WaitEnd};

/// Engines that a reset touches beside its own.
#[derive(Default)]
pub(crate) struct Dependents {
    /// Those that gave back what they had, or had nothing.
    pub(crate) empty: Vec<EngineId>,
    /// Those that did not, in ordinal order.
    pub(crate) silent: Vec<EngineId>,
}

/// Has `change` made while nobody carries out decisions; waits for whoever does, for as long as he
/// may stay in the driver.
fn alone(adapter: &Arc<Adapter>, change: impl FnOnce()) {
    let turn = {
        let mut sched = adapter.sched.lock();
        match sched.begin_run() {
            true => None,
            false => {
                let turn = adapter.platform.event(true);
                sched.hand_to(turn.clone());
                Some(turn)
            }
        }
    };
    if let Some(turn) = turn {
        // Whoever is stuck in the driver is found out when the adapter is reset; nothing is stopped
        // by waiting longer.
        let deadline = adapter.platform.now().after(adapter.config.tdr.ddi_delay_ns);
        if turn.wait_for(Some(deadline), "whoever submits packets") != WaitEnd::Woken
            && adapter.sched.lock().withdraw_heir(&turn)
        {
            return change();
        }
    }
    change();
    carry_out_all(adapter);
}

/// Nothing is submitted to the engine from now on, and nobody is in the middle of it.
pub(crate) fn stop_engine(adapter: &Arc<Adapter>, engine: EngineId) {
    let Some(number) = adapter.caps.engine_number(engine) else { return };
    alone(adapter, || adapter.sched.lock().stop(number));
}

/// The same for every engine; none of their interrupts counts. Returns contexts that have anything
/// queued or with an engine.
pub(crate) fn stop_all_engines(adapter: &Arc<Adapter>) -> Vec<OsHandle> {
    let engines = 0..adapter.caps.engine_count();
    alone(adapter, || {
        let mut sched = adapter.sched.lock();
        engines.clone().for_each(|number| sched.stop(number));
    });
    {
        let _at_interrupt_level = adapter.interrupt_lock.lock_device();
        engines.for_each(|number| _ = interrupt::ignore(adapter, adapter.caps.engine(number)));
    }
    interrupt::flush(adapter);
    adapter.sched.lock().busy()
}

/// In one step at interrupt level: the numbers of the last packet that is complete and of the last
/// one that was submitted; from then on no interrupt of the engine's packets counts, unless nothing
/// is left.
pub(crate) fn snapshot(adapter: &Adapter, engine: EngineId) -> (u32, u32) {
    let _at_interrupt_level = adapter.interrupt_lock.lock_device();
    let reported = interrupt::ignore(adapter, engine);
    let number = adapter.caps.engine_number(engine).unwrap_or(u32::MAX);
    let (completed, submitted) = adapter.sched.lock().completed_and_submitted(number);
    let later = |id: &u32| id.wrapping_sub(completed).cast_signed() > 0;
    (reported.filter(later).unwrap_or(completed), submitted)
}

/// Has engines that depend on one that is to be reset stop, and give back what they have, within
/// the delay for it.
pub(crate) fn preempt_dependents(
    adapter: &Arc<Adapter>,
    engine: EngineId,
    group: u64,
) -> Dependents {
    let nodes = (0..adapter.caps.nodes.len() as u32).filter(|node| *node != engine.node_ordinal);
    let engines = nodes.filter(|node| group >> node & 1 != 0);
    let dependents: Vec<EngineId> =
        engines.map(|node_ordinal| EngineId { node_ordinal, ..engine }).collect();
    for dependent in &dependents {
        let Some(number) = adapter.caps.engine_number(*dependent) else { continue };
        stop_engine(adapter, *dependent);
        let request = adapter.sched.lock().ask_at_once(number, adapter.platform.now());
        if let Some(id) = request {
            preempt(adapter, *dependent, id);
        }
    }
    let has_packets = |engine: &EngineId| {
        let number = adapter.caps.engine_number(*engine);
        number.is_some_and(|number| adapter.sched.lock().has_packets(number))
    };
    let deadline = adapter.platform.now().after(adapter.config.tdr.dependent_delay_ns);
    if dependents.iter().any(&has_packets) {
        interrupt::wait_for_reports(adapter, deadline, || !dependents.iter().any(&has_packets));
    }
    let (silent, empty) = dependents.into_iter().partition(&has_packets);
    Dependents { empty, silent }
}

/// The engine was reset: `last` was cut off, or was complete. Returns whose packet was cut off, and
/// whether it pages.
pub(crate) fn aftermath(
    adapter: &Adapter,
    engine: EngineId,
    last: u32,
    cut_off: bool,
) -> Option<(OsHandle, bool)> {
    let number = adapter.caps.engine_number(engine)?;
    adapter.sched.lock().aftermath(number, last, cut_off)
}

/// The engine is given packets again, and its interrupts count.
pub(crate) fn resume_engine(adapter: &Arc<Adapter>, engine: EngineId) {
    let Some(number) = adapter.caps.engine_number(engine) else { return };
    interrupt::heed(adapter, engine);
    let over = adapter.sched.lock().go_on(number, now(adapter));
    super::scan_after(adapter, engine, &over);
    run(adapter);
}

/// The adapter was reset: packets of the kernel's own contexts are over, and whoever waits for one
/// goes on.
pub(crate) fn end_kernel_s_packets(adapter: &Arc<Adapter>) {
    let of_kernel = |context: &OsHandle| {
        let live = adapter.contexts.lock().get(*context);
        live.is_some_and(|context| context.device.is_of_kernel())
    };
    let contexts: Vec<OsHandle> =
        adapter.sched.lock().busy().into_iter().filter(of_kernel).collect();
    adapter.sched.lock().end(|context| contexts.contains(&context), now(adapter));
    let _nobody_s = super::give_up(adapter, &contexts);
    run(adapter);
}

/// The adapter was reset: every packet is over.
pub(crate) fn end_all_packets(adapter: &Arc<Adapter>) {
    adapter.sched.lock().end(|_| true, now(adapter));
    run(adapter);
}

/// Every engine is given packets again.
pub(crate) fn resume_all_engines(adapter: &Arc<Adapter>) {
    (0..adapter.caps.engine_count())
        .for_each(|number| resume_engine(adapter, adapter.caps.engine(number)));
}

/// When a preemption is next due that was not answered.
pub(crate) fn next_timeout(adapter: &Adapter) -> Option<CpuTime> {
    let config = &adapter.config;
    let looks = config.supervised && config.tdr.is_on();
    if looks { adapter.sched.lock().next_timeout(config.tdr.delay_ns) } else { None }
}

/// The context whose packet an engine runs.
pub(crate) fn running_on(adapter: &Adapter, engine: EngineId) -> Option<Arc<Context>> {
    let number = adapter.caps.engine_number(engine)?;
    let first = adapter.sched.lock().in_flight_on(number).first().copied()?;
    adapter.contexts.lock().get(first)
}

/// Engines that count as hung by now: they have not answered a preemption in time, or are asked for
/// none and have run a packet for too long.
pub(crate) fn take_timed_out(adapter: &Adapter) -> Vec<EngineId> {
    let numbers =
        adapter.sched.lock().take_timed_out(adapter.platform.now(), adapter.config.tdr.delay_ns);
    numbers.into_iter().map(|number| adapter.caps.engine(number)).collect()
}
