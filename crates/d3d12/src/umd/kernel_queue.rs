//! Kernel-mode queues: packet queues and hardware queues. Every submission is a kernel call,
//! and the scheduler keeps the calls in order.
//!
//! A packet queue is a context. One execute is one packet: its lists are joined into one command
//! buffer. A context has no progress fence, so the queue creates a monitored fence to which the
//! last command of each packet stores. If the engine cannot write a fence, a software signal
//! follows each packet. The queue uses this progress to release command memory. Waiting for the
//! queue uses a software signal, because the kernel knows when a packet is complete.
//!
//! A hardware queue has a progress fence, and each command buffer has a progress value. Waits and
//! signals of native fences are commands of its command buffers (`fence_commands`), unless the
//! device's options leave them to the scheduler. All others are kernel calls.

use crate::counters::QueueStats;
use crate::model::{HardwareFences, Submission};
use crate::umd::closed_list::ClosedList;
use crate::umd::command_memory::{CommandMemory, ReportedBuffer};
use crate::umd::context::Context;
use crate::umd::encode::{self, JOINED_EXTRA_BYTES};
use crate::umd::failure::{Failure, Why};
use crate::umd::fence::FenceObject;
use crate::umd::fence_commands::{FenceBuffer, FenceCommands};
use crate::umd::held_fences::HeldFences;
use crate::umd::in_flight::InFlight;
use crate::umd::kernel_object::{Object, Owned};
use crate::umd::progress::FenceReader;
use crate::umd::queue_identity::QueueIdentity;
use crate::umd::residency::Pager;
use crate::umd::submit::Unit;
use std::sync::Arc;
use tidegate_calls::{
    BroadcastExclusions, CreateHwContext, CreateHwQueue, FenceValue, Handle, Present, PresentQueue,
    SignalFlags, SignalFromGpu2, Status, SubmitCommand, SubmitCommandToHwQueue,
    SubmitSignalToHwQueues,
};
use tidegate_gpu_abi::RingPacket;
use tidegate_gpu_abi::ring::MAX_COMMAND_BYTES;
use tidegate_platform::{CpuTime, Mutex, QueueNumber, Queued, Step, SubmissionKey};

/// The call that makes the scheduler hold a hardware queue at a wait.
const HW_QUEUE_WAIT: &str = "D3DKMTSubmitWaitForSyncObjectsToHwQueue";

struct State {
    /// The progress value queued last.
    progress: u64,
    in_flight: InFlight,
    /// `None` if the scheduler carries out every wait and signal.
    commands: Option<FenceCommands>,
    /// Fences of queued signals and waits, held until the queue's progress has passed them.
    held: HeldFences,
    stats: QueueStats,
    /// Nothing is queued behind `progress`, so reaching it shows that the queue is idle.
    ends_with_progress: bool,
}

enum Scheduled {
    Packet { context: Context },
    Hardware { hw_queue: Owned, _hw_context: Owned },
}

pub(crate) struct KernelQueue {
    id: Arc<QueueIdentity>,
    progress: FenceReader,
    progress_fence: Handle,
    /// The kernel's number of the context or hardware queue.
    number: QueueNumber,
    scheduled: Scheduled,
    pager: Option<Pager>,
    /// Declared last: it holds memory that the engine may use until the queue is destroyed.
    state: Mutex<State>,
}

type Result<T = ()> = std::result::Result<T, Failure>;

impl KernelQueue {
    pub(crate) fn packet(id: &Arc<QueueIdentity>) -> Result<KernelQueue> {
        let device = &*id.device;
        let name = format!("{} progress", id.name);
        let context =
            Context::new(device, &name, id.node_ordinal, id.engine_affinity, id.priority)?;
        id.apply_flags(context.handle())?;
        let (progress, fence) = (context.progress.clone(), context.progress_fence());
        let scheduled = Scheduled::Packet { context };
        KernelQueue::new(id, "submitter of a packet queue", progress, fence, scheduled)
    }

    pub(crate) fn hardware(id: &Arc<QueueIdentity>) -> Result<KernelQueue> {
        let (device, options) = (&*id.device, &id.device.options);
        // spec: HS-026
        let carries = device.info.native_gpu_fence_supported
            && options.hardware_fences == HardwareFences::Engine;
        let feed = if carries { Feed::CallWithFenceCommands } else { Feed::Call };
        let (queue, hw_queue, _hw_context) = create_hw_queue(id, feed)?;
        let scheduled = Scheduled::Hardware { hw_queue, _hw_context };
        let (progress, fence) = (device.reader(queue.progress_value, 0), queue.progress_fence);
        let lock = "submitter of a hardware queue";
        let made = KernelQueue::new(id, lock, progress, fence, scheduled)?;
        if carries {
            let logs = device.enter().native_fence_log_detail(queue.handle);
            let logs = logs.map_err(Why::of("D3DKMTGetNativeFenceLogDetail"))?;
            made.state.lock_device().commands = Some(FenceCommands::new(made.number, &logs));
        }
        Ok(made)
    }

    fn new(
        id: &Arc<QueueIdentity>,
        lock: &'static str,
        progress: FenceReader,
        progress_fence: Handle,
        scheduled: Scheduled,
    ) -> Result<KernelQueue> {
        let handle = match &scheduled {
            Scheduled::Packet { context } => context.handle(),
            Scheduled::Hardware { hw_queue, .. } => hw_queue.handle(),
        };
        let state = State {
            progress: 0,
            in_flight: InFlight::new(),
            commands: None,
            held: HeldFences::new(),
            stats: QueueStats::default(),
            ends_with_progress: true,
        };
        Ok(KernelQueue {
            id: Arc::clone(id),
            progress,
            progress_fence,
            number: id.register(handle),
            scheduled,
            pager: Pager::for_queue(id)?,
            state: id.device.platform.mutex(lock, state),
        })
    }

    pub(crate) fn submission(&self) -> Submission {
        match self.scheduled {
            Scheduled::Packet { .. } => Submission::Packet,
            Scheduled::Hardware { .. } => Submission::Hardware,
        }
    }

    /// Returns the command buffer named in a report on the kernel's queue with this number, if it
    /// is still known.
    pub(crate) fn reported(
        &self,
        number: QueueNumber,
        buffer: ReportedBuffer,
    ) -> Option<Arc<CommandMemory>> {
        if self.number != number {
            return None;
        }
        let in_flight = &self.state.lock_device().in_flight;
        let found = match &self.scheduled {
            // The scheduler numbers the packets of a context.
            Scheduled::Packet { .. } => in_flight.memory_at_address(buffer.gpu_va),
            Scheduled::Hardware { .. } => in_flight.memory_of_progress(buffer.progress),
        };
        found.cloned()
    }

    pub(crate) fn stats(&self) -> QueueStats {
        self.state.lock_device().stats
    }

    pub(crate) fn execute(&self, lists: &[&ClosedList], queued: Queued) -> Result {
        let mut state = self.state.lock_device();
        state.in_flight.collect(&self.progress);
        state.stats.executes += 1;
        let memories = lists.iter().map(|list| &*list.memory);
        self.submit_resident(&mut state, memories, |state| match &self.scheduled {
            Scheduled::Packet { context } => packets(lists).try_for_each(|packet| {
                let progress = context.progress_va.map(|va| (va, state.progress + 1));
                let memory = encode::joined(&self.id, &[], packet, progress)
                    .map_err(Why::of("D3DKMTCreateAllocation2"))?;
                self.submit(state, &memory, queued)
            }),
            Scheduled::Hardware { .. } => {
                lists.iter().try_for_each(|list| self.submit_list(state, list, queued))
            }
        })
    }

    /// Releases the command memory that the GPU has finished with.
    pub(crate) fn release_finished(&self) {
        self.state.lock_device().in_flight.collect_now(&self.progress);
    }

    #[inline(never)]
    pub(crate) fn wait(&self, fence: &Arc<FenceObject>, value: u64, queued: Queued) -> Result {
        let mut state = self.state.lock_device();
        state.stats.waits += 1;
        match &mut state.commands {
            Some(commands) if fence.instance.native => {
                if self.progress.load() == u64::MAX {
                    return Err(Why::Refused(HW_QUEUE_WAIT, Status::DEVICE_REMOVED).into());
                }
                let is_due = commands.hold_back(fence, fence.wait_for(value), queued);
                state.ends_with_progress = false;
                if is_due { self.submit_waits(&mut state) } else { Ok(()) }
            }
            _ => self.queue_wait(&mut state, fence.at(value)),
        }
    }

    /// Counts a wait that ended with its fence before it was submitted.
    pub(crate) fn count_ended_wait(&self) {
        self.state.lock_device().stats.waits += 1;
    }

    #[inline(never)]
    pub(crate) fn signal(&self, fence: &Arc<FenceObject>, value: u64, queued: Queued) -> Result {
        let mut state = self.state.lock_device();
        state.stats.signals += 1;
        if state.commands.is_some() && fence.instance.native {
            if state.held.is_due() {
                state.held.collect(self.reached());
            }
            let progress = state.progress + 1;
            state.held.hold(fence, progress);
            return self.submit_fences(&mut state, Some((fence, value)), queued);
        }
        self.submit_waits(&mut state)?;
        self.hold(&mut state, fence)?;
        self.queue_signal(&mut state, fence.at(value))
    }

    /// Submits a unit of the user-mode queue that this queue replaces.
    #[inline(never)]
    pub(crate) fn submit_unit(&self, unit: &Unit<'_>, queued: Queued) -> Result {
        match unit {
            Unit::Execute(lists) => self.execute(lists, queued),
            Unit::Wait(fence, wait) => self.wait(fence, wait.value, queued),
            Unit::Signal(fence, value) => self.signal(fence, *value, queued),
            Unit::Marker => Ok(()),
        }
    }

    /// Submits a ring packet of the user-mode queue that this queue replaces. `memory` belongs to
    /// its command buffer.
    pub(crate) fn submit_packet(
        &self,
        packet: &RingPacket,
        memory: Option<&Arc<CommandMemory>>,
        queued: Queued,
    ) -> Result {
        let mut state = self.state.lock_device();
        self.submit_waits(&mut state)?;
        let at = |handle: u32, value| FenceValue { fence: Handle(handle), value };
        match (*packet, memory) {
            (RingPacket::Wait { value, fence_handle, .. }, _) => {
                match self.queue_wait(&mut state, at(fence_handle, value)) {
                    // The fence has ended, and the wait with it.
                    Err(failure) if failure.is_status(Status::INVALID_PARAMETER) => Ok(()),
                    queued => queued,
                }
            }
            (RingPacket::Signal { value, fence_handle, .. }, _) => {
                self.queue_signal(&mut state, at(fence_handle, value))
            }
            (RingPacket::Execute { .. }, Some(memory)) => {
                self.submit_resident(&mut state, std::iter::once(&**memory), |state| {
                    self.submit(state, memory, queued)
                })
            }
            _ => Ok(()),
        }
    }

    /// Takes over the fences held by the replaced queue until this queue has passed its packets,
    /// which were submitted before.
    pub(crate) fn take_over_fences(&self, fences: &mut HeldFences) {
        let mut state = self.state.lock_device();
        let until = state.progress + 1;
        state.held.take_over(fences, until);
    }

    /// Queues a flip behind all queued work.
    pub(crate) fn present(&self, args: impl FnOnce(PresentQueue) -> Present) -> Result {
        let (call, queue) = match &self.scheduled {
            Scheduled::Packet { context } => {
                ("D3DKMTPresent", PresentQueue::Context(context.handle()))
            }
            Scheduled::Hardware { hw_queue, .. } => {
                ("D3DKMTSubmitPresentToHwQueue", PresentQueue::HwQueue(hw_queue.handle()))
            }
        };
        let mut state = self.state.lock_device();
        self.submit_waits(&mut state)?;
        state.ends_with_progress = false;
        self.id.device.enter().present(args(queue)).map_err(Why::of(call))
    }

    pub(crate) fn wait_idle(&self, by: Option<CpuTime>) -> Result {
        let target = {
            let mut state = self.state.lock_device();
            if !state.ends_with_progress {
                self.queue_progress(&mut state)?;
            }
            state.progress
        };
        self.id.wait_for_progress(self.progress_fence, &self.progress, target, by)?;
        let reached = self.reached();
        self.state.lock_device().held.collect(reached);
        Ok(())
    }

    /// Returns whether its progress shows that all queued work is complete.
    pub(crate) fn is_known_idle(&self) -> bool {
        let state = self.state.lock_device();
        state.ends_with_progress && self.progress.load() >= state.progress
    }

    /// Returns whether all queued work is complete and the device was not lost before.
    pub(crate) fn has_completed(&self) -> bool {
        self.is_known_idle() && self.progress.load() != u64::MAX
    }

    /// Returns whether queued work is incomplete. Queues a progress value behind it if there is
    /// none. The work of a lost device counts as complete.
    pub(crate) fn is_pending(&self) -> Result<bool> {
        let mut state = self.state.lock_device();
        if !state.ends_with_progress {
            self.queue_progress(&mut state)?;
        }
        Ok(self.progress.load() < state.progress)
    }

    /// Calls `submit` while the buffers of `memories` are resident, if the queue manages residency.
    fn submit_resident<'a>(
        &self,
        state: &mut State,
        memories: impl Iterator<Item = &'a CommandMemory>,
        submit: impl FnOnce(&mut State) -> Result,
    ) -> Result {
        let Some(pager) = &self.pager else { return submit(state) };
        let held = pager.hold(&self.id, memories)?;
        let waited =
            held.wait.map_or(Ok(()), |(fence, value)| self.queue_wait(state, fence.at(value)));
        let submitted = waited.and_then(|()| submit(state));
        submitted.and(held.release(&self.id))
    }

    fn submit(&self, state: &mut State, memory: &Arc<CommandMemory>, queued: Queued) -> Result {
        let kernel = &self.id.device;
        let progress = state.progress + 1;
        // Held before the call: the engine may run it before the call returns.
        state.in_flight.hold(memory, progress, state.stats.submissions);
        let (commands_gpu_va, command_bytes) = (memory.gpu_va().0, memory.bytes);
        match &self.scheduled {
            Scheduled::Packet { context } => {
                let context = context.handle();
                let args = SubmitCommand { context, commands_gpu_va, command_bytes };
                kernel.platform.note_queued(self.number, SubmissionKey::NextCall, queued);
                kernel.enter().submit_command(args).map_err(Why::of("D3DKMTSubmitCommand"))?;
            }
            Scheduled::Hardware { hw_queue, .. } => {
                kernel.platform.spend(Step::UmdEncode);
                let args = SubmitCommandToHwQueue {
                    hw_queue: hw_queue.handle(),
                    progress_fence_id: progress,
                    commands_gpu_va,
                    command_bytes,
                };
                let key = SubmissionKey::Completion(progress);
                kernel.platform.note_queued(self.number, key, queued);
                let done = kernel.enter().submit_command_to_hw_queue(args);
                done.map_err(Why::of("D3DKMTSubmitCommandToHwQueue"))?;
            }
        }
        state.progress = progress;
        state.stats.submissions += 1;
        state.ends_with_progress = matches!(self.scheduled, Scheduled::Hardware { .. });
        match &self.scheduled {
            Scheduled::Packet { context } if context.progress_va.is_none() => {
                self.signal_progress(state, context, progress)
            }
            _ => Ok(()),
        }
    }

    /// Queues the next progress value behind all queued work, by a software signal or an empty
    /// command buffer.
    fn queue_progress(&self, state: &mut State) -> Result {
        match &self.scheduled {
            Scheduled::Packet { context } => {
                let next = state.progress + 1;
                self.signal_progress(state, context, next)
            }
            Scheduled::Hardware { .. } => {
                if state.commands.as_ref().is_some_and(FenceCommands::holds_back) {
                    return self.submit_waits(state);
                }
                self.submit(state, &self.id.device.marker, self.id.queued())
            }
        }
    }

    /// Submits a list of a hardware queue, after the waits that are held back.
    fn submit_list(&self, state: &mut State, list: &ClosedList, queued: Queued) -> Result {
        let mut buffer = FenceBuffer::new(state.progress + 1);
        match &state.commands {
            Some(commands) if commands.holds_back() => commands.put_waits(&self.id, &mut buffer),
            _ => return self.submit(state, &list.memory, queued),
        }
        let before = buffer.as_bytes();
        if before.len() as u64 + u64::from(list.memory.bytes + JOINED_EXTRA_BYTES)
            > u64::from(MAX_COMMAND_BYTES)
        {
            self.submit_buffer(state, &buffer)?;
            return self.submit(state, &list.memory, queued);
        }
        let memory = encode::joined(&self.id, before, &[list], None);
        let memory = memory.map_err(Why::of("D3DKMTCreateAllocation2"))?;
        self.submit(state, &memory, queued)?;
        self.accept(state, &buffer);
        Ok(())
    }

    /// Submits the waits that are held back in a separate command buffer.
    fn submit_waits(&self, state: &mut State) -> Result {
        if state.commands.as_ref().is_some_and(FenceCommands::holds_back) {
            self.submit_fences(state, None, self.id.queued())?;
        }
        Ok(())
    }

    /// Submits a command buffer with the waits that are held back, then `signal`.
    fn submit_fences(
        &self,
        state: &mut State,
        signal: Option<(&Arc<FenceObject>, u64)>,
        queued: Queued,
    ) -> Result {
        let mut buffer = FenceBuffer::new(state.progress + 1);
        if let Some(commands) = &state.commands {
            commands.put_waits(&self.id, &mut buffer);
            if let Some((fence, value)) = signal {
                commands.put_signal(&self.id, &mut buffer, fence, value, queued);
            }
        }
        self.submit_buffer(state, &buffer)
    }

    /// Submits a command buffer without a list. The application does not count it.
    fn submit_buffer(&self, state: &mut State, buffer: &FenceBuffer) -> Result {
        let memory = match buffer.as_bytes() {
            // The fences of the waits have ended.
            [] => Arc::clone(&self.id.device.marker),
            bytes => {
                let memory = CommandMemory::upload(&self.id.device.arena, bytes);
                Arc::new(memory.map_err(Why::of("D3DKMTCreateAllocation2"))?)
            }
        };
        self.submit(state, &memory, Queued::default())?;
        state.stats.submissions -= 1;
        self.accept(state, buffer);
        Ok(())
    }

    /// The kernel has `buffer`.
    fn accept(&self, state: &mut State, buffer: &FenceBuffer) {
        if let Some(commands) = &mut state.commands {
            commands.accept(&self.id, buffer);
        }
    }

    fn signal_progress(&self, state: &mut State, context: &Context, progress: u64) -> Result {
        let value = context.progress_at(progress);
        let signal = self.id.device.enter().signal_from_gpu(context.handle(), &[value]);
        signal.map_err(Why::of("D3DKMTSignalSynchronizationObjectFromGpu"))?;
        state.progress = progress;
        state.ends_with_progress = true;
        Ok(())
    }

    /// Holds `fence` until the queue reaches the progress value behind the signal that is queued
    /// next. If many fences are held without a later progress value, queues one.
    fn hold(&self, state: &mut State, fence: &Arc<FenceObject>) -> Result {
        if state.held.is_due() {
            state.held.collect(self.reached());
            if state.held.want_marker(state.progress) {
                self.queue_progress(state)?;
            }
        }
        state.held.hold(fence, state.progress + 1);
        Ok(())
    }

    /// Returns the progress up to which fences may be released. It is the maximum for a lost
    /// device, like every fence of that device.
    fn reached(&self) -> u64 {
        Some(self.progress.load()).filter(|reached| *reached != u64::MAX).unwrap_or(0)
    }

    fn queue_wait(&self, state: &mut State, fence: FenceValue) -> Result {
        state.ends_with_progress = false;
        let (kernel, fences) = (self.id.device.enter(), [fence]);
        match &self.scheduled {
            Scheduled::Packet { context } => kernel
                .wait_from_gpu(context.handle(), &fences)
                .map_err(Why::of("D3DKMTWaitForSynchronizationObjectFromGpu")),
            Scheduled::Hardware { hw_queue, .. } => kernel
                .submit_wait_to_hw_queue(hw_queue.handle(), &fences)
                .map_err(Why::of(HW_QUEUE_WAIT)),
        }
    }

    // spec: MF-022
    /// Queues a software signal: engines of the packet model do not write application fences, and
    /// engines write only native ones for hardware queues. An application may signal a lower value.
    fn queue_signal(&self, state: &mut State, fence: FenceValue) -> Result {
        state.ends_with_progress = false;
        let (kernel, fences) = (self.id.device.enter(), &[fence]);
        let flags = SignalFlags::ALLOW_FENCE_REWIND;
        match &self.scheduled {
            Scheduled::Packet { context } => {
                let contexts = &[context.handle()];
                let args = SignalFromGpu2 { contexts, fences, flags, cpu_event: None };
                let done = kernel.signal_from_gpu2(args);
                done.map_err(Why::of("D3DKMTSignalSynchronizationObjectFromGpu2"))
            }
            Scheduled::Hardware { hw_queue, .. } => {
                let hw_queues = &[hw_queue.handle()];
                let args = SubmitSignalToHwQueues { hw_queues, fences, flags };
                let done = kernel.submit_signal_to_hw_queues(args);
                done.map_err(Why::of("D3DKMTSubmitSignalSyncObjectsToHwQueue"))
            }
        }
    }
}

/// How a hardware queue gets its work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feed {
    /// Kernel calls.
    Call,
    /// Kernel calls. Command buffers carry waits and signals.
    CallWithFenceCommands,
    /// A ring and a doorbell.
    Doorbell,
}

/// Creates a hardware context and its queue. Returns the owners of the queue and of the context.
pub(crate) fn create_hw_queue(
    id: &QueueIdentity,
    feed: Feed,
) -> Result<(tidegate_calls::HwQueue, Owned, Owned)> {
    let device = &*id.device;
    let args = CreateHwContext {
        device: device.handle(),
        node_ordinal: id.node_ordinal,
        engine_affinity: id.engine_affinity,
    };
    let hw_context = device.enter().create_hw_context(args);
    let hw_context = hw_context.map_err(Why::of("D3DKMTCreateHwContext"))?;
    let owned_context = Owned::new(&device.kernel, Object::HwContext, hw_context);
    let args = CreateHwQueue {
        hw_context,
        user_mode_submission: feed == Feed::Doorbell,
        native_fence_commands: feed == Feed::CallWithFenceCommands,
        exclusions: BroadcastExclusions::default(),
        priority: id.priority,
    };
    let queue = device.enter().create_hw_queue(args).map_err(Why::of("D3DKMTCreateHwQueue"))?;
    let owned_queue = Owned::new(&device.kernel, Object::HwQueue, queue.handle);
    id.apply_flags(queue.handle)?;
    Ok((queue, owned_queue, owned_context))
}

/// Divides `lists` into as few packets as their length allows, almost always one.
pub(crate) fn packets<'a>(
    lists: &'a [&'a ClosedList],
) -> impl Iterator<Item = &'a [&'a ClosedList]> {
    let mut rest = lists;
    std::iter::from_fn(move || {
        let mut bytes = 0u64;
        let fits = |list: &&&ClosedList| {
            bytes += u64::from(list.memory.bytes) + u64::from(JOINED_EXTRA_BYTES);
            bytes <= u64::from(MAX_COMMAND_BYTES)
        };
        let count = rest.iter().take_while(fits).count().max(1).min(rest.len());
        let (packet, after) = rest.split_at(count);
        rest = after;
        (!packet.is_empty()).then_some(packet)
    })
}
