//! Address spaces: root tables and the invalidation of stale translations.

use crate::hardware::Hardware;
use tidegate_gpu_abi::admin::{AdminAnswer, DONE};
use tidegate_gpu_abi::{AddressSpaceId, AdminError};
use tidegate_platform::{PhysicalAddress, Step};

/// Gives an address space a new generation on a physical GPU, then waits for the turns there that
/// may still use the old one. Waiting queues there were parked with the old translations, so they
/// are unparked and translate their cells again.
// spec: NF-326
pub(super) fn renew(
    gpu: &Hardware,
    id: AddressSpaceId,
    physical_gpu: u32,
    root: Option<PhysicalAddress>,
) -> AdminAnswer {
    if id == AddressSpaceId(u32::MAX) {
        return Err(AdminError::BadValue);
    }
    if physical_gpu >= gpu.config.physical_gpus {
        return Err(AdminError::NoSuchEngine);
    }
    let nodes = gpu.config.nodes.len();
    let engines = physical_gpu as usize * nodes..(physical_gpu as usize + 1) * nodes;
    let mut cmp = gpu.awake()?;
    cmp.renew_space((id, physical_gpu), root);
    // spec: RES-018
    let unawaited = gpu.platform.fault("unawaited turns");
    let mut cmp = if unawaited { cmp } else { gpu.await_ends_of_turns(cmp, engines.clone()) };
    let mut called = cmp.unpark(&gpu.armed, id, &engines);
    if root == Some(PhysicalAddress(0)) {
        called.extend(cmp.forget_space((id, physical_gpu), engines));
    }
    gpu.wake_engines(cmp, called, Step::GpuWaitUnblock);
    DONE
}
