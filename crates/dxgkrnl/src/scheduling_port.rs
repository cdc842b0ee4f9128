//! The adapter as scheduling sees it.

use crate::adapter::Adapter;
use crate::interrupt;
use crate::recovery::device_loss;
use crate::scheduling::{KernelModeQueue, PacketContext, SchedulingPort};
use std::sync::Arc;
use tidegate_ddi::{EngineId, OsHandle};

impl SchedulingPort for Adapter {
    fn packet_context(&self, context: OsHandle) -> Option<Arc<dyn PacketContext>> {
        let context = self.objects.contexts.lock().get(context)?;
        Some(context)
    }

    fn kernel_mode_queue(&self, queue: OsHandle) -> Option<Arc<dyn KernelModeQueue>> {
        let queue = self.objects.hw_queues.lock().of_kernel(queue)?;
        Some(queue.upgrade()?)
    }

    fn is_active(&self, queue: OsHandle) -> bool {
        let of_context = self.objects.contexts.lock().live_one(queue);
        if let Some(context) = of_context {
            return context.device.check().is_ok();
        }
        let of_queue = self.objects.hw_queues.lock().live_one(queue);
        of_queue.is_some_and(|queue| queue.device.check().is_ok())
    }

    fn with_engine_power(&self, engine: EngineId, call: &mut dyn FnMut()) {
        let _in_use = self.engine_in_use(engine);
        call();
    }

    fn hw_queue_submitted(&self) {
        self.watch_for_hangs();
    }

    fn command_refused(self: Arc<Self>, queue: OsHandle, position: u64, gpu_va: u64) {
        let context = self.objects.contexts.lock().get(queue);
        let hw_queue = self.objects.hw_queues.lock().of_kernel(queue).and_then(|q| q.upgrade());
        let (device, engine, tag) = match (context, hw_queue) {
            (Some(context), _) => (context.device.clone(), context.engine, context.tag),
            (None, Some(queue)) => (queue.device.clone(), queue.engine(), queue.tag),
            (None, None) => return,
        };
        device_loss::commands_refused(&self, &device, engine, (tag, position, gpu_va));
    }

    fn serve_reports(self: Arc<Self>) {
        interrupt::serve_reports(&self);
    }

    fn flush_reports(&self) {
        interrupt::flush(self);
    }

    fn take_overdue_reports(self: Arc<Self>) {
        interrupt::take_overdue(&self);
    }

    fn ignore_packets(&self, engine: EngineId) -> Option<u32> {
        interrupt::ignore(self, engine)
    }

    fn heed_packets(&self, engine: EngineId) {
        interrupt::count_again(self, engine);
    }
}
