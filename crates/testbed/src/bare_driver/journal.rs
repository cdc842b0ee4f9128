//! The driver's calls to the device and to the kernel, in order.

use std::sync::Arc;
use tidegate::ddi::{DisconnectReason, HwContextLoss, InterruptData, OsHandle};
use tidegate::gpu_abi::AdminCommand;
use tidegate::platform::{Mutex, Platform};

/// A call of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A mailbox command.
    Admin(AdminCommand),
    /// A fence and its new MonitoredValue, written to the shadow registers.
    Shadow(u64, u64),
    /// The bus address of a CurrentValue that the CPU has stored, written to its register.
    FenceStored(u64),
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
    /// DxgkCbInvalidateHwContext.
    ContextLoss(OsHandle, HwContextLoss),
}

/// The journal that device and kernel share.
#[derive(Clone)]
pub struct Journal(Arc<Mutex<Vec<Event>>>);

impl Journal {
    /// Creates an empty journal.
    pub fn new(platform: &Platform) -> Journal {
        Journal(Arc::new(platform.mutex("journal", Vec::new())))
    }

    /// Records a call.
    pub fn push(&self, event: Event) {
        self.0.lock_device().push(event);
    }

    /// Removes and returns the calls since the last take.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.lock_device())
    }
}
