//! The part of an interrupt at DISPATCH level: the driver's deferred routine runs, and the kernel takes
//! the reports in order.
//!
//! Invariants: a DPC calls no entry of the driver that needs PASSIVE level, and waits for nothing;
//! the device keeps its power until it ends.
//! What needs that is a work item or a finding of the timer's agent, by way of [`InterruptPort`].
//!
//! Entry points: [`take_reported`] (DxgkCbNotifyDpc), [`serve_reports`], [`flush`], [`take_overdue`].

use super::isr::record;
use super::port::InterruptPort;
use super::report::Reported;
use super::{page_fault, signal_report};
use crate::adapter::Adapter;
use crate::display;
use crate::fence::{Fence, RelayPort, signaled};
use crate::stats::Count;
use std::sync::Arc;
use tidegate_ddi::{Dispatch, EngineState};
use tidegate_platform::Step;
use tidegate_platform::level::{self, Level};
use tidegate_trace::Kind;

// spec: NF-130
pub(super) fn take_reported(adapter: &Arc<Adapter>, level: &Dispatch) {
    let reported = std::mem::take(&mut adapter.dpc.reported.lock().list);
    for data in reported {
        match data {
            Reported::DmaCompleted { engine, fence_id } => {
                adapter.sched.dma_completed(engine, fence_id)
            }
            Reported::DmaPreempted { engine, preemption_fence_id, last_completed_fence_id } => {
                adapter.sched.dma_preempted(engine, (preemption_fence_id, last_completed_fence_id));
            }
            Reported::DmaFaulted { engine, fence_id, fault } => {
                page_fault::packet_faulted(adapter, engine, fence_id, fault)
            }
            Reported::Vsync { target, address } => display::vsync(adapter, target, address),
            // spec: MF-026
            Reported::Monitored => served(adapter, signaled::scan_monitored(&adapter.fences)),
            Reported::Native { report, legacy } => {
                let native = signal_report::serve(adapter, level, &report);
                // spec: NF-128
                let monitored = legacy && signaled::scan_monitored(&adapter.fences);
                served(adapter, native || monitored);
            }
            Reported::QueueFaulted { faulted, reported } => {
                page_fault::hw_queue_faulted(adapter, faulted, &reported);
            }
            Reported::Suspended { context, suspend_fence } => {
                if let Some(context) = context.upgrade() {
                    context.suspension.acknowledge(suspend_fence);
                }
            }
            Reported::EngineState { engine, new_state } => match new_state {
                // spec: UMS-053
                EngineState::Hung => adapter.clone().engine_hung(engine),
                EngineState::TransitionToF1 => adapter.clone().engine_idle(engine),
                EngineState::Active => {}
            },
            Reported::Relayed(fence) => signaled::relayed(&fence),
            Reported::Broken(bug) => adapter.bug_check(bug),
        }
    }
}

/// Takes reports that stand untaken for half of the timeout delay. The driver did not call
/// DxgkCbQueueDpc, or its deferred routine did not call DxgkCbNotifyDpc. Returns whether there was
/// any report.
// spec: PRE-098
pub(crate) fn take_overdue(adapter: &Arc<Adapter>) -> bool {
    let late_ns = adapter.config.tdr.delay_ns / 2;
    let overdue = {
        let reports = adapter.dpc.reported.lock();
        let since = reports.since.filter(|_| !reports.list.is_empty());
        since.filter(|(at, _)| adapter.platform.now() >= at.after(late_ns))
    };
    let Some((at, dpcs)) = overdue else { return false };
    let (entry, why) = match adapter.stats().dpcs > dpcs {
        true => ("DxgkDdiDpcRoutine", "the deferred routine ran and did not call DxgkCbNotifyDpc"),
        false => ("DxgkDdiInterruptRoutine", "the interrupt routine did not call DxgkCbQueueDpc"),
    };
    let what =
        format!("an interrupt that was reported at {} ms was not taken: {why}", at.0 / 1_000_000);
    adapter.count(Count::missed_dpcs);
    adapter.note_driver_fault(entry, what);
    take_reported(adapter, &Dispatch::enter());
    true
}

/// Takes what was reported until now.
pub(crate) fn flush(adapter: &Adapter) {
    while take_wanted(adapter) {
        if !run_dpc(adapter) {
            call_dpc_routine(adapter);
        }
    }
}

/// Counts a signalled interrupt.
fn served(adapter: &Adapter, released: bool) {
    adapter.count(Count::fence_interrupts);
    adapter.watch_for_hangs();
    if !released {
        adapter.count(Count::spurious_fence_interrupts);
    }
}

/// Runs the DPC if one was queued. Returns whether one was. On a device without power it runs in a
/// work item, which may wait for the power.
pub(super) fn deferred_routine(adapter: &Arc<Adapter>) -> bool {
    let wanted = take_wanted(adapter);
    if wanted && !run_dpc(adapter) {
        let late = adapter.clone();
        adapter.timer.queue_work(Box::new(move |_| call_dpc_routine(&late)));
    }
    wanted
}

/// Takes the request for a DPC. Returns whether there was one.
fn take_wanted(adapter: &Adapter) -> bool {
    adapter.dpc.wanted.load() != 0 && adapter.dpc.wanted.exchange(0) != 0
}

/// Runs the DPC at DISPATCH level. Returns `false` on a device without power.
fn run_dpc(adapter: &Adapter) -> bool {
    let powered = adapter.begin_dpc();
    if powered {
        {
            let _level = level::raise(Level::Dispatch);
            call_dpc_routine(adapter);
        }
        adapter.end_dpc();
    }
    powered
}

/// The DPC, at the level of the caller.
fn call_dpc_routine(adapter: &Adapter) {
    adapter.count(Count::dpcs);
    let start_ns = adapter.platform.stamp_ns();
    adapter.driver_as_it_is().dpc_routine(&Dispatch::enter());
    record(adapter, Kind::Dpc, start_ns);
}

/// A signal on another adapter is a report for this one's DPC, which runs on its interrupt agent or,
/// where interrupts run inline, here. Called with no lock of any adapter held. Adapters may relay to
/// each other without end; a DPC that runs already takes the report, so calls nest no deeper than
/// there are adapters.
impl RelayPort for Adapter {
    fn relay(self: Arc<Adapter>, fence: Arc<Fence>) {
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
pub(crate) fn serve_reports(adapter: &Arc<Adapter>) {
    if let Some(worker) = adapter.dpc.worker.get() {
        return worker.ring(Step::InterruptDelivery);
    }
    // A caller that finds the mark set has set `wanted` before the owner clears the mark, and so
    // before the owner checks `wanted` for the last time.
    while adapter.dpc.wanted.load() != 0 && adapter.dpc.relaying.exchange(1) == 0 {
        while deferred_routine(adapter) {}
        adapter.dpc.relaying.exchange(0);
    }
}
