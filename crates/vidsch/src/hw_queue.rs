//! Hardware queues whose commands the kernel submits.
//!
//! Up to MaxInFlightHwQueueBuffers commands are in flight per queue. The progress fence reports
//! their completion: the caller reads it under the lock and passes its value. A signal at the head
//! of the queue waits for all commands in flight.

use crate::config::Now;
use crate::queue::{CommandKind, HwQueueState, Payload, SoftwareQueue, Work};
use crate::scheduler::{DueCommand, HwQueueEffect, VidSch};
use tidegate_ddi::OsHandle;

impl HwQueueState {
    fn complete_up_to(&mut self, progress: u64) {
        self.completed = progress;
        while self.in_flight.front().is_some_and(|id| *id <= progress) {
            self.in_flight.pop_front();
        }
    }

    /// Requests a wake-up at a progress value, unless an earlier one is pending.
    fn await_progress<P: Payload>(&mut self, value: u64) -> Option<HwQueueEffect<P>> {
        if self.awaited > self.completed {
            return None;
        }
        self.awaited = value;
        Some(HwQueueEffect::AwaitProgress(value))
    }
}

impl<P: Payload> VidSch<P> {
    /// Returns the next effect of a hardware queue whose progress fence is at `progress`. If there
    /// is none, the queue's submission right is released.
    // spec: HS-012
    pub fn next_hw_queue_effect(
        &mut self,
        queue: OsHandle,
        progress: u64,
        now: Now,
    ) -> Option<HwQueueEffect<P>> {
        let effect = self.decide_hw_queue(queue, progress, now);
        if effect.is_none()
            && let Some(state) = self.hw_queue_mut(queue)
        {
            state.right.release();
        }
        effect
    }

    fn decide_hw_queue(
        &mut self,
        handle: OsHandle,
        progress: u64,
        now: Now,
    ) -> Option<HwQueueEffect<P>> {
        self.hw_queue_mut(handle)?.complete_up_to(progress);
        self.advance(handle, now);
        while let Some(ticket) = self.hw_queue_mut(handle)?.due_signals.pop_front() {
            if let Some((queues, signal)) = self.take_due_signal(ticket, now) {
                return Some(HwQueueEffect::Signal { queues, signal });
            }
        }
        let queue = self.queues.get_mut(&handle)?;
        if queue.signalling {
            return None;
        }
        let head = queue.items.front()?;
        let command = match &head.work {
            Work::Command(command) => *command,
            Work::Signal { reached: false, .. } => {
                let state = queue.hw_queue_mut()?;
                return state.await_progress(state.submitted);
            }
            Work::Signal { .. } | Work::Wait { .. } => return None,
        };
        let state = queue.hw_queue_mut()?;
        if state.in_flight.len() >= state.max_in_flight {
            // Wait until half of the limit is free, so that one wake-up serves many commands.
            return state.await_progress(state.in_flight[state.in_flight.len() / 2]);
        }
        let CommandKind::HwQueue { progress_fence_id } = command.kind else { return None };
        (state.submitted, state.submitted_ns) = (progress_fence_id, now.stamp_ns);
        state.in_flight.push_back(progress_fence_id);
        queue.items.pop_front();
        Some(HwQueueEffect::Submit(DueCommand { command, progress_fence_id }))
    }

    fn hw_queue_mut(&mut self, queue: OsHandle) -> Option<&mut HwQueueState> {
        self.queues.get_mut(&queue)?.hw_queue_mut()
    }

    fn hw_queue(&self, queue: OsHandle) -> Option<&HwQueueState> {
        self.queues.get(&queue)?.hw_queue()
    }

    /// Returns the progress value of the last queued command.
    pub fn announced_progress(&self, queue: OsHandle) -> u64 {
        self.hw_queue(queue).map_or(0, |state| state.announced)
    }

    /// Returns progress value and submission time (in nanoseconds) of the last submitted command.
    pub fn submitted_progress(&self, queue: OsHandle) -> (u64, u64) {
        self.hw_queue(queue).map_or((0, 0), |state| (state.submitted, state.submitted_ns))
    }

    /// Returns the progress value of the oldest command in flight if the fence is at `progress`.
    pub fn oldest_in_flight(&self, queue: OsHandle, progress: u64) -> Option<u64> {
        self.hw_queue(queue)?.in_flight.iter().find(|id| **id > progress).copied()
    }

    /// Whether a queue has work that was not submitted.
    pub fn holds_work(&self, queue: OsHandle) -> bool {
        self.queues.get(&queue).is_some_and(|queue| !queue.items.is_empty())
    }

    /// Returns the fences of the signals on a queue.
    pub fn queued_signals(&self, queue: OsHandle) -> impl Iterator<Item = &P::Fence> {
        self.queues.get(&queue).into_iter().flat_map(|queue| self.signals_of(queue))
    }

    pub(crate) fn signals_of<'a>(
        &'a self,
        queue: &'a SoftwareQueue<P::Fence>,
    ) -> impl Iterator<Item = &'a P::Fence> {
        let is_signal = |work: &Work<_>| matches!(work, Work::Signal { .. });
        let items = queue.items.iter().filter(move |item| is_signal(&item.work));
        let signals = items.filter_map(|item| self.signals.get(&item.ticket));
        signals.flat_map(|queued| queued.signal.fences())
    }
}
