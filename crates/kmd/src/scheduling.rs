//! The driver's part of priorities: it passes them to the CMP, for existing and later queues of a
//! context. This hardware has no grace period: preempted work stops at the end of the current part
//! of its packet.

use crate::mailbox::unless_gone;
use crate::{KmdError, ReferenceDriver};
use tidegate_ddi::scheduling::{
    SchedulingProperties, SetContextSchedulingProperties, SetupPriorityBands,
};
use tidegate_gpu_abi::{AdminCommand, QueueId};

/// Nanoseconds in a unit of DxgkDdiSetupPriorityBands.
const UNIT_NS: u64 = 100;

impl ReferenceDriver {
    pub(crate) fn set_bands(&self, args: SetupPriorityBands) -> Result<(), KmdError> {
        args.check()
            .map_err(|_| KmdError::Argument("at most 50 percent can be guaranteed to NORMAL"))?;
        self.objects.lock().started()?;
        let process_quantum_ns =
            args.process_quantum_for_band.map(|quantum| quantum.saturating_mul(UNIT_NS));
        let normal_percent = args.target_normal_band_percentage;
        self.mailbox.run(AdminCommand::SetBands { process_quantum_ns, normal_percent })
    }

    pub(crate) fn set_scheduling(
        &self,
        args: SetContextSchedulingProperties,
    ) -> Result<(), KmdError> {
        let properties = args.properties;
        properties.check().map_err(|_| {
            KmdError::Argument(
                "a level in REALTIME is from 0 to 31, an in-process priority from -7 to 7",
            )
        })?;
        let queues: Vec<QueueId> = {
            let mut objects = self.objects.lock();
            let context = objects.contexts.get_mut(args.context)?;
            context.scheduling = properties;
            let queues = context.queues.clone();
            queues.iter().filter_map(|queue| objects.hw_queues.get(*queue).ok()?.hardware).collect()
        };
        // A queue may be destroyed meanwhile.
        let set = |queue| unless_gone(self.mailbox.run(schedule(queue, &properties)));
        queues.into_iter().try_for_each(set)
    }
}

/// Returns the command that sets a queue's priority.
pub(crate) fn schedule(queue: QueueId, properties: &SchedulingProperties) -> AdminCommand {
    AdminCommand::SetScheduling {
        queue,
        band: properties.priority_band as u32,
        realtime_level: properties.realtime_band_priority_level,
        in_process: properties.in_process_priority,
        quantum_ns: properties.quantum.saturating_mul(UNIT_NS),
    }
}
