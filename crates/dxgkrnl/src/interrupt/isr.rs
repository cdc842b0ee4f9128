//! The DIRQL half of an interrupt: the driver's interrupt routine runs under the interrupt lock,
//! and its notifications become reports for the DPC.
//!
//! Entry points: [`interrupt_routine`] (the line), [`resolve`] (DxgkCbNotifyInterrupt).

use super::page_fault::{self, HwQueueFault};
use super::report::Reported;
use super::signal_report::{self, ReportedHandles};
use crate::driver::DriverPort;
use crate::error::BugCheck;
use crate::object::Objects;
use crate::stats::Count;
use tidegate_ddi::{Dirql, EngineId, InterruptData};
use tidegate_platform::level::{self, Level};
use tidegate_trace::{Kind, NameId, Record};

/// Runs the interrupt routine under the interrupt lock.
pub(super) fn interrupt_routine(port: &DriverPort) {
    port.count(Count::interrupts);
    let start_ns = port.platform.stamp_ns();
    {
        let held = port.interrupt_lock.lock_device();
        // A device that interrupts has power. Its interrupt may race with a power transition.
        let _level = level::raise(Level::Dirql);
        port.driver_as_it_is().interrupt_routine(&Dirql::enter(&held));
    }
    record(port, Kind::Interrupt, start_ns);
}

/// Converts interrupt data to a report; `None` if its object is being destroyed.
// spec: NF-131
pub(super) fn resolve(objects: &Objects, data: InterruptData) -> Option<Reported> {
    Some(match data {
        InterruptData::DmaCompleted { engine, submission_fence_id } => {
            Reported::DmaCompleted { engine, fence_id: submission_fence_id }
        }
        InterruptData::DmaPreempted { engine, preemption_fence_id, last_completed_fence_id } => {
            Reported::DmaPreempted { engine, preemption_fence_id, last_completed_fence_id }
        }
        InterruptData::DmaPageFaulted { engine, faulted_fence_id, fault } => {
            Reported::DmaFaulted { engine, fence_id: faulted_fence_id, fault }
        }
        InterruptData::CrtcVsync { vid_pn_target_id, physical_address } => {
            Reported::Vsync { target: vid_pn_target_id, address: physical_address }
        }
        InterruptData::MonitoredFenceSignaled { .. } => Reported::Monitored,
        InterruptData::NativeFenceSignaled {
            engine,
            fences,
            hw_queue,
            evaluate_legacy_monitored_fences,
        } => {
            let named = ReportedHandles::Published { fences: fences.as_deref(), hw_queue };
            native(objects, engine, named, evaluate_legacy_monitored_fences)
        }
        InterruptData::HwQueuesSignaled { engine, hw_queues, evaluate_legacy_monitored_fences } => {
            let handles = ReportedHandles::HwQueues(&hw_queues);
            native(objects, engine, handles, evaluate_legacy_monitored_fences)
        }
        InterruptData::HwQueuePageFaulted {
            engine,
            faulted,
            faulted_fence_id: fence_id,
            slot,
            fault,
        } => {
            let reported = HwQueueFault { engine, faulted, fence_id, slot, fault };
            match page_fault::resolve(objects, &reported) {
                Ok(faulted) => Reported::QueueFaulted { faulted: faulted?, reported },
                Err(broken) => Reported::Broken(broken),
            }
        }
        InterruptData::EngineStateChange { engine, new_state } => {
            match objects.port.check_engine(engine) {
                Ok(()) => Reported::EngineState { engine, new_state },
                Err(bug) => Reported::Broken(bug),
            }
        }
        InterruptData::SuspendContextCompleted { context, suspend_fence } => {
            match objects.hw_contexts.lock().named(context) {
                Some(context) => Reported::Suspended { context, suspend_fence },
                None => Reported::Broken(BugCheck::UnknownContext(context.0)),
            }
        }
    })
}

fn native(
    objects: &Objects,
    engine: EngineId,
    handles: ReportedHandles<'_>,
    legacy: bool,
) -> Reported {
    match signal_report::resolve(objects, engine, handles) {
        Ok(report) => Reported::Native { report, legacy },
        Err(broken) => Reported::Broken(broken),
    }
}

/// Records on the timeline a routine that ends now.
pub(super) fn record(port: &DriverPort, kind: Kind, start_ns: u64) {
    let platform = &port.platform;
    if platform.tracing() {
        let lane = port.lanes.interrupts;
        platform.record(Record::span(lane, kind, NameId::NONE, start_ns, platform.stamp_ns()));
    }
}
