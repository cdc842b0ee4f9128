//! Native fences: objects, opened instances, and CPU updates of the two values.
//!
//! The driver keeps the GPU addresses of each CurrentValue. They map interrupt records to the
//! kernel's handles, and name the queues whose waits must be re-evaluated. CPU addresses are not
//! kept, since they are valid during one call only.
//!
//! Device in error (AlwaysSignaled): the fence's history satisfies every wait, and the kernel
//! stores the maximum. Without histories only the maximum satisfies waits, and a GPU signal in
//! flight could lower it, so the kernel first takes the device's queues off the run list. The CPU
//! cannot reach the values of an INTRA_GPU fence: there the CMP condemns the cell.

use crate::objects::{Fence, Instance, LocalFence};
use crate::{Kind, KmdError, ReferenceDriver};
use tidegate_ddi::fence::{
    CreateNativeFence, OpenNativeFence, UpdateCurrentMode, UpdateCurrentValue, UpdateMonitoredValue,
};
use tidegate_ddi::{DriverHandle, NativeFenceType, VidSchCaps};
use tidegate_gpu_abi::{AddressSpaceId, AdminCommand, GpuVa, Register};
use tidegate_platform::{PhysicalAddress, Word};

impl ReferenceDriver {
    pub(crate) fn add_fence(
        &self,
        args: &CreateNativeFence,
    ) -> Result<(DriverHandle, [u8; 64]), KmdError> {
        let mut objects = self.objects.lock();
        let started = objects.started()?;
        if !started.caps.scheduling.contains(VidSchCaps::NATIVE_GPU_FENCE) {
            return Err(KmdError::NotSupported("native fences, which the kernel has not enabled"));
        }
        if args.fence_type == NativeFenceType::IntraGpu && !started.negotiated.intra_gpu_fences {
            return Err(KmdError::NotSupported(
                "INTRA_GPU fences, which the kernel does not offer",
            ));
        }
        let fence = Fence {
            os_handle: args.os_handle,
            always_signaled: false,
            intra_gpu: args.fence_type == NativeFenceType::IntraGpu,
            system_current_value: args.system_process_va.map(|(current, _)| GpuVa(current)),
            bus_address: None,
            stands_at: None,
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
        let monitored_value = GpuVa(args.monitored_value_gpu_va);
        let local =
            LocalFence { global: args.global, device: args.device, address_space, current_value };
        let handle = objects.local_fences.insert(local)?;
        let bound =
            view.bind(&mut objects, args.global, address_space, current_value, monitored_value);
        if let Err(error) = bound {
            objects.local_fences.remove(handle)?;
            return Err(error);
        }
        objects.devices.get_mut(args.device)?.children += 1;
        let keeps_shadow = objects.monitored_shadow();
        drop((objects, view));
        if keeps_shadow
            && let Err(error) = self.keep_shadow(
                args.global,
                Instance { address_space, current_value, monitored_value, opens: 1 },
            )
        {
            self.close_fence(handle)?;
            return Err(error);
        }
        Ok(handle)
    }

    /// Has the CMP keep a shadow of MonitoredValue, starting with the first instance. The CMP
    /// ignores further instances. A fence has no waiters before its first instance is open.
    fn keep_shadow(&self, fence: DriverHandle, instance: Instance) -> Result<(), KmdError> {
        let Instance { address_space, current_value, monitored_value, .. } = instance;
        let fence = fence.0;
        self.mailbox.run(AdminCommand::KeepShadow {
            fence,
            address_space,
            current_value,
            monitored_value,
        })
    }

    /// Moves the shadow of a fence whose storage has moved, while engines are held. The shadow at
    /// the old address is dropped, because another fence may get that address. The new shadow is
    /// loaded from memory, which includes a value published between the two commands. A fence
    /// without an open instance gets its shadow with its first instance.
    pub(crate) fn move_shadow(&self, fence: DriverHandle) -> Result<(), KmdError> {
        let instance = {
            let objects = self.objects.lock();
            if !objects.monitored_shadow() {
                return Ok(());
            }
            objects.fences.get(fence)?.instances.first().copied()
        };
        self.mailbox.run(AdminCommand::DropShadow { fence: fence.0 })?;
        instance.map_or(Ok(()), |instance| self.keep_shadow(fence, instance))
    }

    /// Closes an instance. After this call, no interrupt routine reports the fence for a signal at
    /// the address of this instance.
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

    /// Destroys a fence. After this call, no interrupt routine reports it.
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

    /// Publishes MonitoredValues. Contract: after this call, every CurrentValue that a CPU reads
    /// either was stored by a signal that saw the new MonitoredValue, or was already visible.
    ///
    /// 1. Store each MonitoredValue.
    /// 2. Full barrier. An engine's signal is: store CurrentValue, full barrier, load
    ///    MonitoredValue. One of the two barriers comes first. If it is the driver's, the engine's
    ///    load sees the new MonitoredValue, and the signal interrupts if it must. If it is the
    ///    engine's, its CurrentValue is visible to every load after the driver's barrier, and the
    ///    kernel loads it again after this call.
    /// 3. Hardware that compares with memory needs no more. A CMP with shadows gets each value
    ///    through dedicated registers: the mailbox may wait for an engine's turn, and this runs at
    ///    device interrupt level. The CMP takes the same two steps with its shadow before the
    ///    register write completes, so the contract holds for the shadow too.
    ///
    /// Returns an error for each unknown fence. Its value is not stored, because its storage may
    /// already belong to another object.
    pub(crate) fn publish_monitored(&self, fences: &[UpdateMonitoredValue<'_>]) -> Vec<KmdError> {
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

    /// Updates CurrentValues from the CPU, or notifies the hardware of such an update.
    ///
    /// 1. The values to store and the addresses of waiters are determined under the lock.
    /// 2. The values are stored.
    /// 3. Full barrier: a queue that starts to wait sees the new value, and the hardware sees the
    ///    queues that already wait.
    /// 4. The hardware re-evaluates the waits.
    pub(crate) fn update_current(
        &self,
        fences: &[UpdateCurrentValue<'_>],
        mode: UpdateCurrentMode,
    ) -> Vec<KmdError> {
        let (mut targets, mut failed) = (Vec::with_capacity(fences.len()), Vec::new());
        let mut objects = self.objects.lock();
        for update in fences {
            match objects.fences.get_mut(update.fence) {
                Ok(fence) => targets.push((update, change_of(fence, mode), Lookup::of(fence))),
                Err(error) => failed.push(error),
            }
        }
        drop(objects);
        // spec: NF-137
        for (update, change, lookup) in &targets {
            match (change, update.current_value) {
                (Change::Store, Some(cell)) => {
                    cell.store(update.value);
                }
                (Change::LetPass, Some(cell)) => cell.let_pass(),
                (Change::LetPass, None) => failed.extend(self.condemn(lookup).err()),
                (Change::Store, None) => {
                    failed.push(KmdError::Argument("no CPU stores to an INTRA_GPU fence"))
                }
                (Change::Nothing, _) => {}
            }
        }
        self.platform.fence();
        failed.extend(targets.iter().filter_map(|(_, _, lookup)| self.notify_fence(lookup).err()));
        failed
    }

    fn condemn(&self, lookup: &Lookup) -> Result<(), KmdError> {
        let current_value =
            lookup.at.ok_or(KmdError::Argument("the fence has no reported location"))?;
        self.mailbox.run(AdminCommand::CondemnFence { current_value })
    }

    /// Returns the word that is not 0 while a queue may wait for the fence, and keeps the address
    /// by which the hardware is told of CPU signals.
    pub(crate) fn waiting_word_of(
        &self,
        fence: DriverHandle,
        current_value: PhysicalAddress,
    ) -> Result<Word, KmdError> {
        let none = KmdError::NotSupported("waiting words on a device without them");
        let word = self.device.waiting_word(current_value).ok_or(none)?;
        self.objects.lock().fences.get_mut(fence)?.bus_address = Some(current_value);
        Ok(word)
    }

    /// Makes the hardware re-evaluate the queues that wait for a fence. A fence with a known bus
    /// address needs one register write. Otherwise one address of an instance is enough,
    /// since every address of the fence leads to the same cell. If that address was unmapped after
    /// the lookup, the next one is used. A mapping for the CMP itself is preferred, because it
    /// lasts as long as the fence. Queues may still wait for a fence whose instances are all
    /// closed: then the waits of all queues are re-evaluated.
    fn notify_fence(&self, lookup: &Lookup) -> Result<(), KmdError> {
        if let Some(current_value) = lookup.bus_address {
            self.device.write_register(Register::FENCE_STORED, current_value.0);
            return Ok(());
        }
        if let Some(current_value) = lookup.system {
            let address_space = SYSTEM_PROCESS;
            return self.mailbox.run(AdminCommand::NotifyFence { address_space, current_value });
        }
        if lookup.instances.is_empty() {
            return self.mailbox.run(AdminCommand::RescanWaits);
        }
        let mut last = Ok(());
        for &Instance { address_space, current_value, .. } in &lookup.instances {
            last = self.mailbox.run(AdminCommand::NotifyFence { address_space, current_value });
            if last.is_ok() {
                break;
            }
        }
        last
    }
}

/// The address space of the system process.
const SYSTEM_PROCESS: AddressSpaceId = AddressSpaceId(0);

/// The addresses at which the CMP finds a fence.
struct Lookup {
    bus_address: Option<PhysicalAddress>,
    system: Option<GpuVa>,
    at: Option<PhysicalAddress>,
    instances: Vec<Instance>,
}

impl Lookup {
    fn of(fence: &Fence) -> Lookup {
        let instances = match fence.bus_address {
            Some(_) => Vec::new(),
            None => fence.instances.clone(),
        };
        Lookup {
            bus_address: fence.bus_address,
            system: fence.system_current_value,
            at: fence.stands_at.map(|[current_value, _]| current_value),
            instances,
        }
    }
}

/// The change to a fence's cell.
enum Change {
    Store,
    LetPass,
    Nothing,
}

fn change_of(fence: &mut Fence, mode: UpdateCurrentMode) -> Change {
    match mode {
        UpdateCurrentMode::Write if fence.always_signaled => Change::Nothing,
        UpdateCurrentMode::Write => Change::Store,
        // spec: NF-136
        UpdateCurrentMode::NotificationOnly => Change::Nothing,
        // The flag decides; the value is ignored.
        // spec: NF-138
        UpdateCurrentMode::AlwaysSignaled => {
            fence.always_signaled = true;
            Change::LetPass
        }
    }
}
