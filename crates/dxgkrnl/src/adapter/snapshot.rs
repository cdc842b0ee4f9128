//! Rows of a view of the machine ([`tidegate_calls::snapshot`]): what the objects are now.
//!
//! Invariants: a lock is held for one page of one table, or for one object. What is read here is
//! part of no protocol. Objects that a call destroys are in no row.

use super::Adapter;
use crate::fence::{Fence, WaitOwner};
use crate::object::context::Context;
use crate::object::hw_queue::HwQueue;
use std::sync::Arc;
use tidegate_calls::SyncObjectFlags;
use tidegate_calls::snapshot::{
    DoorbellRow, EngineRow, FenceKind, FenceRow, MachineRow, NAME_BYTES, PAGE_OBJECTS, Page,
    PageRequest, QueueKind, QueueRow, RecoveryRow, TEXT_BYTES, WAITERS_OF_A_FENCE, WaiterKind,
    WaiterRow, shortened,
};
use tidegate_ddi::{EngineId, OsHandle};
use tidegate_platform::{PhysicalAddress, QueueNumber};

/// A wait that an engine holds back: the queue, the bus address of CurrentValue, and the value.
pub type EngineWait = (QueueNumber, PhysicalAddress, u64);

enum Queue {
    Context(Arc<Context>),
    Hardware(Arc<HwQueue>),
}

impl Adapter {
    /// Returns the adapter as a whole. `engines` are the counts of the hardware, by engine number;
    /// their power is entered here. `outcome` says how a recovery ended.
    pub fn machine_row(
        &self,
        mut engines: Vec<EngineRow>,
        outcome: impl Fn(&crate::RecoveryOutcome) -> String,
    ) -> MachineRow {
        let (port, stats) = (&self.objects.port, self.stats());
        for (engine, row) in port.declared.caps.engines().zip(&mut engines) {
            row.power = format!("{:?}", self.engine_power_state(engine));
        }
        let name = |engine: EngineId| {
            engines
                .get(port.declared.caps.engine_number(engine)? as usize)
                .map(|row| row.name.clone())
        };
        let recoveries = self.recoveries().into_iter().map(|report| RecoveryRow {
            at_ns: report.at.0,
            code: report.code,
            engine: report.engine.and_then(name),
            reason: shortened(&report.reason.to_string(), TEXT_BYTES),
            outcome: shortened(&outcome(&report.outcome), TEXT_BYTES),
            lost_queues: report.lost.len() as u32,
        });
        let (contexts, hw_queues) =
            (self.objects.contexts.lock().len(), self.objects.hw_queues.lock().len());
        MachineRow {
            at_ns: port.platform.now().0,
            adapter: shortened(&port.declared.caps.description, NAME_BYTES),
            power: format!("{:?}", self.power_state()),
            queues: (contexts + hw_queues) as u64,
            fences: self.objects.fences.len() as u64,
            doorbells: self.objects.doorbells.len() as u64,
            engine_timeouts: stats.engine_timeouts,
            adapter_resets: stats.adapter_resets,
            devices_lost: stats.devices_lost,
            recoveries: recoveries.collect(),
            engines,
        }
    }

    /// Returns contexts for packets and hardware queues.
    pub fn queue_rows(&self, request: &PageRequest) -> Page<QueueRow> {
        let contexts = self.objects.contexts.lock().live_after(request.after, PAGE_OBJECTS);
        let hw_queues = self.objects.hw_queues.lock().live_after(request.after, PAGE_OBJECTS);
        let contexts = contexts.into_iter().map(|(n, context)| (n, Queue::Context(context)));
        let hw_queues = hw_queues.into_iter().map(|(n, queue)| (n, Queue::Hardware(queue)));
        let mut queues: Vec<(u64, Queue)> = contexts.chain(hw_queues).collect();
        queues.sort_by_key(|(number, _)| *number);
        queues.truncate(PAGE_OBJECTS);
        Page::of(&queues, |queue, rows| {
            let device = match queue {
                Queue::Context(context) => &context.device,
                Queue::Hardware(queue) => &queue.device,
            };
            if request.wants(device.process()) {
                rows.push(match queue {
                    Queue::Context(context) => self.context_row(context),
                    Queue::Hardware(queue) => self.hw_queue_row(queue),
                });
            }
        })
    }

    fn engine_number(&self, engine: EngineId) -> u32 {
        self.objects.port.declared.caps.engine_number(engine).unwrap_or(0)
    }

    fn context_row(&self, context: &Context) -> QueueRow {
        let (submitted, completed) = self.objects.sched.lock().packets_of(context.os_handle);
        QueueRow {
            queue: context.os_handle.0,
            process: context.device.process(),
            kind: QueueKind::Packet,
            engine: self.engine_number(context.engine),
            submitted,
            completed,
            doorbell: None,
            lost: context.device.check().is_err(),
        }
    }

    fn hw_queue_row(&self, queue: &HwQueue) -> QueueRow {
        let doorbells = match queue.user_mode_submission {
            true => self.objects.doorbells.of_queue(queue.os_handle),
            false => Vec::new(),
        };
        QueueRow {
            queue: queue.os_handle.0,
            process: queue.device.process(),
            kind: if queue.user_mode_submission { QueueKind::User } else { QueueKind::Hardware },
            engine: self.engine_number(queue.engine()),
            submitted: queue.announced_by_anyone(&self.objects),
            completed: queue.progress.fence.value(),
            // Of two during a resize, the new one.
            doorbell: doorbells.last().map(|doorbell| doorbell.shown_state()),
            lost: queue.device.check().is_err(),
        }
    }

    /// Returns doorbells.
    pub fn doorbell_rows(&self, request: &PageRequest) -> Page<DoorbellRow> {
        let doorbells = self.objects.doorbells.after(request.after, PAGE_OBJECTS);
        Page::of(&doorbells, |doorbell, rows| {
            let (queue, process) = (&doorbell.queue, doorbell.queue.device.process());
            rows.extend(request.wants(process).then(|| DoorbellRow {
                doorbell: doorbell.os_handle.0,
                queue: queue.os_handle.0,
                process,
                engine: self.engine_number(queue.engine()),
                state: doorbell.shown_state(),
                announced: doorbell.announced(),
                completed: queue.progress.fence.value(),
            }));
        })
    }

    /// Returns the process of a device, if the device exists.
    fn process_of(&self, device: OsHandle) -> Option<u32> {
        let device = self.objects.devices.lock().get(device);
        device?.process()
    }

    /// Returns the process of a context or hardware queue, if that exists.
    fn process_of_queue(&self, queue: OsHandle) -> Option<u32> {
        let context = self.objects.contexts.lock().live_one(queue);
        if let Some(context) = context {
            return context.device.process();
        }
        let queue = self.objects.hw_queues.lock().live_one(queue);
        queue?.device.process()
    }

    /// Returns fences.
    pub fn fence_rows(&self, request: &PageRequest) -> Page<FenceRow> {
        let fences = self.objects.fences.after(request.after, PAGE_OBJECTS);
        Page::of(&fences, |fence, rows| {
            let instances = fence.instances();
            let process = instances.first().and_then(|(_, device)| self.process_of(*device));
            if !request.wants(process) {
                return;
            }
            rows.push(FenceRow {
                fence: fence.os_handle.0,
                name: shortened(&fence.name, NAME_BYTES),
                process,
                instances: instances.len() as u32,
                kind: match (&fence.native, &fence.current) {
                    (None, _) => FenceKind::Monitored,
                    (Some(_), Some(_)) => FenceKind::Native,
                    (Some(_), None) => FenceKind::IntraGpu,
                },
                shared: fence.flags.contains(SyncObjectFlags::SHARED),
                value: shown_value(fence),
                monitored: fence
                    .native
                    .as_ref()
                    .and_then(|native| native.monitored.word())
                    .map(|word| word.load()),
                waiters: fence.waiters.lock().len() as u32,
            });
        })
    }

    /// Returns the waits that are registered with fences, and the waits that engines hold back
    /// (`held_back`), by fence: of each the [`WAITERS_OF_A_FENCE`] smallest values of either.
    pub fn waiter_rows(&self, request: &PageRequest, held_back: &[EngineWait]) -> Page<WaiterRow> {
        let fences = self.objects.fences.after(request.after, PAGE_OBJECTS);
        let mut held_back: Vec<&EngineWait> = held_back.iter().collect();
        held_back.sort_by_key(|(_, current_value, awaited)| (current_value.0, *awaited));
        Page::of(&fences, |fence, rows| {
            let registered = fence.waiters.lock().first_waits(WAITERS_OF_A_FENCE);
            let registered = registered.into_iter().map(|(awaited, owner)| match owner {
                WaitOwner::Instance(instance) => {
                    let instances = fence.instances();
                    let device = instances.iter().find(|(of, _)| *of == instance);
                    let process = device.and_then(|(_, device)| self.process_of(*device));
                    (awaited, WaiterKind::Cpu, None, process)
                }
                WaitOwner::Queue(queue) => {
                    (awaited, WaiterKind::Queue, Some(queue.0), self.process_of_queue(queue))
                }
                WaitOwner::Kernel => (awaited, WaiterKind::Kernel, None, None),
            });
            let at = fence.storage.current_at().0;
            let first = held_back.partition_point(|(_, current_value, _)| current_value.0 < at);
            let of_engines = held_back[first..].iter();
            let of_engines = of_engines
                .take_while(|(_, current_value, _)| current_value.0 == at)
                .take(WAITERS_OF_A_FENCE)
                .map(|(queue, _, awaited)| {
                    let process = self.process_of_queue(OsHandle(queue.0));
                    (*awaited, WaiterKind::Engine, Some(queue.0), process)
                });
            let waits = registered.chain(of_engines).filter(|wait| request.wants(wait.3));
            rows.extend(waits.map(|(awaited, kind, queue, process)| WaiterRow {
                fence: fence.os_handle.0,
                name: shortened(&fence.name, NAME_BYTES),
                kind,
                queue,
                process,
                awaited,
                value: shown_value(fence),
            }));
        })
    }
}

/// Returns CurrentValue, if a CPU reaches it.
fn shown_value(fence: &Fence) -> Option<u64> {
    fence.current.as_ref().map(|_| fence.value())
}
