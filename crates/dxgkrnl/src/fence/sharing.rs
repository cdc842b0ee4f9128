//! NT handles of fences, and opening by them.
//!
//! A handle holds the fence as an instance does. An instance has the rights granted by both the
//! handle's access and the open's flags. An open may repeat the two sharing flags, which have
//! no effect.
//!
//! A fence of one adapter is opened there, a cross-adapter fence on any adapter.

use super::instance::{self, CreateFence, FenceHold, Instance, InstanceOwner};
use super::link;
use super::names::{Share, ShareKind, Shareable};
use super::object::{CrossAdapterFence, Fence, Fences};
use crate::memory::Affinity;
use std::any::Any;
use std::sync::Arc;
use tidegate_calls::{NativeFenceType, NtHandle, Status, SyncObjectAccess, SyncObjectFlags};
use tidegate_ddi::{Passive, VidSchCaps};

/// A fence referenced by an NT handle.
struct SharedFence {
    hold: Arc<FenceHold>,
    access: SyncObjectAccess,
}

impl Shareable for Arc<FenceHold> {
    fn hold(&self, access: SyncObjectAccess) -> Box<dyn Any + Send + Sync> {
        Box::new(SharedFence { hold: self.clone(), access })
    }
}

/// Checks that an instance may be shared with these rights, and returns what NT handles hold.
// spec: MF-045
pub(crate) fn share(instance: &Instance, access: SyncObjectAccess) -> Result<Share, Status> {
    let fence = &instance.fence;
    if !fence.flags.contains(SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING) {
        return Err(Status::INVALID_PARAMETER);
    }
    if access.is_empty() {
        return Err(Status::INVALID_PARAMETER);
    }
    // A handle never has more rights than the instance.
    if !allowed_by(instance.flags).contains(access) {
        return Err(Status::ACCESS_DENIED);
    }
    // spec: MF-046
    let hold = FenceHold::new(fence).ok_or(Status::INVALID_PARAMETER)?;
    Ok(Share { kind: ShareKind::SyncObject, objects: vec![Box::new(Arc::new(hold))], access })
}

/// Opens a fence for a device. `native` selects which of the two calls is made.
#[doc(alias = "D3DKMTOpenSyncObjectFromNtHandle2")]
// spec: NF-092
pub(crate) fn open(
    level: &Passive,
    fences: &Arc<Fences>,
    owner: &InstanceOwner<'_>,
    nt_handle: &NtHandle,
    flags: SyncObjectFlags,
    native: bool,
    affinity: Affinity,
) -> Result<Instance, Status> {
    let shared: &SharedFence = nt_handle.object().ok_or(Status::OBJECT_TYPE_MISMATCH)?;
    let refused = refused_by_flags(flags)?;
    if native && !fences.port.declared.caps.scheduling.contains(VidSchCaps::NATIVE_GPU_FENCE) {
        return Err(Status::NOT_SUPPORTED);
    }
    let hold = hold_on(level, fences, shared.hold.fence())?;
    if native && hold.fence().native.is_none() {
        return Err(Status::OBJECT_TYPE_MISMATCH);
    }
    Instance::open(level, hold, owner, refused | refused_by(shared.access), affinity)
}

/// Returns the rights that an open's flags deny the instance: NO_SIGNAL, NO_WAIT or neither. SHARED
/// and NT_SECURITY_SHARING are accepted together and have no effect.
///
/// # Errors
/// INVALID_PARAMETER for any other flag, and for both restrictions.
// spec: NF-340
pub(crate) fn refused_by_flags(flags: SyncObjectFlags) -> Result<SyncObjectFlags, Status> {
    let shareable = SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING;
    let refused = flags - shareable;
    let repeated = flags & shareable;
    let both = SyncObjectFlags::NO_SIGNAL | SyncObjectFlags::NO_WAIT;
    let known = both.contains(refused) && refused != both;
    match known && (repeated.is_empty() || repeated == shareable) {
        true => Ok(refused),
        false => Err(Status::INVALID_PARAMETER),
    }
}

/// Returns a hold on the fence, or on its member on this adapter.
fn hold_on(level: &Passive, fences: &Arc<Fences>, fence: &Arc<Fence>) -> Result<FenceHold, Status> {
    if Arc::ptr_eq(&fence.fences, fences) {
        return FenceHold::new(fence).ok_or(Status::INVALID_PARAMETER);
    }
    join(level, fence.cross_adapter.as_ref().ok_or(Status::NOT_SUPPORTED)?, fences)
}

/// Returns a hold on the adapter's member of a cross-adapter fence, creating the member if needed.
fn join(
    level: &Passive,
    shared: &Arc<CrossAdapterFence>,
    fences: &Arc<Fences>,
) -> Result<FenceHold, Status> {
    // Adapters without common memory cannot share a value. Nor can a GPU that updates 32 bits and
    // one that updates 64: above 2^32 each reads the other's signals as other values (decision
    // 143).
    // spec: MF-098
    let narrow = instance::is_narrow(fences, shared.flags);
    if !fences.port.system_memory.same(&shared.memory) || narrow != shared.narrow.is_some() {
        return Err(Status::NOT_SUPPORTED);
    }
    let (hold, unlinked) = {
        let _one_at_a_time = shared.joining.lock_device();
        let members = shared.members();
        let mut own = members.iter().filter(|member| Arc::ptr_eq(&member.fences, fences));
        if let Some(hold) = own.find_map(FenceHold::new) {
            return Ok(hold);
        }
        drop(members);
        let mut unlinked = if link::is_capable(fences) { Vec::new() } else { shared.unlink(level) };
        let hold = create_member(level, shared, fences)?;
        if shared.is_linked() && link::link(level, &shared.members()).is_err() {
            unlinked = shared.unlink(level);
        }
        (hold, unlinked)
    };
    for member in unlinked {
        if let Some(port) = member.fences.relays.get() {
            port.relay(member);
        }
    }
    Ok(hold)
}

fn create_member(
    level: &Passive,
    shared: &Arc<CrossAdapterFence>,
    fences: &Arc<Fences>,
) -> Result<FenceHold, Status> {
    // spec: NF-152, NF-153
    let native = fences.port.declared.caps.scheduling.contains(VidSchCaps::NATIVE_GPU_FENCE);
    let args = CreateFence {
        name: &shared.name,
        initial_value: 0,
        flags: shared.flags,
        native: native.then_some(NativeFenceType::Default),
        private_data: [0; 64],
        // Each open states its own affinity.
        affinity: Affinity::ALL,
    };
    let storage = shared.storage_on(level, fences)?;
    storage.begin_monitored(&fences.memory, &shared.name, shared.first_monitored_value());
    instance::create_fence(level, fences, &args, storage, Some(shared.clone()))
}

/// Returns the rights of an instance with these flags.
pub(crate) fn allowed_by(flags: SyncObjectFlags) -> SyncObjectAccess {
    let mut access = SyncObjectAccess::all();
    access.set(SyncObjectAccess::SIGNAL, !flags.contains(SyncObjectFlags::NO_SIGNAL));
    access.set(SyncObjectAccess::WAIT, !flags.contains(SyncObjectFlags::NO_WAIT));
    access
}

/// Returns the flags of an instance that these rights restrict.
pub(crate) fn refused_by(access: SyncObjectAccess) -> SyncObjectFlags {
    let mut flags = SyncObjectFlags::empty();
    flags.set(SyncObjectFlags::NO_SIGNAL, !access.contains(SyncObjectAccess::SIGNAL));
    flags.set(SyncObjectFlags::NO_WAIT, !access.contains(SyncObjectAccess::WAIT));
    flags
}
