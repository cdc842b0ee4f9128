//! The loss of a device whose work faulted, hangs or was reset.
//!
//! Invariants: the first reason stays. Doorbells read ABORT before the device's queues leave the
//! run list, and queued work is given up before the device's fences read as their maximum. So no
//! waiter hangs, and no later work of the device runs.
//!
//! Entry points: [`lose_device`], [`lose_devices_later`] (any level); [`commands_refused`], [`split_refused`].

use crate::adapter::Adapter;
use crate::display;
use crate::fence::{Fence, signal};
use crate::interrupt::fault_report;
use crate::object::context::Context;
use crate::object::device::Device;
use crate::stats::Count;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_calls::{DeviceState, SyncObjectFlags};
use tidegate_ddi::doorbell::DisconnectReason;
use tidegate_ddi::{EngineId, FaultErrorCode, GeneralErrorCode, OsHandle, PageFault, Passive};
use tidegate_platform::QueueNumber;

// spec: UMS-171
/// The driver refused commands of a process as malformed (their length, for example). The device of
/// the process is lost. Any other failure of the driver breaks the contract.
pub(crate) fn commands_refused(
    adapter: &Arc<Adapter>,
    device: &Arc<Device>,
    engine: EngineId,
    (queue, position, gpu_va): (QueueNumber, u64, u64),
) {
    let error_code = FaultErrorCode::general(GeneralErrorCode::InvalidInstruction);
    let what = "a command buffer that the driver refused";
    let fault = PageFault { gpu_va, error_code, what, ..PageFault::default() };
    let reason = DeviceState::Faulted(fault_report(queue, engine, position, &fault));
    lose_devices_later(adapter, vec![device.clone()], &reason);
}

/// The rest of a split buffer cannot run, and a part of it has.
pub(crate) fn split_refused(
    adapter: &Arc<Adapter>,
    context: &Arc<Context>,
    offset: u32,
    what: String,
) {
    let fault = PageFault { gpu_va: u64::from(offset), ..PageFault::default() };
    let mut report = fault_report(context.os_handle.into(), context.engine, 0, &fault);
    report.what = what;
    lose_devices_later(adapter, vec![context.device.clone()], &DeviceState::Faulted(report));
}

/// The devices of processes that have work on an engine, and whether packets are among it.
pub(super) fn devices_on(adapter: &Arc<Adapter>, engine: EngineId) -> (Vec<Arc<Device>>, bool) {
    let mut devices = BTreeMap::new();
    let packets = adapter.sched.lock().contexts_in_flight(engine);
    for context in adapter.objects.contexts_of(|c| packets.contains(&c.os_handle)) {
        devices.insert(context.device.os_handle, context.device.clone());
    }
    for queue in
        adapter.objects.hw_queues_of(|q| q.engine() == engine && q.has_work(&adapter.objects))
    {
        devices.insert(queue.device.os_handle, queue.device.clone());
    }
    let of_processes = devices.into_values().filter(|device| !device.is_of_kernel()).collect();
    (of_processes, !packets.is_empty())
}

/// The numbers of a device's queues.
pub(super) fn queues_of(adapter: &Arc<Adapter>, device: &Device) -> Vec<QueueNumber> {
    let queues = adapter.objects.hw_queues_of(|q| q.device.os_handle == device.os_handle);
    let contexts = adapter.objects.contexts_of(|c| c.device.os_handle == device.os_handle);
    let handles = queues.iter().map(|q| q.os_handle).chain(contexts.iter().map(|c| c.os_handle));
    handles.map(QueueNumber::from).collect()
}

/// Puts a device into error, and ends its work. Returns `false` when it was lost already.
pub(crate) fn lose_device(
    adapter: &Arc<Adapter>,
    level: &Passive,
    device: &Arc<Device>,
    reason: DeviceState,
) -> bool {
    let first = device.lose(reason);
    if first {
        end_work(adapter, level, device);
    }
    first
}

/// The same from any level: the devices are in error at once, and nothing of theirs that waits for
/// an engine is begun. A work item ends their work.
pub(crate) fn lose_devices_later(
    adapter: &Arc<Adapter>,
    devices: Vec<Arc<Device>>,
    reason: &DeviceState,
) {
    let lost: Vec<_> = devices.into_iter().filter(|d| d.lose(reason.clone())).collect();
    if lost.is_empty() {
        return;
    }
    lost.iter().for_each(|device| give_up_work(adapter, device));
    let (port, adapter) = (adapter.port.clone(), adapter.clone());
    port.timer.queue_work(Box::new(move |level| {
        lost.iter().for_each(|device| end_work(&adapter, level, device));
    }));
}

/// Ends the work of a device that is in error.
fn end_work(adapter: &Arc<Adapter>, level: &Passive, device: &Arc<Device>) {
    adapter.count(Count::devices_lost);
    let of_device = |handle: OsHandle| handle == device.os_handle;
    // 1. Doorbells: a ring from now on reads ABORT.
    // spec: UMS-040
    let doorbells: Vec<_> =
        adapter.objects.doorbells_of(|d| of_device(d.queue.device.os_handle)).collect();
    for doorbell in doorbells {
        doorbell.disconnect(level, DisconnectReason::Abort);
    }
    // 2. Its hardware queues leave the run list, so that no queue resumes when its fences pass.
    //    Queued work is given up. No waiter misses the signals in it: step 3 releases them.
    for context in adapter.objects.hw_contexts_of(|c| of_device(c.device.os_handle)) {
        context.suspension.begin(level);
    }
    give_up_work(adapter, device);
    display::lost(adapter, level, device.os_handle);
    // 3. Fences that it made read as their maximum.
    // spec: ME-047
    // spec: MF-048
    // spec: MF-049
    let to_maximum = |f: &Fence| {
        let stays = f.flags.contains(SyncObjectFlags::NO_SIGNAL_MAX_VALUE_ON_TDR);
        !stays && f.may_be_signalled_by(device.os_handle)
    };
    let fences = adapter.fences.matching(to_maximum);
    signal::signal_always(&fences);
}

/// Gives up what the device has queued in software. The signals in it are not made.
fn give_up_work(adapter: &Adapter, device: &Device) {
    let contexts = adapter.objects.contexts_of(|c| c.device.os_handle == device.os_handle);
    let queues = adapter.objects.hw_queues_of(|q| q.device.os_handle == device.os_handle);
    let handles = contexts.iter().map(|c| c.os_handle).chain(queues.iter().map(|q| q.os_handle));
    let _not_made = adapter.sched.give_up(&handles.collect::<Vec<_>>());
}

impl Adapter {
    /// The devices that have packets in `contexts`, or work in hardware queues, with the driver or
    /// held back.
    pub(crate) fn devices_at_work(self: &Arc<Adapter>, contexts: &[OsHandle]) -> Vec<Arc<Device>> {
        let contexts = self.objects.contexts_of(|c| contexts.contains(&c.os_handle));
        let queues = self.objects.hw_queues_of(|q| q.has_work(&self.objects) || q.holds_back());
        let devices = contexts.iter().map(|c| c.device.clone());
        devices.chain(queues.iter().map(|q| q.device.clone())).collect()
    }

    /// The devices of all processes. The kernel's own are not lost with them.
    pub(crate) fn devices_of_processes(&self) -> Vec<Arc<Device>> {
        let mut devices = self.objects.devices.lock().live();
        devices.retain(|device| !device.is_of_kernel());
        devices
    }
}
