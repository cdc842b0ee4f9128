//! The DISPATCH-level half of an interrupt: the driver's DPC routine runs, and the kernel takes the
//! reports in order.
//!
//! Invariants: a DPC never blocks and calls no driver entry that needs PASSIVE level. Such work
//! goes to a work item or, as a finding, to the timer's agent. The device keeps its power until the
//! DPC ends.
//!
//! Entry points: [`take_reported`] (DxgkCbNotifyDpc), [`deferred_routine`], [`run_soon`], and the
//! port of reports.

use super::interrupts::Interrupts;
use super::isr::record;
use super::report::Reported;
use super::{page_fault, signal_report};
use crate::error::BugCheck;
use crate::fence::{Fence, RelayPort, signaled};
use crate::recovery::{TimeoutCause, report_finding};
use crate::scheduling::{PreemptionReport, ReportPort};
use crate::stats::Count;
use std::sync::Arc;
use tidegate_ddi::{Dispatch, EngineId, EngineState, Irql, Passive};
use tidegate_platform::level::{Level, raise};
use tidegate_platform::{CpuTime, Step};
use tidegate_trace::Kind;

// spec: NF-130
pub(super) fn take_reported(interrupts: &Arc<Interrupts>, level: Irql<'_>) {
    let reported = std::mem::take(&mut interrupts.dpc.reported.lock().list);
    for data in reported {
        match data {
            Reported::DmaCompleted { engine, fence_id } => {
                interrupts.objects.sched.dma_completed(level, engine, fence_id)
            }
            Reported::DmaPreempted { engine, preemption_fence_id, last_completed_fence_id } => {
                let report = PreemptionReport {
                    request: preemption_fence_id,
                    last_completed: last_completed_fence_id,
                };
                interrupts.objects.sched.dma_preempted(level, engine, report);
            }
            Reported::DmaFaulted { engine, fence_id, fault } => {
                page_fault::packet_faulted(&interrupts.recovery, level, engine, fence_id, fault)
            }
            Reported::Vsync { target, address } => match &interrupts.display {
                Some(display) => display.vsync(level, target, address),
                None => interrupts.port.bug_check(level, BugCheck::UnknownVidPnTarget(target)),
            },
            // spec: MF-026
            Reported::Monitored => {
                served(interrupts, signaled::scan_monitored(level, &interrupts.objects.fences))
            }
            Reported::Native { report, legacy } => {
                let native = signal_report::serve(&interrupts.objects, level, &report);
                // spec: NF-128
                let monitored =
                    legacy && signaled::scan_monitored(level, &interrupts.objects.fences);
                served(interrupts, native || monitored);
            }
            Reported::QueueFaulted { faulted, reported } => {
                page_fault::hw_queue_faulted(&interrupts.recovery, level, faulted, &reported);
            }
            Reported::Suspended { context, suspend_fence } => {
                if let Some(context) = context.upgrade() {
                    context.suspension.acknowledge(level, suspend_fence);
                }
            }
            Reported::EngineState { engine, new_state } => match new_state {
                // spec: UMS-053
                EngineState::Hung => {
                    let cause = TimeoutCause::EngineReportedHung { engine };
                    report_finding(&interrupts.recovery, cause);
                }
                EngineState::TransitionToF1 => {
                    let power = interrupts.power.clone();
                    let item = move |level: &Passive| power.engine_is_idle(level, engine);
                    interrupts.port.timer.queue_work(Box::new(item));
                }
                EngineState::Active => {}
            },
            Reported::Relayed(fence) => signaled::relayed(level, &fence),
            Reported::Broken(bug) => interrupts.port.bug_check(level, bug),
        }
    }
}

/// Passes on the level of a DPC: one that runs in a work item may block.
pub(super) fn at_its_level(level: &Dispatch, take: impl FnOnce(Irql<'_>)) {
    let passive = Passive::enter_if_current();
    take(passive.as_ref().map_or(level.into(), Irql::from));
}

/// Takes reports that have been pending at `now` for half of the timeout delay: the driver did not
/// call DxgkCbQueueDpc, or its DPC routine did not call DxgkCbNotifyDpc.
// spec: PRE-098
fn take_overdue(interrupts: &Arc<Interrupts>, level: &Passive, now: CpuTime) {
    let late_ns = interrupts.port.config.tdr.delay_ns / 2;
    if let Some((at, dpcs)) =
        interrupts.dpc.pending_since().filter(|(at, _)| now >= at.after(late_ns))
    {
        take_missed(interrupts, level.into(), at, dpcs);
    }
}

/// Takes the reports that the deferred routine left, if the driver was found to lose some before.
/// A wait for each of them would hold up all processes. `before` is the number of routines that had
/// begun before this one: a report of a later time is not its to take.
// spec: PRE-170
fn take_left(interrupts: &Arc<Interrupts>, level: Irql<'_>, before: u64) {
    if interrupts.port.stats.get(Count::missed_dpcs) == 0 {
        return;
    }
    if let Some((at, dpcs)) = interrupts.dpc.pending_since().filter(|(_, dpcs)| *dpcs <= before) {
        take_missed(interrupts, level, at, dpcs);
    }
}

/// Takes reports for the driver, which is named. They are pending since `at`, when `dpcs` deferred
/// routines had begun.
fn take_missed(interrupts: &Arc<Interrupts>, level: Irql<'_>, at: CpuTime, dpcs: u64) {
    let (entry, why) = match interrupts.port.stats.read().dpcs > dpcs {
        true => ("DxgkDdiDpcRoutine", "the deferred routine ran and did not call DxgkCbNotifyDpc"),
        false => ("DxgkDdiInterruptRoutine", "the interrupt routine did not call DxgkCbQueueDpc"),
    };
    let what =
        format!("an interrupt that was reported at {} ms was not taken: {why}", at.0 / 1_000_000);
    interrupts.port.count(Count::missed_dpcs);
    interrupts.port.note_driver_fault(entry, what);
    take_reported(interrupts, level);
}

/// Takes all pending reports, also those for which the driver has queued no DPC yet and those that
/// its DPC routine left. An agent that has begun to take reports may end after this, so the driver
/// is not named.
fn flush(interrupts: &Arc<Interrupts>, level: &Passive) {
    while take_wanted(interrupts) {
        if !run_dpc(interrupts) {
            call_dpc_routine(interrupts);
        }
    }
    take_reported(interrupts, level.into());
}

/// Counts a signalled interrupt.
fn served(interrupts: &Interrupts, released: bool) {
    interrupts.port.count(Count::fence_interrupts);
    interrupts.port.watch_for_hangs();
    if !released {
        interrupts.port.count(Count::spurious_fence_interrupts);
    }
}

/// Runs the DPC if one was queued. Returns whether one was. If the device has no power, a work item
/// runs the DPC, since it may wait for power.
pub(super) fn deferred_routine(interrupts: &Arc<Interrupts>) -> bool {
    let wanted = take_wanted(interrupts);
    if wanted && !run_dpc(interrupts) {
        let late = interrupts.clone();
        interrupts.port.timer.queue_work(Box::new(move |_| call_dpc_routine(&late)));
    }
    wanted
}

/// Clears the request for a DPC. Returns whether one was pending.
fn take_wanted(interrupts: &Interrupts) -> bool {
    interrupts.dpc.wanted.load() != 0 && interrupts.dpc.wanted.exchange(0) != 0
}

/// Runs the DPC at DISPATCH level. Returns `false` on a device without power.
fn run_dpc(interrupts: &Arc<Interrupts>) -> bool {
    let powered = interrupts.port.begin_dpc();
    if powered {
        {
            let _level = raise(Level::Dispatch);
            call_dpc_routine(interrupts);
        }
        interrupts.port.end_dpc();
    }
    powered
}

/// Runs the DPC at the caller's level.
fn call_dpc_routine(interrupts: &Arc<Interrupts>) {
    let before = interrupts.port.stats.get(Count::dpcs);
    interrupts.port.count(Count::dpcs);
    let start_ns = interrupts.port.platform.stamp_ns();
    let level = Dispatch::enter();
    interrupts.port.driver_as_it_is().dpc_routine(&level);
    at_its_level(&level, |level| take_left(interrupts, level, before));
    record(&interrupts.port, Kind::Dpc, start_ns);
}

/// A signal on another adapter becomes a report for this adapter's DPC, which runs on the interrupt
/// agent or, with inline interrupts, on the caller. Called with no lock of any adapter held.
/// Adapters may relay to each other indefinitely. A DPC that is already running takes the report,
/// so the nesting depth is at most the number of adapters.
impl RelayPort for Interrupts {
    fn relay(self: Arc<Self>, fence: Arc<Fence>) {
        let is_kept = self.dpc.reported.lock().push(&self.port, Reported::Relayed(fence));
        if is_kept {
            self.dpc.wanted.exchange(1);
            serve_reports(&self);
        }
    }
}

/// Runs the DPC for reports made outside an interrupt: on the interrupt agent or, with inline
/// interrupts, on the caller. Called with no lock of any adapter held.
fn serve_reports(interrupts: &Arc<Interrupts>) {
    if let Some(worker) = interrupts.dpc.worker.get() {
        return worker.ring(Step::InterruptDelivery);
    }
    // A caller that finds `relaying` set has already set `wanted`. The owner checks `wanted` again
    // after it clears `relaying`, so the request is not lost.
    while interrupts.dpc.wanted.load() != 0 && interrupts.dpc.relaying.exchange(1) == 0 {
        while deferred_routine(interrupts) {}
        interrupts.dpc.relaying.exchange(0);
    }
}

/// Has an agent run a DPC that a call of the driver has queued: the interrupt agent or, with inline
/// interrupts, the timer's, since the caller may hold locks and no turn of an engine need end.
pub(super) fn run_soon(interrupts: &Arc<Interrupts>) {
    match interrupts.dpc.worker.get() {
        Some(worker) => worker.ring(Step::InterruptDelivery),
        None => {
            let queued = interrupts.clone();
            interrupts.port.timer.queue_work(Box::new(move |_| serve_reports(&queued)));
        }
    }
}

impl ReportPort for Interrupts {
    fn serve_reports(self: Arc<Self>) {
        serve_reports(&self);
    }

    fn flush_reports(self: Arc<Self>, level: &Passive) {
        flush(&self, level);
    }

    fn take_overdue_reports(self: Arc<Self>, level: &Passive, now: CpuTime) {
        take_overdue(&self, level, now);
    }

    fn leave_out(&self, ns: u64, now: CpuTime) {
        self.dpc.leave_out(ns, now);
    }

    fn ignore_packets(&self, engine: EngineId) -> Option<u32> {
        self.dpc.ignore(engine)
    }

    fn heed_packets(&self, engine: EngineId) {
        self.dpc.heed(engine);
    }
}
