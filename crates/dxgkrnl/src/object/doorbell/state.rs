//! The connection of a doorbell, and the two rules of decision 152.
//!
//! *Progress.* A process connects, and another queue may take the doorbell before the process has rung
//! it. A doorbell is taken away at most [`MOST_TAKEN`] times while its process tries to submit the same
//! work. Its next connect has the status CONNECTED_NOTIFY and no hardware: the ring lands on the dummy
//! page, the process notifies, and the driver reads the write pointer. The notification ends the
//! connection, so the next work competes for a doorbell again.
//!
//! *Status after mapping.* Where the process maps the page itself, the status is stored when it has.

use std::sync::{Arc, Weak};
use tidegate_calls::doorbell::{ConnectAnnouncement, Connection};
use tidegate_calls::{DoorbellStatus, RingHint, Status};
use tidegate_platform::{CpuTime, Mutex, Word};

/// The most times that a doorbell is taken away before its process submits without one.
const MOST_TAKEN: u32 = 8;

#[derive(Default)]
pub(super) struct State {
    /// The current connection.
    pub(super) connection: Option<Connection>,
    /// The number of connections so far.
    pub(super) connections: u64,
    /// The connection has no hardware: the process notifies the driver of its next work.
    pub(super) by_notification: bool,
    taken: Taken,
    pub(super) aborted: bool,
    /// The driver has released the doorbell or is about to.
    pub(super) ended: bool,
    /// When the driver was last called to connect and to notify, for reports.
    pub(super) connected: Option<CpuTime>,
    pub(super) notified: Option<CpuTime>,
}

/// How often the driver has taken the doorbell away while its process tried to submit the same work.
#[derive(Default)]
struct Taken {
    times: u32,
    /// The progress value that the process had announced.
    announced: u64,
}

/// The notification that follows each ring wakes the engine.
struct NotifiedHint;

impl RingHint for NotifiedHint {
    fn rung(&self) {}
}

impl State {
    /// Returns the outcome of a connect that has nothing to do.
    pub(super) fn is_decided(&self) -> Option<Result<Connection, Status>> {
        // spec: UMS-042
        if self.aborted {
            return Some(Err(Status::DEVICE_REMOVED));
        }
        // spec: UMS-031
        self.connection.clone().map(Ok)
    }

    /// Returns the outcome of a connect that has nothing to do, or that needs no hardware because the
    /// doorbell was taken away too often. In the transition.
    // spec: UMS-201
    pub(super) fn decide_without_hardware(
        &mut self,
        status: &Word,
    ) -> Option<Result<Connection, Status>> {
        let decided = self.is_decided();
        // The fault is the mistake that `doorbell_progress` must find.
        if decided.is_some()
            || self.taken.times < MOST_TAKEN
            || status.platform().fault("doorbells without end")
        {
            return decided;
        }
        let connection =
            Connection { value_base: 0, hint: Arc::new(NotifiedHint), announcement: None };
        // A late word of the client about an earlier connection is not about this one.
        self.connections += 1;
        self.by_notification = true;
        status.store(DoorbellStatus::ConnectedNotify as u64);
        Some(Ok(self.connection.insert(connection).clone()))
    }

    /// Counts that the driver has taken the doorbell away. A process that has announced other work
    /// since has gone on. A ring of signals announces nothing, so its process notifies a little too
    /// often.
    pub(super) fn count_taken(&mut self, announced: u64) {
        let before = if self.taken.announced == announced { self.taken.times } else { 0 };
        self.taken = Taken { times: before + 1, announced };
    }

    /// The process notifies the driver of its work, so it has gone on. Ends a connection without
    /// hardware.
    pub(super) fn end_by_notification(&mut self, status: &Word) {
        self.taken = Taken::default();
        if std::mem::take(&mut self.by_notification) {
            self.connection = None;
            status.store(DoorbellStatus::DisconnectedRetry as u64);
        }
    }
}

/// The status of a connection whose page the process maps itself. A thread that read CONNECTED before
/// would ring the page that is mapped until then, and the ring would be lost.
pub(super) struct Announcement {
    state: Weak<Mutex<State>>,
    word: Word,
    number: u64,
    status: DoorbellStatus,
}

impl Announcement {
    pub(super) fn of(
        state: &Arc<Mutex<State>>,
        word: &Word,
        number: u64,
        status: DoorbellStatus,
    ) -> Arc<dyn ConnectAnnouncement> {
        Arc::new(Announcement { state: Arc::downgrade(state), word: word.clone(), number, status })
    }
}

impl ConnectAnnouncement for Announcement {
    fn number(&self) -> u64 {
        self.number
    }

    /// Stores under the lock, so that the status of a disconnect comes after this one.
    // spec: UMS-203
    fn page_is_mapped(&self) {
        let Some(state) = self.state.upgrade() else { return };
        let state = state.lock();
        if state.connection.is_some() && state.connections == self.number {
            self.word.store(self.status as u64);
        }
    }
}
