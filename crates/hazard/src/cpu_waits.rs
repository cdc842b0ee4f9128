//! Reports of blocking CPU threads, and the open waits of a check.
//!
//! When the first blocked wait is ended because the machine stopped, the findings of the open waits
//! are kept.

use crate::access::SpaceKey;
use crate::checker::{
    Armed, AtStop, Call, CallKind, Checker, CpuWait, CpuWaitOn, FenceKey, QueueKey, Timeline,
};
use crate::clock::TimelineId;
use crate::deadlock::FenceState;
use crate::fence::Fence;
use crate::finding::TimelineKind;
use crate::open_waits::{
    BlockedOn, BlockedThread, Findings, HeldCall, HeldQueue, NO_PLACE, OpenWaits,
};
use std::collections::BTreeSet;

impl Call {
    /// Returns the call as a held call, if it is a wait or a signal.
    pub(crate) fn held(&self) -> Option<HeldCall> {
        let (waits, fence, value) = match self.kind {
            CallKind::Execute { .. } | CallKind::MapTiles(_) => return None,
            CallKind::Wait { fence, value } => (true, fence, value),
            CallKind::Signal { fence, value } | CallKind::Present { fence, value, .. } => {
                (false, fence, value)
            }
        };
        Some(HeldCall { after: self.after, waits, of: (fence.0 as usize, value) })
    }
}

impl Checker {
    /// Reports that a CPU thread begins to block until all or any of several fences are reached.
    pub fn cpu_wait_begin(&mut self, thread: TimelineId, any: bool, of: Vec<(FenceKey, u64)>) {
        let on = CpuWaitOn::Fences(Armed { all: !any, of });
        self.cpu_waits.push(CpuWait { thread, on });
    }

    /// Reports that a CPU thread begins to block on an event.
    pub fn event_wait_begin(&mut self, thread: TimelineId, event: u64) {
        self.cpu_waits.push(CpuWait { thread, on: CpuWaitOn::Event(event) });
    }

    /// Reports that a CPU thread begins to block until a queue is idle.
    pub fn idle_wait_begin(&mut self, thread: TimelineId, queue: QueueKey) {
        self.cpu_waits.push(CpuWait { thread, on: CpuWaitOn::Idle(queue) });
    }

    /// Reports that a CPU thread no longer blocks. `stopped`: because the machine stopped or its
    /// run ended.
    pub fn cpu_wait_end(&mut self, thread: TimelineId, stopped: bool) {
        if stopped {
            self.keep_findings();
        }
        if let Some(at) = self.cpu_waits.iter().rposition(|wait| wait.thread == thread) {
            self.cpu_waits.remove(at);
        }
    }

    /// Keeps the findings of the open waits, once for each machine that stops.
    fn keep_findings(&mut self) {
        let of_devices = self.timelines.iter().filter(|of| of.kind != TimelineKind::Thread);
        let spaces = of_devices.map(|timeline| timeline.space);
        let living: BTreeSet<SpaceKey> =
            spaces.filter(|space| !self.ended.contains(space)).collect();
        let is_other = |stop: &AtStop| !living.is_empty() && stop.living.is_disjoint(&living);
        if self.at_stop.iter().all(is_other) {
            let findings = self.open_waits(None).findings().of_standstill();
            self.at_stop.push(AtStop { findings, living });
        }
    }

    /// Returns the findings kept when the machine stopped and the findings of waits that are open
    /// now. `only`: for this device, without findings of devices that have ended.
    pub(crate) fn wait_findings(&self, only: Option<SpaceKey>) -> Findings {
        let is_wanted = |stop: &&AtStop| only.is_none_or(|only| stop.living.contains(&only));
        let mut found = Findings::default();
        let at_stop = self.at_stop.iter().filter(is_wanted);
        at_stop.for_each(|stop| found.add(stop.findings.clone()));
        found.add(self.open_waits(only).findings());
        found
    }

    fn open_waits(&self, only: Option<SpaceKey>) -> OpenWaits {
        let is_gone = |timeline: &Timeline| {
            only.is_some_and(|only| only != timeline.space && self.ended.contains(&timeline.space))
        };
        let is_held = |index: &usize| {
            let timeline = &self.timelines[*index];
            !timeline.held.is_empty() && !is_gone(timeline)
        };
        let held: Vec<usize> = (0..self.timelines.len()).filter(is_held).collect();
        let queue = |index: &usize| {
            let Timeline { name, held, .. } = &self.timelines[*index];
            let calls = held.iter().filter_map(Call::held).collect();
            HeldQueue { name: name.clone(), calls }
        };
        let queues: Vec<HeldQueue> = held.iter().map(queue).collect();
        let thread = |wait: &CpuWait| {
            let name = self.timelines[wait.thread.0 as usize].name.clone();
            Some(BlockedThread { name, on: self.blocked_on(wait, &held)? })
        };
        let threads = self.cpu_waits.iter().filter_map(thread).collect();
        let state = |fence: &Fence| FenceState {
            name: fence.name.clone(),
            current: None,
            highest: fence.highest().map(|value| (value, NO_PLACE)),
        };
        let mut fences: Vec<FenceState<u32>> = self.fences.iter().map(state).collect();
        for call in queues.iter().flat_map(|queue| &queue.calls).filter(|call| !call.waits) {
            let highest = &mut fences[call.of.0].highest;
            *highest = (*highest).max(Some((call.of.1, NO_PLACE)));
        }
        OpenWaits { queues, threads, fences }
    }

    /// Returns the cause that blocks a thread, if no submitted signal ends its wait. `held`: the
    /// held queues.
    fn blocked_on(&self, wait: &CpuWait, held: &[usize]) -> Option<BlockedOn> {
        let clock = &self.timelines[wait.thread.0 as usize].clock;
        let is_met = |&(fence, value): &(FenceKey, u64)| {
            self.fences[fence.0 as usize].waited(value, clock).is_some()
        };
        let first_unmet = |armed: &Armed| {
            let unmet = armed.of.iter().copied().find(|need| !is_met(need))?;
            (armed.all || !armed.of.iter().any(is_met)).then_some(unmet)
        };
        let (fence, value) = match &wait.on {
            CpuWaitOn::Fences(armed) => first_unmet(armed)?,
            CpuWaitOn::Event(event) => {
                let state = self.events.get(event).filter(|state| state.set.is_none())?;
                let mut unmet = state.armed.iter().map(first_unmet);
                let first = unmet.next()??;
                unmet.all(|need| need.is_some()).then_some(first)?
            }
            CpuWaitOn::Idle(queue) => {
                let held = held.iter().position(|index| *index == queue.0.0 as usize)?;
                return Some(BlockedOn::Idle(held));
            }
        };
        Some(BlockedOn::Fence(fence.0 as usize, value))
    }
}
