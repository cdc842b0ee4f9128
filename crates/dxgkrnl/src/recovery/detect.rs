//! Detects lack of GPU progress, in packets, in hardware queues and from driver reports.
//!
//! Packets time out by VidSch's deadlines. Engines of hardware queues are sampled once per timeout
//! delay. A sample in doubt preempts contexts (probes). A probe without an acknowledgement by the
//! next sample is a timeout. At rest, sampling goes on in the background, since doorbells and GPU
//! signals start work without a call (decision 140). Work of a lost device occupies an engine like
//! any other, but no call waits for it.
//!
//! Order of sampling: 1. `watched` is cleared; 2. the engines are sampled. Work announced after 1
//! starts the next sampling, and work announced before is seen in 2.
//!
//! Entry points: [`report_finding`], [`next_deadline`]; the rest is called by `run_detection`.

use super::blame::Culprit;
use super::detector::{Finding, Unreleased};
use super::device_loss;
use super::report::TimeoutCause;
use super::state::Recovery;
use crate::fence::{Fence, monitor, signaled};
use crate::object::context::Context;
use crate::object::hw_queue::HwQueue;
use crate::stats::Count;
use crate::wait_limit::parts;
use std::sync::Arc;
use tidegate_ddi::{DevicePowerState, EngineId, EngineStatus, Irql, OsHandle, Passive};
use tidegate_platform::planted;
use tidegate_platform::{CpuTime, QueueNumber};
use tidegate_vidsch::{EngineSample, HangVerdict};

/// Time allowed for an interrupt in flight to release a satisfied waiter, in nanoseconds. On the
/// host its agent may have to wait for a processor first, behind all others.
const GRACE_NS: u64 = 100_000_000;

/// The resets of each engine that was ever watched or reset.
pub(super) type ResetsByEngine = Vec<(EngineId, u64)>;

/// Creates the finding of an engine timeout. Every device with work on the engine is suspected.
pub(super) fn of_engine(
    recovery: &Recovery,
    engine: EngineId,
    cause: TimeoutCause,
    resets: u64,
) -> Finding {
    let (mut devices, had_packets) = device_loss::devices_on(recovery, engine);
    // What the engine runs after a fault is innocent, and so is everything once the fault has named
    // its work.
    let suspects_all = match cause {
        TimeoutCause::EngineFaulted { is_named, .. } => {
            devices.retain(|_| !is_named);
            false
        }
        _ => true,
    };
    let suspects = devices.into_iter().map(Culprit::of_device).collect();
    Finding { cause, engine: Some(engine), suspects, suspects_all, had_packets, resets }
}

/// Queues a finding for the timer's agent. Any level. A second finding for the same engine
/// is dropped.
pub(crate) fn report_finding(recovery: &Recovery, cause: TimeoutCause) {
    let engine = cause.engine();
    if engine.is_none() && !recovery.port.config.tdr.is_on() {
        return;
    }
    {
        let mut state = recovery.detector.state.lock();
        let resets = state.resets(engine);
        // A stale one of the engine is not recovered from, so it does not replace this one.
        if state.reported.iter().any(|(known, at)| known.engine() == engine && *at == resets) {
            return;
        }
        state.reported.push_back((cause, resets));
    }
    recovery.port.timer.arm(recovery.port.platform.now());
}

/// Takes the next queued finding. An adapter finding comes first and replaces the findings of all
/// engines.
///
/// # Errors
/// None is queued: the resets of each engine, for findings whose facts are read next.
pub(super) fn take_reported(recovery: &Recovery) -> Result<Finding, ResetsByEngine> {
    let (cause, resets) = {
        let mut state = recovery.detector.state.lock();
        let whole = state.reported.iter().position(|(cause, _)| cause.engine().is_none());
        let whole = whole.and_then(|at| state.reported.remove(at));
        if whole.is_some() {
            state.reported.clear();
        }
        let next = whole.or_else(|| state.reported.pop_front());
        let by_engine = || state.engines.iter().map(|(id, of)| (*id, of.resets));
        next.ok_or_else(|| by_engine().collect::<ResetsByEngine>())?
    };
    Ok(match cause.engine() {
        Some(engine) => of_engine(recovery, engine, cause, resets),
        None => Finding::of_adapter(cause, resets),
    })
}

/// Returns when the engines are sampled next, if sampling rests.
pub(super) fn next_deadline_at_rest(recovery: &Recovery) -> Option<CpuTime> {
    recovery.detector.state.lock().sampling.deadline_at_rest()
}

/// Counts no time of an engine before `from`: until it answers a preemption request, until it ends
/// a packet that cannot be preempted, and until the next sample.
pub(super) fn count_from(recovery: &Recovery, from: CpuTime) {
    recovery.objects.sched.lock().count_timeouts_from(from);
    let delay_ns = recovery.port.config.tdr.delay_ns;
    recovery.detector.state.lock().sampling.count_from(from, delay_ns);
}

/// Leaves the last `ns` out of the times of [`count_from`], and of the time of reports that are
/// pending.
pub(super) fn leave_out(recovery: &Recovery, ns: u64, now: CpuTime) {
    recovery.objects.sched.lock().leave_out(ns, now);
    let delay_ns = recovery.port.config.tdr.delay_ns;
    recovery.detector.state.lock().sampling.leave_out(ns, now, delay_ns);
    if let Some(reports) = recovery.objects.sched.reports.get() {
        reports.leave_out(ns, now);
    }
}

/// Returns when detection runs next, apart from samplings at rest.
pub(super) fn next_deadline(recovery: &Recovery) -> Option<CpuTime> {
    let packets = recovery.objects.sched.next_timeout();
    if !answered_probes(recovery).is_empty() {
        return Some(CpuTime(0));
    }
    let state = recovery.detector.state.lock();
    if !state.reported.is_empty() {
        return Some(CpuTime(0));
    }
    let recheck = state.unreleased.as_ref().map(|check| check.at);
    packets.into_iter().chain(state.sampling.deadline()).chain(recheck).min()
}

/// Returns the engines that did not acknowledge a preemption request in time or, if they cannot
/// preempt, ran a packet for too long.
pub(super) fn timed_out_packets(
    recovery: &Recovery,
    now: CpuTime,
    resets: &ResetsByEngine,
) -> Vec<Finding> {
    if !recovery.port.config.tdr.is_on() {
        return Vec::new();
    }
    let finding = |engine: EngineId| {
        let work =
            recovery.objects.outstanding_work().into_iter().filter(|work| work.engine == engine);
        let work = work.collect();
        let first = recovery.objects.sched.lock().contexts_in_flight(engine).first().copied();
        let first = first.and_then(|context| recovery.objects.contexts.lock().get(context));
        let suspects = first.filter(|context| !context.device.is_of_kernel());
        let suspects = suspects.map(|context| Culprit::of_context(&context));
        let preempts = recovery.objects.sched.lock().preempts();
        let cause = match preempts {
            true => TimeoutCause::PreemptionNotAnswered { engine, work },
            false => TimeoutCause::PacketTooLong { engine, work },
        };
        let suspects = suspects.into_iter().collect();
        // The engine may hang in work of a hardware queue, and give back no packet for that.
        let suspects_all = true;
        let resets = resets.iter().find(|(id, _)| *id == engine).map_or(0, |(_, count)| *count);
        Finding { cause, engine: Some(engine), suspects, suspects_all, had_packets: true, resets }
    };
    recovery.objects.sched.take_timed_out(now).into_iter().map(finding).collect()
}

/// Ends acknowledged probes. Returns whether there was any.
pub(super) fn end_answered_probes(recovery: &Recovery, level: &Passive) -> bool {
    let answered = answered_probes(recovery);
    for (engine, context) in &answered {
        recovery.detector.engine(*engine, |state| {
            state.probes.retain(|probe| probe.os_handle != context.os_handle);
            if state.probes.is_empty() {
                state.watch.preempted(state.probes_each);
            }
        });
        context.suspension.release(level);
    }
    !answered.is_empty()
}

/// Returns the contexts whose probe is acknowledged.
fn answered_probes(recovery: &Recovery) -> Vec<(EngineId, Arc<Context>)> {
    let probes: Vec<_> = {
        let state = recovery.detector.state.lock();
        let probes = state.engines.iter();
        probes.flat_map(|(id, of)| of.probes.iter().map(|probe| (*id, probe.clone()))).collect()
    };
    probes.into_iter().filter(|(_, context)| context.suspension.is_acknowledged()).collect()
}

/// Resumes the contexts that probes suspended, because the engine was recovered.
fn end_probes(recovery: &Recovery, level: &Passive, engine: EngineId) {
    let probes = recovery.detector.engine(engine, |state| std::mem::take(&mut state.probes));
    probes.iter().for_each(|context| context.suspension.release(level));
}

/// Starts a sampling if one is due. Returns whether one was.
pub(super) fn begin_sampling(recovery: &Recovery, now: CpuTime) -> bool {
    let detector = &recovery.detector;
    if !detector.state.lock().sampling.take_due(now) {
        return false;
    }
    // 1.
    detector.watched.store(0);
    recovery.port.platform.fence();
    true
}

/// Ends a sampling: checks for reports and waiters that no interrupt served.
pub(super) fn end_sampling(level: &Passive, recovery: &Recovery, now: CpuTime) {
    if let Some(reports) = recovery.objects.sched.reports.get() {
        reports.take_overdue_reports(level, now);
    }
    note_unreleased(recovery);
    rest_if_idle(recovery);
}

/// Goes on sampling in the background if no engine had something to do, as long as work can start
/// without a call: in a ring, or on a queue that a signal of the GPU unblocks.
// spec: PRE-102
fn rest_if_idle(recovery: &Recovery) {
    let objects = &recovery.objects;
    let may_start = objects.hw_queues.lock().has_user_mode_queues()
        || !objects.hw_queues_of(|queue| queue.has_work(objects)).is_empty();
    if may_start && !planted!(recovery.port.platform, HangDetectionRests) {
        let (now, delay_ns) = (recovery.port.platform.now(), recovery.port.config.tdr.delay_ns);
        recovery.detector.state.lock().sampling.rest(now, delay_ns);
    }
}

/// Samples one engine and handles the result, except for a timeout, which is returned. A device
/// without power runs no work and is not sampled.
pub(super) fn sample(recovery: &Recovery, level: &Passive, engine: EngineId) -> Option<Finding> {
    if recovery.power.device_state() != DevicePowerState::D0 {
        return None;
    }
    let detector = &recovery.detector;
    let (is_probed, resets) =
        detector.engine(engine, |state| (!state.probes.is_empty(), state.resets));
    if is_probed {
        sample_again(recovery);
        end_answered_probes(recovery, level);
        let stuck = detector.engine(engine, |state| state.probes.first().cloned());
        let context = stuck?;
        note_wrong_name(recovery, level, engine, &context);
        return Some(Finding::of_context(&context, resets));
    }
    let sample = observe(recovery, level, engine);
    note_if_served(recovery, engine);
    match detector.engine(engine, |state| state.watch.judge(sample)) {
        HangVerdict::Rest => None,
        HangVerdict::SampleAgain => {
            sample_again(recovery);
            None
        }
        HangVerdict::Preempt(context) => {
            sample_again(recovery);
            if sample.unserved == Some(context) {
                note_unserved(recovery, engine, context);
            }
            begin_probes(recovery, level, engine, &[context]);
            None
        }
        HangVerdict::PreemptEach => {
            sample_again(recovery);
            begin_probes(recovery, level, engine, &contexts_with_timeout(recovery, engine));
            detector.engine(engine, |state| {
                state.probes_each = true;
                if state.probes.is_empty() {
                    state.watch.preempted(true);
                }
            });
            None
        }
        HangVerdict::Lost(context) => {
            sample_again(recovery);
            lost_work(recovery, context, resets)
        }
        HangVerdict::Ownerless => {
            sample_again(recovery);
            let cause = TimeoutCause::EngineHungWithoutContext { engine };
            let (suspects, suspects_all, had_packets) = (Vec::new(), false, false);
            let engine = Some(engine);
            Some(Finding { cause, engine, suspects, suspects_all, had_packets, resets })
        }
    }
}

/// Ends the probe after a finding of [`sample`] was handled. An ignored hang is not reported again
/// until the engine makes progress. An engine that two resets do not make respond is a fault of its
/// driver.
pub(super) fn end_finding(recovery: &Recovery, level: &Passive, engine: EngineId) {
    end_probes(recovery, level, engine);
    let mut sample = observe(recovery, level, engine);
    // A packet that was submitted after the reset may hang in its turn, and is found by its time.
    sample.responsive |= !recovery.objects.sched.lock().contexts_in_flight(engine).is_empty();
    let is_unchanged = recovery.detector.engine(engine, |state| {
        if recovery.ignores_timeouts() {
            state.watch.ignore(sample);
            return false;
        }
        state.watch.recovered(sample)
    });
    if is_unchanged {
        note_status_fault(recovery, format!("{engine} does not respond after a recovery"));
    }
}

/// Records the fences with satisfied waiters for a second check, since the interrupt that releases
/// them may be in flight.
fn note_unreleased(recovery: &Recovery) {
    let found = signaled::unreleased(&recovery.objects.fences);
    if !found.is_empty() {
        let parts_left = parts(&recovery.port.platform);
        let at = recovery.port.platform.now().after(GRACE_NS / parts_left);
        let seen = found.into_iter().map(|(fence, seen)| (fence.os_handle, seen)).collect();
        let check = Unreleased { at, seen, parts_left };
        recovery.detector.state.lock().unreleased = Some(check);
    }
}

/// Releases waiters that no interrupt has released within the grace period. Returns whether a check
/// was due. The period is counted in parts, so that the agent of the interrupt has a processor in
/// most of them.
// spec: PRE-097
pub(super) fn release_missed_waiters(level: Irql<'_>, recovery: &Recovery, now: CpuTime) -> bool {
    let due = recovery.detector.state.lock().unreleased.take_if(|check| check.at <= now);
    let Some(Unreleased { seen, parts_left, .. }) = due else { return false };
    if parts_left > 1 {
        let at = now.after(GRACE_NS / parts(&recovery.port.platform));
        let next = Unreleased { at, seen, parts_left: parts_left - 1 };
        recovery.detector.state.lock().unreleased = Some(next);
        return true;
    }
    for (handle, seen) in &seen {
        // A fence that has ended has released its waiters.
        let Ok(named) = recovery.objects.fences.resolve(&[*handle]) else { continue };
        // A waiter that came meanwhile has an interrupt of its own.
        let is_old = |fence: &&Arc<Fence>| fence.waiters.lock().has_satisfied(seen);
        for fence in named.iter().filter(is_old) {
            let (entry, what) = fence.missed_text();
            recovery.port.count(Count::missed_interrupts);
            recovery.port.note_driver_fault(entry, what);
            monitor::wake_satisfied(level, fence);
        }
    }
    true
}

/// Records the unserved work, in case the probe makes it run.
fn note_unserved(recovery: &Recovery, engine: EngineId, context: OsHandle) {
    let work = recovery.objects.outstanding_work().into_iter().find(|work| work.context == context);
    recovery.detector.engine(engine, |state| state.unserved = work);
}

/// Records a driver fault if the probe made unserved work run, since the driver had lost track
/// of it.
// spec: PRE-099
fn note_if_served(recovery: &Recovery, engine: EngineId) {
    let unserved = recovery.detector.engine(engine, |state| state.unserved.take());
    let Some(work) = unserved else { return };
    let of_work = |queue: &HwQueue| QueueNumber::from(queue.os_handle) == work.queue;
    let moved = |queue: &Arc<HwQueue>| {
        queue.device.check().is_ok() && queue.progress.fence.value() > work.reported
    };
    if let Some(call) = work.calls.last()
        && recovery.objects.hw_queues_of(of_work).iter().any(moved)
    {
        recovery.port.note_driver_fault(
            call.entry,
            format!("work ran only after DxgkDdiResumeContext: {work}"),
        );
    }
}

/// Returns a finding for work that the driver accepted, does not run, and does not report as
/// held back.
fn lost_work(recovery: &Recovery, context: OsHandle, resets: u64) -> Option<Finding> {
    let context = recovery.objects.hw_contexts.lock().get(context)?;
    let work = recovery.objects.outstanding_work().into_iter();
    let work = work.filter(|work| work.context == context.os_handle).collect();
    let engine = context.engine;
    let cause = TimeoutCause::WorkNotServed { engine, work };
    let suspects = vec![Culprit::of_context(&context)];
    let (engine, suspects_all, had_packets) = (Some(engine), false, false);
    Some(Finding { cause, engine, suspects, suspects_all, had_packets, resets })
}

/// The context that the driver names as the running one.
enum Named {
    None,
    Context(OsHandle),
    /// It does not exist, or belongs to another engine.
    Wrong,
}

fn observe(recovery: &Recovery, level: &Passive, engine: EngineId) -> EngineSample {
    let timed = recovery.objects.hw_queues_of(|q| q.engine() == engine && is_timed(q));
    // Abandoned work of a lost device is never done. The engine may still run it.
    let has_work = |q: &&Arc<HwQueue>| q.device.check().is_ok() && q.has_work(&recovery.objects);
    let busy: Vec<_> = timed.iter().filter(has_work).cloned().collect();
    let idle = EngineSample {
        announced: 0,
        responsive: true,
        works_for: None,
        progress: 0,
        unserved: None,
    };
    // The driver is asked without work that the kernel knows of: a process may ring without an
    // announcement, and an engine may run what a queue left that has ended.
    // spec: PRE-160
    if busy.is_empty()
        && !recovery.port.declared.caps.nodes[engine.node_ordinal as usize].context_scheduling
    {
        return idle;
    }
    let done: u64 = busy.iter().map(|q| q.progress.fence.value()).fold(0, u64::wrapping_add);
    let wanted: u64 =
        busy.iter().map(|q| q.announced_by_anyone(&recovery.objects)).fold(0, u64::wrapping_add);
    let announced = (done.wrapping_mul(3) ^ wanted.wrapping_mul(5)).max(1);
    // A driver that cannot name the running context is probed for the first queue that makes no
    // progress, and then for every one. A queue that only waits acknowledges the probe immediately.
    let by_progress = |responsive| match busy.first() {
        Some(first) => {
            let works_for = Some(first.context.os_handle);
            EngineSample { announced, responsive, works_for, progress: done, unserved: None }
        }
        None => EngineSample { announced: u64::from(!responsive), responsive, ..idle },
    };
    let Ok(status) = recovery.port.driver(level).query_engine_status(level, engine) else {
        return by_progress(true);
    };
    let works_for = match resolve_named(recovery, level, engine, status.hw_context) {
        Named::Wrong => return by_progress(status.responsive),
        Named::Context(context) => Some(context),
        Named::None => None,
    };
    if busy.is_empty() && works_for.is_none() && status.responsive {
        return idle;
    }
    let exempt = |context: OsHandle| {
        let of_context = |q: &HwQueue| q.context.os_handle == context && !is_timed(q);
        !recovery.objects.hw_queues_of(of_context).is_empty()
    };
    // A driver that names no context may run any of them.
    let may_be_exempt = || {
        let on_engine = |q: &HwQueue| q.engine() == engine && !is_timed(q);
        let untimed = recovery.objects.hw_queues_of(on_engine);
        untimed.iter().any(|queue| queue.has_work(&recovery.objects))
    };
    let is_exempt = works_for.map_or_else(may_be_exempt, exempt);
    EngineSample {
        announced,
        responsive: status.responsive || is_exempt,
        works_for: works_for.filter(|_| !is_exempt),
        progress: status.progress,
        unserved: unserved(recovery, &busy, &status),
    }
}

/// Returns whether the work of a queue times out. A lost device has no work to be spared.
fn is_timed(queue: &HwQueue) -> bool {
    queue.has_timeout() || queue.device.check().is_err()
}

/// Checks the context that a driver names as the running one. A wrong one is a fault of the driver.
// spec: PRE-103
fn resolve_named(
    recovery: &Recovery,
    level: &Passive,
    engine: EngineId,
    named: Option<OsHandle>,
) -> Named {
    let Some(handle) = named else { return Named::None };
    let find = || recovery.objects.hw_contexts.lock().named(handle);
    let wrong = match find().map(|context| context.upgrade()) {
        Some(Some(context)) if context.engine == engine => return Named::Context(handle),
        Some(Some(context)) => format!("context {}, which belongs to {}", handle.0, context.engine),
        // Its end is under way.
        Some(None) => return Named::None,
        // It may have ended after the driver was called, but not before it is called again.
        None => {
            let again = recovery.port.driver(level).query_engine_status(level, engine);
            if again.map_or(None, |status| status.hw_context) != named {
                return Named::None;
            }
            format!("context {}, which does not exist", handle.0)
        }
    };
    let noted = recovery.detector.engine(engine, |state| state.noted.replace(handle));
    if noted != Some(handle) {
        note_status_fault(recovery, format!("{engine} works for {wrong}"));
    }
    Named::Wrong
}

/// Records a driver fault if every context was preempted, this one did not leave the engine, and
/// the driver names another context as running.
fn note_wrong_name(recovery: &Recovery, level: &Passive, engine: EngineId, stuck: &Context) {
    let (each, noted) = recovery.detector.engine(engine, |state| (state.probes_each, state.noted));
    if !each {
        return;
    }
    let status = recovery.port.driver(level).query_engine_status(level, engine);
    let named = status.ok().and_then(|status| status.hw_context);
    let stuck = stuck.os_handle;
    if let Some(named) = named.filter(|named| *named != stuck && Some(*named) != noted) {
        let (named, stuck) = (named.0, stuck.0);
        let what = format!("{engine} works for context {named}, and context {stuck} is on it");
        note_status_fault(recovery, what);
    }
}

fn note_status_fault(recovery: &Recovery, what: String) {
    recovery.port.note_driver_fault("DxgkDdiQueryEngineStatus", what);
}

/// Returns the contexts of an engine that timeouts may preempt.
fn contexts_with_timeout(recovery: &Recovery, engine: EngineId) -> Vec<OsHandle> {
    let queues = recovery.objects.hw_queues_of(|q| q.engine() == engine && is_timed(q));
    let mut contexts: Vec<_> = queues.iter().map(|queue| queue.context.os_handle).collect();
    contexts.sort();
    contexts.dedup();
    contexts
}

/// Returns the context of the first queue that the driver does not report as held back, if the
/// engine runs no context. All `queues` have work. A ring without a connected doorbell is skipped,
/// because its process has to connect and ring again.
fn unserved(
    recovery: &Recovery,
    queues: &[Arc<HwQueue>],
    status: &EngineStatus,
) -> Option<OsHandle> {
    let held_back = status.held_back.as_ref().filter(|_| status.hw_context.is_none())?;
    let connected = |queue: &HwQueue| {
        let doorbells = recovery.objects.doorbells.of_queue(queue.os_handle);
        !queue.user_mode_submission || doorbells.iter().any(|doorbell| doorbell.is_connected())
    };
    let mut unserved = queues.iter().filter(|queue| !held_back.contains(&queue.os_handle));
    let queue = unserved.find(|queue| connected(queue))?;
    Some(queue.context.os_handle)
}

/// Sends the preemption requests of hardware queues. An acknowledgement arms the timer. The loss of
/// a device has suspended its contexts already; a probe of one waits for that request.
fn begin_probes(recovery: &Recovery, level: &Passive, engine: EngineId, contexts: &[OsHandle]) {
    let find = |context: &OsHandle| recovery.objects.hw_contexts.lock().get(*context);
    let found: Vec<_> = contexts.iter().filter_map(find).collect();
    found.iter().for_each(|context| context.suspension.probe(level));
    recovery.detector.engine(engine, |state| (state.probes, state.probes_each) = (found, false));
}

/// Schedules a sampling after the timeout delay, because work may have been announced to a
/// hardware queue.
pub(super) fn watch_for_hangs(recovery: &Recovery) {
    if !recovery.port.config.tdr.is_on() || recovery.detector.watched.load() != 0 {
        return;
    }
    if recovery.objects.hw_queues.lock().len() != 0 {
        sample_again(recovery);
    }
}

/// Schedules a sampling after the timeout delay, because an engine has or had work of a hardware
/// queue.
fn sample_again(recovery: &Recovery) {
    let detector = &recovery.detector;
    let delay_ns = recovery.port.config.tdr.delay_ns;
    if !recovery.port.config.tdr.is_on() || detector.watched.load() != 0 {
        return;
    }
    detector.watched.store(1);
    let due = detector.state.lock().sampling.start(recovery.port.platform.now(), delay_ns);
    if let Some(due) = due {
        recovery.port.timer.arm(due);
    }
}
