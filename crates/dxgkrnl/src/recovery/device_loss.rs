//! The loss of a device whose work faulted, hangs or was reset.
//!
//! Invariants: the first reason stays. Doorbells read ABORT before the device's queues leave the
//! run list, and queued work is given up before the device's fences read as their maximum. So no
//! waiter hangs, and no later work of the device runs.
//!
//! Entry points: [`lose_device`]; [`dma_faulted`], [`commands_refused`], [`split_refused`].

use crate::adapter::Adapter;
use crate::context::Context;
use crate::device::Device;
use crate::error::BugCheck;
use crate::fence::{Fence, signal};
use crate::page_fault::report;
use crate::stats::Count;
use crate::{display, suspend};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_calls::{DeviceState, SyncObjectFlags};
use tidegate_ddi::doorbell::DisconnectReason;
use tidegate_ddi::{EngineId, FaultErrorCode, GeneralErrorCode, OsHandle, PageFault};

/// A DMA packet faulted: its device is lost, and the packet counts as done.
pub(crate) fn dma_faulted(
    adapter: &Arc<Adapter>,
    engine: EngineId,
    fence_id: u32,
    fault: PageFault,
) {
    let context = adapter.sched.context_of_packet(engine, fence_id);
    let Some(context) = context else {
        return adapter.bug_check(BugCheck::unknown_packet(engine, fence_id));
    };
    let context = adapter.objects.contexts.lock().get(context);
    if let Some(context) = context {
        let reason = DeviceState::Faulted(report(context.tag, engine, fence_id.into(), &fault));
        lose_device(adapter, &context.device, reason);
    }
    adapter.sched.dma_completed(engine, fence_id);
}

// spec: UMS-171
/// The driver refused commands of a process as malformed (their length, for example). The device of
/// the process is lost. Any other failure of the driver breaks the contract.
pub(crate) fn commands_refused(
    adapter: &Arc<Adapter>,
    device: &Arc<Device>,
    engine: EngineId,
    (tag, position, gpu_va): (u32, u64, u64),
) {
    let error_code = FaultErrorCode::general(GeneralErrorCode::InvalidInstruction);
    let what = "a command buffer that the driver refused";
    let fault = PageFault { gpu_va, error_code, what, ..PageFault::default() };
    lose_device(adapter, device, DeviceState::Faulted(report(tag, engine, position, &fault)));
}

/// The rest of a split buffer cannot run, and a part of it has.
pub(crate) fn split_refused(
    adapter: &Arc<Adapter>,
    context: &Arc<Context>,
    offset: u32,
    what: String,
) {
    let fault = PageFault { gpu_va: u64::from(offset), ..PageFault::default() };
    let mut report = report(context.tag, context.engine, 0, &fault);
    report.what = what;
    lose_device(adapter, &context.device, DeviceState::Faulted(report));
}

/// The devices of processes that have work on an engine, and whether packets are among it.
pub(super) fn devices_on(adapter: &Arc<Adapter>, engine: EngineId) -> (Vec<Arc<Device>>, bool) {
    let mut devices = BTreeMap::new();
    let packets = adapter.sched.contexts_in_flight(engine);
    for context in adapter.contexts_of(|c| packets.contains(&c.os_handle)) {
        devices.insert(context.device.os_handle, context.device.clone());
    }
    for queue in adapter.hw_queues_of(|q| q.engine() == engine && q.has_work(adapter)) {
        devices.insert(queue.device.os_handle, queue.device.clone());
    }
    let of_processes = devices.into_values().filter(|device| !device.is_of_kernel()).collect();
    (of_processes, !packets.is_empty())
}

/// The tags of a device's queues.
pub(super) fn tags_of(adapter: &Arc<Adapter>, device: &Device) -> Vec<u32> {
    let queues = adapter.hw_queues_of(|q| q.device.os_handle == device.os_handle);
    let contexts = adapter.contexts_of(|c| c.device.os_handle == device.os_handle);
    queues.iter().map(|q| q.tag).chain(contexts.iter().map(|c| c.tag)).collect()
}

/// Puts a device into error; `false` when it was lost already.
pub(crate) fn lose_device(
    adapter: &Arc<Adapter>,
    device: &Arc<Device>,
    reason: DeviceState,
) -> bool {
    if !device.lose(reason) {
        return false;
    }
    adapter.count(Count::devices_lost);
    let of_device = |handle: OsHandle| handle == device.os_handle;
    // 1. Doorbells: a ring from now on reads ABORT.
    // spec: UMS-040
    let doorbells: Vec<_> = adapter.doorbells_of(|d| of_device(d.queue.device.os_handle)).collect();
    for doorbell in doorbells {
        doorbell.disconnect(DisconnectReason::Abort);
    }
    // 2. Its hardware queues leave the run list, so that no queue resumes when its fences pass.
    //    Queued work is given up. No waiter misses the signals in it: step 3 releases them.
    for context in adapter.hw_contexts_of(|c| of_device(c.device.os_handle)) {
        suspend::begin(&context);
    }
    let contexts = adapter.contexts_of(|c| of_device(c.device.os_handle));
    let queues = adapter.hw_queues_of(|q| of_device(q.device.os_handle));
    let handles = contexts.iter().map(|c| c.os_handle).chain(queues.iter().map(|q| q.os_handle));
    let _not_made = adapter.sched.give_up(&handles.collect::<Vec<_>>());
    display::lost(adapter, device.os_handle);
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
    true
}

impl Adapter {
    /// The devices that have packets in `contexts`, or work in hardware queues, with the driver or
    /// held back.
    pub(crate) fn devices_at_work(self: &Arc<Adapter>, contexts: &[OsHandle]) -> Vec<Arc<Device>> {
        let contexts = self.contexts_of(|c| contexts.contains(&c.os_handle));
        let queues = self.hw_queues_of(|q| q.has_work(self) || q.holds_back());
        let devices = contexts.iter().map(|c| c.device.clone());
        devices.chain(queues.iter().map(|q| q.device.clone())).collect()
    }

    /// Every process loses its devices; what the kernel has of its own goes on.
    pub(crate) fn lose_all_processes_devices(self: &Arc<Adapter>, reason: &DeviceState) {
        let devices = self.objects.devices.lock().live();
        for device in devices.iter().filter(|device| !device.is_of_kernel()) {
            lose_device(self, device, reason.clone());
        }
    }

    /// The driver broke its contract: nothing of this adapter can be trusted any more.
    pub(crate) fn lose_all_devices(self: &Arc<Adapter>) {
        let devices = self.objects.devices.lock().live();
        for device in devices {
            lose_device(self, &device, DeviceState::Stopped);
        }
    }
}
