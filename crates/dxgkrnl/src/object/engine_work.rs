//! Implements the ports of `memory` for engines, contexts and fences.

use crate::fence::FenceTarget;
use crate::fence::storage::FencePool;
use crate::fence::{EventSet, Fence, WaitOwner, Waiter, monitor, signal};
use crate::memory::{
    AddressSpace, EngineWork, InUse, OwningDevice, PagingFence, PagingPackets, UseMark,
};
use crate::object::context::{Context, ContextDesc};
use crate::object::device::{Device, DeviceOwner};
use crate::object::objects::Objects;
use crate::scheduling::{CommandKind, CommandRange, Signal, SignalAction};
use std::sync::Arc;
use tidegate_calls::{Priority, SignalFlags, Status, WaitNotice};
use tidegate_d3dukmdt::EngineKind;
use tidegate_ddi::{DriverHandle, Irql, OsHandle, Passive};
use tidegate_platform::{Event, Mutex, Queued};

impl OwningDevice for Device {
    fn os_handle(&self) -> OsHandle {
        self.os_handle
    }

    fn driver_handle(&self) -> DriverHandle {
        self.driver
    }
}

impl PagingFence for Fence {
    fn signal(self: Arc<Self>, level: Irql<'_>, value: u64) {
        signal::signal(
            level,
            &[FenceTarget { fence: self, value }],
            SignalFlags::ALLOW_FENCE_REWIND,
        );
    }
}

/// Waits on a progress fence for a mark. A fence that ends drops it.
struct AwaitProgress(Mutex<Option<InUse>>);

impl SignalAction for InUse {
    fn carry_out(self: Box<Self>, _level: Irql<'_>) {}
}

impl Waiter for AwaitProgress {
    fn wake(&self, _level: Irql<'_>, _ticket: u64, _events: &mut EventSet) {
        let over = self.0.lock().take();
        drop(over);
    }
}

/// The memory manager's own context.
struct PagingContextPackets(Arc<Context>);

impl PagingPackets for PagingContextPackets {
    fn os_handle(&self) -> OsHandle {
        self.0.os_handle
    }

    fn submit(&self, level: &Passive, commands: CommandRange) {
        let layers = &self.0.device.layers;
        let at_ns = layers.port.platform.stamp_ns();
        let (queue, queued) = (self.0.scheduled(), Queued { at_ns, ..Queued::default() });
        layers.sched.submit_command(level, queue.queue, CommandKind::Paging, commands, queued);
    }

    fn signal(&self, level: &Passive, done: &Event) {
        let end = Signal::event(WaitNotice::Event(done.clone()));
        self.0.device.layers.sched.signal(level, &[self.0.scheduled()], end);
    }

    fn give_up(&self, level: Irql<'_>) {
        // The kernel's context signals no fence.
        let _signals = self.0.device.layers.sched.give_up(level, &[self.0.os_handle]);
    }

    fn is_lost(&self) -> bool {
        self.0.device.check().is_err()
    }
}

impl EngineWork for Objects {
    // spec: RES-006
    fn mark_last_use(
        self: Arc<Self>,
        level: &Passive,
        device: OsHandle,
        over: &Event,
    ) -> Option<UseMark> {
        let mark = UseMark::new(&self.port.platform, over);
        // Keeps the mark active until every queue holds its part.
        let whole = mark.part();
        for queue in self.hw_queues_of(|q| q.device.os_handle == device) {
            let queued = match queue.user_mode_submission {
                true => {
                    let doorbells = self.doorbells.of_queue(queue.os_handle);
                    doorbells.iter().map(|d| d.last_queued.load_once()).max().unwrap_or(0)
                }
                false => queue.announced(),
            };
            if queued > queue.progress.fence.value() {
                let part = self.port.platform.mutex("a last use", Some(mark.part()));
                // If the value is already reached, dropping the waiter drops its part.
                let waiter = Arc::new(AwaitProgress(part));
                let _reached = monitor::wait(
                    level.into(),
                    &queue.progress.fence,
                    queued,
                    waiter,
                    0,
                    WaitOwner::Kernel,
                );
            }
        }
        for context in self.contexts_of(|c| c.device.os_handle == device) {
            if !self.sched.lock().is_idle(context.os_handle) {
                let end_use = Signal::action(Box::new(mark.part()));
                self.sched.signal(level, &[context.scheduled()], end_use);
            }
        }
        drop(whole);
        (!mark.is_over()).then_some(mark)
    }

    fn open_paging_context(
        self: Arc<Self>,
        level: &Passive,
        space: &Arc<AddressSpace>,
    ) -> Result<Arc<dyn PagingPackets>, Status> {
        let pool = FencePool::new(&self.memory, space);
        let device = self.create_device(level, DeviceOwner::kernel(space, &pool))?;
        let is_copy = |engine_type| engine_type == EngineKind::Copy;
        let node = self.port.declared.caps.nodes.iter().position(|node| is_copy(node.engine_type));
        let desc = ContextDesc {
            node_ordinal: node.unwrap_or(0) as u32,
            engine_affinity: 1,
            hardware_scheduled: false,
            priority: Priority::Realtime,
            paging: true,
        };
        Ok(Arc::new(PagingContextPackets(self.create_context(level, &device, &desc)?)))
    }

    fn live_device(&self, device: OsHandle) -> Option<Arc<dyn OwningDevice>> {
        let device = self.devices.lock().live_one(device)?;
        (!device.is_of_kernel()).then_some(device as Arc<dyn OwningDevice>)
    }
}
