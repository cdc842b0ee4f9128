//! Carries out the effects of VidSch: submissions, preemptions, signals.

use super::payload::{QueuePayload, Signal};
use super::port::{KernelModeQueue, SchedulingPort};
use super::scheduler::{PROGRESS, Scheduling};
use crate::error::BugCheck;
use crate::fence::{FenceTarget, signal};
use crate::stats::Count;
use tidegate_calls::Status;
use tidegate_ddi::patch::SubmitCommandPhysical;
use tidegate_ddi::queue::{SubmitCommandToHwQueue, SubmitCommandVirtual};
use tidegate_ddi::{Dispatch, EngineId, OsHandle, PreemptCommand, SubmitCommandFlags};
use tidegate_platform::{CpuTime, PhysicalAddress, QueueNumber, Queued, Step, SubmissionKey};
use tidegate_trace::{Kind, NameId, Record};
use tidegate_vidsch::{Command, CommandKind, Effect, FinishedItem, SignalEffect, Submitter};

impl Scheduling {
    /// Carries out the effects of a submitter until there are none. Returns at once while another
    /// agent does.
    pub(super) fn run(&self, submitter: Submitter) {
        match submitter {
            Submitter::Packets => {
                if self.lock().try_take_right(Submitter::Packets) {
                    self.carry_out_packets();
                }
            }
            Submitter::HwQueue(queue) => {
                let queue = self.objects().and_then(|objects| objects.kernel_mode_queue(queue));
                if let Some(queue) = queue {
                    self.run_hw_queue(&*queue);
                }
            }
        }
    }

    /// Carries out the effects of the packets for the agent that holds the right.
    pub(super) fn carry_out_packets(&self) {
        let Some(objects) = self.objects() else { return };
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
                (effect, finished, handoff, state.take_quiet(), state.take_released())
            };
            self.record(finished);
            drop(released);
            if quiet {
                self.memory.wake_pager();
            }
            match effect {
                Some(effect) => {
                    self.port.platform.spend(Step::VidSchDispatch);
                    self.carry_out(&*objects, effect);
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

    fn carry_out(&self, objects: &dyn SchedulingPort, effect: Effect<QueuePayload>) {
        match effect {
            Effect::Submit { context, engine, command, fence_id, flags } => {
                self.submit(objects, context, (engine, fence_id), (command, flags))
            }
            Effect::Preempt { engine, fence_id } => self.preempt(engine, fence_id),
            Effect::Signal { queues, signal } => {
                self.make(signal);
                let submitters = self.lock().signalled(&queues, self.now());
                // The packets' right is held by this agent.
                let hw_queues = submitters.into_iter().filter(|s| *s != Submitter::Packets);
                hw_queues.for_each(|submitter| self.run(submitter));
            }
            // Effects of hardware queues.
            Effect::SubmitToHwQueue { .. } | Effect::AwaitProgress(_) => {}
        }
    }

    /// Carries out the effects of a hardware queue until there are none.
    pub(super) fn run_hw_queue(&self, queue: &dyn KernelModeQueue) {
        let handle = queue.os_handle();
        let submitter = Submitter::HwQueue(handle);
        if !self.lock().try_take_right(submitter) {
            return;
        }
        loop {
            let now = self.now();
            let (effect, finished) = {
                let mut state = self.lock();
                // The progress fence is read under the lock: an agent that saw progress and left,
                // because this one holds the right, left before this reading.
                let progress = queue.progress_fence().value();
                (state.next_hw_queue_effect(handle, progress, now), state.take_finished())
            };
            self.record(finished);
            match effect {
                Some(Effect::SubmitToHwQueue { command, progress_fence_id }) => {
                    self.submit_to_driver_queue(queue, command, progress_fence_id)
                }
                Some(Effect::AwaitProgress(value)) => {
                    // A value that the fence has already is seen by the next round.
                    let target = (queue.progress_fence(), value);
                    self.register((handle, submitter), target, PROGRESS);
                }
                Some(Effect::Signal { queues, signal }) => {
                    self.port.platform.spend(Step::VidSchDispatch);
                    self.make(signal);
                    let submitters = self.lock().signalled(&queues, self.now());
                    let others = submitters.into_iter().filter(|s| *s != submitter);
                    others.for_each(|submitter| self.run(submitter));
                }
                // Effects of the packets.
                Some(Effect::Submit { .. } | Effect::Preempt { .. }) => {}
                None => return,
            }
        }
    }

    fn make(&self, signal: Signal) {
        match signal.effect {
            SignalEffect::Fences(fences) => {
                self.port.stats.add(Count::queued_signals, fences.len() as u64);
                signal::signal(&fences, signal.flags);
            }
            // spec: MF-028
            SignalEffect::Event(event) => {
                self.port.count(Count::queued_events);
                event.set(Step::ThreadWake);
            }
            SignalEffect::Action(action) => action.carry_out(),
        }
    }

    /// DxgkDdiPreemptCommand. The driver may answer before it returns, when nothing is left to
    /// preempt.
    pub(super) fn preempt(&self, engine: EngineId, preemption_fence_id: u32) {
        let (port, Some(reports)) = (&self.port, self.reports()) else { return };
        port.count(Count::preemptions);
        let args = PreemptCommand { engine, preemption_fence_id };
        let result = {
            let _powered = port.engine_in_use(engine);
            port.driver().preempt_command(&Dispatch::enter(), args)
        };
        if let Some(deadline) = self.next_timeout() {
            port.timer.arm(deadline);
        }
        // spec: PRE-019
        match result {
            Ok(()) => reports.serve_reports(),
            Err(status) => port.bug_check(BugCheck::PreemptCommandFailed(status)),
        }
    }

    fn submit(
        &self,
        objects: &dyn SchedulingPort,
        context: OsHandle,
        (engine, fence_id): (EngineId, u32),
        (command, flags): (Command, SubmitCommandFlags),
    ) {
        // The context may have ended since the decision.
        let Some(packet_context) = objects.packet_context(context) else {
            self.lock().not_accepted(engine, fence_id, self.now());
            return;
        };
        let port = &self.port;
        port.count(Count::packets);
        let EngineId { node_ordinal, engine_ordinal } = engine;
        let args = SubmitCommandVirtual {
            context: packet_context.driver_handle(),
            node_ordinal,
            engine_ordinal,
            dma_buffer_gpu_va: command.gpu_va,
            dma_buffer_bytes: command.bytes,
            submission_fence_id: fence_id,
            flags,
        };
        let queued = Queued { at_ns: command.queued_ns, name: 0 };
        let key = SubmissionKey::Completion(fence_id.into());
        port.platform.note_queued(QueueNumber(context.0), key, queued);
        let result = {
            let _powered = port.engine_in_use(engine);
            match command.kind {
                CommandKind::Patched { .. } => match packet_context.part(command.gpu_va) {
                    Some(part) => part.submit(port, physical(&args)),
                    None => Err(Status::INVALID_PARAMETER),
                },
                _ => port.driver().submit_command_virtual(&Dispatch::enter(), args),
            }
        };
        match result {
            Ok(()) => {}
            Err(Status::INVALID_PARAMETER) => {
                objects.command_refused(context, fence_id.into(), command.gpu_va);
                self.lock().not_accepted(engine, fence_id, self.now());
            }
            Err(status) => {
                let ddi = "DxgkDdiSubmitCommandVirtual";
                port.bug_check(BugCheck::DdiFailed { ddi, status });
            }
        }
    }

    fn submit_to_driver_queue(
        &self,
        queue: &dyn KernelModeQueue,
        command: Command,
        progress_fence_id: u64,
    ) {
        let (port, Some(objects)) = (&self.port, self.objects()) else { return };
        port.platform.spend(Step::VidSchDispatch);
        port.count(Count::hw_queue_commands);
        let args = SubmitCommandToHwQueue {
            hw_queue: queue.driver_handle(),
            progress_fence_id,
            dma_buffer_gpu_va: command.gpu_va,
            dma_buffer_bytes: command.bytes,
        };
        let result = {
            let _powered = port.engine_in_use(queue.engine());
            port.driver().submit_command_to_hw_queue(&Dispatch::enter(), args)
        };
        port.watch_for_hangs();
        match result {
            Ok(()) => {}
            Err(Status::INVALID_PARAMETER) => {
                objects.command_refused(queue.os_handle(), progress_fence_id, command.gpu_va)
            }
            Err(status) => {
                let ddi = "DxgkDdiSubmitCommandToHwQueue";
                port.bug_check(BugCheck::DdiFailed { ddi, status });
            }
        }
    }

    /// When time alone makes an effect due; `None` while an agent carries effects out, which arms
    /// the timer when it is done.
    pub(crate) fn next_deadline(&self) -> Option<CpuTime> {
        self.lock().next_deadline()
    }

    /// Puts waits and signals that are over on the timeline of their queue.
    fn record(&self, finished: Vec<FinishedItem<FenceTarget>>) {
        let platform = &self.port.platform;
        if !platform.tracing() {
            return;
        }
        for item in finished {
            let Some(lane) = platform.lane_of(QueueNumber(item.queue.0)) else { continue };
            // A signal is a mark at the moment at which it was made.
            let (kind, start_ns) = match item.wait {
                true => (Kind::Wait, item.start_ns),
                false => (Kind::Signal, item.end_ns),
            };
            for (fence, value) in item.fences {
                let span = Record::span(lane, kind, NameId::NONE, start_ns, item.end_ns);
                platform.record(span.queued(item.queued_ns).on_fence(fence.trace, value));
            }
        }
    }
}

/// The same packet with physical addresses, which its part fills in.
fn physical(args: &SubmitCommandVirtual) -> SubmitCommandPhysical {
    SubmitCommandPhysical {
        context: args.context,
        node_ordinal: args.node_ordinal,
        engine_ordinal: args.engine_ordinal,
        dma_buffer: PhysicalAddress(0),
        start_offset: 0,
        end_offset: 0,
        submission_fence_id: args.submission_fence_id,
        flags: args.flags,
    }
}
