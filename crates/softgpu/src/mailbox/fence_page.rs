//! Moves a page of fence values or MonitoredValues on the bus.
//!
//! Order, so that no store is lost: 1. engines are held, and none is in a turn; 2. the page is
//! copied, histories and their annexes included; 3. waits are re-entered under their new addresses;
//! 4. the driver writes page tables and invalidates translations; 5. engines are released, and
//! every wait is re-evaluated. Until step 5 no agent stores to either address.

use super::fences::cell_of;
use crate::hardware::Hardware;
use tidegate_d3dukmdt::fence_cell::VALUE_BYTES;
use tidegate_gpu_abi::AdminError;
use tidegate_gpu_abi::admin::{AdminAnswer, DONE};
use tidegate_platform::{Page, PhysicalAddress, Target};

pub(super) fn release_engines(gpu: &Hardware) -> AdminAnswer {
    let mut cmp = gpu.cmp.lock();
    if cmp.holds == 0 {
        return Err(AdminError::BadValue);
    }
    cmp.holds -= 1;
    if cmp.holds == 0 {
        gpu.recall_all(cmp);
        gpu.rescan_waits();
    }
    DONE
}

pub(super) fn move_page(gpu: &Hardware, from: PhysicalAddress, to: PhysicalAddress) -> AdminAnswer {
    let (old, new) = (whole_page(gpu, from)?, whole_page(gpu, to)?);
    let mut cmp = gpu.cmp.lock();
    if cmp.holds == 0 || old.len() != new.len() {
        return Err(AdminError::BadValue);
    }
    for word in 0..old.len() {
        let value = old.word(word).load();
        if value != 0 {
            new.word(word).store(value);
        }
    }
    new.take_annexes(&old);
    let range = from..PhysicalAddress(from.0 + VALUE_BYTES);
    let moved = cmp.waits.rekey(&gpu.armed, range, |at| {
        let offset = at.0 - from.0;
        (PhysicalAddress(to.0 + offset), cell_of(&new, offset))
    });
    for (queue, key) in moved {
        if let Some(entry) = cmp.queue(queue) {
            entry.waiting = Some(key);
        }
    }
    drop(cmp);
    gpu.platform.fence();
    DONE
}

/// Returns the page of words that begins at `at`.
fn whole_page(gpu: &Hardware, at: PhysicalAddress) -> Result<Page, AdminError> {
    match gpu.bus.resolve(at) {
        Some(Target::Protocol(page, 0)) => Ok(page),
        _ => Err(AdminError::BadAddress),
    }
}
