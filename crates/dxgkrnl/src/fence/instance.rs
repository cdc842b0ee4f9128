//! Creation, opening, closing and destruction of fences on one adapter. A creation that fails is
//! undone in reverse order.
//!
//! Invariants: a fence lives while an instance holds it, or an NT handle if it is shareable. The
//! driver sees one Create, one Open and one Close per instance, and Destroy last, whatever order
//! the holders end in.

use super::monitor;
use super::object::{
    CrossAdapterFence, DirectSignals, Fence, FenceTarget, Fences, NativeParts, OnTimeline, Opener,
};
use super::residency;
use super::signal;
use super::storage::{FencePool, FenceStorage, Mapping, StorageKind};
use super::value::FenceValue;
use super::waiter_set::{NO_WAITER, WaitOwner, WaiterSet};
use super::waiters::Waiters;
use crate::config::PowerManagement;
use crate::driver::DriverPort;
use crate::memory::Affinity;
use crate::stats::LostSignal;
use crate::timer::{AtPassive, EndAtPassive};
use std::sync::Arc;
use tidegate_calls::{NativeFenceType, Status, SyncObjectFlags};
use tidegate_ddi::feature::NativeFenceOsCaps;
use tidegate_ddi::fence::{CreateNativeFence, OpenNativeFence};
use tidegate_ddi::{DriverHandle, Irql, OsHandle, Passive, VidSchCaps};
use tidegate_platform::planted;

/// Arguments of a creation.
pub(crate) struct CreateFence<'a> {
    pub(crate) name: &'a str,
    pub(crate) initial_value: u64,
    pub(crate) flags: SyncObjectFlags,
    /// `None` creates a monitored fence.
    pub(crate) native: Option<NativeFenceType>,
    /// For the driver of a native fence.
    pub(crate) private_data: [u8; 64],
    /// The physical adapters on which the fence is mapped.
    pub(crate) affinity: Affinity,
}

/// The device to which an instance belongs.
pub(crate) struct InstanceOwner<'a> {
    pub(crate) device: OsHandle,
    pub(crate) driver: DriverHandle,
    pub(crate) pool: &'a Arc<FencePool>,
}

/// Keeps a fence alive.
pub(crate) type FenceHold = AtPassive<Hold>;

/// The part of a hold.
pub(crate) struct Hold(Arc<Fence>);

impl FenceHold {
    fn of(fence: &Arc<Fence>) -> FenceHold {
        AtPassive::wrap(&fence.port().timer, Hold(fence.clone()))
    }

    /// Adds a holder. Returns `None` if the fence has already ended.
    pub(crate) fn new(fence: &Arc<Fence>) -> Option<FenceHold> {
        let mut holders = fence.holders.lock();
        *holders = holders.checked_add(1).filter(|more| *more < REMOVED)?;
        Some(FenceHold::of(fence))
    }
}

impl Hold {
    pub(crate) fn fence(&self) -> &Arc<Fence> {
        &self.0
    }
}

/// Holder count of a fence that has ended.
const ENDED: u32 = u32::MAX;
/// Holder count of a fence that ended with its adapter. Remaining NT handles have nothing to end.
const REMOVED: u32 = u32::MAX - 1;

impl EndAtPassive for Hold {
    fn end(&mut self, level: &Passive) {
        let last = {
            let mut holders = self.0.holders.lock();
            if *holders < REMOVED {
                *holders -= 1;
            }
            let last = matches!(*holders, 0 | ENDED);
            if last {
                *holders = ENDED;
            }
            last
        };
        // spec: NF-088
        if last {
            end(level, &self.0);
        }
    }
}

/// A device's instance of a fence. Dropping it closes it.
pub(crate) type Instance = AtPassive<InstanceBody>;

/// The parts of an instance.
pub(crate) struct InstanceBody {
    /// Dropped after the instance is closed.
    _hold: FenceHold,
    pub(crate) fence: Arc<Fence>,
    local: Option<DriverHandle>,
    pub(crate) id: OsHandle,
    /// The creation flags, with NO_SIGNAL and NO_WAIT as they apply to this instance.
    pub(crate) flags: SyncObjectFlags,
    pub(crate) mapping: Arc<Mapping>,
}

impl Instance {
    /// Creates a fence and its creator's instance.
    #[doc(alias = "D3DKMTCreateNativeFence")]
    pub(crate) fn create(
        level: &Passive,
        fences: &Arc<Fences>,
        owner: &InstanceOwner<'_>,
        args: &CreateFence<'_>,
    ) -> Result<Instance, Status> {
        // 1. Check that the adapter allows this kind of fence.
        // spec: NF-104
        check_kind(fences, args)?;
        check_flags(args.flags)?;
        // 2. Storage: CurrentValue is the initial value; MonitoredValue means "no waiter" or
        //    "every signal".
        let cross_adapter = args.flags.contains(SyncObjectFlags::CROSS_ADAPTER);
        // spec: NF-142
        let cross_adapter =
            cross_adapter.then(|| CrossAdapterFence::new(fences, args.name, args.flags));
        let kind = StorageKind::choose(level, &fences.memory, args.native, args.flags)?;
        let storage = match &cross_adapter {
            Some(shared) => shared.storage_on(level, fences)?,
            None if args.flags.contains(SyncObjectFlags::SHARED) => {
                FenceStorage::of_its_own(level, &fences.memory, kind)?
            }
            None => owner.pool.on(args.affinity).allocate(level, kind)?,
        };
        let first =
            cross_adapter.as_ref().map_or(NO_WAITER, |shared| shared.first_monitored_value());
        storage.begin(&fences.memory, args.name, args.initial_value, first);
        // 3. Mappings are created with the instance.
        // 4. The driver's global fence.
        let hold = create_fence(level, fences, args, storage, cross_adapter)?;
        // 5. The creator's instance.
        // spec: NF-086
        Instance::open(level, hold, owner, args.flags, args.affinity)
    }

    /// Opens an instance for a device. A failure drops the hold, and with the last hold the fence.
    pub(crate) fn open(
        level: &Passive,
        hold: FenceHold,
        owner: &InstanceOwner<'_>,
        flags: SyncObjectFlags,
        affinity: Affinity,
    ) -> Result<Instance, Status> {
        let fence = hold.fence().clone();
        let may_signal = !flags.contains(SyncObjectFlags::NO_SIGNAL);
        let pool = owner.pool.on(affinity);
        let mapping = fence.storage.map(level, fence.os_handle, &pool, may_signal)?;
        fence.keep_mapping(&mapping);
        let id = fence.port().new_handle();
        let local = match &fence.native {
            None => None,
            Some(native) => {
                let open = OpenNativeFence {
                    // spec: NF-083
                    global: native.driver_global,
                    os_handle: id,
                    device: owner.driver,
                    current_value_gpu_va: mapping.current_va,
                    monitored_value_gpu_va: mapping.monitored_va,
                };
                // spec: NF-084, NF-087
                Some(fence.port().driver(level).open_native_fence(level, open)?)
            }
        };
        fence.openers.lock().push(Opener { instance: id, device: owner.device, flags });
        fence.waiters.lock().open(id);
        let timer = fence.port().timer.clone();
        let body = InstanceBody { _hold: hold, fence, local, id, flags, mapping };
        Ok(AtPassive::wrap(&timer, body))
    }
}

impl InstanceBody {
    /// Releases the CPU waits of this instance and admits no further ones.
    pub(crate) fn release_cpu_waiters(&self, level: Irql<'_>) {
        let waiting = self.fence.waiters.lock().take_of(WaitOwner::Instance(self.id));
        if monitor::release(level, waiting) {
            monitor::rearm_waiters(level, &self.fence);
        }
    }
}

fn check_kind(fences: &Fences, args: &CreateFence<'_>) -> Result<(), Status> {
    let Some(fence_type) = args.native else { return Ok(()) };
    let port = &fences.port;
    // spec: NF-077
    if !port.declared.caps.scheduling.contains(VidSchCaps::NATIVE_GPU_FENCE) {
        return Err(Status::NOT_SUPPORTED);
    }
    if fence_type == NativeFenceType::IntraGpu {
        // Another adapter cannot reach local memory.
        // spec: NF-144
        if args.flags.contains(SyncObjectFlags::CROSS_ADAPTER) {
            return Err(Status::INVALID_PARAMETER);
        }
        if !port.config.native_fence_os_caps.contains(NativeFenceOsCaps::INTRA_GPU_FENCE_TYPE) {
            return Err(Status::NOT_SUPPORTED);
        }
    }
    Ok(())
}

/// Creates the kernel's object and the driver's global fence, with the first hold on them.
// spec: NF-085
pub(super) fn create_fence(
    level: &Passive,
    fences: &Arc<Fences>,
    args: &CreateFence<'_>,
    storage: FenceStorage,
    cross_adapter: Option<Arc<CrossAdapterFence>>,
) -> Result<FenceHold, Status> {
    let port = &fences.port;
    let os_handle = port.new_handle();
    let mut private_data_back = [0; 64];
    // A fence in local memory must not move between Create and the first residency notification.
    let driver = args.native.map(|fence_type| (fence_type, port.driver(level)));
    let still = storage.hold_still(&fences.memory);
    let native = match &driver {
        None => None,
        Some((fence_type, driver)) => {
            let fence_type = *fence_type;
            let private_data = args.private_data;
            // spec: NF-075
            let system_process_va = storage.system_process_va;
            let create =
                CreateNativeFence { os_handle, fence_type, system_process_va, private_data };
            let (driver_global, answer) = driver.create_native_fence(level, create)?;
            // spec: NF-100
            private_data_back = answer;
            Some(NativeParts::new(storage.monitored(), driver_global))
        }
    };
    let platform = &port.platform;
    let mut waiters = WaiterSet::new(NO_WAITER);
    if cross_adapter.as_ref().is_some_and(|shared| !shared.is_linked()) {
        waiters.pin();
    }
    let current = value_of(fences, args, &storage, cross_adapter.as_deref());
    let direct = direct_signals(level, port, current.as_ref(), native.as_ref(), &storage)
        .filter(|_| cross_adapter.is_none());
    let fence = Arc::new(Fence {
        fences: fences.clone(),
        os_handle,
        name: args.name.to_owned(),
        timeline: match &cross_adapter {
            Some(shared) => OnTimeline::Shared(shared.traced.id(), shared.traced.serial()),
            None => OnTimeline::Own(platform.trace_fence(args.name)),
        },
        flags: args.flags,
        private_data: private_data_back,
        current,
        native,
        cross_adapter,
        waiters: Waiters::new(platform, waiters),
        direct,
        openers: platform.mutex("openers of a fence", Vec::new()),
        mappings: platform.mutex("mappings of a fence", Vec::new()),
        holders: platform.mutex("holders of a fence", 1),
        storage,
    });
    fences.insert(&fence);
    if let Some(shared) = &fence.cross_adapter {
        shared.enter(&fence);
    }
    let hold = FenceHold::of(&fence);
    if fence.storage.is_movable() {
        let notified = residency::notify_residency(level, port, &[fence]);
        // A failure ends the fence with its only hold.
        drop(still);
        drop(driver);
        notified?;
    }
    Ok(hold)
}

/// Returns how CPU signals of a new fence are made without the driver; `None` if they are not.
fn direct_signals(
    level: &Passive,
    port: &DriverPort,
    current: Option<&FenceValue>,
    native: Option<&NativeParts>,
    storage: &FenceStorage,
) -> Option<DirectSignals> {
    if !port.declared.caps.fence_history || !current?.is_whole() {
        return None;
    }
    let Some(native) = native else {
        return Some(DirectSignals { waiting: None, monitored: None });
    };
    // A signal may have to wake the device for a queue that was suspended with it.
    if port.config.power != PowerManagement::AlwaysOn {
        return None;
    }
    let at = storage.current_at();
    let waiting = port.driver(level).waiting_word(level, native.driver_global, at).ok()?;
    let is_fixed = port.declared.caps.monitored_values_in_memory && !storage.is_movable();
    let monitored = native.monitored.word().filter(|_| is_fixed);
    Some(DirectSignals { waiting: Some(waiting), monitored })
}

/// A GPU that updates only 32 bits atomically holds the low half of the value, unless it never
/// accesses the fence.
fn value_of(
    fences: &Fences,
    args: &CreateFence<'_>,
    storage: &FenceStorage,
    cross_adapter: Option<&CrossAdapterFence>,
) -> Option<FenceValue> {
    let cell = storage.current()?;
    if !is_narrow(fences, args.flags) {
        return Some(FenceValue::whole(cell));
    }
    let known = cross_adapter.and_then(|shared| shared.narrow.clone());
    let value = FenceValue::low_half(
        cell,
        known.unwrap_or_else(|| FenceValue::shared(&fences.port.platform)),
    );
    // A member that joins finds the value.
    if cross_adapter.is_none_or(|shared| shared.members().is_empty()) {
        value.store(args.initial_value);
    }
    Some(value)
}

/// Whether a fence with these flags holds the low half of its value.
pub(super) fn is_narrow(fences: &Fences, flags: SyncObjectFlags) -> bool {
    let no_64bit_atomics =
        fences.port.declared.caps.scheduling.contains(VidSchCaps::NO_64BIT_ATOMICS);
    no_64bit_atomics && !flags.contains(SyncObjectFlags::NO_GPU_ACCESS)
}

/// Refuses flags that no object of the kernel takes.
///
/// # Errors
/// NOT_SUPPORTED for TOP_OF_PIPELINE: engines signal when the work before is complete.
/// INVALID_PARAMETER for SIGNAL_BY_KMD, which only CPU notifications have.
pub(crate) fn refuse_unsupported(flags: SyncObjectFlags) -> Result<(), Status> {
    if flags.contains(SyncObjectFlags::SIGNAL_BY_KMD) {
        return Err(Status::INVALID_PARAMETER);
    }
    match flags.contains(SyncObjectFlags::TOP_OF_PIPELINE) {
        true => Err(Status::NOT_SUPPORTED),
        false => Ok(()),
    }
}

// spec: MF-005, MF-016, NF-101
fn check_flags(flags: SyncObjectFlags) -> Result<(), Status> {
    refuse_unsupported(flags)?;
    let both = |a, b| flags.contains(a) && flags.contains(b);
    let (shared, secured) = (SyncObjectFlags::SHARED, SyncObjectFlags::NT_SECURITY_SHARING);
    // SHARED and NT_SECURITY_SHARING must be given together.
    if flags.contains(shared) != flags.contains(secured) {
        return Err(Status::INVALID_PARAMETER);
    }
    if both(SyncObjectFlags::NO_SIGNAL, SyncObjectFlags::NO_WAIT) {
        return Err(Status::INVALID_PARAMETER);
    }
    if flags.contains(SyncObjectFlags::CROSS_ADAPTER) && !flags.contains(shared) {
        return Err(Status::INVALID_PARAMETER);
    }
    Ok(())
}

impl EndAtPassive for InstanceBody {
    fn end(&mut self, level: &Passive) {
        let fence = &self.fence;
        fence.openers.lock().retain(|opener| opener.instance != self.id);
        // Release the instance's CPU waiters, unless they stay until the fence ends.
        // spec: MF-047
        if fence.flags.contains(SyncObjectFlags::UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY) {
            fence.waiters.lock().shut(self.id);
        } else {
            self.release_cpu_waiters(level.into());
        }
        // Logs name the fence by this instance's handle. One more collection covers entries that
        // are not read yet.
        monitor::wake_satisfied(level.into(), fence);
        if begins_to_end(fence) {
            // Last holder: no call changes the fence after its waiters are released.
            close_waiters(level, fence);
        }
        // spec: NF-090
        if let Some(local) = self.local {
            fence.port().driver(level).close_native_fence(level, local);
        }
    }
}

/// Returns whether only this instance is left. If so, no further hold is granted.
fn begins_to_end(fence: &Fence) -> bool {
    let mut holders = fence.holders.lock();
    let last = *holders == 1;
    if last {
        *holders = ENDED;
    }
    last
}

/// Closes the waiter set and releases all waiters. A DPC or a signal that still holds the fence
/// must not name it to the driver after the driver has destroyed it, so both check the set under
/// the lock held across their DDI call.
fn close_waiters(level: &Passive, fence: &Fence) {
    {
        let _no_signal = fence.fences.updates.lock_device();
        let _no_arming = fence.port().interrupt_lock.lock_device();
        let mut waiters = fence.waiters.lock();
        if waiters.is_closed() {
            return;
        }
        waiters.close();
    }
    // Waiters hold no reference, so their wait ends with the fence. So do waits in rings, reached
    // or not.
    let waiting = fence.waiters.lock().take_all();
    monitor::release(level.into(), waiting);
    // spec: NF-107
    if fence.cross_adapter.as_ref().is_none_or(|shared| shared.leave(level, fence)) {
        signal::let_all_pass(level.into(), fence);
    }
}

/// Ends a fence that only NT handles keep, because its adapter is removed. Idempotent.
pub(crate) fn end_with_adapter(level: &Passive, fence: &Arc<Fence>) {
    {
        let mut holders = fence.holders.lock();
        // The agent that drops the last hold ends the fence.
        if matches!(*holders, 0 | ENDED | REMOVED) {
            return;
        }
        *holders = REMOVED;
    }
    end(level, fence);
}

/// Ends a fence without holders.
fn end(level: &Passive, fence: &Arc<Fence>) {
    close_waiters(level, fence);
    // The last instance was closed; Destroy follows. An interrupt may name the fence until
    // Destroy returns, so the fence stays in the table until then. Dropping the last reference
    // frees the slot.
    let native = fence.native.as_ref().map(|native| (native, fence.port().driver(level)));
    let still = fence.storage.hold_still(&fence.fences.memory);
    // spec: NF-089
    if let Some((native, driver)) = &native {
        driver.destroy_native_fence(level, native.driver_global);
        if !planted!(fence.port().platform, DestroyedFenceMoves) {
            let _first = native.destroyed.set(());
        }
    }
    drop(still);
    drop(native);
    let mapped = std::mem::take(&mut *fence.mappings.lock());
    drop(mapped);
    // Last, because a removal stops the driver when no fence is left.
    fence.fences.remove(fence.os_handle);
}

/// Records, for reports, the shared fences that `instances` of an ended process could signal and
/// that have other holders. `dropped` lists the queued signals that were dropped.
pub(crate) fn note_lost_signals(process: &str, instances: &[&Instance], dropped: &[FenceTarget]) {
    let shared = |i: &&&Instance| {
        i.fence.flags.contains(SyncObjectFlags::SHARED)
            && !i.flags.contains(SyncObjectFlags::NO_SIGNAL)
    };
    for instance in instances.iter().filter(shared) {
        let fence = &instance.fence;
        let of_fence = dropped.iter().filter(|lost| Arc::ptr_eq(&lost.fence, fence));
        let queued = of_fence.map(|lost| lost.value).max();
        let own = instances.iter().filter(|other| Arc::ptr_eq(&other.fence, fence)).count();
        if !fence.is_held_beside(own) {
            continue;
        }
        let others = fence.cross_adapter.iter().flat_map(|shared| shared.members());
        let others = others.filter(|other| !Arc::ptr_eq(other, fence));
        for member in others.chain([fence.clone()]).collect::<Vec<_>>() {
            let (process, name) = (process.to_owned(), member.name.clone());
            let lost = LostSignal { process, fence: name, queued };
            member.port().stats.note_lost_signal(member.os_handle, lost);
        }
    }
}
