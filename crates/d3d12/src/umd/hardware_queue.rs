//! Owns kernel-mode hardware queues: each command buffer is one kernel call with a progress value
//! of the user-mode driver's making; waits and signals are software commands that the scheduler
//! keeps in order with them.

use crate::counters::QueueStats;
use crate::fence::FenceInner;
use crate::list::{ClosedList, CommandMemory};
use crate::umd::in_flight::InFlight;
use crate::umd::kernel_object::{Object, Owned};
use crate::umd::progress::FenceReader;
use crate::umd::residency::Pager;
use crate::umd::signalled_fences::SignalledFences;
use crate::umd::submit::Unit;
use crate::umd::{EngineChoice, Failure, QueueIdentity};
use std::sync::Arc;
use tidegate_calls::{
    CreateHwContext, CreateHwQueue, FenceValue, Handle, Present, PresentQueue, Priority,
    SignalFlags, SubmitCommandToHwQueue, SubmitSignalToHwQueues,
};
use tidegate_gpu_abi::RingPacket;
use tidegate_platform::{Mutex, QueueNumber, Queued, Step, SubmissionKey};

struct State {
    /// The progress value submitted last.
    progress: u64,
    in_flight: InFlight,
    /// Fences that signals are queued for, until a command buffer behind them is complete.
    signalled: SignalledFences,
    stats: QueueStats,
    /// The last command has a progress value: nothing is queued behind it.
    ends_with_progress: bool,
}

pub(crate) struct HardwareQueue {
    progress: FenceReader,
    progress_fence: Handle,
    /// The kernel's.
    number: QueueNumber,
    hw_queue: Owned,
    _hw_context: Owned,
    pager: Option<Pager>,
    /// Last: it holds what the engine may use until the queue has ended.
    state: Mutex<State>,
}

type Result = std::result::Result<(), Failure>;

impl HardwareQueue {
    pub(crate) fn new(
        id: &QueueIdentity,
        at: EngineChoice,
        priority: Priority,
    ) -> std::result::Result<HardwareQueue, Failure> {
        let device = &*id.device;
        let failed = |call| move |status| Failure::Refused(call, status);
        let EngineChoice { node_ordinal, engine_affinity } = at;
        let args = CreateHwContext { device: device.handle(), node_ordinal, engine_affinity };
        let context = device
            .thunk
            .enter()
            .create_hw_context(args)
            .map_err(failed("D3DKMTCreateHwContext"))?;
        let hw_context = Owned::new(&device.thunk, Object::HwContext, context);
        let args = CreateHwQueue {
            hw_context: context,
            user_mode_submission: false,
            priority,
            tag: id.tag,
        };
        let queue =
            device.thunk.enter().create_hw_queue(args).map_err(failed("D3DKMTCreateHwQueue"))?;
        let hw_queue = Owned::new(&device.thunk, Object::HwQueue, queue.handle);
        let state = State {
            progress: 0,
            in_flight: InFlight::new(),
            signalled: SignalledFences::new(),
            stats: QueueStats::default(),
            ends_with_progress: true,
        };
        Ok(HardwareQueue {
            state: device.platform.mutex("submitter of a hardware queue", state),
            pager: device.pager(id, priority)?,
            progress: device.reader(queue.progress_value, 0),
            progress_fence: queue.progress_fence,
            number: id.register(queue.handle),
            hw_queue,
            _hw_context: hw_context,
        })
    }

    /// Submits what a user-mode queue was given, after that became this one.
    pub(crate) fn submit_unit(
        &self,
        id: &QueueIdentity,
        unit: &Unit<'_>,
        queued_ns: u64,
    ) -> Result {
        match unit {
            Unit::Execute(lists) => self.execute(id, lists, queued_ns),
            Unit::Wait(fence, wait) => self.wait(id, fence, wait.value),
            Unit::Signal(fence, value) => self.signal(id, fence, *value),
            Unit::Marker => Ok(()),
        }
    }

    pub(crate) fn execute(
        &self,
        id: &QueueIdentity,
        lists: &[&ClosedList],
        queued_ns: u64,
    ) -> Result {
        let mut state = self.state.lock_device();
        state.in_flight.collect(&self.progress);
        state.stats.executes += 1;
        let memories: Vec<_> = lists.iter().map(|list| &list.memory).collect();
        self.submit_resident(&mut state, id, &memories, queued_ns)
    }

    /// Takes over the fences that the queue before it held.
    pub(crate) fn hold_fences(&self, fences: &mut SignalledFences) {
        let mut state = self.state.lock_device();
        let until = state.progress + 1;
        state.signalled.take_over(fences, until);
    }

    /// Keeps `fence` until a command buffer behind the signal that is queued next is complete. When
    /// many fences are kept and no command buffer follows, an empty one is queued.
    fn hold(&self, state: &mut State, id: &QueueIdentity, fence: &Arc<FenceInner>) -> Result {
        if state.signalled.is_due() {
            state.signalled.collect(self.reached());
            if state.signalled.want_marker(state.progress) {
                self.submit(state, id, id.device.marker(), id.queued_ns())?;
            }
        }
        state.signalled.hold(fence, state.progress + 1);
        Ok(())
    }

    /// The progress up to which fences may be released. It is the maximum for a lost device, as for
    /// all its fences.
    fn reached(&self) -> u64 {
        Some(self.progress.load()).filter(|reached| *reached != u64::MAX).unwrap_or(0)
    }

    fn submit_resident(
        &self,
        state: &mut State,
        id: &QueueIdentity,
        memories: &[&Arc<CommandMemory>],
        queued_ns: u64,
    ) -> Result {
        let submit_all = |state: &mut State| {
            memories.iter().try_for_each(|memory| self.submit(state, id, memory, queued_ns))
        };
        let Some(pager) = &self.pager else { return submit_all(state) };
        let held = pager.hold(id, memories.iter().map(|memory| &***memory))?;
        let at = |fence: &FenceInner, value| [FenceValue { fence: fence.instance.handle, value }];
        let waited = held
            .wait
            .map_or(Ok(()), |(fence, value)| self.queue_wait(state, id, &at(fence, value)));
        let submitted = waited.and_then(|()| submit_all(state));
        let released = held.release(id);
        submitted.and(released)
    }

    /// Submits what stood in the ring of a user-mode queue; `memory` is that of its command buffer.
    pub(crate) fn take_over(
        &self,
        id: &QueueIdentity,
        packet: &RingPacket,
        memory: Option<&Arc<CommandMemory>>,
        queued_ns: u64,
    ) -> Result {
        let mut state = self.state.lock_device();
        let at = |handle: u32, value| [FenceValue { fence: Handle(handle), value }];
        match (*packet, memory) {
            (RingPacket::Wait { value, fence_handle, .. }, _) => {
                self.queue_wait(&mut state, id, &at(fence_handle, value))
            }
            (RingPacket::Signal { value, fence_handle, .. }, _) => {
                self.queue_signal(&mut state, id, &at(fence_handle, value))
            }
            (RingPacket::Execute { .. } | RingPacket::ExecuteLogged { .. }, Some(memory)) => {
                self.submit_resident(&mut state, id, &[memory], queued_ns)
            }
            _ => Ok(()),
        }
    }

    fn queue_wait(&self, state: &mut State, id: &QueueIdentity, fences: &[FenceValue]) -> Result {
        state.ends_with_progress = false;
        let done = id.device.thunk.enter().submit_wait_to_hw_queue(self.hw_queue.handle(), fences);
        done.map_err(|s| Failure::Refused("D3DKMTSubmitWaitForSyncObjectsToHwQueue", s))
    }

    fn queue_signal(&self, state: &mut State, id: &QueueIdentity, fences: &[FenceValue]) -> Result {
        state.ends_with_progress = false;
        // An application may signal a lower value.
        let args = SubmitSignalToHwQueues {
            hw_queues: &[self.hw_queue.handle()],
            fences,
            flags: SignalFlags::ALLOW_FENCE_REWIND,
        };
        let done = id.device.thunk.enter().submit_signal_to_hw_queues(args);
        done.map_err(|s| Failure::Refused("D3DKMTSubmitSignalSyncObjectsToHwQueue", s))
    }

    fn submit(
        &self,
        state: &mut State,
        id: &QueueIdentity,
        memory: &Arc<CommandMemory>,
        queued_ns: u64,
    ) -> Result {
        id.device.platform.spend(Step::UmdEncode);
        let progress = state.progress + 1;
        // Held before the call: the engine may run it before the call is back.
        state.in_flight.hold(memory, progress, state.stats.submissions);
        let args = SubmitCommandToHwQueue {
            hw_queue: self.hw_queue.handle(),
            progress_fence_id: progress,
            commands_gpu_va: memory.gpu_va().0,
            command_bytes: memory.bytes,
        };
        let (key, queued) =
            (SubmissionKey::Completion(progress), Queued { at_ns: queued_ns, name: 0 });
        id.device.platform.note_queued(self.number, key, queued);
        let done = id.device.thunk.enter().submit_command_to_hw_queue(args);
        done.map_err(|s| Failure::Refused("D3DKMTSubmitCommandToHwQueue", s))?;
        state.progress = progress;
        state.stats.submissions += 1;
        state.ends_with_progress = true;
        Ok(())
    }

    pub(crate) fn wait(&self, id: &QueueIdentity, fence: &FenceInner, value: u64) -> Result {
        let mut state = self.state.lock_device();
        state.stats.waits += 1;
        self.queue_wait(&mut state, id, &[fence.at(value)])
    }

    pub(crate) fn signal(&self, id: &QueueIdentity, fence: &Arc<FenceInner>, value: u64) -> Result {
        let mut state = self.state.lock_device();
        state.stats.signals += 1;
        self.hold(&mut state, id, fence)?;
        self.queue_signal(&mut state, id, &[fence.at(value)])
    }

    /// Queues a flip behind all that the queue holds.
    pub(crate) fn present(
        &self,
        id: &QueueIdentity,
        args: impl FnOnce(PresentQueue) -> Present,
    ) -> Result {
        let mut state = self.state.lock_device();
        state.ends_with_progress = false;
        let done =
            id.device.thunk.enter().present(args(PresentQueue::HwQueue(self.hw_queue.handle())));
        done.map_err(|s| Failure::Refused("D3DKMTSubmitPresentToHwQueue", s))
    }

    pub(crate) fn wait_idle(&self, id: &QueueIdentity) -> crate::Result<()> {
        let (target, marked) = {
            let mut state = self.state.lock_device();
            let marked = match state.ends_with_progress {
                true => Ok(()),
                // Waits and signals have no progress value; an empty command buffer behind them
                // has.
                false => self.submit(&mut state, id, id.device.marker(), id.queued_ns()),
            };
            (state.progress, marked)
        };
        marked.map_err(|failure| id.error(failure))?;
        id.device.wait_for_progress(id, self.progress_fence, &self.progress, target)?;
        let reached = self.reached();
        self.state.lock_device().signalled.collect(reached);
        Ok(())
    }

    pub(crate) fn stats(&self) -> QueueStats {
        self.state.lock_device().stats
    }
}
