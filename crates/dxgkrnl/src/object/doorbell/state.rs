//! The connection of a doorbell, and the two rules of decision 152.
//!
//! *Progress.* A process connects, and another queue may take the doorbell, or an idle engine lose
//! its power, before the process has rung it. A doorbell is taken away at most [`MOST_TAKEN`] times
//! while its process tries to submit the same work. Its next connect has the status
//! CONNECTED_NOTIFY and no hardware: the ring lands on the dummy page, the process notifies, and
//! the driver reads the write pointer. The notification ends the connection, so the next work
//! competes for a doorbell again.
//!
//! *Status after mapping.* Where the process maps the page itself, the status is stored when it
//! has.

use std::sync::{Arc, Weak};
use tidegate_calls::doorbell::{ConnectAnnouncement, Connection};
use tidegate_calls::{DoorbellStatus, NoHint, Status};
use tidegate_platform::planted;
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

/// How often the driver or a loss of power has taken the doorbell away while its process tried to
/// submit the same work.
#[derive(Default)]
struct Taken {
    times: u32,
    /// The progress value that the process had announced.
    announced: u64,
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

    /// Returns the outcome of a connect that has nothing to do, or that needs no hardware because
    /// the doorbell was taken away too often. In the transition.
    // spec: UMS-201
    pub(super) fn decide_without_hardware(
        &mut self,
        status: &Word,
    ) -> Option<Result<Connection, Status>> {
        let decided = self.is_decided();
        // The fault is the mistake that `doorbell_progress` must find.
        if decided.is_some()
            || self.taken.times < MOST_TAKEN
            || planted!(status.platform(), DoorbellsWithoutEnd)
        {
            return decided;
        }
        let connection = Connection { value_base: 0, hint: Arc::new(NoHint), announcement: None };
        // A late word of the client about an earlier connection is not about this one.
        self.connections += 1;
        self.by_notification = true;
        status.store(DoorbellStatus::ConnectedNotify as u64);
        Some(Ok(self.connection.insert(connection).clone()))
    }

    /// Counts that the doorbell was taken away. A process that has announced other work
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

/// The status of a connection whose page the process maps itself. A thread that read CONNECTED
/// before would ring the page that is mapped until then, and the ring would be lost.
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

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_platform::Platform;

    fn connection() -> Connection {
        Connection { value_base: 0, hint: Arc::new(NoHint), announcement: None }
    }

    fn status_word(value: DoorbellStatus) -> Word {
        let word = Platform::host().page(1).word(0);
        word.store(value as u64);
        word
    }

    #[test]
    fn a_doorbell_taken_eight_times_for_the_same_work_connects_without_hardware_once() {
        let status = status_word(DoorbellStatus::DisconnectedRetry);
        let mut state = State { connections: 3, ..State::default() };
        for _ in 0..7 {
            state.count_taken(5);
        }
        assert!(state.decide_without_hardware(&status).is_none());
        // Other work was announced in between, so the process has gone on.
        state.count_taken(6);
        for _ in 0..6 {
            state.count_taken(6);
            assert!(state.decide_without_hardware(&status).is_none());
        }
        state.count_taken(6);
        assert!(state.decide_without_hardware(&status).unwrap().is_ok());
        assert_eq!(status.load(), DoorbellStatus::ConnectedNotify as u64);
        assert_eq!((state.by_notification, state.connections), (true, 4));

        state.end_by_notification(&status);
        assert_eq!(status.load(), DoorbellStatus::DisconnectedRetry as u64);
        assert!(state.connection.is_none() && !state.by_notification);
        state.count_taken(6);
        assert!(state.decide_without_hardware(&status).is_none(), "it competes for hardware again");
    }

    #[test]
    fn a_notification_ends_no_connection_that_has_hardware() {
        let status = status_word(DoorbellStatus::Connected);
        let mut state = State { connection: Some(connection()), ..State::default() };
        for _ in 0..8 {
            state.count_taken(5);
        }
        state.end_by_notification(&status);
        assert!(state.connection.is_some());
        assert_eq!(status.load(), DoorbellStatus::Connected as u64);
        // But its process has gone on.
        state.connection = None;
        assert!(state.decide_without_hardware(&status).is_none());
    }

    #[test]
    fn a_late_word_about_an_earlier_connection_says_nothing_about_this_one() {
        let status = status_word(DoorbellStatus::DisconnectedRetry);
        let earlier = State { connection: Some(connection()), connections: 1, ..State::default() };
        let state = Arc::new(status.platform().mutex("a doorbell", earlier));
        let late = Announcement::of(&state, &status, 1, DoorbellStatus::Connected);
        state.lock().connection = None;
        late.page_is_mapped();
        assert_eq!(status.load(), DoorbellStatus::DisconnectedRetry as u64, "it has ended");
        {
            let mut state = state.lock();
            (0..8).for_each(|_| state.count_taken(5));
            state.decide_without_hardware(&status).unwrap().unwrap();
        }
        late.page_is_mapped();
        assert_eq!(status.load(), DoorbellStatus::ConnectedNotify as u64, "it has no hardware");
        let own = Announcement::of(&state, &status, 2, DoorbellStatus::Connected);
        own.page_is_mapped();
        assert_eq!((own.number(), status.load()), (2, DoorbellStatus::Connected as u64));
    }
}
