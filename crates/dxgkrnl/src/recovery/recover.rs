//! Recovers from a timeout: decides and carries out the decision.
//!
//! Entry points: [`recover`], and the ports that lower rooms call.

use super::blame::{Blame, Culprit};
use super::decide::{self, Decision, EngineAction, Scope};
use super::detector::Finding;
use super::device_loss::{self, lose_work};
use super::engine_reset::{self, Escalation};
use super::report::{RecoveryOutcome, RecoveryReport, TimeoutCause, WorkAtReset};
use super::state::Recovery;
use super::{adapter_reset, collect, detect};
use crate::driver::FailurePort;
use crate::error::BugCheck;
use crate::object::RecoveryPort;
use crate::object::RefusedCommands;
use crate::object::context::Context;
use crate::object::device::Device;
use crate::object::hw_queue::HwQueue;
use crate::stats::Count;
use std::sync::Arc;
use tidegate_calls::{DeviceErrorReason, DeviceState, Status, TdrTest};
use tidegate_ddi::{DebugReason, EngineId, EngineStatus, Irql, OsHandle, Passive};
use tidegate_platform::planted;

/// Recovers from a timeout as configured.
pub(super) fn recover(recovery: &Recovery, level: &Passive, finding: Finding) {
    let Finding { cause, engine, mut suspects, suspects_all, had_packets, resets } = finding;
    if decide::only_loses_devices(&recovery.port.config.tdr, &cause) {
        let work = collect::work_of(recovery, engine, &[]);
        for culprit in &suspects {
            let hang = device_loss::hang_of(recovery, culprit, &work, cause.to_string());
            device_loss::lose_device(recovery, level, &culprit.device, DeviceState::Hung(hang));
        }
        return;
    }
    let _one_at_a_time = recovery.one_at_a_time.lock_device();
    if recovery.port.check().is_err() || is_stale(recovery, &cause, resets) {
        return;
    }
    let start_ns = recovery.port.platform.stamp_ns();
    let mut report = collect::collect(recovery, level, engine, cause);
    if suspects_all && let Some(engine) = engine {
        narrow_down(recovery, level, engine, &mut suspects, &report);
    }
    device_loss::mark_guilty(&mut report, &suspects);
    match engine {
        None => recover_adapter(recovery, level, &mut report, Blame::default()),
        Some(engine) => {
            let found = Found { suspects: &suspects, had_packets, start_ns };
            recover_engine(recovery, level, engine, found, &mut report);
        }
    }
    recovery.keep(report);
}

/// Returns whether a reset that was over before this recovery has ended what was found. The engine
/// runs other work now, which a second reset would cut off.
// spec: PRE-165
fn is_stale(recovery: &Recovery, cause: &TimeoutCause, resets: u64) -> bool {
    !cause.is_forced() && recovery.detector.resets(cause.engine()) != resets
}

/// Reduces the suspects to what the engine runs: innocent work waits behind it. Without any fact
/// about that, all of them stay suspected.
fn narrow_down(
    recovery: &Recovery,
    level: &Passive,
    engine: EngineId,
    suspects: &mut Vec<Culprit>,
    report: &RecoveryReport,
) {
    let running: Vec<_> = report.work.iter().filter(|work| work.running).collect();
    if !running.is_empty() {
        let of_running = |work: &&WorkAtReset| {
            let device = recovery.objects.devices.lock().get(work.device)?;
            let context = Some(work.context);
            (!device.is_of_kernel()).then_some(Culprit { device, context, packet: None })
        };
        *suspects = running.iter().filter_map(of_running).collect();
        return;
    }
    let status = recovery.port.driver(level).query_engine_status(level, engine);
    let Ok(EngineStatus { responsive, hw_context, .. }) = status else { return };
    match hw_context {
        Some(context) => {
            let context = recovery.objects.hw_contexts.lock().get(context);
            if let Some(context) = context.filter(|context| context.engine == engine) {
                *suspects = vec![Culprit::of_context(&context)];
            }
        }
        // Nothing runs, so the reset interrupts nothing. A driver that reported a hang knows more.
        None if responsive
            && matches!(report.reason.cause, TimeoutCause::EngineForced { .. })
            && !recovery.objects.sched.lock().has_packets(engine) =>
        {
            suspects.clear();
        }
        None => {}
    }
}

/// What detection found on an engine.
struct Found<'a> {
    suspects: &'a [Culprit],
    had_packets: bool,
    /// When its recovery began, on the timeline.
    start_ns: u64,
}

fn recover_engine(
    recovery: &Recovery,
    level: &Passive,
    engine: EngineId,
    Found { suspects, had_packets, start_ns }: Found<'_>,
    report: &mut RecoveryReport,
) {
    if !may_begin(level.into(), recovery, report, Scope::Engine) {
        return;
    }
    recovery.port.count(Count::engine_timeouts);
    recovery.record_recovery_step(&format!("detected: {}", report.reason), start_ns);
    let cause = &report.reason.cause;
    // A reset of any kind empties the ring of packets, so none is on its way to it.
    // spec: PRE-166
    if decide::resets_engine(cause) && !planted!(recovery.port.platform, PacketsEnterBesideAReset) {
        recovery.objects.sched.stop_engine(level, engine);
    }
    let has_packets = had_packets || recovery.objects.sched.lock().has_packets(engine);
    let mut blame = Blame::default();
    let done = match decide::engine_action(cause, has_packets) {
        EngineAction::LoseDevices => {
            blame.culprits.extend_from_slice(suspects);
            lose_work(recovery, level, report, &blame, engine);
            report.outcome = RecoveryOutcome::DeviceLost;
            Ok(())
        }
        EngineAction::ResetPackets => {
            let is_told_once = decide::is_told_once(cause);
            let packets = engine_reset::Work::Packets;
            let done =
                engine_reset::carry_out(recovery, level, engine, packets, &mut blame, report);
            // The packets were not at fault, and detection does not find this again.
            let of_engine = |queue: &HwQueue| queue.engine() == engine;
            if is_told_once
                && done.is_ok()
                && report.outcome == RecoveryOutcome::NothingLeft
                && !recovery.objects.hw_queues_of(of_engine).is_empty()
            {
                recovery.objects.sched.stop_engine(level, engine);
                let work = engine_reset::Work::HwQueues(suspects);
                engine_reset::carry_out(recovery, level, engine, work, &mut blame, report)
            } else {
                done
            }
        }
        EngineAction::ResetHwQueues => {
            let work = engine_reset::Work::HwQueues(suspects);
            engine_reset::carry_out(recovery, level, engine, work, &mut blame, report)
        }
    };
    match done {
        Ok(()) => {}
        Err(Escalation::Stop(bug)) => stop_adapter(level.into(), recovery, report, bug),
        Err(Escalation::AdapterReset(promotion)) => {
            report.reason.promotion = Some(promotion);
            blame.fall_back_to(suspects);
            // What the reset of the engine has cut off is gone.
            // spec: PRE-173
            recover_adapter(recovery, level, report, blame);
        }
    }
    recovery.record_recovery(&format!("recovery of {engine}"), start_ns, u64::from(report.code));
}

// spec: PRE-051
fn recover_adapter(
    recovery: &Recovery,
    level: &Passive,
    report: &mut RecoveryReport,
    blame: Blame,
) {
    report.code = DebugReason::TimeoutDetected as u32;
    if !may_begin(level.into(), recovery, report, Scope::Adapter) {
        return;
    }
    recovery.port.count(Count::adapter_resets);
    let start_ns = recovery.port.platform.stamp_ns();
    match adapter_reset::carry_out(recovery, level, blame, report) {
        Ok(lost) => {
            report.lost.extend(lost);
            report.outcome = RecoveryOutcome::AdapterReset;
        }
        Err(bug) => {
            report.code = DebugReason::TimeoutFailure as u32;
            stop_adapter(level.into(), recovery, report, bug);
        }
    }
    recovery.record_recovery("adapter reset", start_ns, u64::from(report.code));
}

fn stop_adapter(level: Irql<'_>, recovery: &Recovery, report: &mut RecoveryReport, bug: BugCheck) {
    report.outcome = RecoveryOutcome::Fatal(bug.clone());
    recovery.port.bug_check(level, bug);
}

/// Returns whether policy allows a recovery. If not, the report gives the reason.
fn may_begin(
    level: Irql<'_>,
    recovery: &Recovery,
    report: &mut RecoveryReport,
    scope: Scope,
) -> bool {
    let (decision, breaks) = {
        let mut policy = recovery.policy.lock();
        (policy.decide(scope, recovery.port.platform.now()), policy.breaks())
    };
    if decision == Decision::Ignore {
        report.outcome = RecoveryOutcome::Ignored;
        return false;
    }
    let hook = if breaks { recovery.history.lock().hook.clone() } else { None };
    if let Some(hook) = hook {
        let _contained = recovery.port.platform.call_foreign(|| hook(report));
    }
    let bug = match decision {
        Decision::StopAtFirst => BugCheck::Timeout(report.reason.to_string()),
        Decision::StopAtLimit => BugCheck::TooManyTimeouts(report.reason.to_string()),
        Decision::Recover | Decision::Ignore => return true,
    };
    report.code = DebugReason::TimeoutFailure as u32;
    stop_adapter(level, recovery, report, bug);
    false
}

impl FailurePort for Recovery {
    fn lose_devices(self: Arc<Self>, level: Irql<'_>) {
        let devices = self.objects.devices.lock().live();
        device_loss::lose_devices_later(&self, level, devices, &DeviceState::Stopped);
    }

    fn context_not_suspended(self: Arc<Self>, level: &Passive, context: OsHandle) -> bool {
        let context = self.objects.hw_contexts.lock().get(context);
        let Some(context) = context else { return false };
        let resets = self.detector.resets(Some(context.engine));
        // A reset for another wait acknowledges it before the reset is counted.
        if !context.suspension.is_acknowledged() {
            recover(&self, level, Finding::of_context(&context, resets));
        }
        context.device.check().is_ok()
    }

    fn watch_for_hangs(&self) {
        detect::watch_for_hangs(self);
    }
}

impl RecoveryPort for Recovery {
    fn is_blocked(&self, address_space: u32) -> bool {
        Recovery::is_blocked(self, address_space)
    }

    fn debug_timeouts(self: Arc<Self>, level: &Passive, test: TdrTest) -> Result<(), Status> {
        Recovery::debug_timeouts(&self, level, test)
    }

    fn lose_marked_device(&self, level: &Passive, device: &Arc<Device>, reason: DeviceErrorReason) {
        device_loss::lose_device(self, level, device, DeviceState::MarkedAsError(reason));
    }

    fn commands_refused(
        self: Arc<Self>,
        level: Irql<'_>,
        device: &Arc<Device>,
        engine: EngineId,
        of: RefusedCommands,
    ) {
        device_loss::commands_refused(&self, level, device, engine, of);
    }

    fn split_refused(
        self: Arc<Self>,
        level: Irql<'_>,
        context: &Arc<Context>,
        offset: u32,
        what: String,
    ) {
        device_loss::split_refused(&self, level, context, offset, what);
    }
}

impl Recovery {
    /// D3DKMT_TDRDBGCTRLTYPE: forces a timeout of the adapter, or changes how timeouts are handled.
    /// A forced recovery is complete on return.
    ///
    /// # Errors
    /// NOT_SUPPORTED for a test of a display that the adapter lacks, and for tests of adapters that
    /// only display; INVALID_PARAMETER for an unknown engine; DEVICE_REMOVED
    /// when a driver contract was broken.
    pub(crate) fn debug_timeouts(
        self: &Arc<Self>,
        level: &Passive,
        test: TdrTest,
    ) -> Result<(), Status> {
        self.port.check()?;
        match test {
            TdrTest::ForceTdr | TdrTest::GpuTdr => {
                recover(self, level, Finding::of_adapter(TimeoutCause::AdapterForced, 0));
            }
            TdrTest::EngineTdr { node_ordinal, engine_ordinal } => {
                let engine = EngineId { node_ordinal, engine_ordinal };
                self.port.check_engine(engine).map_err(|_| Status::INVALID_PARAMETER)?;
                let cause = TimeoutCause::EngineForced { engine };
                recover(self, level, detect::of_engine(self, engine, cause, 0));
            }
            TdrTest::DisableBreak => self.policy.lock().set_break(false),
            TdrTest::EnableBreak => self.policy.lock().set_break(true),
            TdrTest::Unconditional => self.policy.lock().recover_always(),
            // The display does not acknowledge a flip in time.
            TdrTest::VSyncTdr if self.display.is_some() => {
                recover(self, level, Finding::of_adapter(TimeoutCause::AdapterForced, 0));
            }
            // An adapter without a display, and tests of adapters that only display.
            TdrTest::VSyncTdr | TdrTest::ForceDodTdr | TdrTest::ForceDodVSyncTdr => {
                return Err(Status::NOT_SUPPORTED);
            }
        }
        self.port.check()
    }
}
