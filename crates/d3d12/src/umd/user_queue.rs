//! User-mode queues: the submitter lock, the queue's present form (a ring with its doorbell, or the
//! hardware queue that replaced it), and the backlog of submissions without room in the ring.
//!
//! No call that submits sleeps. A submission without room goes to the backlog, as does every later
//! one until a worker or a later call has submitted it (`backlog`). A hardware queue accepts any
//! number, so it has no backlog.
//!
//! If the doorbell is permanently lost or cannot be connected, the queue gets a successor if its
//! options allow it (`successor`). This runs under the submitter lock, so no other submission comes
//! between the work carried over and new work. The backlog follows both.

use crate::counters::QueueStats;
use crate::model::{OnAbort, Submission};
use crate::umd::backlog::Backlog;
use crate::umd::closed_list::ClosedList;
use crate::umd::command_memory::{CommandMemory, ReportedBuffer};
use crate::umd::failure::{Failure, Why};
use crate::umd::kernel_queue::KernelQueue;
use crate::umd::progress::FenceReader;
use crate::umd::queue_identity::QueueIdentity;
use crate::umd::residency::{Pager, WAIT_SLOTS};
use crate::umd::ring::Room;
use crate::umd::submit::Unit;
use crate::umd::successor::{self, Successor};
use crate::umd::thunk::CPU_WAIT_CALL;
use crate::umd::user_ring::UserRing;
use std::sync::Arc;
use tidegate_calls::{FenceValue, Handle, Status, WaitMode};
use tidegate_platform::{CpuTime, Mutex, QueueNumber, Queued};

pub(crate) struct UserQueue {
    state: Mutex<State>,
    pager: Option<Pager>,
    most_lists: u64,
    id: Arc<QueueIdentity>,
}

type Result<T = ()> = std::result::Result<T, Failure>;

/// The result of a submission. `Ok`: it is queued; the value is the failure of an earlier one to
/// report, if any. `Err`: it is not queued.
pub(crate) type Submitted = Result<Option<Failure>>;

/// Guarded by the submitter lock.
struct State {
    present: Present,
    backlog: Backlog,
}

enum Present {
    User(Box<UserRing>),
    /// The hardware queue and the statistics of its predecessor.
    Hardware(Arc<KernelQueue>, QueueStats),
}

impl Present {
    /// Returns how often the queue was recreated.
    fn recreations(&self) -> u64 {
        match self {
            Present::User(user) => user.submitter.stats.recreations,
            Present::Hardware(_, before) => before.recreations,
        }
    }

    /// Counts a wait that ended with its fence before it was submitted.
    fn count_ended_wait(&mut self) {
        match self {
            Present::User(user) => user.submitter.stats.waits += 1,
            Present::Hardware(queue, _) => queue.count_ended_wait(),
        }
    }

    /// Returns whether memory shows that all work outside the backlog is complete. The work of a
    /// lost device counts as complete.
    fn is_known_idle(&self) -> bool {
        match self {
            Present::User(user) => match (user.progress.load(), &user.submitter) {
                (u64::MAX, _) => true,
                (reached, submitter) if submitter.ends_with_progress => {
                    reached >= submitter.progress
                }
                (_, submitter) => submitter.ring.is_drained(),
            },
            Present::Hardware(queue, _) => queue.is_known_idle(),
        }
    }

    fn is_lost(&self) -> bool {
        match self {
            Present::User(user) => user.progress.load() == u64::MAX,
            Present::Hardware(queue, _) => !queue.has_completed(),
        }
    }
}

/// A progress value of the queue, to sleep on.
struct Target {
    progress: FenceReader,
    fence: Handle,
    value: u64,
}

/// The outcome of placing a submission in the ring.
enum Placed {
    Done(Result),
    /// The ring has room when this target is reached.
    Full(Box<Target>),
}

/// The next step of a wait for an idle queue, taken without the lock.
enum Idle {
    Failed(Failure),
    Hardware(Arc<KernelQueue>),
    /// Part of the queued work is in the backlog; the ring has room when this target is reached.
    Room(Box<Target>),
    /// All work is complete when this target is reached.
    Last(Box<Target>),
}

/// The command buffer behind all work that was queued when a wait for an idle queue began: the
/// application's last one, or an empty one.
struct Marker {
    /// It is in the ring when this many submissions have left the backlog.
    left: u64,
    /// The number of recreations at that time, because empty command buffers are not carried over.
    recreations: u64,
}

impl UserQueue {
    pub(crate) fn new(id: &Arc<QueueIdentity>) -> Result<UserQueue> {
        let ring = UserRing::new(id, id.device.options.ring_slots)?;
        let most_lists = ring.submitter.ring.most_per_submission();
        let state = State { present: Present::User(Box::new(ring)), backlog: Backlog::new() };
        let state = id.device.platform.mutex("submitter of a user-mode queue", state);
        Ok(UserQueue { state, pager: Pager::for_queue(id)?, most_lists, id: Arc::clone(id) })
    }

    /// Refuses a unit that is too large for the ring.
    #[inline]
    pub(crate) fn check_length(&self, unit: &Unit<'_>) -> Result {
        match unit {
            Unit::Execute(lists)
                if lists.len() as u64 + self.slots_of_residency(unit) > self.most_lists =>
            {
                Err(Why::TooManyLists { lists: lists.len(), most: self.most_lists }.into())
            }
            _ => Ok(()),
        }
    }

    /// Submits `unit`, which is never divided, or appends it to the backlog.
    pub(crate) fn submit(self: &Arc<Self>, unit: &Unit<'_>, queued: Queued) -> Submitted {
        self.check_length(unit)?;
        let mut state = self.state.lock_device();
        let done = self.submit_behind_backlog(&mut state, unit, &queued);
        let wants_worker = state.backlog.wants_worker();
        drop(state);
        if wants_worker {
            self.start_worker();
        }
        done
    }

    #[inline(always)]
    fn submit_behind_backlog(
        &self,
        State { present, backlog }: &mut State,
        unit: &Unit<'_>,
        queued: &Queued,
    ) -> Submitted {
        let full = if backlog.is_empty() { None } else { self.drain(present, backlog) };
        // The failure of an earlier submission is returned once this one is queued.
        let mut earlier = backlog.take_failure();
        let placed = match full {
            Some(target) => Placed::Full(target),
            None => self.place(present, unit, queued, &mut earlier),
        };
        if let Placed::Done(Ok(())) = placed {
            return Ok(earlier);
        }
        self.keep_unplaced(backlog, placed, earlier, unit, queued)
    }

    /// Keeps a unit that was not placed in the backlog, if the ring is full, and the failure of an
    /// earlier one for the next call, if this one fails.
    #[inline(never)]
    fn keep_unplaced(
        &self,
        backlog: &mut Backlog,
        placed: Placed,
        earlier: Option<Failure>,
        unit: &Unit<'_>,
        queued: &Queued,
    ) -> Submitted {
        match placed {
            Placed::Done(Ok(())) => Ok(earlier),
            Placed::Done(Err(failure)) => {
                backlog.keep_failure(earlier);
                // The unit of an interrupted ring is in the successor's ring.
                if matches!(*failure, Why::Interrupted(_)) {
                    Ok(Some(failure))
                } else {
                    Err(failure)
                }
            }
            Placed::Full(_) => {
                backlog.put(&self.id.device.platform, unit, *queued);
                Ok(earlier)
            }
        }
    }

    #[inline]
    fn slots_of_residency(&self, unit: &Unit<'_>) -> u64 {
        match (&self.pager, unit) {
            (Some(_), Unit::Execute(_)) => WAIT_SLOTS,
            _ => 0,
        }
    }

    /// Submits as much of the backlog as there is room for. If any is left, returns the progress
    /// that makes room.
    #[inline(never)]
    fn drain(&self, present: &mut Present, backlog: &mut Backlog) -> Option<Box<Target>> {
        while let Some(waiting) = backlog.pop() {
            let mut earlier = None;
            let placed =
                waiting.with_unit(|unit| self.place(present, unit, &waiting.queued, &mut earlier));
            backlog.keep_failure(earlier);
            match placed {
                Some(Placed::Full(target)) => {
                    backlog.put_back(waiting);
                    return Some(target);
                }
                Some(Placed::Done(done)) => backlog.keep_failure(done.err()),
                None => present.count_ended_wait(),
            }
            backlog.count_left(&self.id.device.platform);
        }
        None
    }

    /// Submits `unit` if there is room for it. A queue whose doorbell is lost is recreated first;
    /// the failure of a command buffer interrupted by that is stored in `lost`.
    #[inline(always)]
    fn place(
        &self,
        present: &mut Present,
        unit: &Unit<'_>,
        queued: &Queued,
        lost: &mut Option<Failure>,
    ) -> Placed {
        match self.submit_to_ring(present, unit, queued) {
            Ok(placed) => placed,
            Err(failure) => self.place_in_successor(present, unit, queued, (failure, lost)),
        }
    }

    /// Recreates the queue and submits `unit` to the successor, until one accepts it.
    #[cold]
    fn place_in_successor(
        &self,
        present: &mut Present,
        unit: &Unit<'_>,
        queued: &Queued,
        (mut failure, lost): (Failure, &mut Option<Failure>),
    ) -> Placed {
        loop {
            match self.recreate(present, failure) {
                Ok(()) => {}
                Err(failure) if matches!(*failure, Why::Interrupted(_)) => {
                    *lost = lost.take().or(Some(failure));
                }
                Err(failure) => return Placed::Done(Err(failure)),
            }
            match self.submit_to_ring(present, unit, queued) {
                Ok(placed) => return placed,
                Err(next) => failure = next,
            }
        }
    }

    /// Submits `unit` if the ring has room for it. Fails if the unit is neither in the ring nor to
    /// be tried again when there is room.
    #[inline(always)]
    fn submit_to_ring(
        &self,
        present: &mut Present,
        unit: &Unit<'_>,
        queued: &Queued,
    ) -> Result<Placed> {
        let user = match &mut *present {
            Present::User(user) => user,
            Present::Hardware(queue, _) => {
                return Ok(Placed::Done(queue.submit_unit(unit, *queued)));
            }
        };
        let (submitter, progress) = (&mut user.submitter, &user.progress);
        if submitter.aborted && self.id.on_abort != OnAbort::Report {
            return Err(Why::aborted());
        }
        let need = match unit {
            Unit::Execute(_) => submitter.slots_of(unit) + self.slots_of_residency(unit),
            _ => submitter.slots_of(unit),
        };
        if let Room::AfterProgress(value) = submitter.ring.room(need, || progress.load()) {
            return full(user, value);
        }
        submitter.collect(progress);
        if let (Some(pager), Unit::Execute(lists)) = (&self.pager, unit) {
            return self.submit_resident(pager, lists, present, queued);
        }
        match submitter.submit(&self.id, unit, queued) {
            Ok(()) => Ok(Placed::Done(Ok(()))),
            // The unit is in the ring, and is carried over with the rest of it.
            Err(failure) => Ok(Placed::Done(self.recreate(present, failure))),
        }
    }

    /// Submits lists to a ring that has room for them while their buffers are held in memory.
    #[inline(never)]
    fn submit_resident(
        &self,
        pager: &Pager,
        lists: &[&ClosedList],
        present: &mut Present,
        queued: &Queued,
    ) -> Result<Placed> {
        let Present::User(user) = &mut *present else { return Err(Why::aborted()) };
        let (id, submitter) = (&*self.id, &mut user.submitter);
        let held = match pager.hold(id, lists.iter().map(|list| &*list.memory)) {
            Ok(held) => held,
            Err(failure) => return Ok(Placed::Done(Err(failure))),
        };
        if let Some((fence, value)) = held.wait {
            let waits = submitter.stats.waits;
            let done = submitter.submit(id, &Unit::Wait(fence, fence.wait_for(value)), queued);
            // The wait is not the application's.
            submitter.stats.waits = waits;
            if let Err(failure) = done {
                // Only the wait is in the ring, and it does not need the references. The successor
                // takes new ones.
                held.release(id)?;
                return Err(failure);
            }
        }
        let done = submitter.submit(id, &Unit::Execute(lists), queued);
        let released = held.release(id);
        let done = done.or_else(|failure| self.recreate(present, failure));
        Ok(Placed::Done(done.and(released)))
    }

    /// Recreates the queue if its options allow it and a successor can continue. Otherwise returns
    /// `failure`.
    #[inline(never)]
    fn recreate(&self, present: &mut Present, failure: Failure) -> Result {
        let Present::User(old) = &mut *present else { return Ok(()) };
        if self.id.on_abort == OnAbort::Report || !successor::can_continue(&self.id, &failure) {
            return Err(failure);
        }
        let (successor, outcome) = successor::recreate(&self.id, self.pager.as_ref(), old)?;
        *present = match successor {
            Successor::User(user) => Present::User(user),
            Successor::Hardware(queue) => Present::Hardware(queue, old.submitter.stats),
        };
        outcome
    }

    /// Connects the doorbell of a ring. A queue that is refused or aborted is recreated if its
    /// options allow it, as by a submission.
    pub(crate) fn connect_doorbell(&self) -> Result {
        let mut state = self.state.lock_device();
        let Present::User(user) = &mut state.present else { return Ok(()) };
        let Err(failure) = user.submitter.connect_ahead(&self.id) else { return Ok(()) };
        self.recreate(&mut state.present, failure)?;
        match &mut state.present {
            // A new ring without unfinished work is not connected yet.
            Present::User(user) => user.submitter.connect_ahead(&self.id),
            Present::Hardware(..) => Ok(()),
        }
    }

    pub(crate) fn wait_idle(self: &Arc<Self>, by: Option<CpuTime>) -> Result {
        let mut marker = None;
        loop {
            let mut state = self.state.lock_device();
            let step = self.idle_step(&mut state, &mut marker);
            let wants_worker = state.backlog.wants_worker();
            drop(state);
            if wants_worker {
                self.start_worker();
            }
            let (target, last) = match step {
                Idle::Failed(failure) => return Err(failure),
                Idle::Hardware(queue) => return queue.wait_idle(by),
                Idle::Room(target) => (target, false),
                Idle::Last(target) => (target, true),
            };
            self.id.wait_for_progress(target.fence, &target.progress, target.value, by)?;
            if !last {
                continue;
            }
            // If the queue was recreated meanwhile, wait for its new ring.
            match &mut self.state.lock_device().present {
                Present::User(user) if user.progress_fence == target.fence => {
                    user.submitter.collect_held();
                    return Ok(());
                }
                _ => {}
            }
        }
    }

    /// Recreates the queue if its doorbell is permanently lost, as the next submission would.
    pub(crate) fn check_doorbell(&self) -> Submitted {
        let mut state = self.state.lock_device();
        let Present::User(user) = &state.present else { return Ok(None) };
        if !user.submitter.is_gone() {
            return Ok(None);
        }
        match self.recreate(&mut state.present, Why::Aborted.into()) {
            Ok(()) => Ok(None),
            Err(failure) if matches!(*failure, Why::Interrupted(_)) => Ok(Some(failure)),
            Err(failure) => Err(failure),
        }
    }

    /// Returns whether its memory shows that all queued work is complete.
    pub(crate) fn is_known_idle(&self) -> bool {
        let state = self.state.lock_device();
        state.backlog.is_empty() && state.present.is_known_idle()
    }

    /// Returns whether all queued work is complete and the device was not lost before.
    pub(crate) fn has_completed(&self) -> bool {
        self.is_known_idle() && !self.state.lock_device().present.is_lost()
    }

    /// Returns whether queued work is incomplete. Submits as much of the backlog as fits, as a
    /// later call would. The work of a lost device counts as complete.
    pub(crate) fn is_pending(self: &Arc<Self>) -> Result<bool> {
        self.check_doorbell()?;
        let mut state = self.state.lock_device();
        let State { present, backlog } = &mut *state;
        let full = self.drain(present, backlog).is_some();
        let wants_worker = backlog.wants_worker();
        let in_ring = match present {
            Present::User(_) => Ok(!present.is_known_idle()),
            Present::Hardware(queue, _) => queue.is_pending(),
        };
        drop(state);
        if wants_worker {
            self.start_worker();
        }
        Ok(full || in_ring?)
    }

    fn idle_step(&self, state: &mut State, marker: &mut Option<Marker>) -> Idle {
        let State { present, backlog } = state;
        if let Present::User(user) = &*present
            && self.id.on_abort != OnAbort::Report
            && user.submitter.is_gone()
            && let Err(failure) = self.recreate(present, Why::Aborted.into())
        {
            return Idle::Failed(failure);
        }
        let mut full = self.drain(present, backlog);
        if marker.as_ref().is_some_and(|marker| marker.recreations != present.recreations()) {
            *marker = None;
        }
        // Waits and signals have no progress value. If the engine has not taken them yet, an empty
        // command buffer behind them provides one.
        if full.is_none() && marker.is_none() && needs_marker(present) {
            let mut lost = None;
            full = match self.place(present, &Unit::Marker, &self.id.queued(), &mut lost) {
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
                backlog.put(&self.id.device.platform, &Unit::Marker, self.id.queued());
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
                Idle::Last(Box::new(Target { progress, fence, value }))
            }
        }
    }

    /// Runs one turn of the worker: submits as much as fits. `slept` is the target of a refused
    /// sleep and its status. Returns the next target; `None` if the backlog is empty, which ends
    /// the worker.
    fn work(&self, slept: Option<(&Target, Status)>) -> Option<Box<Target>> {
        let mut state = self.state.lock_device();
        let State { present, backlog } = &mut *state;
        let mut full = self.drain(present, backlog);
        // Recreating the queue destroys the fence that the worker slept on. If the fence is still
        // the same, another sleep on it would fail too.
        if let Some((target, status)) = slept
            && full.as_ref().is_some_and(|next| next.fence == target.fence)
        {
            // The run has ended. The backlog is kept for the next run, whose first call starts
            // another worker.
            if status == Status::CANCELLED {
                backlog.worker_ended();
                return None;
            }
            backlog.keep_failure(Some(Why::Refused(CPU_WAIT_CALL, status).into()));
            while backlog.pop().is_some() {
                backlog.count_left(&self.id.device.platform);
            }
            full = None;
        }
        if full.is_none() {
            backlog.worker_ended();
        }
        full
    }

    /// Releases the command memory that the GPU has finished with.
    pub(crate) fn release_finished(&self) {
        match &mut self.state.lock_device().present {
            Present::User(user) => user.submitter.in_flight.collect_now(&user.progress),
            Present::Hardware(queue, _) => queue.release_finished(),
        }
    }

    pub(crate) fn submission(&self) -> Submission {
        match &self.state.lock_device().present {
            Present::User(_) => Submission::User,
            Present::Hardware(..) => Submission::Hardware,
        }
    }

    /// Returns the number of ring slots; `None` if it has become a hardware queue.
    pub(crate) fn ring_slots(&self) -> Option<u64> {
        match &self.state.lock_device().present {
            Present::User(user) => Some(user.submitter.ring.slots()),
            Present::Hardware(..) => None,
        }
    }

    pub(crate) fn stats(&self) -> QueueStats {
        let state = self.state.lock_device();
        let mut stats = match &state.present {
            Present::User(user) => user.submitter.stats,
            Present::Hardware(queue, before) => {
                let mut stats = *before;
                stats += queue.stats();
                stats
            }
        };
        state.backlog.add_to(&self.id.device.platform, &mut stats);
        stats
    }

    /// Returns the command buffer named in a report on the kernel's queue with this number, if it
    /// is still known.
    pub(crate) fn reported(
        &self,
        number: QueueNumber,
        buffer: ReportedBuffer,
    ) -> Option<Arc<CommandMemory>> {
        match &self.state.lock_device().present {
            Present::User(user) if user.submitter.number == number => {
                user.submitter.in_flight.memory_of_progress(buffer.progress).cloned()
            }
            Present::User(_) => None,
            Present::Hardware(queue, _) => queue.reported(number, buffer),
        }
    }

    /// Starts the worker of the backlog. The worker holds the queue only while it submits. A
    /// destroyed queue also destroys the fence that the worker sleeps on, which wakes it.
    fn start_worker(self: &Arc<Self>) {
        let device = &self.id.device;
        let (queue, thunk) = (Arc::downgrade(self), Arc::clone(device.kernel.thunk()));
        let work = move |slept: Option<(&Target, Status)>| queue.upgrade()?.work(slept);
        device.platform.spawn_worker(format!("backlog of queue '{}'", self.id.name), move || {
            let mut target = work(None);
            while let Some(waits) = &target {
                let Target { progress, fence, value } = &**waits;
                let fences = [FenceValue { fence: *fence, value: *value }];
                let refused = match progress.load() >= *value {
                    true => None,
                    false => thunk.enter().wait_from_cpu(&fences, WaitMode::All, None).err(),
                };
                let refused = refused.filter(|_| progress.load() < *value);
                let next = work(refused.map(|status| (&**waits, status)));
                target = next;
            }
        });
    }
}

/// The outcome for a ring without room, which it has when progress reaches `value`. Fails if the
/// doorbell is lost: such a ring does not drain.
#[inline(never)]
fn full(user: &UserRing, value: u64) -> Result<Placed> {
    if user.submitter.is_gone() {
        return Err(Why::aborted());
    }
    let (progress, fence) = (user.progress.clone(), user.progress_fence);
    Ok(Placed::Full(Box::new(Target { progress, fence, value })))
}

/// Returns whether the last packet of the ring has no progress value and is not taken yet.
fn needs_marker(present: &Present) -> bool {
    match present {
        Present::User(user) => {
            !user.submitter.ends_with_progress && !user.submitter.ring.is_drained()
        }
        Present::Hardware(..) => false,
    }
}
