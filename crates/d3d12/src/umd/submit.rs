//! The submission to a user-mode queue in the published order, as one function: new progress value,
//! command buffer, last-queued cell, ring and write pointer, doorbell, status, records.
//!
//! The caller holds the queue's submitter lock to the end, also across a connect. Otherwise another
//! thread whose ring was lost could load the status after the connect and find CONNECTED. The
//! kernel is called only if the status requires it. `user_queue` has checked that the ring has
//! room.

use crate::counters::QueueStats;
use crate::umd::closed_list::ClosedList;
use crate::umd::command_memory::CommandMemory;
use crate::umd::encode::{self, LogCursor, VerboseLog};
use crate::umd::failure::{Failure, Why};
use crate::umd::fence::FenceObject;
use crate::umd::held_fences::HeldFences;
use crate::umd::in_flight::InFlight;
use crate::umd::progress::FenceReader;
use crate::umd::queue_identity::QueueIdentity;
use crate::umd::ring::Ring;
use std::sync::Arc;
use tidegate_calls::{Connection, Doorbell, DoorbellStatus, Status};
use tidegate_d3dukmdt::fence_cell::FenceWait;
use tidegate_gpu_abi::DOORBELL_VALUE_WORD;
use tidegate_platform::{Platform, QueueNumber, Queued, Step, SubmissionKey};

/// Maximum number of consecutive lost connects before a submission notifies the kernel instead. A
/// connect is lost if another queue takes the doorbell before the next load of the status. This
/// repeats if many queues share few doorbells and submit concurrently, because each connect
/// victimises another queue.
const RETRY_LIMIT: u32 = 8;

/// The status word of a doorbell for which a ring is enough.
const CONNECTED: u64 = DoorbellStatus::Connected as u64;

/// A unit of submission. It gets consecutive slots and one ring of the doorbell.
#[derive(Clone, Copy)]
pub(crate) enum Unit<'a> {
    /// Command buffers, in order.
    Execute(&'a [&'a ClosedList]),
    /// A wait of the queue, with the epoch of its call.
    Wait(&'a Arc<FenceObject>, FenceWait),
    /// A signal of the queue.
    Signal(&'a Arc<FenceObject>, u64),
    /// An empty command buffer, for its progress value.
    Marker,
}

impl Unit<'_> {
    /// Counts the unit by its kind.
    #[inline]
    pub(crate) fn count_in(&self, stats: &mut QueueStats) {
        match self {
            Unit::Execute(_) => stats.executes += 1,
            Unit::Wait(..) => stats.waits += 1,
            Unit::Signal(..) => stats.signals += 1,
            Unit::Marker => {}
        }
    }
}

/// The state of one user-mode queue that its submitter lock orders.
pub(crate) struct Submitter {
    /// The kernel's number of the hardware queue.
    pub(crate) number: QueueNumber,
    pub(crate) ring: Ring,
    pub(crate) doorbell: Doorbell,
    /// The value base and hint of the present connect; the hint wakes a sleeping engine.
    pub(crate) connection: Option<Connection>,
    /// The progress value queued last.
    pub(crate) progress: u64,
    pub(crate) wait_log: LogCursor,
    pub(crate) signal_log: LogCursor,
    pub(crate) verbose_log: VerboseLog,
    pub(crate) in_flight: InFlight,
    /// Fences of the ring's signals, held until their slots are taken.
    pub(crate) held: HeldFences,
    pub(crate) stats: QueueStats,
    /// The last slot stores a progress value, so nothing is queued behind it.
    pub(crate) ends_with_progress: bool,
    /// The doorbell is permanently lost.
    pub(crate) aborted: bool,
}

impl Submitter {
    /// Returns the maximum number of slots that `unit` takes.
    #[inline]
    pub(crate) fn slots_of(&self, unit: &Unit<'_>) -> u64 {
        match unit {
            Unit::Execute(lists) => lists.len() as u64,
            Unit::Wait(..) | Unit::Signal(..) => 1 + u64::from(self.ring.needs_checkpoint()),
            Unit::Marker => 1,
        }
    }

    // spec: UMS-001, UMS-071, UMS-084, UMS-085, NF-194
    /// Submits `unit`. The caller has ensured that the ring has room. Steps 3 to 5 store absolute
    /// values, so a retry can ring again and publishes nothing twice.
    ///
    /// What no other agent needs is recorded in step 7, while the engine already runs the unit: the
    /// caller's references keep its memory and fences alive until then.
    pub(crate) fn submit(
        &mut self,
        id: &QueueIdentity,
        unit: &Unit<'_>,
        queued: &Queued,
    ) -> Result<(), Failure> {
        if self.aborted {
            unit.count_in(&mut self.stats);
            return Err(Why::aborted());
        }
        // 1. to 4.
        match *unit {
            Unit::Execute(lists) => self.put_lists(id, lists, queued),
            Unit::Wait(fence, wait) => self.put_wait(id, fence, wait, queued),
            Unit::Signal(fence, value) => self.put_signal(id, fence, value, queued),
            Unit::Marker => self.put_marker(id, queued),
        }
        self.ring.publish();
        let accepted = self.ring_until_accepted(id);

        // 7. The unit is in the ring, whether the ring was accepted or not.
        unit.count_in(&mut self.stats);
        match *unit {
            Unit::Execute(lists) => {
                self.hold_buffers(lists);
                self.ends_with_progress = true;
            }
            Unit::Signal(fence, _) => {
                self.held.hold(fence, self.ring.written());
                self.ends_with_progress = false;
            }
            Unit::Wait(..) => self.ends_with_progress = false,
            Unit::Marker => self.ends_with_progress = true,
        }
        accepted
    }

    #[inline(never)]
    fn put_lists(&mut self, id: &QueueIdentity, lists: &[&ClosedList], queued: &Queued) {
        // 1. and 3.
        let mut next = self.queue_progress(lists.len() as u64);

        // 2. The command buffers were filled when their lists were closed. The ring packet carries
        //    the progress value (`put_buffer`), so that a list can be submitted again with another
        //    value.

        // 4. The packets are written to the ring, then the write pointer.
        // spec: UMS-078
        for list in lists {
            next += 1;
            self.put_buffer(id, &list.memory, next, queued);
        }
    }

    #[inline(never)]
    fn put_wait(
        &mut self,
        id: &QueueIdentity,
        fence: &FenceObject,
        wait: FenceWait,
        queued: &Queued,
    ) {
        self.put_checkpoint(id, queued);
        id.device.platform.spend(Step::UmdEncode);
        let at = (self.next_slot(), queued);
        self.ring.put(&encode::wait(id, fence, wait, &mut self.wait_log, at));
    }

    #[inline(never)]
    fn put_signal(&mut self, id: &QueueIdentity, fence: &FenceObject, value: u64, queued: &Queued) {
        self.put_checkpoint(id, queued);
        id.device.platform.spend(Step::UmdEncode);
        let at = (self.next_slot(), queued);
        self.ring.put(&encode::signal(id, fence, value, &mut self.signal_log, at));
    }

    /// Steps 1 and 3 for `buffers` command buffers. Returns the progress value before the first.
    #[inline]
    pub(crate) fn queue_progress(&mut self, buffers: u64) -> u64 {
        // 1. A new progress value for each command buffer, one above the one before.
        // spec: UMS-075
        let before = self.progress;
        self.progress += buffers;

        // 3. The value queued last, before the command buffers become visible to the GPU with the
        //    write pointer: the kernel must not see an idle queue that is about to run.
        // spec: UMS-077, UMS-073
        self.doorbell.last_queued.store(self.progress);
        before
    }

    /// Puts an empty command buffer into the ring if the quarter of the next slot needs it before
    /// a wait or signal.
    #[inline]
    pub(crate) fn put_checkpoint(&mut self, id: &QueueIdentity, queued: &Queued) {
        if self.ring.needs_checkpoint() {
            self.put_marker(id, queued);
        }
    }

    /// Puts an empty command buffer into the ring: steps 1 to 4.
    #[inline(never)]
    fn put_marker(&mut self, id: &QueueIdentity, queued: &Queued) {
        let progress = self.queue_progress(1) + 1;
        self.in_flight.hold(&id.device.marker, progress, self.ring.written());
        self.put_buffer(id, &id.device.marker, progress, queued);
        self.stats.submissions += 1;
    }

    /// Holds the memory of lists in the ring's last slots until progress has passed it.
    #[inline]
    fn hold_buffers(&mut self, lists: &[&ClosedList]) {
        let count = lists.len() as u64;
        let (mut progress, mut slot) = (self.progress - count, self.ring.written() - count);
        for list in lists {
            progress += 1;
            self.in_flight.hold(&list.memory, progress, slot);
            slot += 1;
        }
        self.stats.submissions += count;
    }

    /// Steps 5 and 6 of the submission: rings with the present write pointer until the ring is
    /// accepted.
    #[inline(always)]
    pub(crate) fn ring_until_accepted(&mut self, id: &QueueIdentity) -> Result<(), Failure> {
        match self.ring(&id.device.platform) {
            CONNECTED => Ok(()),
            status => self.ring_again(id, status),
        }
    }

    /// Rings, and returns the word of the status.
    #[inline(always)]
    fn ring(&mut self, platform: &Platform) -> u64 {
        // 5. Ring: the write pointer, absolute. The store goes through the mapping, never to a
        //    cached page, which may belong to another queue by now. The hint wakes an engine
        //    that sleeps or reads other doorbells.
        platform.spend(Step::DoorbellStore);
        let base = self.connection.as_ref().map_or(0, |c| c.value_base);
        // spec: UMS-079
        self.doorbell.mapping.store(DOORBELL_VALUE_WORD, base + self.ring.written());
        self.stats.doorbell_rings += 1;
        if let Some(connection) = &self.connection {
            connection.hint.rung();
        }

        // A full fence between the ring and the load of the status. The hint's locked
        // operations also act as one on current processors, but the hint is vendor code and is
        // absent before the first connect. Without a fence the load could be performed first
        // and find CONNECTED, and the store could then reach a page that no engine reads any
        // more.
        // spec: UMS-083
        platform.fence();

        // 6. Load the status: whether the ring arrived.
        // spec: UMS-080
        self.doorbell.status.load()
    }

    /// Does what the status requires, and rings again after a connect.
    #[inline(never)]
    fn ring_again(&mut self, id: &QueueIdentity, first: u64) -> Result<(), Failure> {
        let mut status = first;
        for attempt in 0.. {
            match DoorbellStatus::from_word(status) {
                DoorbellStatus::Connected => return Ok(()),
                DoorbellStatus::ConnectedNotify => return self.notify(id),
                // When notified, the driver reads the write pointer, with or without a doorbell.
                // spec: UMS-152
                DoorbellStatus::DisconnectedRetry if attempt == RETRY_LIMIT => {
                    return self.notify(id);
                }
                DoorbellStatus::DisconnectedRetry => self.connect(id)?,
                DoorbellStatus::DisconnectedAbort => {
                    self.aborted = true;
                    return Err(Why::aborted());
                }
            }
            status = self.ring(&id.device.platform);
        }
        unreachable!("the loop ends by returning")
    }

    /// Returns whether the doorbell is permanently lost.
    pub(crate) fn is_gone(&self) -> bool {
        self.aborted
            || DoorbellStatus::from_word(self.doorbell.status.load())
                == DoorbellStatus::DisconnectedAbort
    }

    /// Returns the queue's number and the slot that is filled next.
    #[inline]
    pub(crate) fn next_slot(&self) -> (QueueNumber, u64) {
        (self.number, self.ring.written())
    }

    /// Puts a command buffer into the ring. The caller holds its memory.
    #[inline(always)]
    fn put_buffer(
        &mut self,
        id: &QueueIdentity,
        memory: &CommandMemory,
        progress: u64,
        queued: &Queued,
    ) {
        id.device.platform.spend(Step::UmdEncode);
        // spec: UMS-076
        let packet = encode::execute(memory, progress, &mut self.verbose_log);
        if id.notes_submissions() {
            self.note_buffer(id, memory, progress, queued);
        }
        self.ring.put_execute(&packet, progress);
    }

    #[inline(never)]
    fn note_buffer(
        &self,
        id: &QueueIdentity,
        memory: &CommandMemory,
        progress: u64,
        queued: &Queued,
    ) {
        let queued = Queued { name: memory.trace_name, ..*queued };
        let key = SubmissionKey::Completion(progress);
        id.device.platform.note_queued(self.number, key, queued);
    }

    /// Releases the memory and fences that the engine has passed, if enough is held to justify
    /// reading its progress.
    #[inline]
    pub(crate) fn collect(&mut self, progress: &FenceReader) {
        self.in_flight.collect(progress);
        if self.held.is_due() {
            self.collect_held();
        }
    }

    /// Releases the fences of slots that the engine has taken.
    #[inline(never)]
    pub(crate) fn collect_held(&mut self) {
        self.held.collect(self.ring.taken_now());
    }

    /// Returns the failure of a doorbell call. If the device is lost, the doorbell is permanently
    /// lost.
    fn refused(&mut self, call: &'static str, status: Status) -> Failure {
        if status == Status::DEVICE_REMOVED {
            self.aborted = true;
            return Why::Aborted.into();
        }
        Why::Refused(call, status).into()
    }

    /// Notifies the driver of new work through the kernel.
    #[inline(never)]
    fn notify(&mut self, id: &QueueIdentity) -> Result<(), Failure> {
        let notified = id.device.enter().notify_work_submission(self.doorbell.handle);
        notified.map_err(|status| self.refused("D3DKMTNotifyWorkSubmission", status))
    }

    /// Connects a doorbell that is disconnected, without a ring.
    pub(crate) fn connect_ahead(&mut self, id: &QueueIdentity) -> Result<(), Failure> {
        match DoorbellStatus::from_word(self.doorbell.status.load()) {
            DoorbellStatus::Connected | DoorbellStatus::ConnectedNotify => Ok(()),
            DoorbellStatus::DisconnectedRetry => self.connect(id),
            DoorbellStatus::DisconnectedAbort => {
                self.aborted = true;
                Err(Why::aborted())
            }
        }
    }

    // spec: UMS-081
    /// Connects the doorbell.
    #[inline(never)]
    fn connect(&mut self, id: &QueueIdentity) -> Result<(), Failure> {
        let connected = id.device.enter().connect_doorbell(self.doorbell.handle);
        let connected =
            connected.map_err(|status| self.refused("D3DKMTConnectDoorbell", status))?;
        self.connection = Some(connected);
        if self.stats.connects > 0 {
            self.stats.retries += 1;
            id.note_doorbell("ring repeated");
        }
        self.stats.connects += 1;
        Ok(())
    }
}
