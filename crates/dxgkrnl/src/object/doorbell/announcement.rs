//! The status of a connection whose page the process maps itself, after the call.
//!
//! The status is stored when the process has mapped the page. A thread that read CONNECTED before
//! would ring the page that is mapped until then, and the ring would be lost.

use super::Doorbell;
use std::sync::{Arc, Weak};
use tidegate_calls::DoorbellStatus;
use tidegate_calls::doorbell::ConnectAnnouncement;

pub(super) struct Announcement {
    doorbell: Weak<Doorbell>,
    number: u64,
    status: DoorbellStatus,
}

impl Announcement {
    pub(super) fn of(
        doorbell: &Arc<Doorbell>,
        number: u64,
        status: DoorbellStatus,
    ) -> Arc<dyn ConnectAnnouncement> {
        Arc::new(Announcement { doorbell: Arc::downgrade(doorbell), number, status })
    }
}

impl ConnectAnnouncement for Announcement {
    fn number(&self) -> u64 {
        self.number
    }

    /// Stores under the lock, so that the status of a disconnect comes after this one.
    fn page_is_mapped(&self) {
        let Some(doorbell) = self.doorbell.upgrade() else { return };
        let state = doorbell.state.lock();
        if state.connection.is_some() && state.connections == self.number {
            doorbell.status.store(self.status as u64);
        }
    }
}
