//! Finds that the GPU makes no progress: packets, hardware queues, and what the driver reports.
//!
//! Packets time out by VidSch's deadlines. Engines of hardware queues are sampled once per timeout
//! delay while work may be announced; a sample in doubt preempts a context (a probe), and a probe
//! without an acknowledgement by the next sample is a timeout. An agent that cannot recover itself
//! reports its finding, which the timer's agent takes.
//!
//! Order of sampling: 1. `watched` is cleared; 2. the engines are sampled. Work announced after 1
//! starts the next sampling, and work announced before is seen in 2.
//!
//! Entry points: [`report_finding`], [`next_deadline`]; the rest is called by `run_detection`.

use super::device_loss;
use super::report::TimeoutCause;
use crate::adapter::Adapter;
use crate::driver::OutstandingWork;
use crate::fence::{monitor, signaled};
use crate::interrupt;
use crate::object::context::Context;
use crate::object::device::Device;
use crate::object::hw_queue::HwQueue;
use crate::stats::Count;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tidegate_ddi::{DevicePowerState, EngineId, EngineStatus, OsHandle, Passive};
use tidegate_platform::{CpuTime, Mutex, Platform, QueueNumber, Word};
use tidegate_vidsch::{EngineSample, EngineWatch, HangVerdict, SampleTimer};

/// How long an interrupt may be under way when a satisfied waiter is found that was not released.
const GRACE_NS: u64 = 1_000_000;

/// A timeout that was found.
pub(crate) struct Finding {
    pub(super) cause: TimeoutCause,
    /// `None` for the adapter as a whole.
    pub(super) engine: Option<EngineId>,
    /// Devices whose work it is, as far as the kernel knows. The driver knows better.
    pub(super) suspects: Vec<Arc<Device>>,
    /// The engine had packets when this was found. They may be complete by now: then nothing is
    /// reset.
    pub(super) had_packets: bool,
}

impl Finding {
    pub(super) fn of_adapter(cause: TimeoutCause) -> Finding {
        Finding { cause, engine: None, suspects: Vec::new(), had_packets: false }
    }

    /// Every device with work on the engine is suspected.
    pub(super) fn of_engine(
        adapter: &Arc<Adapter>,
        engine: EngineId,
        cause: TimeoutCause,
    ) -> Finding {
        let (suspects, had_packets) = device_loss::devices_on(adapter, engine);
        Finding { cause, engine: Some(engine), suspects, had_packets }
    }

    /// A context was not taken off the run list in time: its suspension was not acknowledged, or
    /// was refused.
    pub(crate) fn of_context(context: &Context) -> Finding {
        Finding {
            cause: TimeoutCause::ContextNotSuspended { engine: context.engine },
            engine: Some(context.engine),
            suspects: vec![context.device.clone()],
            had_packets: false,
        }
    }
}

/// What detection keeps between its runs.
pub(super) struct Detector {
    state: Mutex<State>,
    /// Sampling is due already.
    watched: Word,
}

#[derive(Default)]
struct State {
    /// Reports of agents that could not recover themselves, oldest first.
    reported: VecDeque<TimeoutCause>,
    sampling: SampleTimer,
    /// By engine number.
    engines: BTreeMap<u32, EngineState>,
    /// Fences with satisfied waiters, to check again at this time: the interrupt may be under way.
    unreleased: Option<(CpuTime, Vec<OsHandle>)>,
}

#[derive(Default)]
struct EngineState {
    watch: EngineWatch,
    /// The context that was preempted after the last sample.
    probe: Option<Arc<Context>>,
    /// Unserved work at the time of the probe.
    unserved: Option<OutstandingWork>,
}

impl Detector {
    pub(super) fn new(platform: &Platform) -> Detector {
        Detector {
            state: platform.mutex("timeouts", State::default()),
            watched: platform.page(1).word(0).named("the timeouts"),
        }
    }

    /// Drops what it holds of processes.
    pub(super) fn forget(&self) {
        let engines = std::mem::take(&mut self.state.lock().engines);
        drop(engines);
    }

    /// Changes what is kept of one engine.
    fn engine<R>(&self, number: u32, change: impl FnOnce(&mut EngineState) -> R) -> R {
        change(self.state.lock().engines.entry(number).or_default())
    }
}

/// Queues a finding for the timer's agent. Any level. A second finding of the same engine is not
/// queued.
pub(crate) fn report_finding(adapter: &Arc<Adapter>, cause: TimeoutCause) {
    let engine = cause.engine();
    if engine.is_none() && !adapter.config.tdr.is_on() {
        return;
    }
    {
        let mut state = adapter.recovery.detector.state.lock();
        if state.reported.iter().any(|known| known.engine() == engine) {
            return;
        }
        state.reported.push_back(cause);
    }
    adapter.timer.arm(adapter.platform.now());
}

/// The next reported finding. One of the adapter comes first, and is one of every engine.
pub(super) fn take_reported(adapter: &Arc<Adapter>) -> Option<Finding> {
    let cause = {
        let mut state = adapter.recovery.detector.state.lock();
        let whole = state.reported.iter().position(|cause| cause.engine().is_none());
        let whole = whole.and_then(|at| state.reported.remove(at));
        if whole.is_some() {
            state.reported.clear();
        }
        whole.or_else(|| state.reported.pop_front())
    }?;
    Some(match cause.engine() {
        Some(engine) => Finding::of_engine(adapter, engine, cause),
        None => Finding::of_adapter(cause),
    })
}

/// When detection runs next.
pub(super) fn next_deadline(adapter: &Adapter) -> Option<CpuTime> {
    let packets = adapter.sched.next_timeout();
    if !answered_probes(adapter).is_empty() {
        return Some(CpuTime(0));
    }
    let state = adapter.recovery.detector.state.lock();
    if !state.reported.is_empty() {
        return Some(CpuTime(0));
    }
    let recheck = state.unreleased.as_ref().map(|(at, _)| *at);
    packets.into_iter().chain(state.sampling.deadline()).chain(recheck).min()
}

/// Engines that did not answer a preemption request in time, or where the driver takes none, ran a
/// packet for too long.
pub(super) fn timed_out_packets(adapter: &Arc<Adapter>) -> Vec<Finding> {
    if !adapter.config.tdr.is_on() {
        return Vec::new();
    }
    let finding = |engine: EngineId| {
        let work = adapter.outstanding_work().into_iter().filter(|work| work.engine == engine);
        let work = work.collect();
        let first = adapter.sched.lock().contexts_in_flight(engine).first().copied();
        let first = first.and_then(|context| adapter.objects.contexts.lock().get(context));
        let suspects = first.map(|context| context.device.clone()).filter(|d| !d.is_of_kernel());
        let preempts = adapter.sched.lock().preempts();
        let cause = match preempts {
            true => TimeoutCause::PreemptionNotAnswered { engine, work },
            false => TimeoutCause::PacketTooLong { engine, work },
        };
        let suspects = suspects.into_iter().collect();
        Finding { cause, engine: Some(engine), suspects, had_packets: true }
    };
    adapter.sched.take_timed_out().into_iter().map(finding).collect()
}

/// Ends the probes that the driver has acknowledged. Returns whether there was any.
pub(super) fn end_answered_probes(adapter: &Arc<Adapter>, level: &Passive) -> bool {
    let answered = answered_probes(adapter);
    answered.iter().for_each(|number| end_probe(adapter, level, *number));
    !answered.is_empty()
}

/// The engines, by number, whose probe was acknowledged.
fn answered_probes(adapter: &Adapter) -> Vec<u32> {
    let probes: Vec<_> = {
        let state = adapter.recovery.detector.state.lock();
        let probe = |(number, engine): (&u32, &EngineState)| Some((*number, engine.probe.clone()?));
        state.engines.iter().filter_map(probe).collect()
    };
    let answered = probes.iter().filter(|(_, context)| context.suspension.is_acknowledged());
    answered.map(|(number, _)| *number).collect()
}

/// Resumes the context that a probe suspended.
fn end_probe(adapter: &Adapter, level: &Passive, number: u32) {
    let probe = adapter.recovery.detector.engine(number, |engine| {
        engine.watch.forget();
        engine.probe.take()
    });
    if let Some(context) = probe {
        context.suspension.release(level);
    }
}

/// Takes a sampling that is due. Returns whether one was.
pub(super) fn begin_sampling(adapter: &Arc<Adapter>) -> bool {
    let detector = &adapter.recovery.detector;
    if !detector.state.lock().sampling.take_due(adapter.platform.now()) {
        return false;
    }
    // 1.
    detector.watched.store(0);
    adapter.platform.fence();
    true
}

/// All engines were sampled: reports and waiters that no interrupt served are looked for as well.
pub(super) fn end_sampling(adapter: &Arc<Adapter>) {
    interrupt::take_overdue(adapter);
    note_unreleased(adapter);
}

/// Samples one engine, and acts on what that shows but for a timeout, which is returned. An engine
/// of a device without power is not sampled: nothing runs there.
pub(super) fn sample(adapter: &Arc<Adapter>, level: &Passive, number: u32) -> Option<Finding> {
    if adapter.power_state() != DevicePowerState::D0 {
        return None;
    }
    let detector = &adapter.recovery.detector;
    let engine = adapter.caps.engine(number);
    let probe = detector.state.lock().engines.get(&number).and_then(|engine| engine.probe.clone());
    if let Some(context) = probe {
        adapter.watch_for_hangs();
        if context.suspension.is_acknowledged() {
            end_probe(adapter, level, number);
            return None;
        }
        return Some(Finding::of_context(&context));
    }
    let sample = observe(adapter, level, engine);
    note_if_served(adapter, number);
    match detector.engine(number, |engine| engine.watch.judge(sample)) {
        HangVerdict::Rest => None,
        HangVerdict::SampleAgain => {
            adapter.watch_for_hangs();
            None
        }
        HangVerdict::Preempt(context) => {
            adapter.watch_for_hangs();
            if sample.unserved == Some(context) {
                note_unserved(adapter, number, context);
            }
            begin_probe(adapter, level, number, context);
            None
        }
        HangVerdict::Lost(context) => {
            adapter.watch_for_hangs();
            lost_work(adapter, context)
        }
    }
}

/// A finding of [`sample`] was dealt with: its probe ends. A hang that is ignored is not reported
/// again until the engine makes progress.
pub(super) fn end_finding(adapter: &Arc<Adapter>, level: &Passive, number: u32) {
    end_probe(adapter, level, number);
    if adapter.ignores_timeouts() {
        let sample = observe(adapter, level, adapter.caps.engine(number));
        adapter.recovery.detector.engine(number, |engine| engine.watch.ignore(sample));
    }
}

/// Notes the fences that have satisfied waiters, for a second check: the interrupt that releases
/// them may be under way.
fn note_unreleased(adapter: &Arc<Adapter>) {
    let found = signaled::unreleased(&adapter.fences);
    if !found.is_empty() {
        let recheck = adapter.platform.now().after(GRACE_NS);
        let handles = found.iter().map(|fence| fence.os_handle).collect();
        adapter.recovery.detector.state.lock().unreleased = Some((recheck, handles));
    }
}

/// Releases waiters that no interrupt has released within the grace. Returns whether a check was
/// due.
// spec: PRE-097
pub(super) fn release_missed_waiters(adapter: &Arc<Adapter>) -> bool {
    let now = adapter.platform.now();
    let due = adapter.recovery.detector.state.lock().unreleased.take_if(|(at, _)| *at <= now);
    let Some((_, handles)) = due else { return false };
    for fence in signaled::unreleased(&adapter.fences)
        .iter()
        .filter(|fence| handles.contains(&fence.os_handle))
    {
        let (entry, what) = fence.missed_text();
        adapter.count(Count::missed_interrupts);
        adapter.note_driver_fault(entry, what);
        monitor::wake_satisfied(fence);
    }
    true
}

/// Keeps the unserved work for a report, in case the probe makes it run.
fn note_unserved(adapter: &Arc<Adapter>, number: u32, context: OsHandle) {
    let work = adapter.outstanding_work().into_iter().find(|work| work.context == context);
    adapter.recovery.detector.engine(number, |engine| engine.unserved = work);
}

/// Notes a driver fault where the probe made unserved work run: the driver had lost track of it.
// spec: PRE-099
fn note_if_served(adapter: &Arc<Adapter>, number: u32) {
    let unserved = adapter.recovery.detector.engine(number, |engine| engine.unserved.take());
    let Some(work) = unserved else { return };
    let of_work = |queue: &HwQueue| QueueNumber::from(queue.os_handle) == work.queue;
    let moved = |queue: &Arc<HwQueue>| {
        queue.device.check().is_ok() && queue.progress.fence.value() > work.reported
    };
    if let Some(call) = work.calls.last()
        && adapter.objects.hw_queues_of(of_work).iter().any(moved)
    {
        adapter.note_driver_fault(
            call.entry,
            format!("work ran only after DxgkDdiResumeContext: {work}"),
        );
    }
}

/// Work that the driver accepted, does not run, and does not count as held back.
fn lost_work(adapter: &Arc<Adapter>, context: OsHandle) -> Option<Finding> {
    let context = adapter.objects.hw_contexts.lock().get(context)?;
    let work = adapter.outstanding_work().into_iter();
    let work = work.filter(|work| work.context == context.os_handle).collect();
    let engine = context.engine;
    let cause = TimeoutCause::WorkNotServed { engine, work };
    let suspects = vec![context.device.clone()];
    Some(Finding { cause, engine: Some(engine), suspects, had_packets: false })
}

fn observe(adapter: &Arc<Adapter>, level: &Passive, engine: EngineId) -> EngineSample {
    let busy = |q: &HwQueue| {
        q.engine() == engine
            && q.has_timeout()
            && q.device.check().is_ok()
            && q.has_work(&adapter.objects)
    };
    let queues = adapter.objects.hw_queues_of(busy);
    let Some(first) = queues.first() else {
        return EngineSample {
            announced: 0,
            responsive: true,
            works_for: None,
            progress: 0,
            unserved: None,
        };
    };
    let done: u64 = queues.iter().map(|q| q.progress.fence.value()).fold(0, u64::wrapping_add);
    let wanted: u64 =
        queues.iter().map(|q| q.announced_by_anyone(&adapter.objects)).fold(0, u64::wrapping_add);
    let announced = (done.wrapping_mul(3) ^ wanted.wrapping_mul(5)).max(1);
    let exempt = |context: OsHandle| {
        !adapter
            .objects
            .hw_queues_of(|q| q.context.os_handle == context && !q.has_timeout())
            .is_empty()
    };
    match adapter.driver().query_engine_status(level, engine) {
        Ok(status) => EngineSample {
            announced,
            responsive: status.responsive,
            works_for: status.hw_context.filter(|context| !exempt(*context)),
            progress: status.progress,
            unserved: unserved(adapter, &queues, &status),
        },
        // A driver without engine status is probed for the first queue that makes no progress. A
        // queue that only waits acknowledges the probe at once.
        Err(_) => {
            let works_for = Some(first.context.os_handle);
            EngineSample { announced, responsive: true, works_for, progress: done, unserved: None }
        }
    }
}

/// Returns the context of the first queue that the driver does not count as held back, while the
/// engine works for no context. All `queues` have work. A ring without a connected doorbell is left
/// out: its process has to connect and ring again.
fn unserved(adapter: &Adapter, queues: &[Arc<HwQueue>], status: &EngineStatus) -> Option<OsHandle> {
    let held_back = status.held_back.as_ref().filter(|_| status.hw_context.is_none())?;
    let connected = |queue: &HwQueue| {
        let doorbells = adapter.objects.doorbells_of_queue(queue.os_handle);
        !queue.user_mode_submission || doorbells.iter().any(|doorbell| doorbell.is_connected())
    };
    let mut unserved = queues.iter().filter(|queue| !held_back.contains(&queue.os_handle));
    let queue = unserved.find(|queue| connected(queue))?;
    Some(queue.context.os_handle)
}

/// The preemption request of hardware queues. Its acknowledgement arms the timer.
fn begin_probe(adapter: &Arc<Adapter>, level: &Passive, number: u32, context: OsHandle) {
    let found = adapter.objects.hw_contexts.lock().get(context);
    let Some(context) = found.filter(|c| c.device.check().is_ok()) else { return };
    context.suspension.probe(level);
    adapter.recovery.detector.engine(number, |engine| engine.probe = Some(context));
}

/// Work may have been announced to a hardware queue: the engines are sampled when the timeout delay
/// is over.
pub(super) fn watch_for_hangs(adapter: &Adapter) {
    let detector = &adapter.recovery.detector;
    let delay_ns = adapter.config.tdr.delay_ns;
    if !adapter.config.tdr.is_on() || detector.watched.load() != 0 {
        return;
    }
    if adapter.objects.hw_queues.lock().len() == 0 {
        return;
    }
    detector.watched.store(1);
    let due = detector.state.lock().sampling.start(adapter.platform.now(), delay_ns);
    if let Some(due) = due {
        adapter.timer.arm(due);
    }
}
