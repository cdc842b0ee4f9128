//! The open waits of the submitted calls, and the deadlocks among them.
//!
//! The input is the calls of held queues, from the unsatisfied wait on, and the waits of blocked
//! CPU threads. A program that still submits may end each open wait. So a circle counts only if
//! each of its waits has a queued signal of exactly the awaited value: see
//! [`crate::Report::deadlocks`].

use crate::deadlock::{
    Awaits, Deadlock, DeadlockKind, FenceState, Match, Place, QueuedSignal, WaitLink, Waiter, find,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The place of a wait of a CPU thread.
pub(crate) const NO_PLACE: u32 = u32::MAX;

/// A queue held at a wait.
#[derive(Debug)]
pub(crate) struct HeldQueue {
    pub(crate) name: String,
    /// Its waits and signals, from that wait on.
    pub(crate) calls: Vec<HeldCall>,
}

/// A wait or signal of a held queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldCall {
    /// The number of submissions of its queue before it.
    pub(crate) after: u32,
    pub(crate) waits: bool,
    /// The fence and the value.
    pub(crate) of: (usize, u64),
}

/// A blocked CPU thread.
#[derive(Debug)]
pub(crate) struct BlockedThread {
    pub(crate) name: String,
    pub(crate) on: BlockedOn,
}

/// The cause that blocks a thread: a condition that no submitted signal satisfies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BlockedOn {
    Fence(usize, u64),
    /// The held queue of this index becomes idle.
    Idle(usize),
}

/// All open waits.
#[derive(Debug)]
pub(crate) struct OpenWaits {
    pub(crate) queues: Vec<HeldQueue>,
    pub(crate) threads: Vec<BlockedThread>,
    pub(crate) fences: Vec<FenceState<u32>>,
}

/// Deadlocks, and waits without a signal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) deadlocks: Vec<Deadlock>,
    pub(crate) unsignalled: Vec<Deadlock>,
}

impl Findings {
    /// Adds findings whose roots are new.
    pub(crate) fn add(&mut self, more: Findings) {
        let kept = self.deadlocks.iter().chain(&self.unsignalled);
        let known: HashSet<Root> = kept.map(root).collect();
        let is_new = |finding: &Deadlock| !known.contains(&root(finding));
        self.deadlocks.extend(more.deadlocks.into_iter().filter(is_new));
        self.unsignalled.extend(more.unsignalled.into_iter().filter(is_new));
    }

    /// Converts the findings for a stopped machine, where a circle through higher values is also a
    /// deadlock.
    pub(crate) fn of_standstill(mut self) -> Findings {
        let is_circle = |of: &Deadlock| of.kind == DeadlockKind::Circle;
        let (circles, missing): (Vec<_>, Vec<_>) =
            self.unsignalled.into_iter().partition(is_circle);
        self.deadlocks.extend(circles);
        Findings { deadlocks: self.deadlocks, unsignalled: missing }
    }
}

/// The key of a finding's cause: the circle, or the last wait.
type Root = Vec<(String, Place, String)>;

fn root(finding: &Deadlock) -> Root {
    let of =
        |link: &WaitLink| (link.waiter.clone(), link.place.clone(), format!("{:?}", link.awaits));
    let mut root: Root = match finding.kind {
        DeadlockKind::Circle => finding.chain.iter().map(of).collect(),
        DeadlockKind::Unsignalled => finding.chain.last().map(of).into_iter().collect(),
    };
    root.sort_by(|a, b| (&a.0, &a.2).cmp(&(&b.0, &b.2)));
    root
}

fn place_of(at: &u32) -> Place {
    if *at == NO_PLACE { Place::Unknown } else { Place::Submission(*at) }
}

impl OpenWaits {
    /// Finds the deadlocks and the other open waits.
    pub(crate) fn findings(&self) -> Findings {
        let stops = self.circular_stops();
        let circular: Vec<Waiter<u32>> =
            stops.iter().map(|(queue, position)| self.queue_waiter(*queue, *position)).collect();
        let circles = find(&circular, &self.fences, Match::Exact, place_of);
        let mut waiters: Vec<Waiter<u32>> =
            (0..self.queues.len()).map(|queue| self.queue_waiter(queue, 0)).collect();
        waiters.extend(self.threads.iter().map(|thread| self.thread_waiter(thread)));
        let roots: HashSet<Root> = circles.iter().map(root).collect();
        let all = find(&waiters, &self.fences, Match::Reaches, place_of);
        // Threads that wait for a circle belong to its finding.
        let (deadlocks, unsignalled): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|finding| roots.contains(&root(finding)));
        let mut found = Findings { deadlocks, unsignalled };
        found.add(Findings { deadlocks: circles, unsignalled: Vec::new() });
        found
    }

    /// Returns the wait of a queue at this position in its calls, with the signals behind it.
    fn queue_waiter(&self, queue: usize, position: usize) -> Waiter<u32> {
        let HeldQueue { name, calls } = &self.queues[queue];
        let signals = calls[position..].iter().filter(|call| !call.waits).map(|call| {
            let (fence, value) = call.of;
            QueuedSignal { fence, value, at: call.after, is_the_wait: false }
        });
        let HeldCall { after: at, of: (fence, value), .. } = calls[position];
        let awaits = Awaits::Fence(fence, value);
        Waiter { noun: "queue", name: name.clone(), at, awaits, signals: signals.collect() }
    }

    fn thread_waiter(&self, thread: &BlockedThread) -> Waiter<u32> {
        let awaits = match thread.on {
            BlockedOn::Fence(fence, value) => Awaits::Fence(fence, value),
            BlockedOn::Idle(queue) => {
                let what = format!("queue '{}' to be idle", self.queues[queue].name);
                Awaits::Progress { what, queue: Some(queue) }
            }
        };
        let (name, signals) = (thread.name.clone(), Vec::new());
        Waiter { noun: "thread", name, at: NO_PLACE, awaits, signals }
    }

    /// Returns the queues that a circle holds, with the position of the wait in their calls.
    ///
    /// A wait without a queued signal of exactly its value is assumed to end, because a later call
    /// may end it. The calls are then run, ignoring rewinds. A queue that still stops is in a
    /// circle, or waits for one.
    fn circular_stops(&self) -> Vec<(usize, usize)> {
        let mut waits: HashMap<usize, BTreeMap<u64, Vec<(usize, usize)>>> = HashMap::new();
        let mut signalled: HashSet<(usize, u64)> = HashSet::new();
        for (queue, held) in self.queues.iter().enumerate() {
            for (position, call) in held.calls.iter().enumerate() {
                if call.waits {
                    let of_fence = waits.entry(call.of.0).or_default();
                    of_fence.entry(call.of.1).or_default().push((queue, position));
                } else {
                    signalled.insert(call.of);
                }
            }
        }
        let mut ended: HashSet<(usize, usize)> = HashSet::new();
        let mut reached = vec![0; self.queues.len()];
        let mut runnable: Vec<usize> = (0..self.queues.len()).collect();
        while let Some(queue) = runnable.pop() {
            let mut position = reached[queue];
            while let Some(call) = self.queues[queue].calls.get(position) {
                let holds = call.waits && signalled.contains(&call.of);
                if holds && !ended.contains(&(queue, position)) {
                    break;
                }
                position += 1;
                let Some(of_fence) = waits.get_mut(&call.of.0).filter(|_| !call.waits) else {
                    continue;
                };
                let higher = call.of.1.checked_add(1).map(|above| of_fence.split_off(&above));
                let met = std::mem::replace(of_fence, higher.unwrap_or_default());
                for wait in met.into_values().flatten() {
                    ended.insert(wait);
                    runnable.push(wait.0);
                }
            }
            reached[queue] = position;
        }
        let stops = reached.into_iter().enumerate();
        stops.filter(|(queue, position)| *position < self.queues[*queue].calls.len()).collect()
    }
}
