//! The part of an interrupt at DISPATCH level: the driver's deferred routine runs, and the kernel takes
//! the reports in order.
//!
//! Invariants: a DPC calls no entry of the driver that needs PASSIVE level, and waits for nothing;
//! the device keeps its power until it ends.
//! What needs that is a work item or a finding of the timer's agent.
//!
//! Entry points: [`take_reported`] (DxgkCbNotifyDpc), [`serve_reports`], [`flush`], [`take_overdue`].

use super::interrupts::Interrupts;
use super::isr::record;
use super::report::Reported;
use super::{page_fault, signal_report};
use crate::error::BugCheck;
use crate::fence::{Fence, RelayPort, signaled};
use crate::recovery::{TimeoutCause, report_finding};
use crate::scheduling::ReportPort;
use crate::stats::Count;
use std::sync::Arc;
use tidegate_ddi::{Dispatch, EngineId, EngineState, Irql, Passive};
use tidegate_platform::Step;
use tidegate_platform::level::{Level, raise};
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
                interrupts.objects.sched.dma_preempted(
                    level,
                    engine,
                    (preemption_fence_id, last_completed_fence_id),
                );
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

/// Takes reports that stand untaken for half of the timeout delay. The driver did not call
/// DxgkCbQueueDpc, or its deferred routine did not call DxgkCbNotifyDpc. Returns whether there was
/// any report.
// spec: PRE-098
fn take_overdue(interrupts: &Arc<Interrupts>, level: &Passive) -> bool {
    let late_ns = interrupts.port.config.tdr.delay_ns / 2;
    let overdue = {
        let reports = interrupts.dpc.reported.lock();
        let since = reports.since.filter(|_| !reports.list.is_empty());
        since.filter(|(at, _)| interrupts.port.platform.now() >= at.after(late_ns))
    };
    let Some((at, dpcs)) = overdue else { return false };
    let (entry, why) = match interrupts.port.stats.read().dpcs > dpcs {
        true => ("DxgkDdiDpcRoutine", "the deferred routine ran and did not call DxgkCbNotifyDpc"),
        false => ("DxgkDdiInterruptRoutine", "the interrupt routine did not call DxgkCbQueueDpc"),
    };
    let what =
        format!("an interrupt that was reported at {} ms was not taken: {why}", at.0 / 1_000_000);
    interrupts.port.count(Count::missed_dpcs);
    interrupts.port.note_driver_fault(entry, what);
    take_reported(interrupts, level.into());
    true
}

/// Takes what was reported until now.
fn flush(interrupts: &Interrupts) {
    while take_wanted(interrupts) {
        if !run_dpc(interrupts) {
            call_dpc_routine(interrupts);
        }
    }
}

/// Counts a signalled interrupt.
fn served(interrupts: &Interrupts, released: bool) {
    interrupts.port.count(Count::fence_interrupts);
    interrupts.port.watch_for_hangs();
    if !released {
        interrupts.port.count(Count::spurious_fence_interrupts);
    }
}

/// Runs the DPC if one was queued. Returns whether one was. On a device without power it runs in a
/// work item, which may wait for the power.
pub(super) fn deferred_routine(interrupts: &Arc<Interrupts>) -> bool {
    let wanted = take_wanted(interrupts);
    if wanted && !run_dpc(interrupts) {
        let late = interrupts.clone();
        interrupts.port.timer.queue_work(Box::new(move |_| call_dpc_routine(&late)));
    }
    wanted
}

/// Takes the request for a DPC. Returns whether there was one.
fn take_wanted(interrupts: &Interrupts) -> bool {
    interrupts.dpc.wanted.load() != 0 && interrupts.dpc.wanted.exchange(0) != 0
}

/// Runs the DPC at DISPATCH level. Returns `false` on a device without power.
fn run_dpc(interrupts: &Interrupts) -> bool {
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

/// The DPC, at the level of the caller.
fn call_dpc_routine(interrupts: &Interrupts) {
    interrupts.port.count(Count::dpcs);
    let start_ns = interrupts.port.platform.stamp_ns();
    interrupts.port.driver_as_it_is().dpc_routine(&Dispatch::enter());
    record(&interrupts.port, Kind::Dpc, start_ns);
}

/// A signal on another adapter is a report for this one's DPC, which runs on its interrupt agent or,
/// where interrupts run inline, here. Called with no lock of any adapter held. Adapters may relay to
/// each other without end; a DPC that runs already takes the report, so calls nest no deeper than
/// there are adapters.
impl RelayPort for Interrupts {
    fn relay(self: Arc<Self>, fence: Arc<Fence>) {
        {
            let mut reports = self.dpc.reported.lock();
            if reports.closed {
                return;
            }
            reports.list.push(Reported::Relayed(fence));
        }
        self.dpc.wanted.exchange(1);
        serve_reports(&self);
    }
}

/// Runs the DPC for reports that no interrupt of the line brought: on the interrupt agent or, where
/// interrupts run inline, here. Called with no lock of any adapter held.
fn serve_reports(interrupts: &Arc<Interrupts>) {
    if let Some(worker) = interrupts.dpc.worker.get() {
        return worker.ring(Step::InterruptDelivery);
    }
    // A caller that finds the mark set has set `wanted` before the owner clears the mark, and so
    // before the owner checks `wanted` for the last time.
    while interrupts.dpc.wanted.load() != 0 && interrupts.dpc.relaying.exchange(1) == 0 {
        while deferred_routine(interrupts) {}
        interrupts.dpc.relaying.exchange(0);
    }
}

impl ReportPort for Interrupts {
    fn serve_reports(self: Arc<Self>) {
        serve_reports(&self);
    }

    fn flush_reports(&self) {
        flush(self);
    }

    fn take_overdue_reports(self: Arc<Self>, level: &Passive) {
        take_overdue(&self, level);
    }

    fn ignore_packets(&self, engine: EngineId) -> Option<u32> {
        self.dpc.ignore(engine)
    }

    fn heed_packets(&self, engine: EngineId) {
        self.dpc.heed(engine);
    }
}
