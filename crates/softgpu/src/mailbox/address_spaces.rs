//! Address spaces: root tables and the invalidation of stale translations.

use crate::cmp::Cmp;
use crate::cmp::posted::Until;
use crate::hardware::Hardware;
use std::ops::Range;
use tidegate_gpu_abi::admin::{AdminAnswer, DONE};
use tidegate_gpu_abi::{AddressSpaceId, AdminError};
use tidegate_platform::planted;
use tidegate_platform::{MutexGuard, PhysicalAddress, Step};

fn engines_of(gpu: &Hardware, physical_gpu: u32) -> Range<usize> {
    let (nodes, first) = (gpu.config.nodes.len(), physical_gpu as usize);
    first * nodes..(first + 1) * nodes
}

/// Gives an address space a new generation on a physical GPU. Turns there may still use the old one
/// until they end.
// spec: NF-326
pub(super) fn renew(
    gpu: &Hardware,
    id: AddressSpaceId,
    physical_gpu: u32,
    root: Option<PhysicalAddress>,
) -> Result<(MutexGuard<'_, Cmp>, Until), AdminError> {
    if id == AddressSpaceId(u32::MAX) {
        return Err(AdminError::BadValue);
    }
    if physical_gpu >= gpu.config.physical_gpus {
        return Err(AdminError::NoSuchEngine);
    }
    let mut cmp = gpu.awake()?;
    cmp.renew_space(id, physical_gpu, root);
    // spec: RES-018
    let until = match planted!(gpu.platform, UnawaitedTurns) {
        true => Until::NOW,
        false => cmp.turns_of(engines_of(gpu, physical_gpu)),
    };
    Ok((cmp, until))
}

/// Ends a renewal after those turns. Waiting queues were parked with the old translations, so they
/// are unparked and translate their cells again.
pub(super) fn renewed(
    gpu: &Hardware,
    mut cmp: MutexGuard<'_, Cmp>,
    id: AddressSpaceId,
    physical_gpu: u32,
    root: Option<PhysicalAddress>,
) -> AdminAnswer {
    let engines = engines_of(gpu, physical_gpu);
    let mut called = cmp.unpark(&gpu.armed, id, &engines);
    if root == Some(PhysicalAddress(0)) {
        called.extend(cmp.forget_space(id, physical_gpu, engines));
    }
    gpu.wake_engines(cmp, called, Step::GpuWaitUnblock);
    DONE
}
