//! Owns devices and contexts, and what happens to all hardware queues of a context at once: suspend and resume.

use crate::objects::{Context, DeviceObject};
use crate::{Kind, KmdError, ReferenceDriver};
use tidegate_ddi::queue::{CreateContext, CreateDevice};
use tidegate_ddi::scheduling::SchedulingProperties;
use tidegate_ddi::{DriverHandle, EngineId};
use tidegate_gpu_abi::{AddressSpaceId, AdminCommand, QueueId};

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

    pub(crate) fn add_context(&self, args: CreateContext) -> Result<DriverHandle, KmdError> {
        if args.node_ordinal as usize >= self.config.nodes.len() {
            return Err(KmdError::Argument("a context names a node that the adapter does not have"));
        }
        let engine_ordinal = args.engine_affinity.trailing_zeros();
        if !args.engine_affinity.is_power_of_two() || engine_ordinal >= self.device.physical_gpu_count() {
            return Err(KmdError::Argument(
                "a context runs on one physical GPU: one bit of those that are there",
            ));
        }
        let mut objects = self.objects.lock();
        let address_space = objects.devices.get(args.device)?.address_space;
        let context = objects.contexts.insert(Context {
            os_handle: args.os_handle,
            device: args.device,
            engine: EngineId { node_ordinal: args.node_ordinal, engine_ordinal },
            address_space,
            hardware_scheduled: args.hardware_scheduled,
            private_data: args.private_data,
            suspended: false,
            scheduling: SchedulingProperties::default(),
            queues: Vec::new(),
        })?;
        objects.devices.get_mut(args.device)?.children += 1;
        Ok(context)
    }

    pub(crate) fn remove_context(&self, context: DriverHandle) -> Result<(), KmdError> {
        let mut objects = self.objects.lock();
        let removed = objects.contexts.remove(context)?;
        if let Ok(device) = objects.devices.get_mut(removed.device) {
            device.children -= 1;
        }
        match removed.queues.len() {
            0 => Ok(()),
            children => Err(KmdError::StillInUse { parent: Kind::Context, children }),
        }
    }

    /// Takes all hardware queues of the context off the run list: done when this returns, since the mailbox is synchronous.
    /// Doorbells stay connected. A queue whose ring comes later is born suspended.
    // spec: UMS-043
    pub(crate) fn suspend(&self, context: DriverHandle) -> Result<(), KmdError> {
        for queue in self.mark_suspended(context, true)? {
            self.mailbox.run(AdminCommand::SuspendQueue { queue })?;
        }
        Ok(())
    }

    /// Puts them back; the hardware reads each write pointer anew.
    // spec: UMS-046
    pub(crate) fn resume(&self, context: DriverHandle) -> Result<(), KmdError> {
        for queue in self.mark_suspended(context, false)? {
            self.mailbox.run(AdminCommand::ResumeQueue { queue })?;
        }
        Ok(())
    }

    /// Returns the context's queues that the hardware has.
    fn mark_suspended(&self, context: DriverHandle, suspended: bool) -> Result<Vec<QueueId>, KmdError> {
        let mut objects = self.objects.lock();
        let found = objects.contexts.get_mut(context)?;
        found.suspended = suspended;
        let queues = found.queues.clone();
        Ok(queues.iter().filter_map(|q| objects.hw_queues.get(*q).ok()?.hardware).collect())
    }
}
