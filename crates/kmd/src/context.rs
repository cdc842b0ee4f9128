//! Owns devices and contexts, and what happens to all hardware queues of a context at once: suspend and resume.

use crate::objects::{Context, DeviceObject};
use crate::{Kind, KmdError, ReferenceDriver};
use tidegate_ddi::queue::{CreateContext, CreateDevice};
use tidegate_ddi::scheduling::SchedulingProperties;
use tidegate_ddi::{DriverHandle, EngineId};
use tidegate_gpu_abi::{AddressSpaceId, AdminCommand, AdminError, QueueId};

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
            suspending: None,
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

    /// Takes all hardware queues of the context off the run list: done when this returns, since the mailbox is synchronous, unless an engine
    /// is where it may not leave one of them. Then the answer is `false`, and an interrupt says when it is done. Doorbells stay connected. A
    /// queue whose ring comes later is born suspended.
    ///
    /// The order that matters: 1. what is waited for is entered, with every queue in it; 2. the hardware is asked; 3. queues that it took
    /// off at once leave the entry, as others do with their interrupts; whoever empties it has the last word.
    // spec: UMS-043
    pub(crate) fn suspend(&self, context: DriverHandle, fence: u64) -> Result<bool, KmdError> {
        // 1.
        let queues = self.mark_suspended(context, true)?;
        if queues.is_empty() {
            return Ok(true);
        }
        self.objects.lock().contexts.get_mut(context)?.suspending = Some((fence, queues.clone()));
        let mut complete = false;
        for queue in queues {
            // 2.
            match self.mailbox.run(AdminCommand::SuspendQueue { queue }) {
                Err(KmdError::Refused(AdminError::Busy)) => {}
                // 3.
                Ok(()) => complete |= self.objects.lock().queue_left(context, queue).is_some(),
                Err(error) => return Err(error),
            }
        }
        Ok(complete)
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
        found.suspending = None;
        let queues = found.queues.clone();
        Ok(queues.iter().filter_map(|q| objects.hw_queues.get(*q).ok()?.hardware).collect())
    }
}
