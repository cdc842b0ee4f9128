//! Owns packet queues: a context whose packets the kernel's scheduler hands to the engine one at a
//! time. One execute is one packet, its lists joined into one command buffer.
//!
//! A context has no progress fence, so the user-mode driver has one of its own: a monitored fence
//! that the last command of each packet stores to; for an engine that cannot write a fence, a
//! software signal behind each packet. It says when command memory may be used again; waiting for
//! the queue goes by a software signal.

use crate::counters::QueueStats;
use crate::error::Result;
use crate::fence::FenceInner;
use crate::list::ClosedList;
use crate::umd::encode::{self, JOINED_EXTRA_BYTES};
use crate::umd::in_flight::InFlight;
use crate::umd::kernel_object::{Object, Owned};
use crate::umd::progress::FenceReader;
use crate::umd::residency::Pager;
use crate::umd::signalled_fences::SignalledFences;
use crate::umd::{EngineChoice, Failure, QueueIdentity};
use std::sync::Arc;
use tidegate_calls::{
    CreateContextVirtual, CreateMonitoredFence, FenceValue, Present, PresentQueue, Priority,
    SignalFlags, SignalFromGpu2, Status, SubmitCommand, SyncObjectFlags,
};
use tidegate_gpu_abi::GpuVa;
use tidegate_gpu_abi::ring::MAX_COMMAND_BYTES;
use tidegate_platform::{Mutex, QueueNumber, Queued, SubmissionKey};

struct State {
    /// The progress value given out last.
    progress: u64,
    in_flight: InFlight,
    /// Fences that signals are queued for, until the queue has signalled its progress behind them.
    signalled: SignalledFences,
    stats: QueueStats,
    /// A software signal of the progress fence is queued behind everything else.
    ends_with_signal: bool,
}

pub(crate) struct PacketQueue {
    progress: FenceReader,
    /// Where the engine stores progress; `None` when it cannot write a fence.
    progress_va: Option<GpuVa>,
    /// The kernel's.
    number: QueueNumber,
    context: Owned,
    progress_fence: Owned,
    pager: Option<Pager>,
    /// Last: it holds what the engine may use until the context has ended.
    state: Mutex<State>,
}

impl PacketQueue {
    pub(crate) fn new(
        id: &QueueIdentity,
        at: EngineChoice,
        priority: Priority,
    ) -> Result<PacketQueue> {
        let device = &*id.device;
        let failed = |call| move |status| id.error(Failure::Refused(call, status));
        let args = CreateMonitoredFence {
            device: device.handle(),
            initial_value: 0,
            flags: SyncObjectFlags::empty(),
            engine_affinity: 0,
            name: &format!("{} progress", id.name),
        };
        let fence = device.thunk.enter().create_monitored_fence(args);
        let fence = fence.map_err(failed("D3DKMTCreateSynchronizationObject2"))?;
        // A monitored fence always has a CPU address.
        let progress = fence.value.read_only().cloned();
        let progress = progress.ok_or(Status::NOT_SUPPORTED);
        let progress = progress.map_err(failed("D3DKMTCreateSynchronizationObject2"))?;
        let progress_fence = Owned::new(&device.thunk, Object::Fence, fence.handle);
        let args = CreateContextVirtual {
            device: device.handle(),
            node_ordinal: at.node_ordinal,
            engine_affinity: at.engine_affinity,
            priority,
            tag: id.tag,
        };
        let context = device.thunk.enter().create_context_virtual(args);
        let context = context.map_err(failed("D3DKMTCreateContextVirtual"))?;
        let state = State {
            progress: 0,
            in_flight: InFlight::new(),
            signalled: SignalledFences::new(),
            stats: QueueStats::default(),
            ends_with_signal: true,
        };
        Ok(PacketQueue {
            state: device.platform.mutex("submitter of a packet queue", state),
            pager: device.pager(id, priority).map_err(|failure| id.error(failure))?,
            progress: device.reader(progress, 0),
            progress_va: device.info.nodes[at.node_ordinal as usize]
                .writes_fences
                .then_some(GpuVa(fence.engine_va(&device.info))),
            number: id.register(context),
            context: Owned::new(&device.thunk, Object::Context, context),
            progress_fence,
        })
    }

    pub(crate) fn execute(
        &self,
        id: &QueueIdentity,
        lists: &[&ClosedList],
        queued_ns: u64,
    ) -> Result<()> {
        let mut state = self.state.lock_device();
        state.in_flight.collect(&self.progress);
        state.stats.executes += 1;
        let submitted = self.submit_resident(&mut state, id, lists, queued_ns);
        drop(state);
        submitted.map_err(|failure| id.error(failure))
    }

    fn submit_resident(
        &self,
        state: &mut State,
        id: &QueueIdentity,
        lists: &[&ClosedList],
        queued_ns: u64,
    ) -> std::result::Result<(), Failure> {
        let Some(pager) = &self.pager else { return self.submit_all(state, id, lists, queued_ns) };
        let held = pager.hold(id, lists.iter().map(|list| &*list.memory))?;
        let waited =
            held.wait.map_or(Ok(()), |(fence, value)| self.queue_wait(state, id, fence, value));
        let submitted = waited.and_then(|()| self.submit_all(state, id, lists, queued_ns));
        let released = held.release(id);
        submitted.and(released)
    }

    fn submit_all(
        &self,
        state: &mut State,
        id: &QueueIdentity,
        lists: &[&ClosedList],
        queued_ns: u64,
    ) -> std::result::Result<(), Failure> {
        packets(lists).try_for_each(|packet| self.submit(state, id, packet, queued_ns))
    }

    fn queue_wait(
        &self,
        state: &mut State,
        id: &QueueIdentity,
        fence: &FenceInner,
        value: u64,
    ) -> std::result::Result<(), Failure> {
        let fences = [FenceValue { fence: fence.instance.handle, value }];
        state.ends_with_signal = false;
        let done = id.device.thunk.enter().wait_from_gpu(self.context.handle(), &fences);
        done.map_err(|s| Failure::Refused("D3DKMTWaitForSynchronizationObjectFromGpu", s))
    }

    fn submit(
        &self,
        state: &mut State,
        id: &QueueIdentity,
        lists: &[&ClosedList],
        queued_ns: u64,
    ) -> std::result::Result<(), Failure> {
        let refused = |call| move |status: Status| Failure::Refused(call, status);
        let progress = state.progress + 1;
        let memory = encode::joined(id, lists, self.progress_va.map(|va| (va, progress)));
        let memory = memory.map_err(refused("D3DKMTCreateAllocation2"))?;
        // Held before the call: the engine may run it before the call is back.
        state.in_flight.hold(&memory, progress, state.stats.submissions);
        let args = SubmitCommand {
            context: self.context.handle(),
            commands_gpu_va: memory.gpu_va().0,
            command_bytes: memory.bytes,
        };
        let queued = Queued { at_ns: queued_ns, name: 0 };
        id.device.platform.note_queued(self.number, SubmissionKey::NextCall, queued);
        id.device.thunk.enter().submit_command(args).map_err(refused("D3DKMTSubmitCommand"))?;
        state.progress = progress;
        state.stats.submissions += 1;
        state.ends_with_signal = false;
        if self.progress_va.is_none() {
            self.signal_progress(state, id, progress)?;
        }
        Ok(())
    }

    /// Queues a software signal of the progress fence behind everything else.
    fn signal_progress(
        &self,
        state: &mut State,
        id: &QueueIdentity,
        progress: u64,
    ) -> std::result::Result<(), Failure> {
        let value = FenceValue { fence: self.progress_fence.handle(), value: progress };
        let signal = id.device.thunk.enter().signal_from_gpu(self.context.handle(), &[value]);
        signal.map_err(|s| Failure::Refused("D3DKMTSignalSynchronizationObjectFromGpu", s))?;
        state.progress = progress;
        state.ends_with_signal = true;
        Ok(())
    }

    /// Keeps `fence` until the queue reaches the progress value behind the signal that is queued
    /// next. When many fences are kept and no packet follows, a software signal of the progress
    /// fence is queued.
    fn hold(
        &self,
        state: &mut State,
        id: &QueueIdentity,
        fence: &Arc<FenceInner>,
    ) -> std::result::Result<(), Failure> {
        if state.signalled.is_due() {
            state.signalled.collect(self.reached());
            if state.signalled.want_marker(state.progress) {
                let progress = state.progress + 1;
                self.signal_progress(state, id, progress)?;
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

    pub(crate) fn wait(&self, id: &QueueIdentity, fence: &FenceInner, value: u64) -> Result<()> {
        let mut state = self.state.lock_device();
        state.stats.waits += 1;
        let done = self.queue_wait(&mut state, id, fence, value);
        drop(state);
        done.map_err(|failure| id.error(failure))
    }

    // spec: MF-022
    /// Queues a software signal: an engine that gets packets does not write the fences of others by
    /// itself.
    pub(crate) fn signal(
        &self,
        id: &QueueIdentity,
        fence: &Arc<FenceInner>,
        value: u64,
    ) -> Result<()> {
        let mut state = self.state.lock_device();
        state.stats.signals += 1;
        let done = self.queue_signal(&mut state, id, fence, value);
        drop(state);
        done.map_err(|failure| id.error(failure))
    }

    fn queue_signal(
        &self,
        state: &mut State,
        id: &QueueIdentity,
        fence: &Arc<FenceInner>,
        value: u64,
    ) -> std::result::Result<(), Failure> {
        self.hold(state, id, fence)?;
        state.ends_with_signal = false;
        let fences = [fence.at(value)];
        // An application may signal a lower value.
        let args = SignalFromGpu2 {
            contexts: &[self.context.handle()],
            fences: &fences,
            flags: SignalFlags::ALLOW_FENCE_REWIND,
            cpu_event: None,
        };
        let done = id.device.thunk.enter().signal_from_gpu2(args);
        done.map_err(|s| Failure::Refused("D3DKMTSignalSynchronizationObjectFromGpu2", s))
    }

    /// Queues a flip behind all that the queue holds.
    pub(crate) fn present(
        &self,
        id: &QueueIdentity,
        args: impl FnOnce(PresentQueue) -> Present,
    ) -> Result<()> {
        let mut state = self.state.lock_device();
        state.ends_with_signal = false;
        let done =
            id.device.thunk.enter().present(args(PresentQueue::Context(self.context.handle())));
        drop(state);
        done.map_err(|s| id.error(Failure::Refused("D3DKMTPresent", s)))
    }

    pub(crate) fn wait_idle(&self, id: &QueueIdentity) -> Result<()> {
        let fence = self.progress_fence.handle();
        let (target, marked) = {
            let mut state = self.state.lock_device();
            let next = state.progress + 1;
            let marked = match state.ends_with_signal {
                true => Ok(()),
                false => self.signal_progress(&mut state, id, next),
            };
            (state.progress, marked)
        };
        marked.map_err(|failure| id.error(failure))?;
        id.device.wait_for_progress(id, fence, &self.progress, target)?;
        let reached = self.reached();
        self.state.lock_device().signalled.collect(reached);
        Ok(())
    }

    pub(crate) fn stats(&self) -> QueueStats {
        self.state.lock_device().stats
    }
}

/// `lists` in as few packets as their length allows: almost always one.
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
