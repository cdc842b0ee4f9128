//! Owns making, opening, closing and destroying fences on one adapter. The order of the creation of
//! a native fence is the published one; what fails is undone in reverse.
//!
//! A fence lives while somebody holds it: its instances and, for a shareable one, its NT handles.
//! The driver sees Create once, Open and Close for each instance, and Destroy last, whoever goes
//! first.

use super::cross_adapter::CrossAdapterFence;
use super::storage::{FenceStorage, Mapping, StorageKind};
use super::value::FenceValue;
use super::waiters::{NOBODY_WAITS, Owner, WaiterSet};
use super::{Fence, NativeParts, Opener, cpu, monitor};
use crate::adapter::Adapter;
use crate::device::Device;
use crate::memory::Affinity;
use std::sync::{Arc, OnceLock};
use tidegate_calls::{Handle, NativeFenceType, Status, SyncObjectFlags};
use tidegate_ddi::feature::NativeFenceOsCaps;
use tidegate_ddi::fence::{CreateNativeFence, OpenNativeFence};
use tidegate_ddi::{DriverHandle, OsHandle, Passive, VidSchCaps};
use tidegate_platform::Step;

/// What a fence is made with.
pub(crate) struct CreateFence<'a> {
    pub(crate) name: &'a str,
    pub(crate) initial_value: u64,
    pub(crate) flags: SyncObjectFlags,
    /// `None` makes a monitored fence.
    pub(crate) native: Option<NativeFenceType>,
    /// For the driver of a native fence.
    pub(crate) private_data: [u8; 64],
    /// On which physical adapters it is mapped.
    pub(crate) affinity: Affinity,
}

/// Keeps a fence from its end.
pub(crate) struct FenceHold(Arc<Fence>);

impl FenceHold {
    /// One more holder; `None` when the fence has ended already.
    pub(crate) fn new(fence: &Arc<Fence>) -> Option<FenceHold> {
        let mut holders = fence.holders.lock();
        *holders = holders.checked_add(1).filter(|more| *more < REMOVED)?;
        Some(FenceHold(fence.clone()))
    }

    pub(crate) fn fence(&self) -> &Arc<Fence> {
        &self.0
    }
}

/// Stands for the number of holders when the fence has ended.
const ENDED: u32 = u32::MAX;
/// Stands for the number of holders when the fence has ended with its adapter. NT handles that are
/// left have nothing to end.
const REMOVED: u32 = u32::MAX - 1;

impl Drop for FenceHold {
    fn drop(&mut self) {
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
            end(&self.0);
        }
    }
}

/// One device's instance of a fence. Its death closes the instance.
pub(crate) struct FenceInstanceObject {
    /// Goes after the instance was closed.
    _hold: FenceHold,
    pub(crate) fence: Arc<Fence>,
    local: Option<DriverHandle>,
    pub(crate) id: OsHandle,
    /// The handle of its process by which it is entered, once it is.
    pub(crate) handle: OnceLock<Handle>,
    /// What this instance may do.
    pub(crate) flags: SyncObjectFlags,
    pub(crate) mapping: Arc<Mapping>,
    /// An instance belongs to a device and is closed before it.
    pub(crate) device: Arc<Device>,
}

impl FenceInstanceObject {
    /// Makes a fence and its creator's instance.
    #[doc(alias = "D3DKMTCreateNativeFence")]
    pub(crate) fn create(
        device: &Arc<Device>,
        args: &CreateFence<'_>,
    ) -> Result<FenceInstanceObject, Status> {
        let adapter = &device.adapter;
        // 1. Is it allowed here?
        // spec: NF-104
        check_kind(adapter, args)?;
        check_flags(args.flags)?;
        // 2. Storage: CurrentValue is the initial value, MonitoredValue says that nobody waits, or
        //    that every signal counts.
        let cross_adapter = args.flags.contains(SyncObjectFlags::CROSS_ADAPTER);
        // spec: NF-142
        let cross_adapter = cross_adapter.then(|| CrossAdapterFence::new(adapter, args));
        let kind = StorageKind::choose(adapter, args.native, args.flags)?;
        let storage = match &cross_adapter {
            Some(shared) => shared.storage_on(adapter)?,
            None if args.flags.contains(SyncObjectFlags::SHARED) => {
                FenceStorage::of_its_own(adapter, kind)?
            }
            None => device.fence_pool.on(args.affinity).allocate(kind)?,
        };
        let first =
            cross_adapter.as_ref().map_or(NOBODY_WAITS, |shared| shared.first_monitored_value());
        storage.begin(adapter, args.name, (args.initial_value, first));
        // 3. The mappings come with the instance.
        // 4. The driver's global fence.
        let hold = make(adapter, args, storage, cross_adapter)?;
        // 5. The creator's instance.
        // spec: NF-086
        FenceInstanceObject::open(hold, device, args.flags, args.affinity)
    }

    /// Opens an instance for a device. When it fails, the hold goes, and with the last one the
    /// fence.
    pub(crate) fn open(
        hold: FenceHold,
        device: &Arc<Device>,
        flags: SyncObjectFlags,
        affinity: Affinity,
    ) -> Result<FenceInstanceObject, Status> {
        check_flags(flags)?;
        let fence = hold.fence().clone();
        let may_signal = !flags.contains(SyncObjectFlags::NO_SIGNAL);
        let pool = device.fence_pool.on(affinity);
        let mapping = fence.storage.map(fence.os_handle, &pool, may_signal)?;
        fence.keep(&mapping);
        let id = fence.adapter.new_handle();
        let local = match &fence.native {
            None => None,
            Some(native) => {
                let open = OpenNativeFence {
                    // spec: NF-083
                    global: native.driver_global,
                    os_handle: id,
                    device: device.driver,
                    current_value_gpu_va: mapping.current_va,
                    monitored_value_gpu_va: mapping.monitored_va,
                };
                // spec: NF-084, NF-087
                Some(fence.adapter.driver().open_native_fence(&Passive::enter(), open)?)
            }
        };
        fence.openers.lock().push(Opener { instance: id, device: device.os_handle, flags });
        fence.waiters.lock().open(id);
        let (handle, device) = (OnceLock::new(), device.clone());
        Ok(FenceInstanceObject { _hold: hold, fence, local, id, handle, flags, mapping, device })
    }
}

impl FenceInstanceObject {
    /// Ends the CPU waits that were asked by this instance, and lets no other in.
    pub(crate) fn release_cpu_waiters(&self) {
        let waiting = self.fence.waiters.lock().take_of(Owner::Instance(self.id));
        if monitor::release(waiting) {
            monitor::settle(&self.fence);
        }
    }
}

fn check_kind(adapter: &Adapter, args: &CreateFence<'_>) -> Result<(), Status> {
    let Some(fence_type) = args.native else { return Ok(()) };
    // spec: NF-077
    if !adapter.caps.scheduling.contains(VidSchCaps::NATIVE_GPU_FENCE) {
        return Err(Status::NOT_SUPPORTED);
    }
    if fence_type == NativeFenceType::IntraGpu {
        // Another adapter cannot reach local memory.
        // spec: NF-144
        if args.flags.contains(SyncObjectFlags::CROSS_ADAPTER) {
            return Err(Status::INVALID_PARAMETER);
        }
        if !adapter.config.native_fence_os_caps.contains(NativeFenceOsCaps::INTRA_GPU_FENCE_TYPE) {
            return Err(Status::NOT_SUPPORTED);
        }
    }
    Ok(())
}

/// The kernel's object and the driver's global fence, with the first hold on them.
// spec: NF-085
pub(crate) fn make(
    adapter: &Arc<Adapter>,
    args: &CreateFence<'_>,
    storage: FenceStorage,
    cross_adapter: Option<Arc<CrossAdapterFence>>,
) -> Result<FenceHold, Status> {
    let os_handle = adapter.new_handle();
    let mut private_data_back = [0; 64];
    // Between Create and the driver's first word of its place, a fence in local memory stays where
    // it is.
    let still = storage.hold_still(adapter);
    let native = match args.native {
        None => None,
        Some(fence_type) => {
            let private_data = args.private_data;
            // spec: NF-075
            let system_process_va = storage.system_process_va;
            let create =
                CreateNativeFence { os_handle, fence_type, system_process_va, private_data };
            let (driver_global, answer) =
                adapter.driver().create_native_fence(&Passive::enter(), create)?;
            // spec: NF-100
            private_data_back = answer;
            Some(NativeParts { monitored: storage.monitored(), driver_global })
        }
    };
    let platform = &adapter.platform;
    let mut waiters = WaiterSet::new(NOBODY_WAITS);
    if cross_adapter.as_ref().is_some_and(|shared| !shared.is_linked()) {
        waiters.pin();
    }
    let fence = Arc::new(Fence {
        adapter: adapter.clone(),
        os_handle,
        name: args.name.to_owned(),
        trace: cross_adapter
            .as_ref()
            .map_or_else(|| platform.trace_fence(args.name), |shared| shared.trace),
        flags: args.flags,
        private_data: private_data_back,
        current: value_of(adapter, args, &storage),
        native,
        cross_adapter,
        waiters: platform.mutex("waiters of a fence", waiters),
        update: platform.mutex("CPU updates of a fence", ()),
        openers: platform.mutex("openers of a fence", Vec::new()),
        mappings: platform.mutex("mappings of a fence", Vec::new()),
        holders: platform.mutex("holders of a fence", 1),
        storage,
    });
    adapter.fences.lock().insert(&fence);
    if let Some(shared) = &fence.cross_adapter {
        shared.enter(&fence);
    }
    let hold = FenceHold(fence.clone());
    if fence.storage.is_movable() {
        let told = adapter.notify_fence_residency(&[fence]);
        // When it fails, the fence ends with its only hold.
        drop(still);
        told?;
    }
    Ok(hold)
}

/// A GPU that updates only 32 bits atomically has the low half of the value, unless it never
/// reaches the fence.
fn value_of(
    adapter: &Adapter,
    args: &CreateFence<'_>,
    storage: &FenceStorage,
) -> Option<FenceValue> {
    let cell = storage.current()?;
    let narrow = adapter.caps.scheduling.contains(VidSchCaps::NO_64BIT_ATOMICS);
    Some(match narrow && !args.flags.contains(SyncObjectFlags::NO_GPU_ACCESS) {
        true => FenceValue::low_half(&adapter.platform, cell, args.initial_value),
        false => FenceValue::whole(cell),
    })
}

// spec: MF-005, MF-016, NF-101
fn check_flags(flags: SyncObjectFlags) -> Result<(), Status> {
    let both = |a, b| flags.contains(a) && flags.contains(b);
    let (shared, secured) = (SyncObjectFlags::SHARED, SyncObjectFlags::NT_SECURITY_SHARING);
    // A shareable fence is shared by handles with security, and nothing else is.
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

impl Drop for FenceInstanceObject {
    fn drop(&mut self) {
        let fence = &self.fence;
        fence.openers.lock().retain(|opener| opener.instance != self.id);
        // CPU waiters of this instance go with it, unless they are to stay until the fence goes.
        // spec: MF-047
        if fence.flags.contains(SyncObjectFlags::UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY) {
            fence.waiters.lock().shut(self.id);
        } else {
            self.release_cpu_waiters();
        }
        // Logs speak of the fence by this instance's handle: what they still have to say is found
        // by one more look.
        monitor::look(fence);
        if begins_to_end(fence) {
            // The last holder: nothing is done to a fence any more once its waiters are released.
            close_waiters(fence);
        }
        // spec: NF-090
        if let Some(local) = self.local {
            fence.adapter.driver().close_native_fence(&Passive::enter(), local);
        }
    }
}

/// Whether only this instance is left; nobody holds the fence from then on.
fn begins_to_end(fence: &Fence) -> bool {
    let mut holders = fence.holders.lock();
    let last = *holders == 1;
    if last {
        *holders = ENDED;
    }
    last
}

/// Releases everybody who waits. A deferred routine or a signal that still holds the fence must not
/// name it to the driver once the driver has destroyed it: both look under the lock that they hold
/// over their DDI call.
fn close_waiters(fence: &Fence) {
    {
        let _no_signal = fence.update.lock_device();
        let _no_arming = fence.adapter.interrupt_lock.lock_device();
        let mut waiters = fence.waiters.lock();
        if waiters.is_closed() {
            return;
        }
        waiters.close();
    }
    // Waiters are released, and hold no reference: their wait ends with the fence. So do waits that
    // stand in rings, those that hold their queue and those that nobody has looked at yet.
    let waiting = fence.waiters.lock().take_all();
    monitor::release(waiting);
    // spec: NF-107
    if fence.cross_adapter.as_ref().is_none_or(|shared| shared.leave(fence)) {
        cpu::let_all_pass(fence);
    }
}

/// The adapter is removed: a fence that NT handles keep ends for the driver, once.
pub(crate) fn end_with_adapter(fence: &Arc<Fence>) {
    {
        let mut holders = fence.holders.lock();
        // An agent that drops the last hold ends it.
        if matches!(*holders, 0 | ENDED | REMOVED) {
            return;
        }
        *holders = REMOVED;
    }
    end(fence);
}

/// The last holder is gone.
fn end(fence: &Arc<Fence>) {
    close_waiters(fence);
    // Close came with the last instance; now Destroy. The slot goes back when the last reference
    // drops the fence, after it. Until Destroy has returned an interrupt may name the fence, so it
    // stays in the table at least until then.
    let still = fence.storage.hold_still(&fence.adapter);
    // spec: NF-089
    if let Some(native) = &fence.native {
        fence.adapter.driver().destroy_native_fence(&Passive::enter(), native.driver_global);
    }
    drop(still);
    let mapped = std::mem::take(&mut *fence.mappings.lock());
    drop(mapped);
    // Last: a removal stops the driver when no fence is left.
    let emptied = fence.adapter.fences.lock().remove(fence.os_handle);
    emptied.iter().for_each(|event| event.set(Step::ThreadWake));
}
