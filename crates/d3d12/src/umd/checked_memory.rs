//! Reports resource memory and CPU accesses to the platform's hazard check. No effect while the
//! check is off.

use crate::umd::kernel_object::KernelDevice;
use std::ops::Range;
use std::sync::Arc;
use tidegate_platform::hazard::{AccessKind, Checker, ResourceKey, SpaceKey};

/// Returns the address space of a device's resources.
pub(crate) fn space(device: &Arc<KernelDevice>) -> SpaceKey {
    device.space
}

/// Names a range of GPU addresses.
pub(crate) fn add(
    device: &Arc<KernelDevice>,
    range: Range<u64>,
    name: &str,
) -> Option<ResourceKey> {
    let add = |checker: &mut Checker| checker.add_resource(space(device), range, name.to_owned());
    device.thunk().platform().hazard_checker(add)
}

/// Removes a resource. The access history of its memory is kept, because another resource may use
/// the same memory.
pub(crate) fn remove(device: &KernelDevice, resource: Option<ResourceKey>) {
    if let Some(resource) = resource {
        let remove = |checker: &mut Checker| checker.remove_resource(resource);
        device.thunk().platform().hazard_checker(remove);
    }
}

/// Drops the access history of freed memory.
pub(crate) fn free(device: &Arc<KernelDevice>, range: Range<u64>) {
    let free = |checker: &mut Checker| checker.free_memory(space(device), range);
    device.thunk().platform().hazard_checker(free);
}

/// Reports a CPU access to `bytes` bytes at a GPU address.
#[inline]
pub(crate) fn note_access(device: &Arc<KernelDevice>, kind: AccessKind, start: u64, bytes: u64) {
    let what = if kind == AccessKind::Read { "map-read" } else { "map-write" };
    device.thunk().platform().check_hazards(|checker, thread| {
        checker.cpu_access(thread, space(device), kind, start..start + bytes, what);
    });
}
