//! Timeout detection and recovery (TDR) of an adapter, in one direction:
//! 1. `detect` finds that the GPU makes no progress, for packets and for hardware queues;
//! 2. `decide` (pure) says what configuration and recovery window make of a finding;
//! 3. `engine_reset` or `adapter_reset` carries that out, and `device_loss` ends the work at fault;
//! 4. `report` keeps what was found and done, as typed facts.
//!
//! Lock order: `one_at_a_time` comes before every lock but those of a power transition.
//!
//! Entry points: [`TimeoutWatch`] (the timer's agent), [`recover`], [`detect::report_finding`].

mod adapter_reset;
mod blame;
mod decide;
pub(crate) mod detect;
pub(crate) mod device_loss;
mod engine_reset;
mod report;

pub use report::{
    HeldBack, Promotion, RecoveryOutcome, RecoveryReason, RecoveryReport, TimeoutCause, WorkAtReset,
};

use crate::adapter::Adapter;
use crate::config::{TdrConfig, TdrDebugMode};
use crate::driver::FailurePort;
use crate::error::BugCheck;
use crate::object::device::Device;
use crate::stats::Count;
use crate::timer::Watch;
use blame::{Blame, ContextLosses};
use decide::{Decision, EngineAction, RecoveryPolicy, Scope};
use detect::{Detector, Finding};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock, Weak};
use tidegate_calls::{DeviceState, Status, TdrTest};
use tidegate_ddi::{DebugReason, EngineId, HwContextLoss, OsHandle, Passive};
use tidegate_platform::{CpuTime, Mutex, Platform};
use tidegate_trace::{Kind, LaneId};

/// What runs before a recovery begins, for a debugger.
pub type RecoveryHook = Arc<dyn Fn(&RecoveryReport) + Send + Sync>;

/// Timeout detection and recovery of one adapter.
pub(crate) struct Recovery {
    /// Held over all of a recovery.
    one_at_a_time: Mutex<()>,
    policy: Mutex<RecoveryPolicy>,
    detector: Detector,
    losses: ContextLosses,
    history: Mutex<History>,
    lane: OnceLock<LaneId>,
}

/// Past recoveries, and what they left.
#[derive(Default)]
struct History {
    reports: VecDeque<RecoveryReport>,
    count: u64,
    /// Address spaces of processes that are blocked.
    blocked: BTreeSet<u32>,
    hook: Option<RecoveryHook>,
}

/// Why the reset of an engine was not enough.
enum Escalation {
    /// The adapter is reset.
    AdapterReset(Promotion),
    /// The driver broke the contract.
    Stop(BugCheck),
}

impl Recovery {
    pub(crate) fn new(platform: &Platform, config: &TdrConfig) -> Recovery {
        Recovery {
            one_at_a_time: platform.mutex("recovery of an adapter", ()),
            policy: platform.mutex("recovery policy", RecoveryPolicy::new(config)),
            detector: Detector::new(platform),
            losses: ContextLosses::new(platform),
            history: platform.mutex("recovery history", History::default()),
            lane: OnceLock::new(),
        }
    }

    /// Whether a process caused too many timeouts (0x142).
    pub(crate) fn is_blocked(&self, address_space: u32) -> bool {
        self.history.lock().blocked.contains(&address_space)
    }

    /// Makes `change` after the recovery that is under way and before the next.
    pub(crate) fn between_recoveries(&self, change: impl FnOnce()) {
        let _between_recoveries = self.one_at_a_time.lock_device();
        change();
    }

    /// Drops what it holds of processes: the adapter stops.
    pub(crate) fn forget(&self) {
        self.detector.forget();
    }

    /// DxgkCbInvalidateHwContext: what a reset did to a hardware context.
    ///
    /// # Errors
    /// INVALID_PARAMETER for an unknown context, and outside of a reset.
    pub(crate) fn invalidated(
        &self,
        adapter: &Adapter,
        context: OsHandle,
        loss: HwContextLoss,
    ) -> Result<(), Status> {
        let found = adapter.objects.hw_contexts.lock().get(context);
        self.losses.note(found.ok_or(Status::INVALID_PARAMETER)?, loss)
    }

    fn keep(&self, mut report: RecoveryReport) {
        let mut history = self.history.lock();
        history.count += 1;
        report.number = history.count;
        if history.reports.len() == report::KEPT {
            history.reports.pop_front();
        }
        history.reports.push_back(report);
    }
}

/// The deadlines of detection, and the recoveries that are due.
pub(crate) struct TimeoutWatch(pub(crate) Weak<Adapter>);

impl Watch for TimeoutWatch {
    fn name(&self) -> &'static str {
        "timeouts"
    }

    fn next_deadline(&self) -> Option<CpuTime> {
        detect::next_deadline(&*self.0.upgrade()?)
    }

    fn run(&self, level: &Passive) -> bool {
        self.0.upgrade().is_some_and(|adapter| run_detection(&adapter, level))
    }
}

/// Recovers from all timeouts that are found now. Returns whether anything changed.
fn run_detection(adapter: &Arc<Adapter>, level: &Passive) -> bool {
    // 1. Findings of agents that could not recover themselves.
    let mut changed = recover_reported(adapter, level);
    // 2. Packets.
    for finding in detect::timed_out_packets(adapter) {
        changed = true;
        recover(adapter, level, finding);
    }
    // 3. Hardware queues: preemption requests that were answered end.
    changed |= detect::end_answered_probes(adapter, level);
    changed |= detect::release_missed_waiters(adapter);
    // 4. Hardware queues: all engines are sampled.
    if detect::begin_sampling(adapter) {
        changed = true;
        for number in 0..adapter.caps.engine_count() {
            if let Some(finding) = detect::sample(adapter, level, number) {
                recover(adapter, level, finding);
                detect::end_finding(adapter, level, number);
            }
        }
        detect::end_sampling(adapter);
    }
    changed
}

/// Recovers from the findings that were reported. Returns whether there was any.
fn recover_reported(adapter: &Arc<Adapter>, level: &Passive) -> bool {
    let mut any = false;
    while let Some(finding) = detect::take_reported(adapter) {
        any = true;
        recover(adapter, level, finding);
    }
    any
}

/// Recovers from a timeout, as it is configured.
pub(crate) fn recover(adapter: &Arc<Adapter>, level: &Passive, finding: Finding) {
    let Finding { cause, engine, suspects, had_packets } = finding;
    if decide::only_loses_devices(&adapter.config.tdr, &cause) {
        let reason = cause.to_string();
        for device in &suspects {
            device_loss::lose_device(adapter, level, device, DeviceState::Hung(reason.clone()));
        }
        return;
    }
    let _one_at_a_time = adapter.recovery.one_at_a_time.lock_device();
    if adapter.check().is_err() {
        return;
    }
    let start_ns = adapter.platform.stamp_ns();
    let mut report = report::collect(adapter, level, engine, cause, &suspects);
    match engine {
        None => recover_adapter(adapter, level, &mut report, &[]),
        Some(engine) => {
            let found = (suspects.as_slice(), had_packets);
            recover_engine(adapter, level, engine, found, &mut report, start_ns);
        }
    }
    adapter.recovery.keep(report);
}

fn recover_engine(
    adapter: &Arc<Adapter>,
    level: &Passive,
    engine: EngineId,
    (suspects, had_packets): (&[Arc<Device>], bool),
    report: &mut RecoveryReport,
    start_ns: u64,
) {
    if !may_begin(adapter, report, Scope::Engine) {
        return;
    }
    adapter.count(Count::engine_timeouts);
    adapter.record_recovery_step(&format!("detected: {}", report.reason), start_ns);
    let has_packets = had_packets || adapter.sched.lock().has_packets(engine);
    let done = match decide::engine_action(&report.reason.cause, has_packets) {
        EngineAction::LoseDevices => {
            let blame = Blame { culprits: suspects.to_vec(), bystanders: Vec::new() };
            lose_work(adapter, level, report, &blame, engine);
            report.outcome = RecoveryOutcome::DeviceLost;
            Ok(())
        }
        EngineAction::ResetPackets => {
            engine_reset::carry_out(adapter, level, engine, engine_reset::Work::Packets, report)
        }
        EngineAction::ResetHwQueues => {
            let work = engine_reset::Work::HwQueues(suspects);
            engine_reset::carry_out(adapter, level, engine, work, report)
        }
    };
    match done {
        Ok(()) => {}
        Err(Escalation::Stop(bug)) => stop_adapter(adapter, report, bug),
        Err(Escalation::AdapterReset(promotion)) => {
            report.reason.promotion = Some(promotion);
            recover_adapter(adapter, level, report, suspects);
        }
    }
    adapter.record_recovery(&format!("recovery of {engine}"), start_ns, u64::from(report.code));
}

// spec: PRE-051
fn recover_adapter(
    adapter: &Arc<Adapter>,
    level: &Passive,
    report: &mut RecoveryReport,
    guilty: &[Arc<Device>],
) {
    report.code = DebugReason::TimeoutDetected as u32;
    if !may_begin(adapter, report, Scope::Adapter) {
        return;
    }
    adapter.count(Count::adapter_resets);
    let start_ns = adapter.platform.stamp_ns();
    match adapter_reset::carry_out(adapter, level, guilty, &report.reason) {
        Ok(lost) => {
            report.lost.extend(lost);
            report.outcome = RecoveryOutcome::AdapterReset;
        }
        Err(bug) => {
            report.code = DebugReason::TimeoutFailure as u32;
            stop_adapter(adapter, report, bug);
        }
    }
    adapter.record_recovery("adapter reset", start_ns, u64::from(report.code));
}

fn stop_adapter(adapter: &Arc<Adapter>, report: &mut RecoveryReport, bug: BugCheck) {
    report.outcome = RecoveryOutcome::Fatal(bug.clone());
    adapter.bug_check(bug);
}

/// Whether policy lets a recovery begin. The report says why not.
fn may_begin(adapter: &Arc<Adapter>, report: &mut RecoveryReport, scope: Scope) -> bool {
    let (decision, breaks) = {
        let mut policy = adapter.recovery.policy.lock();
        (policy.decide(scope, adapter.platform.now()), policy.breaks())
    };
    if decision == Decision::Ignore {
        report.outcome = RecoveryOutcome::Ignored;
        return false;
    }
    let hook = if breaks { adapter.recovery.history.lock().hook.clone() } else { None };
    if let Some(hook) = hook {
        hook(report);
    }
    let bug = match decision {
        Decision::StopAtFirst => BugCheck::Timeout(report.reason.to_string()),
        Decision::StopAtLimit => BugCheck::TooManyTimeouts(report.reason.to_string()),
        Decision::Recover | Decision::Ignore => return true,
    };
    report.code = DebugReason::TimeoutFailure as u32;
    stop_adapter(adapter, report, bug);
    false
}

/// The devices whose work was cut off are lost, and no others.
// spec: PRE-053
fn lose_work(
    adapter: &Arc<Adapter>,
    level: &Passive,
    report: &mut RecoveryReport,
    blame: &Blame,
    engine: EngineId,
) {
    let now = adapter.platform.now();
    for device in &blame.culprits {
        let queues = device_loss::queues_of(adapter, device);
        report.work.iter_mut().filter(|w| queues.contains(&w.queue)).for_each(|w| w.guilty = true);
        let reason = DeviceState::Hung(report.reason.to_string());
        if device_loss::lose_device(adapter, level, device, reason) {
            report.lost.extend(queues.first().map(|queue| (*queue, true)));
        }
        let process = device.space.number;
        if adapter.recovery.policy.lock().blocks_process(process, now) {
            report.blocked |= adapter.recovery.history.lock().blocked.insert(process);
        }
    }
    for device in &blame.bystanders {
        let what =
            format!("{engine} was reset for the work of another device, and work on it was lost");
        let queues = device_loss::queues_of(adapter, device);
        if device_loss::lose_device(adapter, level, device, DeviceState::Reset(what)) {
            report.lost.extend(queues.first().map(|queue| (*queue, false)));
        }
    }
}

impl FailurePort for Adapter {
    fn lose_devices(self: Arc<Adapter>) {
        let devices = self.objects.devices.lock().live();
        device_loss::lose_devices_later(&self, devices, &DeviceState::Stopped);
    }

    fn context_not_suspended(self: Arc<Adapter>, level: &Passive, context: OsHandle) -> bool {
        let context = self.objects.hw_contexts.lock().get(context);
        let Some(context) = context else { return false };
        recover(&self, level, Finding::of_context(&context));
        context.device.check().is_ok()
    }

    fn watch_for_hangs(&self) {
        detect::watch_for_hangs(self);
    }
}

impl Adapter {
    /// The reports of the last 16 recoveries, the oldest first.
    pub fn recoveries(&self) -> Vec<RecoveryReport> {
        self.recovery.history.lock().reports.iter().cloned().collect()
    }

    /// Names the hook that runs before a recovery begins, where TdrDebugMode or
    /// [`TdrTest::EnableBreak`] asks for it. The recovery continues when the hook returns.
    pub fn before_recovery(&self, hook: RecoveryHook) {
        self.recovery.history.lock().hook = Some(hook);
    }

    /// D3DKMT_TDRDBGCTRLTYPE: has the adapter behave as if it had timed out, or changes how
    /// timeouts are treated. A forced recovery is over when this returns.
    ///
    /// # Errors
    /// NOT_SUPPORTED for tests of displays; INVALID_PARAMETER for an unknown engine; DEVICE_REMOVED
    /// when a driver contract was broken.
    pub fn debug_timeouts(self: &Arc<Adapter>, test: TdrTest) -> Result<(), Status> {
        let level = &Passive::enter();
        self.check()?;
        match test {
            TdrTest::ForceTdr | TdrTest::GpuTdr => {
                recover(self, level, Finding::of_adapter(TimeoutCause::AdapterForced));
            }
            TdrTest::EngineTdr { node_ordinal, engine_ordinal } => {
                let engine = EngineId { node_ordinal, engine_ordinal };
                self.check_engine(engine).map_err(|_| Status::INVALID_PARAMETER)?;
                let cause = TimeoutCause::EngineForced { engine };
                recover(self, level, Finding::of_engine(self, engine, cause));
            }
            TdrTest::DisableBreak => self.recovery.policy.lock().set_break(false),
            TdrTest::EnableBreak => self.recovery.policy.lock().set_break(true),
            TdrTest::Unconditional => self.recovery.policy.lock().recover_always(),
            TdrTest::VSyncTdr | TdrTest::ForceDodTdr | TdrTest::ForceDodVSyncTdr => {
                return Err(Status::NOT_SUPPORTED);
            }
        }
        self.check()
    }

    /// The TDR mode of debugging says that timeouts are reported and nothing is done.
    fn ignores_timeouts(&self) -> bool {
        self.config.tdr.debug_mode == TdrDebugMode::Ignore
    }

    /// Records a recovery that ends now.
    fn record_recovery(&self, what: &str, start_ns: u64, code: u64) {
        self.record_on((&self.recovery.lane, "recovery"), (Kind::Recovery, what), start_ns, code);
    }

    /// Records a step of a recovery; the step ends now.
    fn record_recovery_step(&self, what: &str, start_ns: u64) {
        self.record_on((&self.recovery.lane, "recovery"), (Kind::Mark, what), start_ns, 0);
    }
}
