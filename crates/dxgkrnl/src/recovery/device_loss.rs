//! The loss of a device whose work faulted, hung or was reset.
//!
//! Invariants: the first reason is kept. Doorbells read ABORT before the device's queues leave the
//! run list, and queued work is abandoned before the device's fences read as their maximum.
//! Therefore no waiter hangs, and no later work of the device runs.
//!
//! Entry points: [`lose_device`], [`lose_devices_later`] (any level); [`commands_refused`],
//! [`split_refused`].

use super::blame::{Blame, Culprit};
use super::report::{RecoveryReport, TimeoutCause, WorkAtReset};
use super::state::Recovery;
use crate::fence::{Fence, signal};
use crate::object::RefusedCommands;
use crate::object::context::Context;
use crate::object::device::Device;
use crate::stats::Count;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_calls::{DeviceState, FaultReport, HangReport, SyncObjectFlags};
use tidegate_ddi::doorbell::DisconnectReason;
use tidegate_ddi::{
    EngineId, FaultErrorCode, GeneralErrorCode, Irql, OsHandle, PageFault, PageFaultFlags, Passive,
};
use tidegate_platform::QueueNumber;
use tidegate_platform::planted;

// spec: UMS-171
/// Handles a driver's refusal of malformed commands: the process's device is lost. Any other
/// failure violates the driver contract.
pub(super) fn commands_refused(
    recovery: &Arc<Recovery>,
    level: Irql<'_>,
    device: &Arc<Device>,
    engine: EngineId,
    of: RefusedCommands,
) {
    let error_code = FaultErrorCode::general(GeneralErrorCode::InvalidInstruction);
    let what = "a command buffer that the driver refused";
    let fault = PageFault { gpu_va: of.gpu_va, error_code, what, ..PageFault::default() };
    let reason = DeviceState::Faulted(fault_report(of.queue, engine, of.position, &fault));
    lose_devices_later(recovery, level, vec![device.clone()], &reason);
}

/// Handles a split buffer of which a part was queued and the rest cannot run.
pub(super) fn split_refused(
    recovery: &Arc<Recovery>,
    level: Irql<'_>,
    context: &Arc<Context>,
    offset: u32,
    what: String,
) {
    let fault = PageFault { gpu_va: u64::from(offset), ..PageFault::default() };
    let mut report = fault_report(context.os_handle.into(), context.engine, 0, &fault);
    report.what = what;
    lose_devices_later(
        recovery,
        level,
        vec![context.device.clone()],
        &DeviceState::Faulted(report),
    );
}

/// Returns the process devices with work on an engine, and whether that includes packets.
pub(super) fn devices_on(recovery: &Recovery, engine: EngineId) -> (Vec<Arc<Device>>, bool) {
    let mut devices = BTreeMap::new();
    let packets = recovery.objects.sched.lock().contexts_in_flight(engine);
    for context in recovery.objects.contexts_of(|c| packets.contains(&c.os_handle)) {
        devices.insert(context.device.os_handle, context.device.clone());
    }
    for queue in
        recovery.objects.hw_queues_of(|q| q.engine() == engine && q.has_work(&recovery.objects))
    {
        devices.insert(queue.device.os_handle, queue.device.clone());
    }
    let of_processes = devices.into_values().filter(|device| !device.is_of_kernel()).collect();
    (of_processes, !packets.is_empty())
}

/// Returns the numbers of a device's queues.
pub(super) fn queues_of(recovery: &Recovery, device: &Device) -> Vec<QueueNumber> {
    let queues = recovery.objects.hw_queues_of(|q| q.device.os_handle == device.os_handle);
    let contexts = recovery.objects.contexts_of(|c| c.device.os_handle == device.os_handle);
    let handles = queues.iter().map(|q| q.os_handle).chain(contexts.iter().map(|c| c.os_handle));
    handles.map(QueueNumber::from).collect()
}

/// Puts a device into error and ends its work. Returns `false` if it was already lost.
pub(crate) fn lose_device(
    recovery: &Recovery,
    level: &Passive,
    device: &Arc<Device>,
    reason: DeviceState,
) -> bool {
    // The fault is the mistake that the scenario create-against-loss must find.
    let is_late = planted!(recovery.port.platform, DeviceIsLostAfterItsWorkHasEnded);
    if is_late {
        end_work(recovery, level, device);
    }
    let first = device.lose(reason);
    if first && !is_late {
        end_work(recovery, level, device);
    }
    first
}

/// Puts devices into error at any level. The error takes effect immediately, and queued work is not
/// started. A work item ends the devices' work.
pub(crate) fn lose_devices_later(
    recovery: &Arc<Recovery>,
    level: Irql<'_>,
    devices: Vec<Arc<Device>>,
    reason: &DeviceState,
) {
    let lost: Vec<_> = devices.into_iter().filter(|d| d.lose(reason.clone())).collect();
    if lost.is_empty() {
        return;
    }
    lost.iter().for_each(|device| give_up_work(recovery, level, device));
    let recovery = recovery.clone();
    let port = recovery.port.clone();
    port.timer.queue_work(Box::new(move |level| {
        lost.iter().for_each(|device| end_work(&recovery, level, device));
    }));
}

/// Ends the work of a device that is in error.
fn end_work(recovery: &Recovery, level: &Passive, device: &Arc<Device>) {
    recovery.port.count(Count::devices_lost);
    let of_device = |handle: OsHandle| handle == device.os_handle;
    // 1. Doorbells: later rings read ABORT.
    // spec: UMS-040
    let doorbells: Vec<_> =
        recovery.objects.doorbells_of(|d| of_device(d.queue.device.os_handle)).collect();
    for doorbell in doorbells {
        doorbell.disconnect(level, DisconnectReason::Abort);
    }
    // 2. Its hardware queues leave the run list, so that no queue resumes when its fences pass.
    //    Queued work is abandoned. Step 3 releases the waiters on its signals.
    for context in recovery.objects.hw_contexts_of(|c| of_device(c.device.os_handle)) {
        context.suspension.begin(level);
    }
    give_up_work(recovery, level.into(), device);
    if let Some(display) = &recovery.display {
        display.device_lost(level, device.os_handle);
    }
    // 3. Fences that the device may signal read as their maximum.
    // spec: ME-047
    // spec: MF-048
    let to_maximum = |f: &Fence| {
        let stays = f.flags.contains(SyncObjectFlags::NO_SIGNAL_MAX_VALUE_ON_TDR);
        !stays && f.may_be_signalled_by(device.os_handle)
    };
    let fences = recovery.objects.fences.matching(to_maximum);
    signal::signal_always(level.into(), &fences);
}

/// Abandons the device's work in software queues. Its signals are dropped, and its mutexes are
/// signalled for it.
fn give_up_work(recovery: &Recovery, level: Irql<'_>, device: &Device) {
    let contexts = recovery.objects.contexts_of(|c| c.device.os_handle == device.os_handle);
    let queues = recovery.objects.hw_queues_of(|q| q.device.os_handle == device.os_handle);
    let handles = contexts.iter().map(|c| c.os_handle).chain(queues.iter().map(|q| q.os_handle));
    let _not_made = recovery.objects.sched.give_up(level, &handles.collect::<Vec<_>>());
    contexts.iter().for_each(|context| context.end_acquisitions(level));
}

/// Loses exactly the devices whose work was interrupted.
// spec: PRE-053
pub(super) fn lose_work(
    recovery: &Recovery,
    level: &Passive,
    report: &mut RecoveryReport,
    blame: &Blame,
    engine: EngineId,
) {
    let now = recovery.port.platform.now();
    // If a fault named the work at fault, what the reset cut off is innocent.
    let (culprits, innocent) = match report.reason.cause {
        TimeoutCause::EngineFaulted { is_named: true, .. } => blame.culprits.split_at(0),
        _ => blame.culprits.split_at(blame.culprits.len()),
    };
    mark_guilty(report, culprits);
    for culprit in culprits {
        let device = &culprit.device;
        let reason = hang_of(recovery, culprit, &report.work, report.reason.to_string());
        let named = Some(reason.queue).filter(|queue| *queue != QueueNumber::default());
        let queue = named.or_else(|| queues_of(recovery, device).first().copied());
        if lose_device(recovery, level, device, DeviceState::Hung(reason)) {
            report.lost.extend(queue.map(|queue| (queue, true)));
        }
        let process = device.space.number;
        if recovery.policy.lock().blocks_process(process, now) {
            report.blocked |= recovery.history.lock().blocked.insert(process);
        }
    }
    for device in blame.bystanders.iter().chain(innocent.iter().map(|c| &c.device)) {
        let what =
            format!("{engine} was reset for the work of another device, and work on it was lost");
        let queues = queues_of(recovery, device);
        if lose_device(recovery, level, device, DeviceState::Reset(what)) {
            report.lost.extend(queues.first().map(|queue| (*queue, false)));
        }
    }
}

/// Marks the work of the culprits as guilty: what the engine ran, or all of a device of which
/// nothing is known to have run.
pub(super) fn mark_guilty(report: &mut RecoveryReport, culprits: &[Culprit]) {
    report.work.iter_mut().for_each(|work| work.guilty = false);
    for culprit in culprits {
        let Some((at, is_known)) = culprit.find_work(&report.work) else { continue };
        let device = culprit.device.os_handle;
        report.work[at].guilty = true;
        if !is_known {
            report.work.iter_mut().filter(|w| w.device == device).for_each(|w| w.guilty = true);
        }
    }
}

/// Creates the report of a device whose work hung: the work that the engine ran.
pub(super) fn hang_of(
    recovery: &Recovery,
    culprit: &Culprit,
    work: &[WorkAtReset],
    what: String,
) -> HangReport {
    match culprit.find_work(work) {
        Some((at, _)) => HangReport {
            what,
            queue: work[at].queue,
            fence_id: work[at].fence_id,
            command: work[at].command.clone(),
            commands_gpu_va: work[at].commands_gpu_va,
            command_number: work[at].command_number,
        },
        None => HangReport { what, queue: only_queue(recovery, culprit), ..HangReport::default() },
    }
}

/// Returns the queue of a culprit of whose work nothing is known, if it can be only one.
fn only_queue(recovery: &Recovery, culprit: &Culprit) -> QueueNumber {
    let is_suspect = |device: OsHandle, context: OsHandle| {
        device == culprit.device.os_handle && culprit.context.is_none_or(|known| known == context)
    };
    let queues =
        recovery.objects.hw_queues_of(|q| is_suspect(q.device.os_handle, q.context.os_handle));
    let contexts = recovery.objects.contexts_of(|c| is_suspect(c.device.os_handle, c.os_handle));
    let handles = queues.iter().map(|q| q.os_handle).chain(contexts.iter().map(|c| c.os_handle));
    match handles.map(QueueNumber::from).collect::<Vec<_>>()[..] {
        [only] => only,
        _ => QueueNumber::default(),
    }
}

impl Recovery {
    /// Returns the devices with packets in `contexts`, or with hardware queue work, with the driver
    /// or held back.
    pub(crate) fn devices_at_work(&self, contexts: &[OsHandle]) -> Vec<Arc<Device>> {
        let contexts = self.objects.contexts_of(|c| contexts.contains(&c.os_handle));
        let queues = self.objects.hw_queues_of(|q| q.has_work(&self.objects) || q.holds_back());
        let devices = contexts.iter().map(|c| c.device.clone());
        devices.chain(queues.iter().map(|q| q.device.clone())).collect()
    }

    /// Returns the devices of all processes, without the kernel's devices.
    pub(crate) fn devices_of_processes(&self) -> Vec<Arc<Device>> {
        let mut devices = self.objects.devices.lock().live();
        devices.retain(|device| !device.is_of_kernel());
        devices
    }
}

// spec: HS-020
/// Creates the report of a device removed because of a page fault.
pub(crate) fn fault_report(
    queue: QueueNumber,
    engine: EngineId,
    position: u64,
    fault: &PageFault,
) -> FaultReport {
    FaultReport {
        queue,
        node_ordinal: engine.node_ordinal,
        engine_ordinal: engine.engine_ordinal,
        position,
        fence_id: position,
        commands_gpu_va: 0,
        gpu_va: fault.gpu_va,
        write: fault.flags.contains(PageFaultFlags::WRITE),
        flags: fault.flags,
        primitive_api_sequence_number: fault.primitive_api_sequence_number,
        pipeline_stage: fault.pipeline_stage,
        bind_table_entry: fault.bind_table_entry,
        page_table_level: fault.page_table_level,
        error_code: fault.error_code,
        what: fault.what.to_owned(),
    }
}
