//! Devices and contexts, the save areas of packet contexts, and the suspend and resume of all
//! hardware queues of a context.

use crate::objects::{Context, DeviceObject, SaveArea};
use crate::{Kind, KmdError, ReferenceDriver};
use std::sync::Arc;
use tidegate_ddi::queue::{CreateContext, CreateDevice};
use tidegate_ddi::scheduling::SchedulingProperties;
use tidegate_ddi::{
    ContextAllocationOwner, CreateContextAllocation, DriverHandle, EngineId, OsHandle, Passive,
};
use tidegate_gpu_abi::regs::NodePreemption;
use tidegate_gpu_abi::ring::SAVE_AREA_BYTES;
use tidegate_gpu_abi::{AddressSpaceId, AdminCommand, AdminError, GpuVa, QueueId, Register};

impl ReferenceDriver {
    pub(crate) fn add_device(&self, args: CreateDevice) -> Result<DriverHandle, KmdError> {
        let mut objects = self.objects.lock();
        objects.started()?;
        let address_space = AddressSpaceId(args.address_space);
        objects.devices.insert(DeviceObject { address_space, children: 0 })
    }

    pub(crate) fn remove_device(&self, device: DriverHandle) -> Result<(), KmdError> {
        let removed = self.objects.lock().devices.remove(device)?;
        match removed.children {
            0 => Ok(()),
            children => Err(KmdError::StillInUse { parent: Kind::Device, children }),
        }
    }

    /// Creates a context. A packet context on a node that preempts in the middle of a packet gets
    /// its save area last, because the driver calls the kernel for it with no lock held.
    pub(crate) fn add_context(
        &self,
        level: &Passive,
        args: CreateContext,
    ) -> Result<DriverHandle, KmdError> {
        if args.node_ordinal >= self.device.node_count() {
            return Err(KmdError::Argument(
                "a context names a node that the adapter does not have",
            ));
        }
        let engine_ordinal = args.engine_affinity.trailing_zeros();
        if !args.engine_affinity.is_power_of_two()
            || engine_ordinal >= self.device.physical_gpu_count()
        {
            return Err(KmdError::Argument(
                "a context runs on one physical GPU: one bit of those that are there",
            ));
        }
        let context = {
            let mut objects = self.objects.lock();
            let address_space = objects.devices.get(args.device)?.address_space;
            let context = objects.contexts.insert(Context {
                os_handle: args.os_handle,
                device: args.device,
                engine: EngineId { node_ordinal: args.node_ordinal, engine_ordinal },
                address_space,
                hardware_scheduled: args.hardware_scheduled,
                suspended: false,
                suspending: None,
                scheduling: SchedulingProperties::default(),
                queues: Vec::new(),
                save_area: SaveArea::default(),
            })?;
            objects.devices.get_mut(args.device)?.children += 1;
            context
        };
        if self.saves_state_of(&args) {
            let made = self.make_save_area(level, args.os_handle);
            let kept = made.and_then(|area| self.keep_save_area(context, area));
            kept.or_else(|error| self.remove_context(level, context).and(Err(error)))?;
        }
        Ok(context)
    }

    /// Returns whether packets of the context are preempted in the middle.
    fn saves_state_of(&self, args: &CreateContext) -> bool {
        let node = Register::NODE_PREEMPTION.offset(args.node_ordinal);
        let stops =
            || NodePreemption::decode(self.device.read_register(node)).stops_in_the_middle();
        self.config.save_areas && !args.hardware_scheduled && stops()
    }

    fn make_save_area(&self, level: &Passive, context: OsHandle) -> Result<SaveArea, KmdError> {
        let callbacks = Arc::clone(&self.objects.lock().started()?.callbacks);
        let args = CreateContextAllocation {
            owner: ContextAllocationOwner::Context(context),
            bytes: SAVE_AREA_BYTES,
        };
        let made = callbacks.create_context_allocation(level, args).map_err(KmdError::Kernel)?;
        Ok(SaveArea { os_handle: Some(made.os_handle), system_va: GpuVa(made.system_gpu_va) })
    }

    fn keep_save_area(&self, context: DriverHandle, area: SaveArea) -> Result<(), KmdError> {
        self.objects.lock().contexts.get_mut(context)?.save_area = area;
        Ok(())
    }

    pub(crate) fn remove_context(
        &self,
        level: &Passive,
        context: DriverHandle,
    ) -> Result<(), KmdError> {
        let (removed, callbacks) = {
            let mut objects = self.objects.lock();
            let removed = objects.contexts.remove(context)?;
            if let Ok(device) = objects.devices.get_mut(removed.device) {
                device.children -= 1;
            }
            (removed, Arc::clone(&objects.started()?.callbacks))
        };
        if !removed.hardware_scheduled {
            self.device.write_register(Register::CONTEXT_ENDED, removed.os_handle.0);
        }
        if let Some(area) = removed.save_area.os_handle {
            callbacks.destroy_context_allocation(level, area).map_err(KmdError::Kernel)?;
        }
        match removed.queues.len() {
            0 => Ok(()),
            children => Err(KmdError::StillInUse { parent: Kind::Context, children }),
        }
    }

    /// Takes all hardware queues of the context off the run list. Returns `true` if that is
    /// complete, which is the usual case. Returns `false` if an engine
    /// cannot leave one of the queues yet, and an interrupt reports the completion. Doorbells stay
    /// connected. A queue that gets its ring later starts suspended.
    ///
    /// Order:
    ///
    /// 1. The pending suspension is recorded with every queue of the context.
    /// 2. The hardware suspends each queue.
    /// 3. A queue that has left the run list by the end of its command, or is destroyed, is removed
    ///    from the record here. Interrupts remove the others. The step that empties the record
    ///    reports the suspension as complete.
    // spec: UMS-043
    pub(crate) fn suspend(
        &self,
        level: &Passive,
        context: DriverHandle,
        fence: u64,
    ) -> Result<bool, KmdError> {
        // 1.
        let queues = self.mark_suspended(context, true)?;
        if queues.is_empty() {
            return Ok(true);
        }
        self.objects.lock().contexts.get_mut(context)?.suspending = Some((fence, queues.clone()));
        let mut complete = false;
        for queue in queues {
            // 2.
            match self.complete_for_queue(level, AdminCommand::SuspendQueue { queue }) {
                Err(KmdError::Refused(AdminError::Busy)) => {}
                // 3.
                Ok(()) => complete |= self.objects.lock().queue_left(context, queue).is_some(),
                Err(error) => return Err(error),
            }
        }
        Ok(complete)
    }

    /// Puts the context's queues back on the run list. The hardware reloads each write pointer.
    // spec: UMS-046
    pub(crate) fn resume(&self, level: &Passive, context: DriverHandle) -> Result<(), KmdError> {
        for queue in self.mark_suspended(context, false)? {
            self.complete_for_queue(level, AdminCommand::ResumeQueue { queue })?;
        }
        Ok(())
    }

    /// Marks the context as suspended or not, and returns its queues that have hardware.
    fn mark_suspended(
        &self,
        context: DriverHandle,
        suspended: bool,
    ) -> Result<Vec<QueueId>, KmdError> {
        let mut objects = self.objects.lock();
        let found = objects.contexts.get_mut(context)?;
        found.suspended = suspended;
        found.suspending = None;
        let queues = found.queues.clone();
        Ok(queues.iter().filter_map(|q| objects.hw_queues.get(*q).ok()?.hardware).collect())
    }
}
