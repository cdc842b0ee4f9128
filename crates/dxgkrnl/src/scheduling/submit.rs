//! Carries out the effects of VidSch: submissions, preemptions, signals.

use super::payload::{QueuePayload, Signal};
use super::port::{KernelModeQueue, SchedulingPort};
use super::scheduler::ScheduledQueue;
use super::scheduler::{PROGRESS, Scheduling};
use crate::error::BugCheck;
use crate::fence::{FenceTarget, signal};
use crate::stats::Count;
use crate::wait_classes::SUBMISSION_RIGHT;
use tidegate_calls::Status;
use tidegate_ddi::patch::SubmitCommandPhysical;
use tidegate_ddi::queue::{SubmitCommandToHwQueue, SubmitCommandVirtual};
use tidegate_ddi::{EngineId, Irql, OsHandle, Passive, PreemptCommand};
use tidegate_platform::{CpuTime, PhysicalAddress, Queued, Step, SubmissionKey};
use tidegate_trace::{Kind, LinkId, NameId, Record};
use tidegate_vidsch::{
    CommandKind, DueCommand, DuePacket, Effect, FinishedItem, HwQueueEffect, SignalEffect,
    Submitter,
};

impl Scheduling {
    /// Carries out the effects of a submitter until none is left. Returns immediately if another
    /// agent is doing so.
    pub(super) fn run(&self, level: Irql<'_>, submitter: Submitter) {
        match submitter {
            Submitter::Packets => {
                if self.lock().try_take_right(Submitter::Packets) {
                    self.carry_out_packets(level);
                }
            }
            Submitter::HwQueue(queue) => {
                let queue = self.objects.get().and_then(|objects| objects.kernel_mode_queue(queue));
                if let Some(queue) = queue {
                    self.run_hw_queue(level, &*queue);
                }
            }
        }
    }

    /// Carries out packet effects. The caller holds the right.
    pub(super) fn carry_out_packets(&self, level: Irql<'_>) {
        let Some(objects) = self.objects.get() else { return };
        let _owed = self.port.platform.owe_in_debug(&SUBMISSION_RIGHT);
        loop {
            let (effect, finished, handoff, quiet, released) = {
                let mut state = self.lock();
                let effect = state.next_effect(self.now());
                let finished = state.take_finished();
                let handoff = state.hand_off_right();
                let handoff = handoff.and_then(|waiter| {
                    let at = state.handoffs.iter().position(|(id, _)| *id == waiter)?;
                    Some(state.handoffs.remove(at).1)
                });
                (effect, finished, handoff, state.take_area_became_movable(), state.take_released())
            };
            self.record(finished);
            drop(released);
            if quiet {
                self.memory.wake_pager();
            }
            match effect {
                Some(effect) => {
                    self.port.platform.spend(Step::VidSchDispatch);
                    if let Err(left) = self.carry_out(level, &*objects, effect) {
                        return self.defer(left);
                    }
                }
                None => {
                    if let Some(handoff) = handoff {
                        handoff.set(Step::ThreadWake);
                    }
                    break;
                }
            }
        }
        if let Some(deadline) = self.next_deadline() {
            self.port.timer.arm(deadline);
        }
    }

    /// Hands an effect that needs PASSIVE level, with the right, to an agent that waits for the
    /// right or to a work item.
    fn defer(&self, effect: Effect<QueuePayload>) {
        let waiter = {
            let mut state = self.lock();
            state.deferred = Some(effect);
            state.handoffs.first().map(|(_, handoff)| handoff.clone())
        };
        if let Some(waiter) = waiter {
            return waiter.set(Step::ThreadWake);
        }
        let me = self.me.clone();
        self.port.timer.queue_work(Box::new(move |level| {
            if let Some(scheduling) = me.upgrade() {
                scheduling.carry_out_deferred(level);
            }
        }));
    }

    /// Continues from a deferred effect, unless another agent has. Returns whether there was one.
    pub(super) fn carry_out_deferred(&self, level: &Passive) -> bool {
        let Some(effect) = self.lock().deferred.take() else { return false };
        let done =
            self.objects.get().is_none_or(|o| self.carry_out(level.into(), &*o, effect).is_ok());
        debug_assert!(done, "PASSIVE level is enough");
        self.carry_out_packets(level.into());
        true
    }

    /// Returns an effect that needs PASSIVE level to a caller in a DPC.
    fn carry_out(
        &self,
        level: Irql<'_>,
        objects: &dyn SchedulingPort,
        effect: Effect<QueuePayload>,
    ) -> Result<(), Effect<QueuePayload>> {
        match effect {
            Effect::Submit(packet) => {
                return self.submit(level, objects, packet).ok_or(effect);
            }
            Effect::Preempt { engine, fence_id } => {
                return self.preempt(level, engine, fence_id).ok_or(effect);
            }
            Effect::Signal { queues, signal } => {
                self.make(level, signal);
                let submitters = self.lock().signalled(&queues, self.now());
                // This agent holds the packet submission right.
                let hw_queues = submitters.into_iter().filter(|s| *s != Submitter::Packets);
                hw_queues.for_each(|submitter| self.run(level, submitter));
            }
        }
        Ok(())
    }

    /// Carries out the effects of a hardware queue until none is left.
    pub(super) fn run_hw_queue(&self, level: Irql<'_>, queue: &dyn KernelModeQueue) {
        if self.lock().try_take_right(Submitter::HwQueue(queue.os_handle())) {
            self.carry_out_hw_queue(level, queue);
        }
    }

    /// Carries out a hardware queue's effects. The caller holds the queue's right.
    fn carry_out_hw_queue(&self, level: Irql<'_>, queue: &dyn KernelModeQueue) {
        let handle = queue.os_handle();
        let submitter = Submitter::HwQueue(handle);
        let scheduled = ScheduledQueue { queue: handle, submitter };
        loop {
            let now = self.now();
            let (effect, finished) = {
                let mut state = self.lock();
                // Progress is read under the lock. An agent that saw progress and found the right
                // taken did so before this read, so its progress is seen here.
                let progress = queue.progress_fence().value();
                (state.next_hw_queue_effect(handle, progress, now), state.take_finished())
            };
            self.record(finished);
            match effect {
                Some(HwQueueEffect::Submit(due)) => {
                    if self.submit_to_driver_queue(level, queue, due).is_none() {
                        return self.defer_hw_queue(handle, due);
                    }
                }
                Some(HwQueueEffect::AwaitProgress(value)) => {
                    // The next iteration sees a value that is already reached.
                    let target = FenceTarget { fence: queue.progress_fence().clone(), value };
                    let _known = self.register(level, scheduled, &[target], PROGRESS);
                }
                Some(HwQueueEffect::Signal { queues, signal }) => {
                    self.port.platform.spend(Step::VidSchDispatch);
                    self.make(level, signal);
                    let submitters = self.lock().signalled(&queues, self.now());
                    let others = submitters.into_iter().filter(|s| *s != submitter);
                    others.for_each(|submitter| self.run(level, submitter));
                }
                None => return,
            }
        }
    }

    /// Hands a command that needs PASSIVE level, with the queue's right, to a work item.
    fn defer_hw_queue(&self, queue: OsHandle, due: DueCommand) {
        let me = self.me.clone();
        self.port.timer.queue_work(Box::new(move |level| {
            let Some(scheduling) = me.upgrade() else { return };
            let queue =
                scheduling.objects.get().and_then(|objects| objects.kernel_mode_queue(queue));
            let Some(queue) = queue else { return };
            let _submitted = scheduling.submit_to_driver_queue(level.into(), &*queue, due);
            scheduling.carry_out_hw_queue(level.into(), &*queue);
        }));
    }

    fn make(&self, level: Irql<'_>, signal: Signal) {
        match signal.effect {
            SignalEffect::Fences(fences) => {
                self.port.stats.add(Count::queued_signals, fences.len() as u64);
                signal::signal(level, &fences, signal.flags);
            }
            // spec: MF-028
            SignalEffect::Event(event) => {
                self.port.count(Count::queued_events);
                event.give(&self.port.platform);
            }
            SignalEffect::Action(action) => action.carry_out(level),
        }
    }

    /// Calls DxgkDdiPreemptCommand. The driver may acknowledge before it returns, if there is no
    /// packet to preempt; its DPC runs here, since the engine waits for it. Returns `None`, without
    /// effect, in a DPC that would have to wait for the engine's power.
    pub(super) fn preempt(
        &self,
        level: Irql<'_>,
        engine: EngineId,
        preemption_fence_id: u32,
    ) -> Option<()> {
        let (port, Some(reports)) = (&self.port, self.reports.get()) else { return Some(()) };
        let args = PreemptCommand { engine, preemption_fence_id };
        let result = {
            let _powered = port.try_engine_in_use(level, engine)?;
            port.count(Count::preemptions);
            port.driver(level).preempt_command(&level.raise(), args)
        };
        if let Some(deadline) = self.next_timeout() {
            port.timer.arm(deadline);
        }
        // spec: PRE-019
        match result {
            Ok(()) => reports.serve_reports(),
            Err(status) => port.bug_check(level, BugCheck::PreemptCommandFailed(status)),
        }
        Some(())
    }

    /// Submits a packet. Returns `None`, without effect, in a DPC if it needs PASSIVE level.
    fn submit(
        &self,
        level: Irql<'_>,
        objects: &dyn SchedulingPort,
        packet: DuePacket,
    ) -> Option<()> {
        let DuePacket { context, engine, fence_id, command, flags } = packet;
        // The context may have ended after the decision.
        let Some(packet_context) = objects.packet_context(context) else {
            self.lock().not_accepted(engine, fence_id, self.now());
            return Some(());
        };
        let port = &self.port;
        let part = match command.kind {
            CommandKind::Patched { .. } => packet_context.part(command.gpu_va),
            _ => None,
        };
        if level.passive().is_none() && part.as_ref().is_some_and(|part| part.needs_patch()) {
            return None;
        }
        let args = SubmitCommandVirtual {
            context: packet_context.driver_handle(),
            engine,
            dma_buffer_gpu_va: command.gpu_va,
            dma_buffer_bytes: command.bytes,
            submission_fence_id: fence_id,
            flags,
        };
        let (at_ns, link) = (command.queued_ns, LinkId(command.link));
        let queued = Queued { at_ns, name: 0, link };
        let key = SubmissionKey::Completion(fence_id.into());
        port.platform.note_queued(context.into(), key, queued);
        let result = {
            let _powered = port.try_engine_in_use(level, engine)?;
            port.count(Count::packets);
            match (command.kind, part) {
                (CommandKind::Patched { .. }, Some(part)) => {
                    part.submit(level, port, physical(&args))?
                }
                (CommandKind::Patched { .. }, None) => {
                    Err(("DxgkDdiSubmitCommand", Status::INVALID_PARAMETER))
                }
                _ if !port.declared.virtual_addresses => {
                    // The memory manager's buffer, which has addresses of the bus.
                    let packet = SubmitCommandPhysical {
                        dma_buffer: PhysicalAddress(args.dma_buffer_gpu_va),
                        end_offset: args.dma_buffer_bytes,
                        ..physical(&args)
                    };
                    let done = port.driver(level).submit_command(&level.raise(), packet);
                    done.map_err(|status| ("DxgkDdiSubmitCommand", status))
                }
                _ => {
                    let done = port.driver(level).submit_command_virtual(&level.raise(), args);
                    done.map_err(|status| ("DxgkDdiSubmitCommandVirtual", status))
                }
            }
        };
        match result {
            Ok(()) => {}
            Err((_, Status::INVALID_PARAMETER)) => {
                objects.command_refused(level, context, fence_id.into(), command.gpu_va);
                self.lock().not_accepted(engine, fence_id, self.now());
            }
            Err((ddi, status)) => port.bug_check(level, BugCheck::DdiFailed { ddi, status }),
        }
        Some(())
    }

    /// Submits a command to a hardware queue. Returns `None`, without effect, in a DPC that would
    /// have to wait for the engine's power.
    fn submit_to_driver_queue(
        &self,
        level: Irql<'_>,
        queue: &dyn KernelModeQueue,
        DueCommand { command, progress_fence_id }: DueCommand,
    ) -> Option<()> {
        let (port, Some(objects)) = (&self.port, self.objects.get()) else { return Some(()) };
        let args = SubmitCommandToHwQueue {
            hw_queue: queue.driver_handle(),
            progress_fence_id,
            dma_buffer_gpu_va: command.gpu_va,
            dma_buffer_bytes: command.bytes,
        };
        let result = {
            let _powered = port.try_engine_in_use(level, queue.engine())?;
            port.platform.spend(Step::VidSchDispatch);
            port.count(Count::hw_queue_commands);
            port.driver(level).submit_command_to_hw_queue(&level.raise(), args)
        };
        port.watch_for_hangs();
        match result {
            Ok(()) => {}
            Err(Status::INVALID_PARAMETER) => {
                objects.command_refused(level, queue.os_handle(), progress_fence_id, command.gpu_va)
            }
            Err(status) => {
                let ddi = "DxgkDdiSubmitCommandToHwQueue";
                port.bug_check(level, BugCheck::DdiFailed { ddi, status });
            }
        }
        Some(())
    }

    /// Returns the next deadline; `None` while an agent carries out effects, since it arms the
    /// timer when done.
    pub(crate) fn next_deadline(&self) -> Option<CpuTime> {
        self.lock().next_deadline()
    }

    /// Records finished waits and signals on their queue's timeline.
    fn record(&self, finished: Vec<FinishedItem<FenceTarget>>) {
        let platform = &self.port.platform;
        if !platform.tracing() {
            return;
        }
        for item in finished {
            let Some(lane) = platform.lane_of(item.queue.into()) else { continue };
            // A signal is a mark at its time.
            let (kind, start_ns) = match item.wait {
                true => (Kind::Wait, item.start_ns),
                false => (Kind::Signal, item.end_ns),
            };
            for FenceTarget { fence, value } in item.fences {
                let span = Record::span(lane, kind, NameId::NONE, start_ns, item.end_ns);
                platform.record(span.queued(item.queued_ns).on_fence(fence.trace(), value));
            }
        }
    }
}

/// Returns the packet in its physical-address form, to be filled in by the part.
fn physical(args: &SubmitCommandVirtual) -> SubmitCommandPhysical {
    SubmitCommandPhysical {
        context: args.context,
        engine: args.engine,
        dma_buffer: PhysicalAddress(0),
        start_offset: 0,
        end_offset: 0,
        private_data_at: 0,
        submission_fence_id: args.submission_fence_id,
        flags: args.flags,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::scheduling::scheduler;
    use tidegate_platform::WaitEnd;
    use tidegate_vidsch::WaiterId;

    /// The waiter may be the agent that runs work items, so no work item can take its place.
    #[test]
    fn a_deferred_effect_wakes_the_agent_that_waits_for_the_right() {
        let (scheduling, _driver, _above) = scheduler([OsHandle(1), OsHandle(2)]);
        let platform = &scheduling.port.platform;
        let handoff = platform.event(false);
        {
            let mut state = scheduling.lock();
            assert!(state.try_take_right(Submitter::Packets));
            state.wait_for_right(WaiterId(1));
            state.handoffs.push((WaiterId(1), handoff.clone()));
        }
        scheduling.defer(Effect::Preempt { engine: EngineId::of_node(0), fence_id: 1 });
        assert_eq!(handoff.wait_for(Some(platform.now()), "the handoff"), WaitEnd::Woken);
        let state = scheduling.lock();
        assert!(matches!(state.deferred, Some(Effect::Preempt { fence_id: 1, .. })));
        assert_eq!(state.handoffs.len(), 1, "the waiter gets the right after the effect");
    }
}
