//! Owns making and destroying fences. The order of the creation of a native fence is the published one; what fails is undone
//! in reverse.

use super::waiters::{NOBODY_WAITS, WaiterSet};
use super::{Fence, NativeParts, cpu, monitor};
use crate::device::Device;
use std::sync::Arc;
use tidegate_calls::{NativeFenceType, Status, SyncObjectFlags};
use tidegate_ddi::fence::{CreateNativeFence, OpenNativeFence};
use tidegate_ddi::{DriverHandle, Passive, VidSchCaps};

/// What a fence is made with.
pub(crate) struct CreateFence<'a> {
    pub(crate) name: &'a str,
    pub(crate) initial_value: u64,
    pub(crate) flags: SyncObjectFlags,
    /// `None` makes a monitored fence.
    pub(crate) native: Option<NativeFenceType>,
}

/// One process's instance of a fence. Its death closes the instance; the last one destroys the fence.
pub(crate) struct FenceInstanceObject {
    pub(crate) fence: Arc<Fence>,
    local: Option<DriverHandle>,
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
        let level = Passive::enter();
        // 1. Is it allowed here?
        // spec: NF-104
        check_flags(args.flags)?;
        if let Some(fence_type) = args.native {
            // spec: NF-077
            if !adapter.caps.scheduling.contains(VidSchCaps::NATIVE_GPU_FENCE) {
                return Err(Status::NOT_SUPPORTED);
            }
            if fence_type != NativeFenceType::Default {
                return Err(Status::NOT_SUPPORTED);
            }
        }
        // 2. Storage: CurrentValue is the initial value, MonitoredValue says that nobody waits.
        let slot = device.fence_pool.allocate()?;
        // spec: NF-099, MF-004
        slot.current.renew(args.initial_value, device.fence_pool.stride_bytes());
        slot.monitored.store(NOBODY_WAITS);
        // 3. The mappings came with the slot's page.
        // spec: NF-083
        let os_handle = adapter.new_handle();
        // 4. The driver's global fence.
        let native = match args.native {
            None => None,
            Some(fence_type) => {
                let create = CreateNativeFence {
                    os_handle,
                    fence_type,
                    system_process_va: None,
                    private_data: [0; 64],
                };
                let (driver_global, _) = adapter.driver().create_native_fence(&level, create)?;
                Some(NativeParts { monitored: slot.monitored.clone(), driver_global })
            }
        };
        // 5. The creator's instance.
        // spec: NF-086
        let local =
            match &native {
                None => None,
                Some(native) => {
                    let open = OpenNativeFence {
                        global: native.driver_global,
                        os_handle: adapter.new_handle(),
                        device: device.driver,
                        current_value_gpu_va: slot.current_va,
                        monitored_value_gpu_va: slot.monitored_va,
                    };
                    let opened = adapter.driver().open_native_fence(&level, open);
                    // spec: NF-084
                    Some(opened.inspect_err(|_| {
                        adapter.driver().destroy_native_fence(&level, native.driver_global)
                    })?)
                }
            };
        // 6. The kernel's object.
        let fence = Arc::new(Fence {
            adapter: adapter.clone(),
            os_handle,
            name: args.name.to_owned(),
            trace: adapter.platform.trace_fence(args.name),
            flags: args.flags,
            device: device.os_handle,
            current: slot.current.clone(),
            native,
            waiters: adapter.platform.mutex("waiters of a fence", WaiterSet::new(NOBODY_WAITS)),
            update: adapter.platform.mutex("CPU updates of a fence", ()),
            slot,
        });
        adapter.fences.lock().insert(&fence);
        Ok(FenceInstanceObject { fence, local, device: device.clone() })
    }
}

// spec: MF-005, MF-016
fn check_flags(flags: SyncObjectFlags) -> Result<(), Status> {
    let both = |a, b| flags.contains(a) && flags.contains(b);
    if flags.contains(SyncObjectFlags::NT_SECURITY_SHARING) && !flags.contains(SyncObjectFlags::SHARED) {
        return Err(Status::INVALID_PARAMETER);
    }
    if both(SyncObjectFlags::NO_SIGNAL, SyncObjectFlags::NO_WAIT) {
        return Err(Status::INVALID_PARAMETER);
    }
    // Sharing between processes and adapters comes with the service.
    if flags.intersects(SyncObjectFlags::SHARED | SyncObjectFlags::CROSS_ADAPTER) {
        return Err(Status::NOT_SUPPORTED);
    }
    Ok(())
}

impl Drop for FenceInstanceObject {
    fn drop(&mut self) {
        let fence = &self.fence;
        let level = Passive::enter();
        // A deferred routine or a signal that still holds the fence must not name it to the driver once the driver has destroyed
        // it. Both look under the lock that they hold over their DDI call.
        {
            let _no_signal = fence.update.lock_device();
            let _no_arming = fence.adapter.interrupt_lock.lock_device();
            fence.waiters.lock().close();
        }
        // Waiters are released, and hold no reference: their wait ends with the fence. So do waits that stand in rings, those
        // that hold their queue and those that nobody has looked at yet.
        // spec: NF-107
        let waiting = fence.waiters.lock().take_all();
        monitor::release(waiting);
        cpu::let_all_pass(fence);
        // spec: NF-090
        // Close, then Destroy; the slot goes back when the last holder drops the fence, after both. Until Destroy has returned an
        // interrupt may name the fence, so it stays in the table until then.
        // spec: NF-089
        if let (Some(local), Some(native)) = (self.local, &fence.native) {
            fence.adapter.driver().close_native_fence(&level, local);
            fence.adapter.driver().destroy_native_fence(&level, native.driver_global);
        }
        fence.adapter.fences.lock().remove(fence.os_handle);
    }
}
