//! Page faults: resolution and validation of a report, and the devices lost to it.
//!
//! Order for a hardware queue: 1. at interrupt level, flags, engine and handle are checked, and the
//! handle is resolved to an object; 2. the DPC checks the rest; 3. the named devices are lost; 4.
//! the engine or adapter is reset if the flags require it, as after a timeout. An invalid report
//! stops the adapter.
//!
//! Entry points: [`resolve`], [`hw_queue_faulted`], [`packet_faulted`].

use crate::driver::FailurePort;
use crate::error::BugCheck;
use crate::fence::Fence;
use crate::object::Objects;
use crate::object::context::Context;
use crate::object::device::Device;
use crate::object::hw_queue::HwQueue;
use crate::recovery::{Recovery, TimeoutCause, fault_report, lose_devices_later, report_finding};
use std::sync::Arc;
use tidegate_calls::{DeviceState, FaultReport};
use tidegate_ddi::{EngineId, Irql, OsHandle, PageFault, PageFaultFlags};
use tidegate_platform::QueueNumber;

/// A fault of a hardware queue, as the driver reports it.
#[derive(Clone, Copy)]
pub(super) struct HwQueueFault {
    pub(super) engine: EngineId,
    /// The kernel handle of the object; the flags give its kind.
    pub(super) faulted: OsHandle,
    pub(super) fence_id: u64,
    pub(super) slot: u64,
    pub(super) fault: PageFault,
}

/// The object that a report names.
pub(super) enum Faulted {
    Queue(Arc<HwQueue>),
    Context(Arc<Context>),
    /// The process, by the number of its address space.
    Process(u32),
    /// Only the engine.
    Engine,
}

/// Resolves the object that a report names; `None` if it is being destroyed.
// spec: HS-017
pub(super) fn resolve(
    objects: &Objects,
    reported: &HwQueueFault,
) -> Result<Option<Faulted>, BugCheck> {
    let (flags, handle) = (reported.fault.flags, reported.faulted);
    let arms = [
        !flags.contains(PageFaultFlags::FENCE_INVALID),
        flags.contains(PageFaultFlags::HW_CONTEXT_VALID),
        flags.contains(PageFaultFlags::PROCESS_HANDLE_VALID),
    ];
    let one_at_most = arms.iter().filter(|arm| **arm).count() <= 1;
    if !one_at_most || flags.bits() & !PageFaultFlags::all().bits() != 0 {
        return Err(BugCheck::PageFaultFlags(flags.bits()));
    }
    objects.port.check_engine(reported.engine)?;
    let (named, engine) = match arms {
        [true, ..] => {
            let found = objects.hw_queues.lock().named(handle);
            let Some(queue) = found.ok_or(BugCheck::UnknownQueue(handle.0))?.upgrade() else {
                return Ok(None);
            };
            let engine = queue.engine();
            (Faulted::Queue(queue), engine)
        }
        [_, true, _] => {
            let found = objects.hw_contexts.lock().named(handle);
            let Some(context) = found.ok_or(BugCheck::UnknownContext(handle.0))?.upgrade() else {
                return Ok(None);
            };
            let engine = context.engine;
            (Faulted::Context(context), engine)
        }
        [.., true] => {
            let number = u32::try_from(handle.0).map_err(|_| BugCheck::UnknownProcess(handle.0))?;
            (Faulted::Process(number), reported.engine)
        }
        _ => (Faulted::Engine, reported.engine),
    };
    if engine != reported.engine {
        return Err(BugCheck::FaultOnAnotherEngine {
            engine: reported.engine,
            faulted: handle.0,
            runs_on: engine,
        });
    }
    Ok(Some(named))
}

/// Puts the named devices into error, and no others unless a reset is required.
// spec: HS-018, RES-007
pub(super) fn hw_queue_faulted(
    recovery: &Arc<Recovery>,
    level: Irql<'_>,
    faulted: Faulted,
    reported: &HwQueueFault,
) {
    let HwQueueFault { engine, fence_id, slot, fault, .. } = *reported;
    let state = |queue| {
        DeviceState::Faulted(FaultReport { fence_id, ..fault_report(queue, engine, slot, &fault) })
    };
    match faulted {
        Faulted::Queue(queue) => {
            // A process may write any value into its ring. Values of kernel-mode queues are known.
            let submitted = queue.last_submitted();
            if !queue.user_mode_submission && fence_id > submitted {
                return recovery.objects.port.bug_check(
                    level,
                    BugCheck::UnknownFaultedFence {
                        hw_queue: queue.os_handle.0,
                        fence_id,
                        submitted,
                    },
                );
            }
            let report = fault_report(queue.os_handle.into(), engine, slot, &fault);
            let report = FaultReport { fence_id, ..report };
            let state = DeviceState::Faulted(naming_fence(&recovery.objects, &queue, report));
            lose_devices_later(recovery, level, vec![queue.device.clone()], &state);
        }
        Faulted::Context(context) => {
            lose_devices_later(
                recovery,
                level,
                vec![context.device.clone()],
                &state(context.os_handle.into()),
            );
        }
        Faulted::Process(number) => {
            let devices = devices_of(&recovery.objects, number);
            if devices.is_empty() {
                return recovery
                    .objects
                    .port
                    .bug_check(level, BugCheck::UnknownProcess(number.into()));
            }
            lose_devices_later(recovery, level, devices, &state(QueueNumber::default()));
        }
        // The devices that have work on the engine are suspected.
        Faulted::Engine => {
            let cause = TimeoutCause::EngineFaulted { engine, is_named: false };
            return report_finding(recovery, cause);
        }
    }
    // spec: HS-019
    if fault.flags.contains(PageFaultFlags::FATAL_HARDWARE_ERROR) {
        recovery.clone().lose_devices(level);
    } else if fault.flags.contains(PageFaultFlags::ADAPTER_RESET_REQUIRED) {
        adapter_faulted(recovery, level, engine);
    } else if fault.flags.contains(PageFaultFlags::ENGINE_RESET_REQUIRED) {
        report_finding(recovery, TimeoutCause::EngineFaulted { engine, is_named: true });
    }
}

/// Handles the fault of a DMA packet: its device is lost, and the packet counts as complete.
pub(super) fn packet_faulted(
    recovery: &Arc<Recovery>,
    level: Irql<'_>,
    engine: EngineId,
    fence_id: u32,
    fault: PageFault,
) {
    let packet = recovery.objects.sched.lock().packet_in_flight(engine, fence_id);
    let Some((context, commands_gpu_va)) = packet else {
        return recovery.objects.port.bug_check(level, BugCheck::unknown_packet(engine, fence_id));
    };
    let context = recovery.objects.contexts.lock().get(context);
    if let Some(context) = context {
        let report = fault_report(context.os_handle.into(), engine, fence_id.into(), &fault);
        let report = FaultReport { commands_gpu_va, ..report };
        let device = context.device.clone();
        lose_devices_later(recovery, level, vec![device], &DeviceState::Faulted(report));
    }
    recovery.objects.sched.dma_completed(level, engine, fence_id);
}

/// Names the fence at which the queue faulted, if its history has lost values, and counts them.
fn naming_fence(objects: &Objects, queue: &HwQueue, report: FaultReport) -> FaultReport {
    let device = &queue.device;
    let open = objects.fences.matching(|fence| fence.is_open_on(device.os_handle));
    let is_it = |fence: &Arc<Fence>| fence.is_mapped_at(&device.space, report.gpu_va);
    let Some(fence) = open.into_iter().find(is_it) else { return report };
    let Some(lost) = fence.lost_history_text() else { return report };
    let what = format!("{}; fence '{}': {lost}", report.what, fence.name);
    FaultReport { what, ..report }
}

fn devices_of(objects: &Objects, address_space: u32) -> Vec<Arc<Device>> {
    let all = objects.devices.lock().live();
    all.into_iter().filter(|device| device.space.number == address_space).collect()
}

/// Handles an engine fault for which the driver requests an adapter reset. The devices of all
/// processes are lost.
fn adapter_faulted(recovery: &Arc<Recovery>, level: Irql<'_>, engine: EngineId) {
    let cause = TimeoutCause::AdapterFaulted { engine };
    let reason = DeviceState::Reset(cause.to_string());
    lose_devices_later(recovery, level, recovery.devices_of_processes(), &reason);
    report_finding(recovery, cause);
}
