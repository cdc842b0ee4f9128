//! Owns native fences: objects, opened instances, and the two values as the CPU changes them.
//!
//! The driver keeps, per fence, at which addresses its CurrentValue stands: that is how an interrupt's records are turned into
//! the kernel's handles, and how waiting queues are made to look again. It keeps no CPU address of a value: those are valid
//! during one call only.
//!
//! A device in error (AlwaysSignaled): the fence's cell is condemned, so that every wait passes and no signal changes it; the
//! value itself is not the driver's business then. Hardware that keeps no histories has no such mark: there the driver stores
//! `u64::MAX`, which no wait exceeds, and a GPU signal that a lost device still had in flight can lower the value again; the
//! kernel takes such a device's queues off the run list first.

use crate::objects::{Fence, Instance, LocalFence};
use crate::{Kind, KmdError, ReferenceDriver};
use tidegate_ddi::fence::{
    CreateNativeFence, OpenNativeFence, UpdateCurrentMode, UpdateCurrentValue, UpdateMonitoredValue,
};
use tidegate_ddi::{DriverHandle, NativeFenceType, VidSchCaps};
use tidegate_gpu_abi::{AdminCommand, GpuVa, Register};

impl ReferenceDriver {
    pub(crate) fn add_fence(&self, args: &CreateNativeFence) -> Result<(DriverHandle, [u8; 64]), KmdError> {
        let mut objects = self.objects.lock();
        let started = objects.started()?;
        if !started.caps.scheduling.contains(VidSchCaps::NATIVE_GPU_FENCE) {
            return Err(KmdError::NotSupported("native fences, which the kernel has not enabled"));
        }
        if args.fence_type == NativeFenceType::IntraGpu && !started.negotiated.intra_gpu_fences {
            return Err(KmdError::NotSupported("INTRA_GPU fences, which the kernel does not offer"));
        }
        let fence = Fence {
            os_handle: args.os_handle,
            always_signaled: false,
            instances: Vec::new(),
            peers: Vec::new(),
        };
        Ok((objects.fences.insert(fence)?, args.private_data))
    }

    pub(crate) fn open_fence(&self, args: OpenNativeFence) -> Result<DriverHandle, KmdError> {
        let mut view = self.view.lock_device();
        let mut objects = self.objects.lock();
        let address_space = objects.devices.get(args.device)?.address_space;
        let current_value = GpuVa(args.current_value_gpu_va);
        view.bind(&mut objects, args.global, address_space, current_value)?;
        let local = LocalFence { global: args.global, device: args.device, address_space, current_value };
        let handle = objects.local_fences.insert(local);
        if handle.is_err() {
            view.unbind(&mut objects, args.global, address_space, current_value);
        } else {
            objects.devices.get_mut(args.device)?.children += 1;
        }
        let keeps_shadow = objects.monitored_shadow();
        drop((objects, view));
        if keeps_shadow
            && let Ok(local) = handle
            && let Err(error) = self.keep_shadow(&args)
        {
            self.close_fence(local)?;
            return Err(error);
        }
        handle
    }

    /// Has the CMP keep a shadow of MonitoredValue, from the first instance on; it leaves further ones alone. Nobody waits for a
    /// fence before its first instance is open.
    fn keep_shadow(&self, args: &OpenNativeFence) -> Result<(), KmdError> {
        let address_space = self.objects.lock().devices.get(args.device)?.address_space;
        self.mailbox.run(AdminCommand::KeepShadow {
            fence: args.global.0,
            address_space,
            current_value: GpuVa(args.current_value_gpu_va),
            monitored_value: GpuVa(args.monitored_value_gpu_va),
        })
    }

    /// When this returns, no interrupt routine reports the fence for a signal at the address of this instance.
    pub(crate) fn close_fence(&self, local: DriverHandle) -> Result<(), KmdError> {
        let mut view = self.view.lock_device();
        let mut objects = self.objects.lock();
        let closed = objects.local_fences.remove(local)?;
        if let Ok(device) = objects.devices.get_mut(closed.device) {
            device.children -= 1;
        }
        view.unbind(&mut objects, closed.global, closed.address_space, closed.current_value);
        Ok(())
    }

    /// When this returns, no interrupt routine reports the fence.
    pub(crate) fn remove_fence(&self, global: DriverHandle) -> Result<(), KmdError> {
        let mut view = self.view.lock_device();
        let mut objects = self.objects.lock();
        let removed = objects.fences.remove(global)?;
        let keeps_shadow = objects.monitored_shadow();
        drop(objects);
        for left in &removed.instances {
            view.fences.remove(&(left.address_space, left.current_value));
        }
        drop(view);
        if keeps_shadow {
            self.mailbox.run(AdminCommand::DropShadow { fence: global.0 })?;
        }
        match removed.instances.iter().map(|i| i.opens).sum() {
            0 => Ok(()),
            children => Err(KmdError::StillInUse { parent: Kind::Fence, children }),
        }
    }

    /// Publishes MonitoredValues. The contract: when this returns, whatever CurrentValue any processor reads was stored by a
    /// signal that saw the new MonitoredValue, or was visible already.
    ///
    /// 1. Store each MonitoredValue.
    /// 2. One full barrier. An engine's signal is: store CurrentValue, full barrier, load MonitoredValue. Of two barriers one
    ///    comes first. If ours does, that load sees the new MonitoredValue and the signal interrupts if it must. If the
    ///    engine's does, its CurrentValue is visible to every load behind our barrier, so to the kernel that looks again after
    ///    this call.
    ///
    /// 3. Hardware that compares with the memory itself is done. A CMP that keeps shadows is told each value, by registers of its
    ///    own: the mailbox may wait for an engine's turn, and this runs at device interrupt level. It makes the same two steps
    ///    with the shadow before the register is written, so the contract holds for whatever the engine compares with.
    ///
    /// Returns the fences that nobody knows, which were left alone: their storage may belong to somebody else by now.
    pub(crate) fn publish_monitored(&self, fences: &[UpdateMonitoredValue]) -> Vec<KmdError> {
        let mut unknown = Vec::new();
        let mut told = Vec::new();
        let objects = self.objects.lock();
        let keeps_shadow = objects.monitored_shadow();
        for update in fences {
            match objects.fences.get(update.fence) {
                Ok(_) => {
                    update.monitored_value.store(update.value);
                    if keeps_shadow {
                        told.push(update);
                    }
                }
                Err(error) => unknown.push(error),
            }
        }
        drop(objects);
        // spec: NF-050
        self.platform.fence();
        for update in told {
            self.device.write_register(Register::SHADOW_FENCE, update.fence.0);
            self.device.write_register(Register::SHADOW_VALUE, update.value);
        }
        unknown
    }

    /// A CPU signal, or news of one: 1. what is to be stored, and where waiters look, is settled under the lock; 2. the
    /// values are stored; 3. a full barrier, so that a queue that begins to wait now sees the new value, and the hardware,
    /// looking for queues that wait already, does too; 4. the hardware looks.
    pub(crate) fn update_current(
        &self,
        fences: &[UpdateCurrentValue],
        mode: UpdateCurrentMode,
    ) -> Vec<KmdError> {
        let (mut targets, mut failed) = (Vec::with_capacity(fences.len()), Vec::new());
        let mut objects = self.objects.lock();
        for update in fences {
            match objects.fences.get_mut(update.fence) {
                Ok(fence) => targets.push((update, change_of(fence, mode), fence.instances.clone())),
                Err(error) => failed.push(error),
            }
        }
        drop(objects);
        for (update, change, _) in &targets {
            match change {
                Change::Store => {
                    update.current_value.store(update.value);
                }
                Change::Condemn => update.current_value.condemn(),
                Change::Nothing => {}
            }
        }
        self.platform.fence();
        failed.extend(targets.iter().filter_map(|(_, _, instances)| self.notify_fence(instances).err()));
        failed
    }

    /// Makes the hardware look at the queues that wait for a fence. One address is enough, since it leads to the cell; if it
    /// was unmapped since we looked, the next one serves. A fence that nobody has open may still have queues that wait, from
    /// before it was closed: then all are looked at.
    fn notify_fence(&self, instances: &[Instance]) -> Result<(), KmdError> {
        if instances.is_empty() {
            return self.mailbox.run(AdminCommand::RescanWaits);
        }
        let mut last = Ok(());
        for &Instance { address_space, current_value, .. } in instances {
            last = self.mailbox.run(AdminCommand::NotifyFence { address_space, current_value });
            if last.is_ok() {
                break;
            }
        }
        last
    }
}

/// What becomes of a fence's cell.
enum Change {
    Store,
    Condemn,
    Nothing,
}

fn change_of(fence: &mut Fence, mode: UpdateCurrentMode) -> Change {
    match mode {
        UpdateCurrentMode::Write if fence.always_signaled => Change::Nothing,
        UpdateCurrentMode::Write => Change::Store,
        // spec: NF-136
        UpdateCurrentMode::NotificationOnly => Change::Nothing,
        // The flag decides, whatever number came with it.
        // spec: NF-137, NF-138
        UpdateCurrentMode::AlwaysSignaled => {
            fence.always_signaled = true;
            Change::Condemn
        }
    }
}
