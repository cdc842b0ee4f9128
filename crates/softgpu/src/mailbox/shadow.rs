//! Copies of MonitoredValue: which fences have one (mailbox), and its value (registers).

use crate::cmp::Cmp;
use crate::cmp::shadow::ShadowedFence;
use crate::hardware::Hardware;
use crate::mmu;
use std::collections::btree_map::Entry;
use tidegate_gpu_abi::admin::{AdminAnswer, DONE};
use tidegate_gpu_abi::{AddressSpaceId, AdminError, Cause, GpuVa};
use tidegate_platform::planted;

/// Adds a copy for the driver's fence `number`, loaded from memory. The result is whether there is
/// a copy.
pub(super) fn keep(
    gpu: &Hardware,
    number: u64,
    address_space: AddressSpaceId,
    current_value: GpuVa,
    monitored_value: GpuVa,
) -> AdminAnswer {
    let mut cmp = gpu.cmp.lock();
    let find = |va| {
        let mut spaces = (0..gpu.config.physical_gpus).map(|gpu| cmp.space(address_space, gpu));
        let found = spaces.find_map(|space| mmu::find_protocol_word(&gpu.bus, space, va));
        found.ok_or(AdminError::BadAddress)
    };
    let ((_, current), (place, monitored)) = (find(current_value)?, find(monitored_value)?);
    if let Entry::Vacant(slot) = cmp.shadows.entry(number) {
        // An earlier update of this fence stored to memory before it took the lock.
        let Some(way) = gpu.shadow.add(place, || monitored.load()) else { return DONE };
        slot.insert(ShadowedFence { way, current, address_space, current_value });
    }
    Ok((1, 0))
}

/// Removes the driver's fence `number` and its copy.
pub(super) fn drop_copy(gpu: &Hardware, number: u64) -> AdminAnswer {
    if let Some(fence) = gpu.cmp.lock().shadows.remove(&number) {
        gpu.shadow.remove(fence.way);
    }
    DONE
}

/// Sets MonitoredValue of the driver's fence `number`. A fence without a copy is compared
/// in memory.
///
/// 1. Store the copy.
/// 2. Full barrier against the engines: every earlier store to CurrentValue whose signal compared
///    with the old copy is in memory behind it.
/// 3. Load CurrentValue.
/// 4. If it is above, request an interrupt.
///
/// An engine raises the interrupt: the caller holds the lock that the interrupt routine takes.
#[doc(alias = "DxgkDdiUpdateMonitoredValues")]
pub(crate) fn update(gpu: &Hardware, number: u64, value: u64) {
    let mut cmp = gpu.cmp.lock();
    let Some(fence) = cmp.shadows.get(&number).cloned() else { return };
    cmp.stats.shadow_updates += 1;
    // 1.
    // spec: NF-043
    gpu.shadow.copy(fence.way).store(value);
    // 2.
    // spec: NF-044, NF-047
    if !planted!(gpu.platform, NoShadowBarrier) {
        gpu.platform.fence();
        gpu.posted.flush();
    }
    // 3.
    let current = fence.current.load();
    // 4.
    // spec: NF-045, NF-046
    if current > value {
        request_interrupt(gpu, &mut cmp, &fence);
        gpu.recall(cmp, 0);
    }
}

fn request_interrupt(gpu: &Hardware, cmp: &mut Cmp, fence: &ShadowedFence) {
    cmp.stats.shadow_interrupts += 1;
    let cause = if gpu.config.tells_fence_kinds {
        let cause = cmp.signaled.add_of_cmp(fence.address_space, fence.current_value);
        cmp.stats.signals_collapsed += u64::from(cause.has(Cause::FENCE_COLLAPSED));
        cause
    } else {
        Cause::FENCE_COLLAPSED
    };
    cmp.causes_due |= cause.0;
}
