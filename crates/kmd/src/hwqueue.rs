//! Hardware queues. A kernel-mode queue is created complete: the driver owns its ring. A user-mode
//! queue gets its hardware with its doorbell, which brings the ring. Until then the driver keeps
//! the queue's settings (log buffers, suspension) and applies them afterwards.
//!
//! Order of a creation: 1. the queue joins its context; 2. it gets hardware; 3. the hardware gets
//! the state of queue and context, until that has not changed meanwhile.
//!
//! Order of a destruction: 1. the interrupt view drops the queue, so no routine names it; 2. the
//! hardware releases the queue, its ring and its logs; 3. the ring leaves the bus.

use crate::interrupt_view::QueueView;
use crate::kernel_ring::{KernelRing, check_command_bytes};
use crate::mailbox::unless_gone;
use crate::objects::{HwQueue, LogPlace, Objects};
use crate::scheduling::schedule;
use crate::{Kind, KmdError, ReferenceDriver};
use std::sync::Arc;
use tidegate_ddi::queue::{CreateHwQueue, ProgressFence, SubmitCommandToHwQueue};
use tidegate_ddi::scheduling::{PriorityBand, SchedulingProperties};
use tidegate_ddi::{DriverHandle, InterruptData, Passive};
use tidegate_gpu_abi::log::LogType;
use tidegate_gpu_abi::{AdminCommand, GpuVa, QueueId, QueueKind, QueueShape, RingPacket};
use tidegate_platform::planted;

/// The location of a ring: in the process's address space, or on the bus.
pub(crate) struct RingPlace {
    pub(crate) kind: QueueKind,
    pub(crate) ring: GpuVa,
    pub(crate) slots: u64,
    pub(crate) control: GpuVa,
}

/// What a queue's hardware has from its object.
#[derive(Clone, Copy, Default, PartialEq)]
struct QueueState {
    scheduling: SchedulingProperties,
    suspended: bool,
    logs: [Option<LogPlace>; LogType::ALL.len()],
}

impl ReferenceDriver {
    pub(crate) fn add_hw_queue(
        &self,
        level: &Passive,
        args: &CreateHwQueue,
    ) -> Result<DriverHandle, KmdError> {
        let queue = self.describe_hw_queue(args)?;
        let handle = {
            let mut view = self.view.lock_device();
            let mut objects = self.objects.lock();
            let (fence, space) = (queue.progress_fence, queue.address_space);
            let (current, monitored) = (queue.progress_current, queue.progress_monitored);
            let handle = objects.hw_queues.insert(queue)?;
            if let Some(fence) = fence
                && let Err(error) = view.bind(&mut objects, fence, space, current, monitored)
            {
                objects.hw_queues.remove(handle)?;
                return Err(error);
            }
            handle
        };
        // The queue joins its context before it has hardware: a later call for the context finds
        // it, and an earlier one has left its state for `apply_state`.
        let made = self.join_context(args.context, handle).and_then(|()| {
            if args.user_mode_submission { Ok(()) } else { self.give_kernel_ring(level, handle) }
        });
        if let Err(error) = made {
            self.remove_hw_queue(level, handle)?;
            return Err(error);
        }
        Ok(handle)
    }

    /// Checks the arguments and returns a queue without hardware.
    fn describe_hw_queue(&self, args: &CreateHwQueue) -> Result<HwQueue, KmdError> {
        let objects = self.objects.lock();
        let context = objects.contexts.get(args.context)?;
        if !context.hardware_scheduled {
            return Err(KmdError::Argument(
                "a hardware queue needs a context that was made for hardware queues",
            ));
        }
        let node = &objects.started()?.caps.nodes[context.engine.node_ordinal as usize];
        if args.user_mode_submission && !node.user_mode_submission {
            return Err(KmdError::NotSupported("user-mode submission on this node"));
        }
        let (progress_fence, current, monitored) = match args.progress_fence {
            ProgressFence::Native(fence) => {
                objects.fences.get(fence)?;
                (Some(fence), args.progress_current_gpu_va, args.progress_monitored_gpu_va)
            }
            // spec: NF-300
            ProgressFence::Monitored { gpu_va } => (None, gpu_va, 0),
        };
        Ok(HwQueue {
            os_handle: args.os_handle,
            context: args.context,
            engine: context.engine,
            address_space: context.address_space,
            user_mode: args.user_mode_submission,
            progress_fence,
            progress_current: GpuVa(current),
            progress_monitored: GpuVa(monitored),
            hardware: None,
            doorbell: None,
            ring: None,
            logs: [None; LogType::ALL.len()],
        })
    }

    fn join_context(&self, context: DriverHandle, queue: DriverHandle) -> Result<(), KmdError> {
        self.objects.lock().contexts.get_mut(context)?.queues.push(queue);
        Ok(())
    }

    fn give_kernel_ring(&self, level: &Passive, handle: DriverHandle) -> Result<(), KmdError> {
        let memory = self.objects.lock().started()?.system_memory.clone();
        let ring =
            Arc::new(KernelRing::new(&self.platform, &memory, self.config.kernel_ring_slots));
        let place = RingPlace {
            kind: QueueKind::Kernel,
            ring: ring.bytes_at(),
            slots: ring.slots(),
            control: ring.control_at(),
        };
        if let Err(error) = self.make_hardware(level, handle, &place) {
            ring.release(&memory);
            return Err(error);
        }
        self.objects.lock().hw_queues.get_mut(handle)?.ring = Some(ring);
        Ok(())
    }

    /// Creates the hardware queue for `handle` and applies the object's state to it: its entry in
    /// the interrupt view, its priority, its suspension and its logs.
    pub(crate) fn make_hardware(
        &self,
        level: &Passive,
        handle: DriverHandle,
        place: &RingPlace,
    ) -> Result<QueueId, KmdError> {
        let (command, view) = {
            let objects = self.objects.lock();
            let queue = objects.hw_queues.get(handle)?;
            (
                create_command(self.engine_number(queue.engine)?, queue, place),
                QueueView::of_queue(handle, queue, objects.contexts.get(queue.context)?.os_handle),
            )
        };
        let id = self.mailbox.create_queue(command)?;
        self.view.lock_device().queues.insert(id, view);
        let caught_up = self.note_hardware(handle, id);
        if let Err(error) = caught_up.and_then(|()| self.apply_state(level, handle, id)) {
            self.retire_hardware(level, handle, id)?;
            return Err(error);
        }
        Ok(id)
    }

    /// Records that the queue has hardware. Later suspensions, priorities and logs go to the
    /// hardware directly.
    fn note_hardware(&self, handle: DriverHandle, id: QueueId) -> Result<(), KmdError> {
        self.objects.lock().hw_queues.get_mut(handle)?.hardware = Some(id);
        Ok(())
    }

    /// Gives the new hardware of a queue the state of its object. A concurrent change may reach the
    /// hardware before the older state does, so both are compared until they are equal.
    // spec: HS-022
    fn apply_state(
        &self,
        level: &Passive,
        handle: DriverHandle,
        id: QueueId,
    ) -> Result<(), KmdError> {
        let mut told = QueueState::default();
        loop {
            let holds = self.state_of(handle)?;
            if holds == told {
                return Ok(());
            }
            if holds.scheduling != told.scheduling {
                self.mailbox.run(schedule(id, &holds.scheduling))?;
            }
            match (told.suspended, holds.suspended) {
                (false, true) => {
                    self.mailbox.complete(level, AdminCommand::SuspendQueue { queue: id })?;
                }
                (true, false) => {
                    self.mailbox.complete(level, AdminCommand::ResumeQueue { queue: id })?;
                }
                (false, false) | (true, true) => {}
            }
            for (log, before) in holds.logs.into_iter().zip(told.logs) {
                let removed = before.map(|log| LogPlace { entries: 0, ..log });
                if let Some(log) = log.or(removed).filter(|_| log != before) {
                    self.mailbox.run(set_log(id, log))?;
                }
            }
            // The fault is the mistake that the scenario priority-against-create must find.
            if planted!(self.platform, StateOfANewQueueIsSentOnce) {
                return Ok(());
            }
            told = holds;
        }
    }

    fn state_of(&self, handle: DriverHandle) -> Result<QueueState, KmdError> {
        let objects = self.objects.lock();
        let queue = objects.hw_queues.get(handle)?;
        let context = objects.contexts.get(queue.context)?;
        let (scheduling, suspended) = (context.scheduling, context.suspended);
        Ok(QueueState { scheduling, suspended, logs: queue.logs })
    }

    /// Destroys the hardware queue. The object stays.
    pub(crate) fn retire_hardware(
        &self,
        level: &Passive,
        handle: DriverHandle,
        id: QueueId,
    ) -> Result<(), KmdError> {
        if let Ok(queue) = self.objects.lock().hw_queues.get_mut(handle) {
            queue.hardware = queue.hardware.filter(|present| *present != id);
        }
        self.view.lock_device().remove_queue(id);
        self.mailbox.complete(level, AdminCommand::DestroyQueue { queue: id })?;
        self.end_suspension_of(level, id);
        Ok(())
    }

    /// Removes a destroyed queue from the suspension in flight of its context, and reports the
    /// suspension if it waited for this queue only. No interrupt names the queue any longer.
    fn end_suspension_of(&self, level: &Passive, id: QueueId) {
        let view = self.view.lock_device();
        let left = {
            let mut objects = self.objects.lock();
            let waits = |context: DriverHandle| {
                objects.contexts.get(context).is_ok_and(|context| context.is_suspending(id))
            };
            let context = objects.contexts.handles().find(|context| waits(*context));
            context.and_then(|context| {
                let suspend_fence = objects.queue_left(context, id)?;
                Some((objects.contexts.get(context).ok()?.os_handle, suspend_fence))
            })
        };
        if let (Some((context, suspend_fence)), Some(callbacks)) = (left, &view.callbacks) {
            let level = level.raise().raise_to_dirql(&view);
            let report = InterruptData::SuspendContextCompleted { context, suspend_fence };
            callbacks.notify_interrupt(&level, report);
            callbacks.queue_dpc(&level);
        }
    }

    /// Completes a command for a queue that was found before, without a lock held since. A queue
    /// that another thread has destroyed meanwhile needs it no longer.
    // spec: UMS-195
    pub(crate) fn complete_for_queue(
        &self,
        level: &Passive,
        command: AdminCommand,
    ) -> Result<(), KmdError> {
        let outcome = self.mailbox.complete(level, command);
        match planted!(self.platform, FailsForAQueueThatIsGone) {
            true => outcome,
            false => unless_gone(outcome),
        }
    }

    pub(crate) fn remove_hw_queue(
        &self,
        level: &Passive,
        handle: DriverHandle,
    ) -> Result<(), KmdError> {
        let (queue, memory, orphan) = self.forget_hw_queue(handle)?;
        if let Some(id) = queue.hardware {
            self.retire_hardware(level, handle, id)?;
        }
        if let (Some(ring), Some(memory)) = (queue.ring, memory) {
            ring.release(&memory);
        }
        if orphan {
            Err(KmdError::StillInUse { parent: Kind::HwQueue, children: 1 })
        } else {
            Ok(())
        }
    }

    /// Removes the queue from every table. If its doorbell still exists, the doorbell loses its
    /// hardware and its seat, and the last value is `true`.
    fn forget_hw_queue(
        &self,
        handle: DriverHandle,
    ) -> Result<(HwQueue, Option<tidegate_platform::PhysicalMemory>, bool), KmdError> {
        let mut view = self.view.lock_device();
        let mut guard = self.objects.lock();
        let objects: &mut Objects = &mut guard;
        let queue = objects.hw_queues.remove(handle)?;
        if let Ok(context) = objects.contexts.get_mut(queue.context) {
            context.queues.retain(|q| *q != handle);
        }
        if let Some(fence) = queue.progress_fence {
            view.unbind(objects, fence, queue.address_space, queue.progress_current);
        }
        let mut orphan = false;
        if let Some(doorbell) = queue.doorbell {
            objects.seats.leave(doorbell);
            if let Ok(left) = objects.doorbells.get_mut(doorbell) {
                (left.hardware, left.connected, orphan) = (None, false, true);
            }
        }
        let memory = objects.started.as_ref().map(|s| s.system_memory.clone());
        Ok((queue, memory, orphan))
    }

    pub(crate) fn submit_to_hw_queue(&self, args: &SubmitCommandToHwQueue) -> Result<(), KmdError> {
        let bytes = check_command_bytes(args.dma_buffer_bytes)?;
        if args.progress_fence_id == 0 {
            return Err(KmdError::Argument(
                "progress values begin at 1: the completion of progress 0 cannot be observed",
            ));
        }
        let (ring, id) = {
            let objects = self.objects.lock();
            let queue = objects.hw_queues.get(args.hw_queue)?;
            match (&queue.ring, queue.hardware) {
                (Some(ring), Some(id)) => (Arc::clone(ring), id),
                _ => {
                    return Err(KmdError::Argument("a user-mode queue takes no kernel submission"));
                }
            }
        };
        ring.publish(&RingPacket::execute(
            GpuVa(args.dma_buffer_gpu_va),
            bytes,
            args.progress_fence_id,
        ))?;
        self.mailbox.run(AdminCommand::KickQueue { queue: id })
    }

    /// Makes the hardware reload the queue's write pointer. A queue without a ring has no work.
    pub(crate) fn kick(&self, handle: DriverHandle) -> Result<(), KmdError> {
        let hardware = self.objects.lock().hw_queues.get(handle)?.hardware;
        let Some(queue) = hardware else { return Ok(()) };
        // The doorbell may be destroyed meanwhile, and its ring with it.
        unless_gone(self.mailbox.run(AdminCommand::KickQueue { queue }))
    }
}

fn create_command(engine: u32, queue: &HwQueue, place: &RingPlace) -> AdminCommand {
    let shape = QueueShape {
        engine,
        kind: place.kind,
        address_space: queue.address_space,
        ring: place.ring,
        slots: place.slots,
        control: place.control,
        progress_current: queue.progress_current,
        progress_monitored: queue.progress_monitored,
    };
    AdminCommand::CreateQueue {
        shape,
        band: PriorityBand::Normal as u32,
        os_handle: queue.os_handle.0,
        context: queue.context.0 as u32,
    }
}

/// Returns the command that sets a queue's log buffer.
pub(crate) fn set_log(queue: QueueId, log: LogPlace) -> AdminCommand {
    AdminCommand::SetLogBuffer {
        queue,
        kind: log.kind,
        header: log.header,
        payload: log.payload,
        entries: log.entries,
        notify_every: log.notify_every,
    }
}
