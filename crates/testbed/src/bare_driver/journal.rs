//! One journal of what the driver did at the device and at the kernel, in order.

use std::sync::Arc;
use tidegate::ddi::{DisconnectReason, InterruptData, OsHandle};
use tidegate::gpu_abi::AdminCommand;
use tidegate::platform::{Mutex, Platform};

/// A call of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A command of the mailbox.
    Admin(AdminCommand),
    /// A fence and its new MonitoredValue, in the registers of the shadow.
    Shadow(u64, u64),
    /// DxgkCbNotifyInterrupt.
    Notify(InterruptData),
    /// DxgkCbQueueDpc.
    QueueDpc,
    /// DxgkCbNotifyDpc.
    NotifyDpc,
    /// DxgkCbDisconnectDoorbell.
    Disconnect {
        /// The kernel's handle of the queue.
        hw_queue: OsHandle,
        /// The kernel's handle of the doorbell.
        doorbell: OsHandle,
        /// The reason.
        reason: DisconnectReason,
    },
}

/// The calls of the driver, shared by device and kernel.
#[derive(Clone)]
pub struct Journal(Arc<Mutex<Vec<Event>>>);

impl Journal {
    /// An empty journal.
    pub fn new(platform: &Platform) -> Journal {
        Journal(Arc::new(platform.mutex("journal", Vec::new())))
    }

    /// Records a call.
    pub fn push(&self, event: Event) {
        self.0.lock_device().push(event);
    }

    /// Takes the calls since the last take.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.lock_device())
    }
}
