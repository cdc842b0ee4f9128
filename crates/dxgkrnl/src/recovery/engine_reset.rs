//! The recovery of one engine, in the published order: the engine is reset, the devices whose work
//! was interrupted are lost, the engine resumes.
//!
//! Entry point: [`carry_out`].

use super::blame::{Blame, Culprit};
use super::device_loss::lose_work;
use super::report::{Promotion, RecoveryOutcome, RecoveryReport};
use super::state::Recovery;
use crate::error::BugCheck;
use tidegate_ddi::{EngineId, Passive};

/// Why the reset of an engine was not enough.
pub(super) enum Escalation {
    /// The adapter must be reset.
    AdapterReset(Promotion),
    /// The driver violated the contract.
    Stop(BugCheck),
}

/// The work that an engine is reset for.
pub(super) enum Work<'a> {
    Packets,
    /// Work of hardware queues, with the work to blame if the driver names none.
    HwQueues(&'a [Culprit]),
}

/// Resets an engine, loses the devices whose work was interrupted, and resumes the engine. The
/// caller has stopped submissions to it.
///
/// # Errors
/// The reset was not enough. `blame` has what it interrupted.
pub(super) fn carry_out(
    recovery: &Recovery,
    level: &Passive,
    engine: EngineId,
    work: Work<'_>,
    blame: &mut Blame,
    report: &mut RecoveryReport,
) -> Result<(), Escalation> {
    // 1. The engine is reset.
    let reset_ns = recovery.port.platform.stamp_ns();
    let reset = match &work {
        Work::Packets => reset_packets(recovery, level, engine, &mut 0, blame),
        Work::HwQueues(suspects) => reset_hw_queues(recovery, level, engine, suspects, blame),
    };
    recovery.record_recovery_step("engine suspended and reset", reset_ns);
    if reset? == WasReset::No {
        report.outcome = RecoveryOutcome::NothingLeft;
        return Ok(());
    }
    // 2. The devices whose work was interrupted are lost.
    let lost_ns = recovery.port.platform.stamp_ns();
    lose_work(recovery, level, report, blame, engine);
    report.outcome = RecoveryOutcome::EngineReset;
    recovery.record_recovery_step("work that was cut off is lost", lost_ns);
    // 3. The engine resumes.
    let resumed_ns = recovery.port.platform.stamp_ns();
    if matches!(work, Work::HwQueues(_)) {
        let resumed = recovery.port.driver(level).resume_hw_engine(level, engine);
        resumed.map_err(|status| failed("DxgkDdiResumeHwEngine", status))?;
    }
    recovery.objects.sched.resume_engine(level, engine);
    recovery.record_recovery_step("engine resumed", resumed_ns);
    Ok(())
}

/// Whether an engine had work to reset.
#[derive(PartialEq, Eq)]
enum WasReset {
    No,
    Yes,
}

fn failed(ddi: &'static str, status: tidegate_ddi::Status) -> Escalation {
    Escalation::AdapterReset(Promotion::DdiFailed { ddi, status })
}

/// Calls DxgkDdiResetHwEngine, during which the driver names the interrupted contexts.
fn reset_hw_queues(
    recovery: &Recovery,
    level: &Passive,
    engine: EngineId,
    suspects: &[Culprit],
    blame: &mut Blame,
) -> Result<WasReset, Escalation> {
    let reset = || recovery.port.driver(level).reset_hw_engine(level, engine);
    let reset = recovery.losses.collect(blame, reset);
    reset.map_err(|status| failed("DxgkDdiResetHwEngine", status))?;
    // No context is left on the engine, so all their suspensions are complete.
    recovery.complete_suspensions(|context| context.engine == engine);
    recovery.detector.note_reset(engine);
    blame.fall_back_to(suspects);
    Ok(WasReset::Yes)
}

/// Resets an engine that has packets and did not acknowledge a preemption request in time. Also
/// resets the engines that depend on it, except the nodes in `seen`, whose reset is in progress.
///
/// 1, 2. The caller has stopped submissions to the engine (`recover_engine`, or
/// `preempt_dependents` for a dependent engine), so none is under way and none follows.
fn reset_packets(
    recovery: &Recovery,
    level: &Passive,
    engine: EngineId,
    seen: &mut u64,
    blame: &mut Blame,
) -> Result<WasReset, Escalation> {
    if !recovery.port.declared.caps.per_engine_tdr {
        return Err(Escalation::AdapterReset(Promotion::NoEngineReset));
    }
    // 3. Atomically at interrupt level: read the last submitted and last completed packets, and
    //    ignore later interrupts of the engine's packets.
    // spec: PRE-047
    let (completed, submitted) = recovery.objects.sched.snapshot(engine);
    // 4. With no packet left, no reset is needed. The packets were completed by reports that may
    //    still be pending.
    // spec: PRE-048
    if completed == submitted {
        flush_reports(recovery, level);
        recovery.objects.sched.resume_engine(level, engine);
        return Ok(WasReset::No);
    }
    // 5. Earlier reports are taken.
    flush_reports(recovery, level);
    // 6. Dependent engines return their packets or are reset as well.
    // spec: PRE-046
    let group = recovery.port.driver(level).query_dependent_engine_group(level, engine);
    let group = group.map_err(|status| failed("DxgkDdiQueryDependentEngineGroup", status))?;
    let node = engine.node_ordinal;
    if group >> node & 1 == 0 {
        return Err(Escalation::Stop(BugCheck::DependentEngines { node, group }));
    }
    *seen |= 1 << node;
    let dependents = recovery.objects.sched.preempt_dependents(level, engine, group & !*seen);
    *seen |= group;
    // 7. The engine is reset.
    let reset = || recovery.port.driver(level).reset_engine(level, engine);
    let named_before = blame.culprits.len();
    let aborted = recovery.losses.collect(blame, reset);
    let aborted = aborted.map_err(|status| failed("DxgkDdiResetEngine", status))?;
    // 8. The packet that the driver names was in flight.
    // spec: PRE-049
    if !lies_between(completed, aborted, submitted) {
        let bug = BugCheck::AbortedFence { engine, aborted, completed, submitted };
        return Err(Escalation::Stop(bug));
    }
    recovery.complete_suspensions(|context| context.engine == engine);
    recovery.detector.note_reset(engine);
    // 9. The device of the interrupted packet is to blame, unless the driver names a hardware queue
    //    that the engine ran: then the packet only lost its work. Later packets are resubmitted
    //    when the engine resumes.
    let cut_off = recovery.objects.sched.lock().note_reset(engine, aborted, aborted != completed);
    if let Some((context, pages)) = cut_off {
        let context = recovery.objects.contexts.lock().get(context);
        let of_process = context.filter(|context| !context.device.is_of_kernel());
        match (of_process, blame.culprits.len() == named_before) {
            (Some(context), true) => blame
                .culprits
                .push(Culprit { packet: Some(aborted), ..Culprit::of_context(&context) }),
            (Some(context), false) => blame.bystanders.push(context.device.clone()),
            (None, _) => {}
        }
        if pages {
            return Err(Escalation::AdapterReset(Promotion::PagingCutOff));
        }
    }
    // 10. Engines that did not return their packets are reset, in ordinal order.
    for dependent in &dependents.silent {
        reset_packets(recovery, level, *dependent, seen, blame)?;
    }
    for dependent in dependents.empty.iter().chain(&dependents.silent) {
        recovery.objects.sched.resume_engine(level, *dependent);
    }
    Ok(WasReset::Yes)
}

/// Takes all reports of the driver that are pending.
fn flush_reports(recovery: &Recovery, level: &Passive) {
    if let Some(reports) = recovery.objects.sched.reports.get() {
        reports.flush_reports(level);
    }
}

/// Returns whether `id` lies in the wrapping range from `first` to `last`, inclusive.
fn lies_between(first: u32, id: u32, last: u32) -> bool {
    id.wrapping_sub(first) <= last.wrapping_sub(first)
}

#[cfg(test)]
mod tests {
    use super::lies_between;

    #[test]
    fn packet_numbers_are_compared_on_a_line_that_wraps() {
        assert!(lies_between(3, 3, 5) && lies_between(3, 5, 5) && !lies_between(3, 6, 5));
        assert!(lies_between(u32::MAX, 0, 1) && !lies_between(u32::MAX, 2, 1));
        assert!(!lies_between(3, 2, 5));
    }
}
