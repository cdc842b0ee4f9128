//! The state of a check: timelines, fences, address spaces, and the hazards found.
//!
//! A queue's calls are advanced on an ideal machine: a wait holds its queue until a signal
//! satisfies it, everything else takes no time. An access by a held submission shows that the
//! checker lacks a signal, such as one of another process. The queue is then advanced without that
//! edge.
//!
//! Invariant: a timeline's tick increases with each release, so a released clock does not cover
//! later operations.

use crate::access::{Access, CommandRef, ListInfo, SpaceKey, Submission, Table};
use crate::clock::{Clock, Epoch, Place, TimelineId};
use crate::fence::{Fence, Relay, Signal};
use crate::finding::TimelineKind;
use crate::footprint::AccessKind;
use crate::groups::Groups;
use crate::open_waits::Findings;
use crate::resources::{ResourceKey, Resources};
use crate::shadow::{AccessId, Found, Shadow};
use crate::tiles_of_spaces::TilesOfSpaces;
use crate::waits::Waits;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

mod report;
#[cfg(test)]
mod tests;
mod threads;

/// Size of the access table at which unused accesses are first dropped.
const FIRST_SWEEP: usize = 1 << 16;
/// Number of recent submissions per queue whose accesses may still arrive.
const RECENT_SUBMISSIONS: usize = 4096;

/// A queue of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueueKey(pub(crate) TimelineId);

impl QueueKey {
    /// Returns its timeline.
    pub fn timeline(self) -> TimelineId {
        self.0
    }
}

/// A fence of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FenceKey(pub(crate) u32);

#[derive(Debug)]
pub(crate) struct Timeline {
    pub(crate) name: String,
    pub(crate) kind: TimelineKind,
    pub(crate) clock: Clock,
    /// A shared copy of the clock for releases, while the clock is unchanged.
    pub(crate) snapshot: Option<Arc<Clock>>,
    /// Whether all of its synchronisation is reported.
    pub(crate) exact: bool,
    /// Calls held from an unsatisfied wait on.
    pub(crate) held: VecDeque<Call>,
    pub(crate) space: SpaceKey,
    pub(crate) submissions: u32,
    pub(crate) recent: VecDeque<u32>,
    pub(crate) presents: VecDeque<PresentRead>,
    pub(crate) waits: Waits,
}

impl Timeline {
    fn new(kind: TimelineKind, name: String, space: SpaceKey) -> Timeline {
        Timeline {
            name,
            kind,
            clock: Clock::default(),
            snapshot: None,
            exact: true,
            held: VecDeque::new(),
            space,
            submissions: 0,
            recent: VecDeque::new(),
            presents: VecDeque::new(),
            waits: Waits::default(),
        }
    }

    fn snapshot(&mut self) -> Arc<Clock> {
        let clock = &self.clock;
        Arc::clone(self.snapshot.get_or_insert_with(|| Arc::new(clock.clone())))
    }

    fn join(&mut self, other: &Clock) {
        if self.clock.join(other) {
            self.snapshot = None;
        }
    }

    fn advance(&mut self, id: TimelineId) -> u32 {
        self.snapshot = None;
        self.clock.advance(id)
    }
}

/// A read by the display. It is added when the queue continues, so that the histories of its bytes
/// are up to date.
#[derive(Debug)]
pub(crate) struct PresentRead {
    /// The queue's last tick before the present.
    tick: u32,
    space: SpaceKey,
    access: Access,
    bytes: Range<u64>,
}

/// A call of a queue.
#[derive(Debug)]
pub(crate) struct Call {
    /// The call on its CPU thread.
    pub(crate) issued: Place,
    /// Its number among all calls.
    pub(crate) sequence: u64,
    /// The number of submissions of its queue before the call.
    pub(crate) after: u32,
    pub(crate) kind: CallKind,
}

#[derive(Debug)]
pub(crate) enum CallKind {
    Execute { link: u32, submission: u32, lists: Vec<ListInfo> },
    Wait { fence: FenceKey, value: u64 },
    Signal { fence: FenceKey, value: u64 },
    MapTiles(Vec<(Range<u64>, Option<u64>)>),
    Present { display: TimelineId, fence: FenceKey, value: u64, bytes: Range<u64> },
}

#[derive(Debug)]
enum Link {
    Held(TimelineId),
    Placed(Arc<Submission>),
}

/// The sources that set an event of the application.
#[derive(Debug, Default)]
pub(crate) struct EventState {
    pub(crate) armed: Vec<Armed>,
    pub(crate) set: Option<Arc<Clock>>,
}

/// A registration of an event on fences.
#[derive(Debug)]
pub(crate) struct Armed {
    pub(crate) all: bool,
    pub(crate) of: Vec<(FenceKey, u64)>,
}

impl Armed {
    fn note_waits(&self, fences: &mut [Fence], waiter: TimelineId, clock: &Clock) {
        for (fence, value) in &self.of {
            fences[fence.0 as usize].note_wait(*value, waiter, clock);
        }
    }

    /// Returns the operations that certainly precede its end, for a waiter with this clock.
    fn seen(&self, fences: &[Fence], clock: &Clock) -> Option<Clock> {
        let mut seen = self
            .of
            .iter()
            .filter_map(|(fence, value)| fences[fence.0 as usize].waited(*value, clock));
        if self.all {
            let mut joined = (*seen.next()?).clone();
            seen.for_each(|other| _ = joined.join(&other));
            return Some(joined);
        }
        meet(seen.map(|seen| (*seen).clone()))
    }
}

fn meet(mut of: impl Iterator<Item = Clock>) -> Option<Clock> {
    let mut common = of.next()?;
    of.for_each(|other| common.meet(&other));
    Some(common)
}

/// A blocking wait of a CPU thread.
#[derive(Debug)]
pub(crate) struct CpuWait {
    pub(crate) thread: TimelineId,
    pub(crate) on: CpuWaitOn,
}

#[derive(Debug)]
pub(crate) enum CpuWaitOn {
    Fences(Armed),
    Event(u64),
    Idle(QueueKey),
}

/// The findings of the open waits when the machine stopped.
#[derive(Debug)]
pub(crate) struct AtStop {
    pub(crate) findings: Findings,
    /// The address spaces of devices that had not ended.
    pub(crate) living: BTreeSet<SpaceKey>,
}

/// The state of a check.
#[derive(Debug, Default)]
pub struct Checker {
    pub(crate) timelines: Vec<Timeline>,
    threads: HashMap<u64, TimelineId>,
    /// The operations of inexact threads, and the operations of all threads before them.
    inexact: Option<(Clock, Clock)>,
    pub(crate) fences: Vec<Fence>,
    fence_numbers: HashMap<u64, FenceKey>,
    links: HashMap<u32, Link>,
    pub(crate) events: HashMap<u64, EventState>,
    pub(crate) cpu_waits: Vec<CpuWait>,
    /// The findings of the open waits when a machine stopped.
    pub(crate) at_stop: Vec<AtStop>,
    /// The address spaces of devices that have ended.
    pub(crate) ended: BTreeSet<SpaceKey>,
    accesses: Vec<Access>,
    sweep_at: usize,
    spaces: BTreeMap<SpaceKey, Shadow>,
    tiles: TilesOfSpaces,
    resources: Resources,
    sequence: u64,
    groups: Groups,
    /// Number of times a queue was advanced.
    advanced: u64,
}

impl Checker {
    /// Returns an empty checker.
    pub fn new() -> Checker {
        Checker { sweep_at: FIRST_SWEEP, ..Checker::default() }
    }

    fn add_timeline(&mut self, kind: TimelineKind, name: String, space: SpaceKey) -> TimelineId {
        let id = TimelineId(self.timelines.len() as u32);
        let mut timeline = Timeline::new(kind, name, space);
        timeline.advance(id);
        self.timelines.push(timeline);
        id
    }

    fn at(&mut self, id: TimelineId) -> &mut Timeline {
        &mut self.timelines[id.0 as usize]
    }

    /// Reports that `event` is set when fences reach their values.
    ///
    /// `all`: when all are reached, otherwise when the first is.
    pub fn arm_event(&mut self, event: u64, all: bool, of: Vec<(FenceKey, u64)>) {
        self.events.entry(event).or_default().armed.push(Armed { all, of });
    }

    /// Reports that a thread sets an event.
    pub fn event_set(&mut self, thread: TimelineId, event: u64) {
        let released = self.release_clock(thread);
        self.events.entry(event).or_default().set = Some(released);
    }

    /// Reports that a thread's wait for an event ended. If the event is armed, one of its fences
    /// set it.
    pub fn event_wait(&mut self, thread: TimelineId, event: u64, manual_reset: bool) {
        let Some(state) = self.events.get(&event) else {
            return;
        };
        if state.armed.is_empty() {
            if let Some(released) = state.set.clone() {
                self.at(thread).join(&released);
                self.publish_acquired(thread);
            }
        } else {
            let clock = &self.timelines[thread.0 as usize].clock;
            let armed = state.armed.iter();
            armed.clone().for_each(|armed| armed.note_waits(&mut self.fences, thread, clock));
            let of = armed.filter_map(|armed| armed.seen(&self.fences, clock));
            if let Some(seen) = meet(of) {
                self.at(thread).join(&seen);
            }
            self.publish_acquired(thread);
        }
        if manual_reset {
            return;
        }
        // A registration whose signal the thread has seen no longer sets the event.
        let clock = &self.timelines[thread.0 as usize].clock;
        if let Some(state) = self.events.get_mut(&event) {
            state.set = None;
            state.armed.retain(|armed| {
                armed.seen(&self.fences, clock).is_none_or(|seen| !clock.covers(&seen))
            });
        }
    }

    /// Reports that a thread reset an event.
    pub fn event_reset(&mut self, event: u64) {
        self.events.remove(&event);
    }

    /// Adds a queue whose commands use `space`.
    pub fn add_queue(&mut self, name: String, space: SpaceKey) -> QueueKey {
        QueueKey(self.add_timeline(TimelineKind::Queue, name, space))
    }

    /// Adds a display timeline, which reads a swap chain.
    pub fn add_display(&mut self, name: String, space: SpaceKey) -> TimelineId {
        self.add_timeline(TimelineKind::Display, name, space)
    }

    /// Adds a fence.
    pub fn add_fence(&mut self, name: String, initial: u64) -> FenceKey {
        self.fences.push(Fence::new(name, initial));
        FenceKey(self.fences.len() as u32 - 1)
    }

    /// Returns the fence with this number, which no other fence has or had. The first call adds it.
    pub fn fence(&mut self, number: u64, initial: u64, name: impl FnOnce() -> String) -> FenceKey {
        if let Some(key) = self.fence_numbers.get(&number) {
            return *key;
        }
        let key = self.add_fence(name(), initial);
        self.fence_numbers.insert(number, key);
        key
    }

    /// Records that a device uses a fence.
    pub fn use_fence(&mut self, fence: FenceKey, space: SpaceKey) {
        let spaces = &mut self.fences[fence.0 as usize].spaces;
        if !spaces.contains(&space) {
            spaces.push(space);
        }
    }

    /// Records that a device has ended. Its findings are kept, and the history of its memory is
    /// not.
    pub fn end_space(&mut self, space: SpaceKey) {
        self.free_memory(space, 0..u64::MAX);
        self.spaces.remove(&space);
        self.tiles.end(space);
        self.ended.insert(space);
    }

    /// Names a range of an address space.
    pub fn add_resource(
        &mut self,
        space: SpaceKey,
        bytes: Range<u64>,
        name: String,
    ) -> ResourceKey {
        self.resources.add(space, bytes, name)
    }

    /// Removes a resource. Its accesses and name are kept until the memory is freed.
    pub fn remove_resource(&mut self, key: ResourceKey) {
        self.resources.end(key);
    }

    /// Drops the history of a range whose memory is freed.
    pub fn free_memory(&mut self, space: SpaceKey, bytes: Range<u64>) {
        for index in 0..self.timelines.len() {
            let reads = self.timelines[index].presents.iter();
            let of_range = |read: &PresentRead| {
                read.space == space && read.bytes.start < bytes.end && bytes.start < read.bytes.end
            };
            if reads.clone().any(of_range) {
                self.add_presents(TimelineId(index as u32), u32::MAX);
            }
        }
        self.resources.forget_ended(space, &bytes);
        self.tiles.free(space, bytes.clone());
        if let Some(shadow) = self.spaces.get_mut(&space) {
            shadow.remove(bytes);
        }
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Reports an ExecuteCommandLists call. Engines identify its commands by `link`.
    pub fn execute(
        &mut self,
        thread: TimelineId,
        queue: QueueKey,
        link: u32,
        lists: Vec<ListInfo>,
    ) {
        let timeline = self.at(queue.0);
        timeline.submissions += 1;
        timeline.recent.push_back(link);
        let submission = timeline.submissions;
        let old = (timeline.recent.len() > RECENT_SUBMISSIONS).then(|| timeline.recent.pop_front());
        if let Some(Some(old)) = old {
            self.links.remove(&old);
        }
        self.links.insert(link, Link::Held(queue.0));
        self.call(thread, queue, CallKind::Execute { link, submission, lists });
    }

    /// Reports a wait of a queue.
    pub fn queue_wait(&mut self, thread: TimelineId, queue: QueueKey, fence: FenceKey, value: u64) {
        self.call(thread, queue, CallKind::Wait { fence, value });
    }

    /// Reports a signal of a queue.
    pub fn queue_signal(
        &mut self,
        thread: TimelineId,
        queue: QueueKey,
        fence: FenceKey,
        value: u64,
    ) {
        self.call(thread, queue, CallKind::Signal { fence, value });
    }

    /// Reports an update of tile mappings, in the order of the queue's calls. Each part has
    /// reserved addresses, and the address at which their memory is mapped in its heap, or `None`
    /// where it is taken away.
    pub fn map_tiles(
        &mut self,
        thread: TimelineId,
        queue: QueueKey,
        parts: Vec<(Range<u64>, Option<u64>)>,
    ) {
        self.call(thread, queue, CallKind::MapTiles(parts));
    }

    /// Reports a present: the display reads `bytes` after all earlier work of the queue. `fence`
    /// reaches `value` when the display reads them and no longer the bytes of the previous present.
    pub fn present(
        &mut self,
        thread: TimelineId,
        queue: QueueKey,
        display: TimelineId,
        fence: FenceKey,
        value: u64,
        bytes: Range<u64>,
    ) {
        self.call(thread, queue, CallKind::Present { display, fence, value, bytes });
    }

    fn call(&mut self, thread: TimelineId, queue: QueueKey, kind: CallKind) {
        let clock = self.release_clock(thread);
        let epoch = Epoch { timeline: thread, tick: clock.tick(thread) };
        let (issued, sequence) = (Place { epoch, clock }, self.next_sequence());
        let of = self.at(queue.0);
        let after = of.submissions;
        of.held.push_back(Call { issued, sequence, after, kind });
        if of.held.len() == 1 {
            self.advance_from(queue.0);
        }
    }

    /// Advances a queue and the queues that its signals release.
    fn advance_from(&mut self, queue: TimelineId) {
        self.advance_all(VecDeque::from([queue]));
    }

    fn advance_all(&mut self, mut ready: VecDeque<TimelineId>) {
        while let Some(queue) = ready.pop_front() {
            self.advance(queue, &mut ready);
        }
    }

    /// Adds a signal to a fence, and the queues held at a wait for the fence to `ready`.
    fn signal(&mut self, fence: FenceKey, signal: Signal, ready: &mut VecDeque<TimelineId>) {
        let fence = &mut self.fences[fence.0 as usize];
        fence.add(signal);
        ready.extend(fence.held.drain(..));
    }

    /// Advances one queue as far as possible. Queues that its signals may release become `ready`.
    fn advance(&mut self, queue: TimelineId, ready: &mut VecDeque<TimelineId>) {
        self.advanced += 1;
        while let Some(call) = self.at(queue).held.pop_front() {
            self.at(queue).join(&call.issued.clock);
            if let CallKind::Wait { fence, value } = call.kind {
                if !self.wait(queue, fence, value, call.sequence) {
                    self.at(queue).held.push_front(call);
                    self.fences[fence.0 as usize].held.push(queue);
                    return;
                }
                continue;
            }
            self.make(queue, call, ready);
        }
    }

    /// Applies a wait to a timeline if it is satisfied. Returns whether it is.
    fn wait(&mut self, timeline: TimelineId, fence: FenceKey, value: u64, sequence: u64) -> bool {
        let of = &mut self.timelines[timeline.0 as usize];
        let fence_state = &mut self.fences[fence.0 as usize];
        let Some(seen) = fence_state.waited(value, &of.clock) else {
            return false;
        };
        fence_state.note_wait(value, timeline, &of.clock);
        let relay = fence_state.relay(value);
        of.waits.add(fence.0, value, sequence, relay, &of.clock, Arc::clone(&seen));
        of.join(&seen);
        true
    }

    /// Applies a call other than a wait. Queues that its signal may release become `ready`.
    fn make(
        &mut self,
        queue: TimelineId,
        Call { issued, sequence, kind, .. }: Call,
        ready: &mut VecDeque<TimelineId>,
    ) {
        match kind {
            CallKind::Wait { .. } => {}
            CallKind::Execute { link, submission, lists } => {
                let timeline = self.at(queue);
                let tick = timeline.advance(queue);
                let place =
                    Place { epoch: Epoch { timeline: queue, tick }, clock: timeline.snapshot() };
                let space = timeline.space;
                let number = submission;
                let tiles = self.tiles.of(space);
                let placed =
                    Submission { place, issued, space, sequence, number, link, lists, tiles };
                if let Some(entry) = self.links.get_mut(&link) {
                    *entry = Link::Placed(Arc::new(placed));
                }
            }
            CallKind::MapTiles(parts) => {
                let space = self.at(queue).space;
                for (addresses, memory) in parts {
                    self.tiles.map(space, addresses, memory);
                }
            }
            CallKind::Signal { fence, value } => {
                let timeline = self.at(queue);
                let tick = timeline.advance(queue);
                let (epoch, clock) = (Epoch { timeline: queue, tick }, timeline.snapshot());
                self.signal(fence, Signal::new(value, sequence, Some(epoch), clock), ready);
            }
            CallKind::Present { display, fence, value, bytes } => {
                let shown = self.at(queue).snapshot();
                let timeline = self.at(display);
                timeline.join(&shown);
                // The signal covers the reads of earlier presents, but not the reads of this one.
                let tick = timeline.advance(display);
                let (epoch, clock) = (Epoch { timeline: display, tick }, timeline.snapshot());
                timeline.submissions += 1;
                timeline.advance(display);
                let (present, space) = (timeline.submissions, timeline.space);
                self.signal(fence, Signal::new(value, sequence, Some(epoch), clock), ready);
                let access = self.own_access(display, AccessKind::Read, "scan-out", sequence);
                let access = Access { present, issued, ..access };
                let tick = self.at(queue).clock.tick(queue);
                self.at(queue).presents.push_back(PresentRead { tick, space, access, bytes });
            }
        }
    }

    /// Reports a signal of a CPU thread. It must be reported before it takes effect.
    pub fn cpu_signal(&mut self, thread: TimelineId, fence: FenceKey, value: u64) {
        let tick = self.at(thread).clock.tick(thread);
        let clock = self.release_clock(thread);
        let epoch = Some(Epoch { timeline: thread, tick });
        let (mut ready, sequence) = (VecDeque::new(), self.next_sequence());
        self.signal(fence, Signal::new(value, sequence, epoch, clock), &mut ready);
        self.advance_all(ready);
    }

    /// Reports a wait of a CPU thread that is satisfied.
    pub fn cpu_wait(&mut self, thread: TimelineId, fence: FenceKey, value: u64) {
        let sequence = self.next_sequence();
        self.wait(thread, fence, value, sequence);
        self.publish_acquired(thread);
    }

    /// Reports that one of several waits of a CPU thread is satisfied. Only operations that every
    /// one of them implies are ordered.
    pub fn cpu_wait_any(&mut self, thread: TimelineId, of: &[(FenceKey, u64)]) {
        let any = Armed { all: false, of: of.to_vec() };
        let clock = &self.timelines[thread.0 as usize].clock;
        any.note_waits(&mut self.fences, thread, clock);
        if let Some(seen) = any.seen(&self.fences, clock) {
            self.at(thread).join(&seen);
        }
        self.publish_acquired(thread);
    }

    /// Reports that a CPU thread read the completed value of a fence.
    pub fn cpu_read(&mut self, thread: TimelineId, fence: FenceKey, value: u64) {
        let timeline = &mut self.timelines[thread.0 as usize];
        let fence = &mut self.fences[fence.0 as usize];
        if let Some(seen) = fence.read(value, &timeline.clock) {
            fence.note_wait(value, thread, &timeline.clock);
            timeline.join(&seen);
        }
        self.publish_acquired(thread);
    }

    /// Reports that a CPU thread has seen that a queue is idle.
    pub fn cpu_wait_idle(&mut self, thread: TimelineId, queue: QueueKey) {
        while !self.at(queue.0).held.is_empty() {
            self.skip_wait(queue.0);
        }
        let done = self.at(queue.0).snapshot();
        self.at(thread).join(&done);
        self.publish_acquired(thread);
    }

    /// Ends the wait that holds a queue, without an edge.
    fn skip_wait(&mut self, queue: TimelineId) {
        self.at(queue).held.pop_front();
        self.advance_from(queue);
    }

    /// Reports an access of a CPU thread.
    pub fn cpu_access(
        &mut self,
        thread: TimelineId,
        space: SpaceKey,
        kind: AccessKind,
        bytes: Range<u64>,
        what: &'static str,
    ) {
        let sequence = self.next_sequence();
        let access = self.own_access(thread, kind, what, sequence);
        self.add_access(space, access, [bytes]);
        self.publish_acquired(thread);
    }

    /// Returns an access that a timeline makes now, without a command.
    fn own_access(
        &mut self,
        timeline: TimelineId,
        kind: AccessKind,
        what: &'static str,
        sequence: u64,
    ) -> Access {
        let of = self.at(timeline);
        let epoch = Epoch { timeline, tick: of.clock.tick(timeline) };
        let place = Place { epoch, clock: of.snapshot() };
        Access {
            issued: place.clone(),
            place,
            sequence,
            kind,
            submission: None,
            present: 0,
            buffer: 0,
            number: 0,
            what,
            program: "",
        }
    }

    /// Reports accesses that an engine made for a command. Commands without a submission of the
    /// application are ignored.
    pub fn gpu_accesses(
        &mut self,
        command: CommandRef,
        accesses: impl IntoIterator<Item = (AccessKind, Range<u64>)>,
    ) {
        while let Some(Link::Held(queue)) = self.links.get(&command.link) {
            let queue = *queue;
            self.skip_wait(queue);
        }
        let Some(Link::Placed(submission)) = self.links.get(&command.link) else {
            return;
        };
        let submission = Arc::clone(submission);
        let Epoch { timeline, tick } = submission.place.epoch;
        self.add_presents(timeline, tick);
        let CommandRef { buffer, number, what, program, .. } = command;
        let mut of_kind: [Vec<Range<u64>>; 3] = Default::default();
        for (kind, range) in accesses {
            let ranges = &mut of_kind[kind as usize];
            match &submission.tiles {
                Some(tiles) => tiles.locate(range, |part| ranges.push(part)),
                None => ranges.push(range),
            }
        }
        for (kind, ranges) in AccessKind::ALL.into_iter().zip(of_kind) {
            if ranges.is_empty() {
                continue;
            }
            let access = Access {
                place: submission.place.clone(),
                issued: submission.issued.clone(),
                sequence: submission.sequence,
                kind,
                submission: Some(Arc::clone(&submission)),
                present: 0,
                buffer,
                number,
                what,
                program,
            };
            self.add_access(submission.space, access, ranges);
        }
    }

    /// Adds the reads of the presents that precede a tick of a queue.
    fn add_presents(&mut self, queue: TimelineId, until: u32) {
        while self.at(queue).presents.front().is_some_and(|present| present.tick < until)
            && let Some(present) = self.at(queue).presents.pop_front()
        {
            self.add_access(present.space, present.access, [present.bytes]);
        }
    }

    // spec: ME-071, ME-072, ME-073
    fn add_access(
        &mut self,
        space: SpaceKey,
        access: Access,
        ranges: impl IntoIterator<Item = Range<u64>>,
    ) {
        if self.accesses.len() >= self.sweep_at {
            self.sweep();
        }
        let (id, kind) = (AccessId(self.accesses.len() as u32), access.kind);
        self.accesses.push(access);
        let shadow = self.spaces.entry(space).or_default();
        let (mut conflicts, mut ordered) = (Vec::new(), Vec::new());
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            shadow.add(id, kind, range, &Table(&self.accesses), |found| match found {
                Found::Unordered(conflict) => conflicts.push(conflict),
                Found::Ordered { first, second } if ordered.last() != Some(&(first, second)) => {
                    ordered.push((first, second));
                }
                Found::Ordered { .. } => {}
            });
        }
        for (first, second) in ordered {
            self.note_ordered(first, second);
        }
        for conflict in conflicts {
            self.note(space, id, conflict);
        }
    }

    /// Marks the waits that order two accesses as needed.
    fn note_ordered(&mut self, first: AccessId, second: AccessId) {
        let epoch = self.accesses[first.0 as usize].place.epoch;
        let second = &self.accesses[second.0 as usize];
        let sequence = second.sequence;
        let own = [second.place.epoch.timeline, second.issued.epoch.timeline];
        let mut relays: Vec<Relay> = Vec::new();
        let mut found = false;
        for timeline in own {
            found |= self.at(timeline).waits.need(epoch, sequence, |relay| relays.push(relay));
        }
        if !found {
            self.need_anywhere(epoch, sequence, &mut relays);
        }
        while let Some(Relay { timeline, sequence }) = relays.pop() {
            if !self.at(timeline).waits.need(epoch, sequence, |relay| relays.push(relay)) {
                self.need_anywhere(epoch, sequence, &mut relays);
            }
        }
    }

    /// Marks the waits of all timelines, for order passed on by CPU calls and by presents.
    fn need_anywhere(&mut self, epoch: Epoch, sequence: u64, relays: &mut Vec<Relay>) {
        for timeline in &mut self.timelines {
            timeline.waits.need(epoch, sequence, |relay| relays.push(relay));
        }
    }

    /// Drops the accesses that no segment refers to.
    fn sweep(&mut self) {
        let mut used = vec![false; self.accesses.len()];
        self.spaces.values().for_each(|shadow| shadow.each(|id| used[id.0 as usize] = true));
        let mut new_ids = vec![AccessId(0); used.len()];
        let mut kept = 0;
        for (at, used) in used.iter().enumerate() {
            if *used {
                new_ids[at] = AccessId(kept);
                kept += 1;
            }
        }
        let mut at = 0;
        self.accesses.retain(|_| {
            at += 1;
            used[at - 1]
        });
        self.spaces.values_mut().for_each(|shadow| shadow.renumber(|id| new_ids[id.0 as usize]));
        self.sweep_at = FIRST_SWEEP.max(self.accesses.len() * 2);
    }
}
