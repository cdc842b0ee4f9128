//! The backlog of a user-mode queue: submissions for which the ring had no room, in call order.
//!
//! While the backlog is not empty, every later submission queues behind it. A worker submits it as
//! the ring drains: it sleeps until the queue's progress has made room, and exits when the backlog
//! is empty. A later call also submits as much as fits, so a recreated queue continues immediately.
//! All of this runs under the queue's submitter lock (`user_queue`).
//!
//! The error of a submission in the backlog is returned by the next call of the queue.

use crate::counters::QueueStats;
use crate::umd::closed_list::ClosedList;
use crate::umd::command_memory::CommandMemory;
use crate::umd::failure::Failure;
use crate::umd::fence::FenceObject;
use crate::umd::submit::Unit;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use tidegate_d3dukmdt::fence_cell::FenceWait;
use tidegate_platform::{CpuTime, Platform, Queued};

/// A submission waiting for room.
pub(crate) struct Waiting {
    work: Work,
    pub(crate) queued: Queued,
}

enum Work {
    /// The lists, and references to their memory, by which an allocator sees that they are
    /// executing.
    Execute {
        lists: Vec<ClosedList>,
        _memories: Vec<Arc<CommandMemory>>,
    },
    /// A wait holds no fence and ends with it.
    Wait(Weak<FenceObject>, FenceWait),
    Signal(Arc<FenceObject>, u64),
    Marker,
}

impl Waiting {
    /// Calls `act` with the original submission. A wait keeps the epoch of its call. Returns `None`
    /// for a wait that has ended with its fence.
    pub(crate) fn with_unit<R>(&self, act: impl FnOnce(&Unit<'_>) -> R) -> Option<R> {
        Some(match &self.work {
            Work::Execute { lists, .. } => act(&Unit::Execute(&lists.iter().collect::<Vec<_>>())),
            Work::Wait(fence, wait) => act(&Unit::Wait(&fence.upgrade()?, *wait)),
            Work::Signal(fence, value) => act(&Unit::Signal(fence, *value)),
            Work::Marker => act(&Unit::Marker),
        })
    }
}

pub(crate) struct Backlog {
    waiting: VecDeque<Waiting>,
    /// Number of submissions that have left the backlog.
    left: u64,
    /// A worker is running.
    has_worker: bool,
    /// When it last became non-empty; `None` while it is empty.
    since: Option<CpuTime>,
    /// The failure to return from the next call.
    failed: Option<Failure>,
    /// Number of the application's submissions that were queued here, and how long it was
    /// non-empty.
    waits: u64,
    wait_ns: u64,
}

impl Backlog {
    pub(crate) fn new() -> Backlog {
        Backlog {
            waiting: VecDeque::new(),
            left: 0,
            has_worker: false,
            since: None,
            failed: None,
            waits: 0,
            wait_ns: 0,
        }
    }

    /// Appends a submission.
    pub(crate) fn put(&mut self, platform: &Platform, unit: &Unit<'_>, queued: Queued) {
        let work = match *unit {
            Unit::Execute(lists) => {
                let _memories = lists.iter().map(|list| Arc::clone(&list.memory)).collect();
                let lists = lists.iter().map(|list| (*list).clone()).collect();
                Work::Execute { lists, _memories }
            }
            Unit::Wait(fence, wait) => Work::Wait(Arc::downgrade(fence), wait),
            Unit::Signal(fence, value) => Work::Signal(Arc::clone(fence), value),
            Unit::Marker => Work::Marker,
        };
        // Markers come from `wait_idle`, which waits for the queue anyway.
        self.waits += u64::from(!matches!(work, Work::Marker));
        self.since.get_or_insert_with(|| platform.now());
        self.waiting.push_back(Waiting { work, queued });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the number of submissions that will have left when it is empty.
    pub(crate) fn end(&self) -> u64 {
        self.left + self.waiting.len() as u64
    }

    /// Returns whether its last submission has a progress value.
    pub(crate) fn ends_with_progress(&self) -> bool {
        self.waiting
            .back()
            .is_some_and(|last| matches!(last.work, Work::Execute { .. } | Work::Marker))
    }

    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        self.waiting.pop_front()
    }

    /// Puts a submission back at the front, because the ring has no room for it yet.
    pub(crate) fn put_back(&mut self, waiting: Waiting) {
        self.waiting.push_front(waiting);
    }

    /// Counts a submission that was submitted or refused.
    pub(crate) fn count_left(&mut self, platform: &Platform) {
        self.left += 1;
        if self.waiting.is_empty()
            && let Some(since) = self.since.take()
        {
            self.wait_ns += platform.now().since(since);
        }
    }

    /// Returns the number of submissions that have left.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Keeps a failure for the next call, unless there is an earlier one.
    pub(crate) fn keep_failure(&mut self, failure: Option<Failure>) {
        self.failed = self.failed.take().or(failure);
    }

    pub(crate) fn take_failure(&mut self) -> Option<Failure> {
        self.failed.take()
    }

    /// Returns whether the caller must start a worker, and marks it as started.
    pub(crate) fn wants_worker(&mut self) -> bool {
        !self.waiting.is_empty() && !std::mem::replace(&mut self.has_worker, true)
    }

    /// Marks the worker as ended.
    pub(crate) fn worker_ended(&mut self) {
        self.has_worker = false;
    }

    /// Adds its present and past contents to `stats`.
    pub(crate) fn add_to(&self, platform: &Platform, stats: &mut QueueStats) {
        stats.ring_waits += self.waits;
        stats.ring_wait_ns +=
            self.wait_ns + self.since.map_or(0, |since| platform.now().since(since));
        for waiting in &self.waiting {
            let ended = waiting.with_unit(|unit| unit.count_in(stats)).is_none();
            stats.waits += u64::from(ended);
        }
    }
}
