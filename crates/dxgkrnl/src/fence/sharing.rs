//! Owns what is behind an NT handle of a fence, and opening it.
//!
//! A handle holds the fence like an instance does: the fence lives until the last of both is gone.
//! What may be done with an instance is the handle's access and the flags of the open, whichever is
//! less. An open may also repeat the two flags that every shareable fence was made with; they
//! change nothing.
//!
//! A fence of one adapter is opened there; a cross-adapter fence anywhere (`cross_adapter`).

use super::FenceInstanceObject;
use super::create::FenceHold;
use crate::adapter::Adapter;
use crate::device::Device;
use crate::memory::Affinity;
use std::sync::Arc;
use tidegate_calls::{NtHandle, Status, SyncObjectAccess, SyncObjectFlags};
use tidegate_ddi::VidSchCaps;

/// A fence behind an NT handle.
struct SharedFence {
    hold: FenceHold,
    access: SyncObjectAccess,
}

/// Makes an NT handle of a fence.
// spec: MF-045
pub(crate) fn share(
    instance: &FenceInstanceObject,
    access: SyncObjectAccess,
) -> Result<NtHandle, Status> {
    let fence = &instance.fence;
    if !fence.flags.contains(SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING) {
        return Err(Status::INVALID_PARAMETER);
    }
    if access.is_empty() {
        return Err(Status::INVALID_PARAMETER);
    }
    // Nobody gives on what he may not do himself.
    if !allowed_by(instance.flags).contains(access) {
        return Err(Status::ACCESS_DENIED);
    }
    // spec: MF-046
    let hold = FenceHold::new(fence).ok_or(Status::INVALID_PARAMETER)?;
    Ok(NtHandle::new(SharedFence { hold, access }))
}

/// Opens a fence for a device; `native` says by which of the two calls.
#[doc(alias = "D3DKMTOpenSyncObjectFromNtHandle2")]
// spec: NF-092
pub(crate) fn open(
    device: &Arc<Device>,
    nt_handle: &NtHandle,
    flags: SyncObjectFlags,
    native: bool,
    affinity: Affinity,
) -> Result<FenceInstanceObject, Status> {
    let shared: &SharedFence = nt_handle.object().ok_or(Status::OBJECT_TYPE_MISMATCH)?;
    let refused = refused_by_flags(flags)?;
    if native && !device.adapter.caps.scheduling.contains(VidSchCaps::NATIVE_GPU_FENCE) {
        return Err(Status::NOT_SUPPORTED);
    }
    let hold = hold_on(&device.adapter, &shared.hold)?;
    if native && hold.fence().native.is_none() {
        return Err(Status::OBJECT_TYPE_MISMATCH);
    }
    FenceInstanceObject::open(hold, device, refused | refused_by(shared.access), affinity)
}

/// Returns the rights that the flags of an open take from the instance: NO_SIGNAL, NO_WAIT, or
/// neither. SHARED and NT_SECURITY_SHARING are accepted together and change nothing.
/// INVALID_PARAMETER for any other flag.
// spec: NF-340
fn refused_by_flags(flags: SyncObjectFlags) -> Result<SyncObjectFlags, Status> {
    let shareable = SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING;
    let refused = flags - shareable;
    let repeated = flags & shareable;
    let known = (SyncObjectFlags::NO_SIGNAL | SyncObjectFlags::NO_WAIT).contains(refused);
    match known && (repeated.is_empty() || repeated == shareable) {
        true => Ok(refused),
        false => Err(Status::INVALID_PARAMETER),
    }
}

/// A hold on the fence as it is on `adapter`.
fn hold_on(adapter: &Arc<Adapter>, shared: &FenceHold) -> Result<FenceHold, Status> {
    let fence = shared.fence();
    if Arc::ptr_eq(&fence.adapter, adapter) {
        return FenceHold::new(fence).ok_or(Status::INVALID_PARAMETER);
    }
    fence.cross_adapter.as_ref().ok_or(Status::NOT_SUPPORTED)?.join(adapter)
}

fn allowed_by(flags: SyncObjectFlags) -> SyncObjectAccess {
    let mut access = SyncObjectAccess::all();
    access.set(SyncObjectAccess::SIGNAL, !flags.contains(SyncObjectFlags::NO_SIGNAL));
    access.set(SyncObjectAccess::WAIT, !flags.contains(SyncObjectFlags::NO_WAIT));
    access
}

fn refused_by(access: SyncObjectAccess) -> SyncObjectFlags {
    let mut flags = SyncObjectFlags::empty();
    flags.set(SyncObjectFlags::NO_SIGNAL, !access.contains(SyncObjectAccess::SIGNAL));
    flags.set(SyncObjectFlags::NO_WAIT, !access.contains(SyncObjectAccess::WAIT));
    flags
}
