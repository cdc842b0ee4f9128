//! Contexts and hardware queues as scheduling sees them.

use super::port::RefusedCommands;
use crate::object::objects::Objects;
use crate::scheduling::{KernelModeQueue, PacketContext, SchedulingPort};
use std::sync::Arc;
use tidegate_ddi::{Irql, OsHandle};

impl SchedulingPort for Objects {
    fn packet_context(&self, context: OsHandle) -> Option<Arc<dyn PacketContext>> {
        let context = self.contexts.lock().get(context)?;
        Some(context)
    }

    fn kernel_mode_queue(&self, queue: OsHandle) -> Option<Arc<dyn KernelModeQueue>> {
        let queue = self.hw_queues.lock().get(queue)?;
        Some(queue)
    }

    fn is_active(&self, queue: OsHandle) -> bool {
        let of_context = self.contexts.lock().live_one(queue);
        if let Some(context) = of_context {
            return context.device.check().is_ok();
        }
        let of_queue = self.hw_queues.lock().live_one(queue);
        of_queue.is_some_and(|queue| queue.device.check().is_ok())
    }

    fn command_refused(&self, level: Irql<'_>, queue: OsHandle, position: u64, gpu_va: u64) {
        let context = self.contexts.lock().get(queue);
        let hw_queue = self.hw_queues.lock().get(queue);
        let (device, engine) = match (context, hw_queue) {
            (Some(context), _) => (context.device.clone(), context.engine),
            (None, Some(queue)) => (queue.device.clone(), queue.engine()),
            (None, None) => return,
        };
        if let Some(recovery) = self.recovery.get() {
            let of = RefusedCommands { queue: queue.into(), position, gpu_va };
            recovery.commands_refused(level, &device, engine, of);
        }
    }
}
