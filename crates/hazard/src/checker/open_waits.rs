//! The waits that the submitted calls leave open, and the deadlocks among them.
//!
//! A queue is held at a wait that no submitted signal satisfies on the ideal machine. Waits of CPU
//! threads are registered while they block. When the first of them is ended by a stop of the
//! machine, the open waits are those of the standstill, and their findings are kept.
//!
//! A program that still submits may end each open wait. So its circles count only where each wait
//! has a queued signal of its very value: see [`Report::deadlocks`].

use super::{Call, CallKind, Checker, FenceKey, QueueKey, Timeline};
use crate::clock::TimelineId;
use crate::deadlock::{
    Awaits, Deadlock, DeadlockKind, FenceState, Match, Place, QueuedSignal, WaitLink, Waiter, find,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The place of a wait of a CPU thread.
const NO_PLACE: u32 = u32::MAX;

/// Waits of CPU threads, and the findings of a standstill.
#[derive(Debug, Default)]
pub(super) struct CpuWaits {
    open: Vec<CpuWait>,
    at_stop: Option<Findings>,
}

#[derive(Debug)]
struct CpuWait {
    thread: TimelineId,
    of: Registered,
}

#[derive(Debug)]
enum Registered {
    Fences {
        any: bool,
        of: Vec<(FenceKey, u64)>,
    },
    Event(u64),
    /// Until this queue is idle.
    Idle(QueueKey),
}

/// Deadlocks, and waits without a signal.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    pub(super) deadlocks: Vec<Deadlock>,
    pub(super) unsignalled: Vec<Deadlock>,
}

impl Findings {
    /// Adds findings whose roots are new.
    fn add(&mut self, more: Findings) {
        let kept = self.deadlocks.iter().chain(&self.unsignalled);
        let known: HashSet<Root> = kept.map(root).collect();
        let is_new = |finding: &Deadlock| !known.contains(&root(finding));
        self.deadlocks.extend(more.deadlocks.into_iter().filter(is_new));
        self.unsignalled.extend(more.unsignalled.into_iter().filter(is_new));
    }
}

/// What two findings of one cause have in common: the circle, or the last wait.
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

/// The fence and value of a call that signals.
fn signal_of(call: &Call) -> Option<(FenceKey, u64)> {
    match call.kind {
        CallKind::Signal { fence, value } | CallKind::Present { fence, value, .. } => {
            Some((fence, value))
        }
        CallKind::Execute { .. } | CallKind::Wait { .. } => None,
    }
}

fn wait_of(call: &Call) -> Option<(FenceKey, u64)> {
    match call.kind {
        CallKind::Wait { fence, value } => Some((fence, value)),
        _ => None,
    }
}

fn thread(timeline: &Timeline, awaits: Awaits) -> Waiter<u32> {
    let (noun, name) = ("thread", timeline.name.clone());
    Waiter { noun, name, at: NO_PLACE, awaits, signals: Vec::new() }
}

impl Checker {
    /// Reports that a CPU thread begins to block until all or any of several fences are reached.
    pub fn cpu_wait_begin(&mut self, thread: TimelineId, any: bool, of: Vec<(FenceKey, u64)>) {
        self.cpu_waits.open.push(CpuWait { thread, of: Registered::Fences { any, of } });
    }

    /// Reports that a CPU thread begins to block on an event.
    pub fn event_wait_begin(&mut self, thread: TimelineId, event: u64) {
        self.cpu_waits.open.push(CpuWait { thread, of: Registered::Event(event) });
    }

    /// Reports that a CPU thread begins to block until a queue is idle.
    pub fn idle_wait_begin(&mut self, thread: TimelineId, queue: QueueKey) {
        self.cpu_waits.open.push(CpuWait { thread, of: Registered::Idle(queue) });
    }

    /// Reports that a CPU thread blocks no more. `stopped`: because the machine stands still, or
    /// because its run ends.
    pub fn cpu_wait_end(&mut self, thread: TimelineId, stopped: bool) {
        if stopped && self.cpu_waits.at_stop.is_none() {
            let mut found = self.open_waits();
            // Nothing moves, so a circle through higher values is one too.
            let unsignalled = std::mem::take(&mut found.unsignalled);
            let (circles, missing) =
                unsignalled.into_iter().partition(|of| of.kind == DeadlockKind::Circle);
            found.deadlocks.extend::<Vec<Deadlock>>(circles);
            found.unsignalled = missing;
            self.cpu_waits.at_stop = Some(found);
        }
        let open = &mut self.cpu_waits.open;
        if let Some(at) = open.iter().rposition(|wait| wait.thread == thread) {
            open.remove(at);
        }
    }

    /// Returns the findings of the standstill, and of the waits that are open now.
    pub(super) fn wait_findings(&self) -> Findings {
        let mut found = self.cpu_waits.at_stop.clone().unwrap_or_default();
        found.add(self.open_waits());
        found
    }

    fn open_waits(&self) -> Findings {
        let states = self.fence_states();
        let stops = self.circular_stops();
        let circular: Vec<Waiter<u32>> =
            stops.iter().map(|(queue, position)| self.queue_waiter(*queue, *position)).collect();
        let circles = find(&circular, &states, Match::Exact, place_of);
        let held: Vec<usize> = (0..self.timelines.len())
            .filter(|index| !self.timelines[*index].held.is_empty())
            .collect();
        let mut waiters: Vec<Waiter<u32>> =
            held.iter().map(|index| self.queue_waiter(*index, 0)).collect();
        let threads = self.cpu_waits.open.iter();
        waiters.extend(threads.filter_map(|wait| self.thread_waiter(wait, &held)));
        let roots: HashSet<Root> = circles.iter().map(root).collect();
        let mut found = Findings::default();
        let all = find(&waiters, &states, Match::Reaches, place_of);
        let (certain, other): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|finding| roots.contains(&root(finding)));
        // With the threads that wait for the circle.
        found.deadlocks = certain;
        found.unsignalled = other;
        found.add(Findings { deadlocks: circles, unsignalled: Vec::new() });
        found
    }

    /// Returns the wait of a queue at this place of its held calls, with the signals behind it.
    fn queue_waiter(&self, queue: usize, position: usize) -> Waiter<u32> {
        let timeline = &self.timelines[queue];
        let behind = timeline.held.iter().skip(position);
        let signals = behind.filter_map(|call| {
            let (fence, value) = signal_of(call)?;
            let (fence, at) = (fence.0 as usize, call.after);
            Some(QueuedSignal { fence, value, at, is_the_wait: false })
        });
        let wait = timeline.held.get(position);
        let awaits = match wait.and_then(wait_of) {
            Some((fence, value)) => Awaits::Fence(fence.0 as usize, value),
            None => Awaits::Other("its turn".to_owned()),
        };
        Waiter {
            noun: "queue",
            name: timeline.name.clone(),
            at: wait.map_or(NO_PLACE, |call| call.after),
            awaits,
            signals: signals.collect(),
        }
    }

    /// Returns the wait of a thread, if no submitted signal ends it. `held`: the queues among the
    /// waiters.
    fn thread_waiter(&self, wait: &CpuWait, held: &[usize]) -> Option<Waiter<u32>> {
        let timeline = &self.timelines[wait.thread.0 as usize];
        let is_met = |&(fence, value): &(FenceKey, u64)| {
            self.fences[fence.0 as usize].waited(value, &timeline.clock).is_some()
        };
        let first_unmet = |any: bool, of: &[(FenceKey, u64)]| {
            let unmet = of.iter().copied().find(|need| !is_met(need))?;
            (!any || !of.iter().any(is_met)).then_some(unmet)
        };
        let need = match &wait.of {
            Registered::Fences { any, of } => first_unmet(*any, of)?,
            Registered::Event(event) => {
                let state = self.events.get(event).filter(|state| state.set.is_none())?;
                let mut unmet = state.armed.iter().map(|armed| first_unmet(!armed.all, &armed.of));
                let first = unmet.next()??;
                unmet.all(|need| need.is_some()).then_some(first)?
            }
            Registered::Idle(queue) => {
                let queue = held.iter().position(|index| *index == queue.0.0 as usize)?;
                let name = &self.timelines[held[queue]].name;
                let what = format!("queue '{name}' to be idle");
                return Some(thread(timeline, Awaits::Progress { what, queue: Some(queue) }));
            }
        };
        Some(thread(timeline, Awaits::Fence(need.0.0 as usize, need.1)))
    }

    fn fence_states(&self) -> Vec<FenceState<u32>> {
        let state = |fence: &crate::fence::Fence| FenceState {
            name: fence.name.clone(),
            current: None,
            highest: fence.highest().map(|value| (value, NO_PLACE)),
        };
        let mut states: Vec<FenceState<u32>> = self.fences.iter().map(state).collect();
        for call in self.timelines.iter().flat_map(|timeline| &timeline.held) {
            let Some((fence, value)) = signal_of(call) else { continue };
            let highest = &mut states[fence.0 as usize].highest;
            *highest = (*highest).max(Some((value, NO_PLACE)));
        }
        states
    }

    /// Returns the queues that a circle holds, with the position of the wait in their held calls.
    ///
    /// A wait without a queued signal of its very value is taken to end: a later call may end it.
    /// Then the held calls are run, and no signal is ever hidden by a rewind. What stops even so
    /// waits in a circle, or for one.
    fn circular_stops(&self) -> Vec<(usize, usize)> {
        let held = |queue: usize| &self.timelines[queue].held;
        let queues: Vec<usize> =
            (0..self.timelines.len()).filter(|queue| !held(*queue).is_empty()).collect();
        let mut waits: HashMap<FenceKey, BTreeMap<u64, Vec<(usize, usize)>>> = HashMap::new();
        let mut signalled: HashSet<(FenceKey, u64)> = HashSet::new();
        for queue in &queues {
            for (position, call) in held(*queue).iter().enumerate() {
                signalled.extend(signal_of(call));
                if let Some((fence, value)) = wait_of(call) {
                    let of_fence = waits.entry(fence).or_default();
                    of_fence.entry(value).or_default().push((*queue, position));
                }
            }
        }
        let mut ended: HashSet<(usize, usize)> = HashSet::new();
        let mut reached: HashMap<usize, usize> = queues.iter().map(|queue| (*queue, 0)).collect();
        let mut runnable = queues.clone();
        while let Some(queue) = runnable.pop() {
            let mut position = reached[&queue];
            while let Some(call) = held(queue).get(position) {
                let holds = wait_of(call).is_some_and(|need| signalled.contains(&need));
                if holds && !ended.contains(&(queue, position)) {
                    break;
                }
                position += 1;
                let Some((fence, value)) = signal_of(call) else { continue };
                let Some(of_fence) = waits.get_mut(&fence) else { continue };
                let higher = value.checked_add(1).map(|above| of_fence.split_off(&above));
                let met = std::mem::replace(of_fence, higher.unwrap_or_default());
                for wait in met.into_values().flatten() {
                    ended.insert(wait);
                    runnable.push(wait.0);
                }
            }
            reached.insert(queue, position);
        }
        let stops = queues.into_iter().map(|queue| (queue, reached[&queue]));
        stops.filter(|(queue, position)| *position < held(*queue).len()).collect()
    }
}
