//! Progress of queues that share doorbells. A process connects, and another queue may take the
//! doorbell before the process has rung it. With more queues than doorbells this could go on for ever.
//!
//! The rule: a doorbell is taken away at most [`MOST_TAKEN`] times while its process tries to submit
//! the same work. Its next connect has the status CONNECTED_NOTIFY and no hardware. The ring lands on
//! the dummy page, the process notifies, and the driver reads the write pointer. The notification ends
//! the connection, so the next work competes for a doorbell again (decision 152).

use super::{Doorbell, State};
use std::sync::Arc;
use tidegate_calls::doorbell::Connection;
use tidegate_calls::{DoorbellStatus, RingHint, Status};

/// The most times that a doorbell is taken away before its process submits without one.
const MOST_TAKEN: u32 = 8;

/// How often the driver has taken the doorbell away while its process tried to submit the same work.
#[derive(Default)]
pub(super) struct Taken {
    times: u32,
    /// The progress value that the process had announced.
    announced: u64,
}

/// The notification that follows each ring wakes the engine.
struct NotifiedHint;

impl RingHint for NotifiedHint {
    fn rung(&self) {}
}

impl Doorbell {
    /// Counts that the driver has taken the doorbell away. A process that has announced other work
    /// since has gone on. A ring of signals announces nothing, so its process notifies a little too
    /// often.
    pub(super) fn count_taken(&self) {
        let announced = self.announced();
        let taken = &mut self.state.lock().taken;
        let before = if taken.announced == announced { taken.times } else { 0 };
        *taken = Taken { times: before + 1, announced };
    }

    /// Returns the outcome of a connect that has nothing to do, or that needs no hardware because the
    /// doorbell was taken away too often. In the transition.
    // spec: UMS-201
    pub(super) fn decide_without_hardware(&self) -> Option<Result<Connection, Status>> {
        let mut state = self.state.lock();
        let decided = state.is_decided();
        let is_kept_back = state.taken.times >= MOST_TAKEN;
        // The fault is the mistake that `doorbell_progress` must find.
        if decided.is_some() || !is_kept_back || self.port().platform.fault("doorbells without end")
        {
            return decided;
        }
        let connection =
            Connection { value_base: 0, hint: Arc::new(NotifiedHint), announcement: None };
        state.by_notification = true;
        self.status.store(DoorbellStatus::ConnectedNotify as u64);
        Some(Ok(state.connection.insert(connection).clone()))
    }

    /// The process notifies the driver of its work, so it has gone on. Ends a connection without
    /// hardware.
    pub(super) fn end_by_notification(&self, state: &mut State) {
        state.taken = Taken::default();
        if std::mem::take(&mut state.by_notification) {
            state.connection = None;
            self.status.store(DoorbellStatus::DisconnectedRetry as u64);
        }
    }
}
