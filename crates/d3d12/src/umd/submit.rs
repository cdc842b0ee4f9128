//! Owns the submission to a user-mode queue in the published order, as one function: new progress
//! value, command buffer, last-queued cell, ring and write pointer, doorbell, status.
//!
//! The caller holds the queue's submitter lock to the end, also across a connect. Otherwise another
//! thread whose ring was lost could load the status after the connect and find CONNECTED. The
//! kernel is called only if the status requires it. `user_queue` has checked that the ring has
//! room.

use crate::counters::QueueStats;
use crate::umd::closed_list::ClosedList;
use crate::umd::command_memory::CommandMemory;
use crate::umd::encode::{self, LogCursor, QueuedSlot, VerboseLog};
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
use tidegate_platform::{QueueNumber, Queued, Step, SubmissionKey};

/// Maximum number of consecutive lost connects before a submission notifies the kernel instead. A
/// connect is lost if another queue takes the doorbell before the next load of the status. This
/// repeats if many queues share few doorbells and submit concurrently, because each connect
/// victimises another queue.
const RETRY_LIMIT: u32 = 8;

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
    /// Fences of the ring's signals and waits, held until their slots are taken.
    pub(crate) held: HeldFences,
    pub(crate) stats: QueueStats,
    /// The last slot stores a progress value, so nothing is queued behind it.
    pub(crate) ends_with_progress: bool,
    /// The doorbell is permanently lost.
    pub(crate) aborted: bool,
}

impl Submitter {
    /// Returns the maximum number of slots that `unit` takes.
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
    pub(crate) fn submit(
        &mut self,
        id: &QueueIdentity,
        unit: &Unit<'_>,
        queued: Queued,
    ) -> Result<(), Failure> {
        let platform = &id.device.platform;
        if self.aborted {
            return Err(Why::Aborted.into());
        }

        // 1. A new progress value for each command buffer, one above the one before.
        let checkpoint =
            matches!(unit, Unit::Wait(..) | Unit::Signal(..)) && self.ring.needs_checkpoint();
        let lists = if let Unit::Execute(lists) = unit { lists } else { &[][..] };
        let buffers = lists.len() as u64 + u64::from(checkpoint || matches!(unit, Unit::Marker));
        // spec: UMS-075
        let mut next = self.progress;
        self.progress += buffers;

        // 2. The command buffers were filled when their lists were closed. The ring packet carries
        //    the progress value (`put_buffer`), so that a list can be submitted again with another
        //    value.

        // 3. The value queued last, before the command buffers become visible to the GPU with the
        //    write pointer: the kernel must not see an idle queue that is about to run.
        // spec: UMS-077, UMS-073
        if buffers > 0 {
            self.doorbell.last_queued.store(self.progress);
        }

        // 4. The packets are written to the ring, then the write pointer.
        // spec: UMS-078
        if checkpoint || matches!(unit, Unit::Marker) {
            next += 1;
            self.put_buffer(id, &id.device.marker, next, queued);
        }
        for list in lists {
            next += 1;
            self.put_buffer(id, &list.memory, next, queued);
        }
        match *unit {
            Unit::Wait(fence, wait) => {
                platform.spend(Step::UmdEncode);
                self.held.hold(fence, self.ring.written() + 1);
                let at = self.next_slot(queued);
                self.ring.put(&encode::wait(id, fence, wait, &mut self.wait_log, at));
            }
            Unit::Signal(fence, value) => {
                platform.spend(Step::UmdEncode);
                self.held.hold(fence, self.ring.written() + 1);
                let at = self.next_slot(queued);
                self.ring.put(&encode::signal(id, fence, value, &mut self.signal_log, at));
            }
            Unit::Execute(_) | Unit::Marker => {}
        }
        self.ends_with_progress = matches!(unit, Unit::Execute(_) | Unit::Marker);
        self.ring.publish();

        self.ring_until_accepted(id)
    }

    /// Steps 5 and 6 of the submission: rings with the present write pointer until the ring is
    /// accepted.
    pub(crate) fn ring_until_accepted(&mut self, id: &QueueIdentity) -> Result<(), Failure> {
        let platform = &id.device.platform;
        for attempt in 0.. {
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
            match DoorbellStatus::from_word(self.doorbell.status.load()) {
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
                    return Err(Why::Aborted.into());
                }
            }
        }
        unreachable!("the loop ends by returning")
    }

    /// Returns whether the doorbell is permanently lost.
    pub(crate) fn is_gone(&self) -> bool {
        self.aborted
            || DoorbellStatus::from_word(self.doorbell.status.load())
                == DoorbellStatus::DisconnectedAbort
    }

    /// Returns the slot that is filled next.
    pub(crate) fn next_slot(&self, queued: Queued) -> QueuedSlot {
        QueuedSlot { queue: self.number, slot: self.ring.written(), queued }
    }

    pub(crate) fn put_buffer(
        &mut self,
        id: &QueueIdentity,
        memory: &Arc<CommandMemory>,
        progress: u64,
        queued: Queued,
    ) {
        id.device.platform.spend(Step::UmdEncode);
        self.in_flight.hold(memory, progress, self.ring.written());
        // spec: UMS-076
        let packet = encode::execute(memory, progress, &mut self.verbose_log);
        let queued = Queued { name: memory.trace_name, ..queued };
        let key = SubmissionKey::Completion(progress);
        id.device.platform.note_queued(self.number, key, queued);
        self.ring.put_execute(&packet, progress);
        self.stats.submissions += 1;
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
    fn notify(&mut self, id: &QueueIdentity) -> Result<(), Failure> {
        let notified = id.device.enter().notify_work_submission(self.doorbell.handle);
        notified.map_err(|status| self.refused("D3DKMTNotifyWorkSubmission", status))
    }

    // spec: UMS-081
    /// Connects the doorbell after a ring without one.
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
