//! Owns user-mode queues: the submitter lock, what the queue is at present (a ring with its
//! doorbell, or the hardware queue that came after it), and the backlog of what the ring has no
//! room for.
//!
//! No call that submits sleeps. What does not fit goes into the backlog, and so does everything
//! behind it, until a worker or a later call has submitted it (`backlog`). A hardware queue takes
//! any number, so it has no backlog.
//!
//! When the doorbell is lost for good, or cannot be connected, the queue gets a successor if its
//! options say so (`successor`), under the submitter lock: no other thread's submission comes
//! between the work that is carried over and new work, and the backlog follows both.

use crate::counters::QueueStats;
use crate::device::WAIT_CALL;
use crate::error::{Error, Result};
use crate::model::{OnAbort, Submission};
use crate::queue::QueueInner;
use crate::umd::backlog::Backlog;
use crate::umd::hardware_queue::HardwareQueue;
use crate::umd::progress::FenceReader;
use crate::umd::residency::{Held, Pager, WAIT_SLOTS};
use crate::umd::ring::Room;
use crate::umd::submit::Unit;
use crate::umd::successor::{self, Successor};
use crate::umd::user_ring::UserRing;
use crate::umd::{EngineChoice, Failure, QueueIdentity};
use std::sync::{Arc, Weak};
use tidegate_calls::{FenceValue, Handle, Priority, Status, WaitMode};
use tidegate_platform::Mutex;

pub(crate) struct UserQueue {
    state: Mutex<State>,
    pager: Option<Pager>,
    most_lists: u64,
    at: EngineChoice,
    priority: Priority,
    on_abort: OnAbort,
}

/// What the submitter lock orders.
struct State {
    present: Present,
    backlog: Backlog,
}

enum Present {
    User(Box<UserRing>),
    /// With what was counted before it.
    Hardware(Arc<HardwareQueue>, QueueStats),
}

impl Present {
    /// How often the queue was made anew.
    fn recreations(&self) -> u64 {
        match self {
            Present::User(user) => user.submitter.stats.recreations,
            Present::Hardware(_, before) => before.recreations,
        }
    }
}

/// A progress value of the queue, to sleep on.
struct Target {
    progress: FenceReader,
    fence: Handle,
    value: u64,
}

/// What became of a submission.
enum Placed {
    Done(std::result::Result<(), Failure>),
    /// The ring has room when this is reached.
    Full(Target),
}

/// How a call that waits for an idle queue goes on when the lock is dropped.
enum Idle {
    Failed(Failure),
    Hardware(Arc<HardwareQueue>),
    /// Not all of what was queued stands in the ring; there is room when this is reached.
    Room(Target),
    /// Everything is complete when this is reached.
    Last(Target),
}

/// The command buffer behind everything that was queued when a call began to wait for an idle
/// queue: the last one of the application, or an empty one.
struct Marker {
    /// It is in the ring when so many submissions have left the backlog.
    left: u64,
    /// How often the queue had been made anew. An empty command buffer is not carried over.
    recreations: u64,
}

impl UserQueue {
    pub(crate) fn new(
        id: &QueueIdentity,
        at: EngineChoice,
        priority: Priority,
        on_abort: OnAbort,
    ) -> Result<UserQueue> {
        let ring = UserRing::new(id, at, priority, id.device.options.ring_slots);
        let ring = ring.map_err(|failure| id.error(failure))?;
        let most_lists = ring.submitter.ring.most_per_submission();
        let state = State { present: Present::User(Box::new(ring)), backlog: Backlog::new() };
        let state = id.device.platform.mutex("submitter of a user-mode queue", state);
        let pager = id.device.pager(id, priority).map_err(|failure| id.error(failure))?;
        Ok(UserQueue { state, pager, most_lists, at, priority, on_abort })
    }

    /// Submits `unit`, which is never divided, or puts it behind the backlog. `owner` is the queue
    /// that this one stands in.
    pub(crate) fn submit(
        &self,
        owner: &Arc<QueueInner>,
        unit: &Unit<'_>,
        queued_ns: u64,
    ) -> Result<()> {
        let id = &owner.id;
        if let Unit::Execute(lists) = unit
            && lists.len() as u64 + self.slots_of_residency(unit) > self.most_lists
        {
            let (queue, lists) = (id.name.clone(), lists.len());
            return Err(Error::TooManyLists { queue, lists, most: self.most_lists });
        }
        let mut state = self.state.lock_device();
        let State { present, backlog } = &mut *state;
        let full = self.drain(id, present, backlog);
        // The failure of an earlier submission is returned once this one is queued.
        let mut earlier = backlog.take_failure();
        let placed = match full {
            Some(target) => Placed::Full(target),
            None => self.place(id, present, unit, queued_ns, &mut earlier),
        };
        let done = match placed {
            Placed::Done(Err(failure)) => {
                backlog.keep_failure(earlier);
                Err(failure)
            }
            Placed::Done(Ok(())) => earlier.map_or(Ok(()), Err),
            Placed::Full(_) => {
                backlog.put(&id.device.platform, unit, queued_ns);
                earlier.map_or(Ok(()), Err)
            }
        };
        let wants_worker = backlog.wants_worker();
        drop(state);
        if wants_worker {
            start_worker(owner);
        }
        done.map_err(|failure| id.error(failure))
    }

    fn slots_of_residency(&self, unit: &Unit<'_>) -> u64 {
        match (&self.pager, unit) {
            (Some(_), Unit::Execute(_)) => WAIT_SLOTS,
            _ => 0,
        }
    }

    /// What the unit uses is resident when it runs, if the queue looks after that itself.
    fn hold<'a>(
        &'a self,
        id: &'a QueueIdentity,
        unit: &Unit<'_>,
    ) -> std::result::Result<Option<Held<'a>>, Failure> {
        match (&self.pager, unit) {
            (Some(pager), Unit::Execute(lists)) => {
                pager.hold(id, lists.iter().map(|l| &*l.memory)).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Submits the backlog as far as there is room; returns when there will be more, if anything is
    /// left.
    fn drain(
        &self,
        id: &QueueIdentity,
        present: &mut Present,
        backlog: &mut Backlog,
    ) -> Option<Target> {
        while let Some(waiting) = backlog.pop() {
            let mut earlier = None;
            let placed = waiting
                .with_unit(|unit| self.place(id, present, unit, waiting.queued_ns, &mut earlier));
            backlog.keep_failure(earlier);
            match placed {
                Placed::Full(target) => {
                    backlog.put_back(waiting);
                    return Some(target);
                }
                Placed::Done(done) => {
                    backlog.keep_failure(done.err());
                    backlog.count_left(&id.device.platform);
                }
            }
        }
        None
    }

    /// Submits `unit` where there is room for it. A queue that is gone is made anew first; a
    /// command buffer that was lost thereby goes to `lost`.
    fn place(
        &self,
        id: &QueueIdentity,
        present: &mut Present,
        unit: &Unit<'_>,
        queued_ns: u64,
        lost: &mut Option<Failure>,
    ) -> Placed {
        loop {
            let user = match present {
                Present::User(user) => user,
                Present::Hardware(queue, _) => {
                    return Placed::Done(queue.submit_unit(id, unit, queued_ns));
                }
            };
            let (submitter, progress) = (&mut user.submitter, &user.progress);
            let need = submitter.slots_of(unit) + self.slots_of_residency(unit);
            let failure = if submitter.aborted && self.on_abort != OnAbort::Report {
                Failure::Aborted
            } else {
                match submitter.ring.room(need, || progress.load()) {
                    // A queue that is gone makes no more room.
                    Room::AfterProgress(_) if submitter.is_gone() => Failure::Aborted,
                    Room::AfterProgress(value) => {
                        let (progress, fence) = (progress.clone(), user.progress_fence);
                        return Placed::Full(Target { progress, fence, value });
                    }
                    Room::Enough => match self.submit_here(id, present, unit, queued_ns) {
                        Ok(placed) => return placed,
                        Err(failure) => failure,
                    },
                }
            };
            match self.make_anew(id, present, failure) {
                Ok(()) => {}
                Err(failure @ Failure::Lost(_)) => *lost = lost.take().or(Some(failure)),
                Err(failure) => return Placed::Done(Err(failure)),
            }
        }
    }

    /// Submits `unit` to a ring that has room for it; fails when nothing of it stands in the ring.
    fn submit_here(
        &self,
        id: &QueueIdentity,
        present: &mut Present,
        unit: &Unit<'_>,
        queued_ns: u64,
    ) -> std::result::Result<Placed, Failure> {
        let Present::User(user) = &mut *present else { return Err(Failure::Aborted) };
        let (submitter, progress) = (&mut user.submitter, &user.progress);
        submitter.collect(progress);
        let held = match self.hold(id, unit) {
            Ok(held) => held,
            Err(failure) => return Ok(Placed::Done(Err(failure))),
        };
        if let Some((fence, value)) = held.as_ref().and_then(|held| held.wait)
            && let Err(failure) =
                submitter.submit(id, &Unit::Wait(fence, fence.wait_for(value)), queued_ns)
        {
            // The wait stands in the ring, and nothing that needs the references. They are taken
            // anew with the queue.
            held.map_or(Ok(()), |held| held.release(id))?;
            return Err(failure);
        }
        unit.count_in(&mut submitter.stats);
        let done = submitter.submit(id, unit, queued_ns);
        let released = held.map_or(Ok(()), |held| held.release(id));
        // What was submitted stands in the ring, and is carried over with the rest of it.
        let done = done.or_else(|failure| self.make_anew(id, present, failure));
        Ok(Placed::Done(done.and(released)))
    }

    /// Makes the queue anew if it was told so and that can help; else `failure` stands.
    fn make_anew(
        &self,
        id: &QueueIdentity,
        present: &mut Present,
        failure: Failure,
    ) -> std::result::Result<(), Failure> {
        let Present::User(old) = &mut *present else { return Ok(()) };
        if self.on_abort == OnAbort::Report || !successor::may_help(id, &failure) {
            return Err(failure);
        }
        let (successor, outcome) = successor::succeed(
            id,
            (self.at, self.priority),
            self.on_abort,
            self.pager.as_ref(),
            old,
        )?;
        *present = match successor {
            Successor::User(user) => Present::User(user),
            Successor::Hardware(queue) => Present::Hardware(queue, old.submitter.stats),
        };
        outcome
    }

    pub(crate) fn wait_idle(&self, owner: &Arc<QueueInner>) -> Result<()> {
        let id = &owner.id;
        let mut marker = None;
        loop {
            let mut state = self.state.lock_device();
            let step = self.idle_step(id, &mut state, &mut marker);
            let wants_worker = state.backlog.wants_worker();
            drop(state);
            if wants_worker {
                start_worker(owner);
            }
            let (target, last) = match step {
                Idle::Failed(failure) => return Err(id.error(failure)),
                Idle::Hardware(queue) => return queue.wait_idle(id),
                Idle::Room(target) => (target, false),
                Idle::Last(target) => (target, true),
            };
            id.device.wait_for_progress(id, target.fence, &target.progress, target.value)?;
            if !last {
                continue;
            }
            // A queue that was made anew meanwhile is waited for anew.
            match &mut self.state.lock_device().present {
                Present::User(user) if user.progress_fence == target.fence => {
                    user.submitter.collect_signalled();
                    return Ok(());
                }
                _ => {}
            }
        }
    }

    /// What to wait for until nothing is queued any more.
    fn idle_step(
        &self,
        id: &QueueIdentity,
        state: &mut State,
        marker: &mut Option<Marker>,
    ) -> Idle {
        let State { present, backlog } = state;
        if let Present::User(user) = &*present
            && self.on_abort != OnAbort::Report
            && user.submitter.is_gone()
            && let Err(failure) = self.make_anew(id, present, Failure::Aborted)
        {
            return Idle::Failed(failure);
        }
        let mut full = self.drain(id, present, backlog);
        if marker.as_ref().is_some_and(|marker| marker.recreations != present.recreations()) {
            *marker = None;
        }
        // Waits and signals have no progress value. When the engine has not taken them yet, an
        // empty command buffer behind them provides one.
        if full.is_none() && marker.is_none() && needs_marker(present) {
            let mut lost = None;
            full = match self.place(id, present, &Unit::Marker, id.queued_ns(), &mut lost) {
                Placed::Full(target) => Some(target),
                Placed::Done(done) => {
                    backlog.keep_failure(done.err());
                    *marker =
                        Some(Marker { left: backlog.left(), recreations: present.recreations() });
                    None
                }
            };
            backlog.keep_failure(lost);
        }
        if full.is_some() && marker.is_none() {
            if !backlog.ends_with_progress() {
                backlog.put(&id.device.platform, &Unit::Marker, id.queued_ns());
            }
            *marker = Some(Marker { left: backlog.end(), recreations: present.recreations() });
        }
        if let Some(failure) = backlog.take_failure() {
            return Idle::Failed(failure);
        }
        match (&*present, full) {
            (Present::Hardware(queue, _), _) => Idle::Hardware(Arc::clone(queue)),
            (_, Some(target)) if marker.as_ref().is_some_and(|m| m.left > backlog.left()) => {
                Idle::Room(target)
            }
            (Present::User(user), _) => {
                let submitter = &user.submitter;
                let value = match submitter.ends_with_progress || marker.is_some() {
                    true => submitter.progress,
                    false => 0,
                };
                let (progress, fence) = (user.progress.clone(), user.progress_fence);
                Idle::Last(Target { progress, fence, value })
            }
        }
    }

    /// A turn of the worker, after a sleep on `slept` that ended with `refused` if the kernel
    /// refused it: submits what fits. Returns what to sleep on next; `None` when the backlog is
    /// empty, and the worker ends.
    fn work(&self, id: &QueueIdentity, slept: Option<(&Target, Status)>) -> Option<Target> {
        let mut state = self.state.lock_device();
        let State { present, backlog } = &mut *state;
        let mut full = self.drain(id, present, backlog);
        // Making a queue anew ends the fence that the worker slept on. If the fence is still the
        // same one, no sleep will end.
        if let Some((target, status)) = slept
            && full.as_ref().is_some_and(|next| next.fence == target.fence)
        {
            backlog.keep_failure(Some(Failure::Refused(WAIT_CALL, status)));
            while backlog.pop().is_some() {
                backlog.count_left(&id.device.platform);
            }
            full = None;
        }
        if full.is_none() {
            backlog.worker_ended();
        }
        full
    }

    pub(crate) fn submission(&self) -> Submission {
        match &self.state.lock_device().present {
            Present::User(_) => Submission::User,
            Present::Hardware(..) => Submission::Hardware,
        }
    }

    /// Slots of its ring; `None` when it has become a hardware queue.
    pub(crate) fn ring_slots(&self) -> Option<u64> {
        match &self.state.lock_device().present {
            Present::User(user) => Some(user.submitter.ring.slots()),
            Present::Hardware(..) => None,
        }
    }

    pub(crate) fn stats(&self, id: &QueueIdentity) -> QueueStats {
        let state = self.state.lock_device();
        let mut stats = match &state.present {
            Present::User(user) => user.submitter.stats,
            Present::Hardware(queue, before) => {
                let mut stats = *before;
                stats += queue.stats();
                stats
            }
        };
        state.backlog.add_to(&id.device.platform, &mut stats);
        stats
    }

    pub(crate) fn label_at(&self, position: u64) -> Option<String> {
        match &self.state.lock_device().present {
            Present::User(user) => user.submitter.in_flight.label_at(position),
            Present::Hardware(..) => None,
        }
    }
}

/// Whether the ring ends with something that has no progress value and that the engine has not
/// taken yet.
fn needs_marker(present: &Present) -> bool {
    match present {
        Present::User(user) => {
            !user.submitter.ends_with_progress && !user.submitter.ring.is_drained()
        }
        Present::Hardware(..) => false,
    }
}

/// Starts the worker of a backlog. It holds the queue only while it submits: a queue that is
/// dropped takes its backlog with it, as it takes its ring, and ends the fence that the worker
/// sleeps on.
fn start_worker(owner: &Arc<QueueInner>) {
    let device = &owner.id.device;
    let (queue, thunk) = (Arc::downgrade(owner), Arc::clone(&device.thunk));
    let work = move |slept: Option<(&Target, Status)>| {
        let owner = Weak::upgrade(&queue)?;
        owner.user_queue()?.work(&owner.id, slept)
    };
    device.platform.spawn_worker(format!("backlog of queue '{}'", owner.id.name), move || {
        let mut target = work(None);
        while let Some(Target { progress, fence, value }) = &target {
            let fences = [FenceValue { fence: *fence, value: *value }];
            let refused = match progress.load() >= *value {
                true => None,
                false => thunk.enter().wait_from_cpu(&fences, WaitMode::All, None).err(),
            };
            let refused = refused.filter(|_| progress.load() < *value);
            let next = work(refused.and_then(|status| Some((target.as_ref()?, status))));
            target = next;
        }
    });
}
