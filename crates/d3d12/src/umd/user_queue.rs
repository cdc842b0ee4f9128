//! Owns user-mode queues: the submitter lock, the sleep when a ring is full, and what the queue is at present: a ring with its
//! doorbell, or the hardware queue that came after it.
//!
//! When the doorbell is gone for good, or cannot be connected, the queue makes itself anew if it was told so (`again`), under
//! the submitter lock: no other thread's submission comes between what is carried over and what is new.

use crate::counters::QueueStats;
use crate::error::{Error, Result};
use crate::model::{OnAbort, Submission};
use crate::umd::again::{self, Successor};
use crate::umd::hardware_queue::HardwareQueue;
use crate::umd::progress::FenceReader;
use crate::umd::residency::{Held, Pager, WAIT_SLOTS};
use crate::umd::ring::Room;
use crate::umd::submit::Unit;
use crate::umd::user_ring::UserRing;
use crate::umd::{EngineChoice, Failure, QueueIdentity};
use std::sync::Arc;
use tidegate_calls::{Handle, Priority};
use tidegate_platform::Mutex;
use tidegate_trace::{Kind, LaneId};

pub(crate) struct UserQueue {
    present: Mutex<Present>,
    pager: Option<Pager>,
    most_lists: u64,
    at: EngineChoice,
    priority: Priority,
    on_abort: OnAbort,
}

enum Present {
    User(Box<UserRing>),
    /// With what was counted before it.
    Hardware(Arc<HardwareQueue>, QueueStats),
}

impl Present {
    /// Counts of the ring, also after it gave way to a hardware queue.
    fn stats_mut(&mut self) -> &mut QueueStats {
        match self {
            Present::User(user) => &mut user.submitter.stats,
            Present::Hardware(_, before) => before,
        }
    }
}

/// Sleeps of one call for room in the ring that the queue has not counted yet.
#[derive(Default)]
struct Sleeps {
    count: u64,
    ns: u64,
}

impl Sleeps {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.ns += ns;
    }

    fn count_into(&mut self, stats: &mut QueueStats) {
        stats.ring_waits += std::mem::take(&mut self.count);
        stats.ring_wait_ns += std::mem::take(&mut self.ns);
    }
}

/// How a call goes on when the lock is dropped.
enum Next {
    Done(std::result::Result<(), Failure>),
    /// The queue was made anew, with nothing of this call in it.
    Anew(std::result::Result<(), Failure>),
    Hardware(Arc<HardwareQueue>),
    Wait {
        progress: FenceReader,
        fence: Handle,
        value: u64,
    },
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
        let present =
            id.device.platform.mutex("submitter of a user-mode queue", Present::User(Box::new(ring)));
        let pager = id.device.pager(id, priority).map_err(|failure| id.error(failure))?;
        Ok(UserQueue { present, pager, most_lists, at, priority, on_abort })
    }

    /// Submits `unit` when the ring has room for it. The submitter lock is dropped while the caller sleeps for room, so that
    /// a machine in which nobody can move is recognised; the unit itself is never divided.
    /// Sleeps are recorded on `lane`, that of the calling thread.
    pub(crate) fn submit(
        &self,
        id: &QueueIdentity,
        unit: &Unit<'_>,
        queued_ns: u64,
        lane: Option<LaneId>,
    ) -> Result<()> {
        if let Unit::Execute(lists) = unit
            && lists.len() as u64 + self.slots_of_residency(unit) > self.most_lists
        {
            let (queue, lists) = (id.name.clone(), lists.len());
            return Err(Error::TooManyLists { queue, lists, most: self.most_lists });
        }
        // A command buffer that was lost is told of when this call's work is queued.
        let mut lost = None;
        let mut slept = Sleeps::default();
        loop {
            match self.submit_if_room(id, unit, queued_ns, &mut slept) {
                Next::Done(done) => {
                    return done.and(lost.map_or(Ok(()), Err)).map_err(|failure| id.error(failure));
                }
                Next::Anew(Ok(())) => {}
                Next::Anew(Err(failure @ Failure::Lost(_))) => lost = Some(failure),
                Next::Anew(Err(failure)) => return Err(id.error(failure)),
                Next::Hardware(queue) => {
                    match unit {
                        Unit::Execute(lists) => queue.execute(id, lists, queued_ns)?,
                        Unit::Wait(fence, value) => queue.wait(id, fence, *value)?,
                        Unit::Signal(fence, value) => queue.signal(id, fence, *value)?,
                        Unit::Marker => {}
                    }
                    return lost.map_or(Ok(()), |failure| Err(id.error(failure)));
                }
                Next::Wait { progress, fence, value } => {
                    let (since, start) = (id.device.platform.now(), id.device.stamp(lane));
                    let waited = id.device.wait_for_progress(id, fence, &progress, value);
                    id.device.record_call(start, Kind::CpuWait, id.device.names.ring_space, |record| record);
                    // The marker is of `wait_idle`, which sleeps anyway.
                    if !matches!(unit, Unit::Marker) {
                        slept.add(id.device.platform.now().since(since));
                    }
                    if let Err(error) = waited {
                        slept.count_into(self.present.lock_device().stats_mut());
                        return Err(error);
                    }
                }
            }
        }
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
            (Some(pager), Unit::Execute(lists)) => pager.hold(id, lists.iter().map(|l| &*l.memory)).map(Some),
            _ => Ok(None),
        }
    }

    fn submit_if_room(
        &self,
        id: &QueueIdentity,
        unit: &Unit<'_>,
        queued_ns: u64,
        slept: &mut Sleeps,
    ) -> Next {
        let mut present = self.present.lock_device();
        slept.count_into(present.stats_mut());
        let user = match &mut *present {
            Present::User(user) => user,
            Present::Hardware(queue, _) => return Next::Hardware(Arc::clone(queue)),
        };
        let (submitter, progress) = (&mut user.submitter, &user.progress);
        if submitter.aborted && self.on_abort != OnAbort::Report {
            return Next::Anew(self.make_anew(id, &mut present, Failure::Aborted));
        }
        let need = submitter.slots_of(unit) + self.slots_of_residency(unit);
        match submitter.ring.room(need, || progress.load()) {
            // A queue that is gone makes no more room.
            Room::AfterProgress(_) if submitter.is_gone() => {
                return Next::Anew(self.make_anew(id, &mut present, Failure::Aborted));
            }
            Room::AfterProgress(value) => {
                return Next::Wait { progress: progress.clone(), fence: user.progress_fence, value };
            }
            Room::Enough => {}
        }
        submitter.in_flight.collect(progress);
        let held = match self.hold(id, unit) {
            Ok(held) => held,
            Err(failure) => return Next::Done(Err(failure)),
        };
        if let Some((fence, value)) = held.as_ref().and_then(|held| held.wait)
            && let Err(failure) = submitter.submit(id, &Unit::Wait(fence, value), queued_ns)
        {
            // The wait stands in the ring, and nothing that needs the references. They are taken anew with the queue.
            let released = held.map_or(Ok(()), |held| held.release(id));
            return Next::Anew(self.make_anew(id, &mut present, failure).and(released));
        }
        let stats = &mut submitter.stats;
        match unit {
            Unit::Execute(_) => stats.executes += 1,
            Unit::Wait(..) => stats.waits += 1,
            Unit::Signal(..) => stats.signals += 1,
            Unit::Marker => {}
        }
        let done = submitter.submit(id, unit, queued_ns);
        let released = held.map_or(Ok(()), |held| held.release(id));
        // What was submitted stands in the ring, and is carried over with the rest of it.
        let done = done.or_else(|failure| self.make_anew(id, &mut present, failure));
        Next::Done(done.and(released))
    }

    /// Makes the queue anew if it was told so and that can help; else `failure` stands.
    fn make_anew(
        &self,
        id: &QueueIdentity,
        present: &mut Present,
        failure: Failure,
    ) -> std::result::Result<(), Failure> {
        let Present::User(old) = &mut *present else { return Ok(()) };
        if self.on_abort == OnAbort::Report || !again::may_help(id, &failure) {
            return Err(failure);
        }
        let (successor, outcome) =
            again::succeed(id, (self.at, self.priority), self.on_abort, self.pager.as_ref(), old)?;
        *present = match successor {
            Successor::User(user) => Present::User(user),
            Successor::Hardware(queue) => Present::Hardware(queue, old.submitter.stats),
        };
        outcome
    }

    pub(crate) fn wait_idle(&self, id: &QueueIdentity) -> Result<()> {
        let mut marked = false;
        loop {
            let (progress, fence, value) = match self.idle_after(id, marked) {
                Next::Done(_) => {
                    // Waits and signals have no progress value. When the engine has not taken them yet, an empty command
                    // buffer behind them has.
                    self.submit(id, &Unit::Marker, id.queued_ns(), None)?;
                    marked = true;
                    continue;
                }
                Next::Anew(anew) => {
                    anew.map_err(|failure| id.error(failure))?;
                    marked = false;
                    continue;
                }
                Next::Hardware(queue) => return queue.wait_idle(id),
                Next::Wait { progress, fence, value } => (progress, fence, value),
            };
            id.device.wait_for_progress(id, fence, &progress, value)?;
            // A queue that was made anew meanwhile is waited for anew.
            match &*self.present.lock_device() {
                Present::User(user) if user.progress_fence == fence => return Ok(()),
                _ => {}
            }
        }
    }

    /// What to wait for until nothing is queued any more; `Done` when there is nothing to wait for yet.
    fn idle_after(&self, id: &QueueIdentity, marked: bool) -> Next {
        let mut present = self.present.lock_device();
        if let Present::User(user) = &*present
            && self.on_abort != OnAbort::Report
            && user.submitter.is_gone()
        {
            return Next::Anew(self.make_anew(id, &mut present, Failure::Aborted));
        }
        match &*present {
            Present::Hardware(queue, _) => Next::Hardware(Arc::clone(queue)),
            Present::User(user) => {
                let submitter = &user.submitter;
                let value = match submitter.ends_with_progress || marked {
                    true => submitter.progress,
                    false if submitter.ring.is_drained() => 0,
                    false => return Next::Done(Ok(())),
                };
                Next::Wait { progress: user.progress.clone(), fence: user.progress_fence, value }
            }
        }
    }

    pub(crate) fn submission(&self) -> Submission {
        match &*self.present.lock_device() {
            Present::User(_) => Submission::User,
            Present::Hardware(..) => Submission::Hardware,
        }
    }

    /// Slots of its ring; `None` when it has become a hardware queue.
    pub(crate) fn ring_slots(&self) -> Option<u64> {
        match &*self.present.lock_device() {
            Present::User(user) => Some(user.submitter.ring.slots()),
            Present::Hardware(..) => None,
        }
    }

    pub(crate) fn stats(&self) -> QueueStats {
        match &*self.present.lock_device() {
            Present::User(user) => user.submitter.stats,
            Present::Hardware(queue, before) => {
                let mut stats = *before;
                stats += queue.stats();
                stats
            }
        }
    }

    pub(crate) fn label_at(&self, position: u64) -> Option<String> {
        match &*self.present.lock_device() {
            Present::User(user) => user.submitter.in_flight.label_at(position),
            Present::Hardware(..) => None,
        }
    }
}
