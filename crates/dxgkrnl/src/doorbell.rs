//! Owns doorbells: the address that a process rings, its status word, and the order in which hardware is given and taken.
//!
//! The published order of a disconnect (rotate the mapping, then write the status) can lose a ring: it lands on the dummy page
//! while the status still says CONNECTED. Here the status comes first. Each connect has a fresh page, and the page of an
//! ended connect is the dummy page: a late store to it harms nobody, and whoever made it reads RETRY afterwards. When the
//! hardware is off, the last-queued cell is compared with progress, and pending work goes to the driver as a notification.
//!
//! The transition lock orders every connect, disconnect and destroy of an adapter. The driver may call disconnect from inside
//! connect (victimising): on the lock's owner that callback runs inside the owner's transition.

use crate::adapter::Adapter;
use crate::error::BugCheck;
use crate::hwqueue::HwQueue;
use crate::memory::AllocationObject;
use crate::stats::Count;
use std::sync::Arc;
use tidegate_calls::doorbell::Connection;
use tidegate_calls::{AllocationMemory, DoorbellStatus, RingHint, Status};
use tidegate_ddi::doorbell::{CreateDoorbell, DisconnectReason};
use tidegate_ddi::queue::RingAllocations;
use tidegate_ddi::{ConnectedDoorbell, DriverHandle, OsHandle, Passive};
use tidegate_platform::{Mapping, Mutex, Untrusted, Word};

/// D3DDDI_DOORBELL_PRIVATEDATA_MAX_BYTES_WDDM3_1.
const MAX_PRIVATE_DATA_BYTES: usize = 16;

struct State {
    hint: Option<Arc<dyn RingHint>>,
    aborted: bool,
}

/// One doorbell.
pub(crate) struct Doorbell {
    adapter: Arc<Adapter>,
    pub(crate) os_handle: OsHandle,
    driver: DriverHandle,
    pub(crate) queue: Arc<HwQueue>,
    /// The kernel keeps ring and control area alive while the doorbell lives.
    // spec: UMS-034, UMS-035
    _ring: Arc<AllocationObject>,
    _control: Arc<AllocationObject>,
    pub(crate) mapping: Mapping,
    pub(crate) status: Word,
    // spec: UMS-086
    pub(crate) last_queued: Untrusted<Word>,
    state: Mutex<State>,
}

impl Doorbell {
    /// D3DKMTCreateDoorbell: disconnected, showing a dummy page.
    // spec: UMS-025
    pub(crate) fn new(
        queue: &Arc<HwQueue>,
        ring: Arc<AllocationObject>,
        control: Arc<AllocationObject>,
        private_data: Vec<u8>,
    ) -> Result<Arc<Doorbell>, Status> {
        let adapter = &queue.device.adapter;
        // spec: UMS-032
        if !queue.user_mode_submission || private_data.len() > MAX_PRIVATE_DATA_BYTES {
            return Err(Status::INVALID_PARAMETER);
        }
        let (AllocationMemory::Bulk(slots), AllocationMemory::Protocol(pointers)) =
            (&ring.memory, &control.memory)
        else {
            return Err(Status::INVALID_PARAMETER);
        };
        // One doorbell per queue.
        if adapter.doorbells_of(|d| d.queue.os_handle == queue.os_handle).next().is_some() {
            return Err(Status::INVALID_PARAMETER);
        }
        let os_handle = adapter.new_handle();
        let args = CreateDoorbell {
            hw_queue: queue.driver,
            os_handle,
            ring: RingAllocations {
                ring: slots.clone(),
                ring_gpu_va: ring.gpu_va,
                control: pointers.clone(),
                control_gpu_va: control.gpu_va,
            },
            private_data,
        };
        let driver = adapter.driver().create_doorbell(&Passive::enter(), args)?;
        let dummy = adapter.platform.page(doorbell_words(adapter));
        let cells = adapter.platform.page(2);
        let status = cells.word(0);
        status.store(DoorbellStatus::DisconnectedRetry as u64);
        let doorbell = Arc::new(Doorbell {
            adapter: adapter.clone(),
            os_handle,
            driver,
            queue: queue.clone(),
            _ring: ring,
            _control: control,
            mapping: Mapping::new(&adapter.platform, dummy),
            status,
            last_queued: Untrusted::new(cells.word(1)),
            state: adapter.platform.mutex("a doorbell", State { hint: None, aborted: false }),
        });
        adapter.doorbells.lock().insert(os_handle, Arc::downgrade(&doorbell));
        Ok(doorbell)
    }

    /// D3DKMTConnectDoorbell.
    pub(crate) fn connect(&self) -> Result<Connection, Status> {
        let adapter = &self.adapter;
        // 1. One transition at a time.
        let transition = adapter.transition.lock_device();
        {
            let state = self.state.lock();
            // spec: UMS-042
            if state.aborted {
                return Err(Status::DEVICE_REMOVED);
            }
            // spec: UMS-031
            if let Some(hint) = &state.hint {
                return Ok(Connection { hint: hint.clone() });
            }
        }
        adapter.count(Count::doorbell_connects);
        // 2. The driver finds hardware, and may take it from another doorbell by the callback.
        let connected = adapter.driver().connect_doorbell(&Passive::enter(), self.driver);
        let victims = std::mem::take(&mut *adapter.victims.lock());
        let connected = connected.map_err(Some).and_then(|c| self.show(c));
        drop(transition);
        // 5. Whoever lost hardware for it may have lost a ring, too: their disconnect is complete by now.
        victims.iter().for_each(|victim| victim.notify_pending_work());
        match connected {
            Err(None) => {
                adapter.bug_check(BugCheck::DoorbellStatus);
                Err(Status::DEVICE_REMOVED)
            }
            Err(Some(status)) => Err(status),
            Ok(hint) => Ok(Connection { hint }),
        }
    }

    /// What the driver connected becomes visible; `Err(None)` when it did not connect anything.
    fn show(&self, connected: ConnectedDoorbell) -> Result<Arc<dyn RingHint>, Option<Status>> {
        if !connected.status.is_connected() {
            return Err(None);
        }
        // 3. Show the location behind the same address.
        // spec: UMS-026
        self.mapping.rotate(connected.page);
        // 4. Then say so.
        // spec: UMS-099
        self.state.lock().hint = Some(connected.hint.clone());
        self.status.store(connected.status as u64);
        Ok(connected.hint)
    }

    /// Writes a DISCONNECTED status, so that whoever rings from now on reads it; `false` when it was disconnected already.
    // spec: UMS-101
    // spec: UMS-038
    fn announce_disconnect(&self, reason: DisconnectReason) -> bool {
        let mut state = self.state.lock();
        state.aborted |= reason == DisconnectReason::Abort;
        let was_connected = state.hint.take().is_some();
        drop(state);
        let status = match reason {
            DisconnectReason::Retry => DoorbellStatus::DisconnectedRetry,
            DisconnectReason::Abort => DoorbellStatus::DisconnectedAbort,
        };
        if was_connected || reason == DisconnectReason::Abort {
            self.status.store(status as u64);
            self.adapter.platform.fence();
        }
        was_connected
    }

    /// The kernel takes the hardware away.
    // spec: UMS-039
    pub(crate) fn disconnect(&self, reason: DisconnectReason) {
        let transition = self.adapter.transition.lock_device();
        // 1. Status first.
        let was_connected = self.announce_disconnect(reason);
        // 2. Off the hardware, which drains the page; the page is the dummy page from now on.
        if was_connected {
            self.adapter.driver().disconnect_doorbell(&Passive::enter(), self.driver);
        }
        drop(transition);
        // 3. The backstop.
        if was_connected && reason == DisconnectReason::Retry {
            self.notify_pending_work();
        }
    }

    /// Work that the process announced and the GPU has not completed goes to the driver, in case its ring was lost.
    // spec: UMS-102
    fn notify_pending_work(&self) {
        self.adapter.platform.fence();
        if self.has_work() {
            self.adapter.driver().notify_work_submission(&Passive::enter(), self.queue.driver);
        }
    }

    /// Whether the process announced more than the GPU has completed.
    // spec: UMS-074
    pub(crate) fn has_work(&self) -> bool {
        self.last_queued.load_once() > self.queue.progress.fence.value()
    }

    /// D3DKMTNotifyWorkSubmission.
    pub(crate) fn notify(&self) {
        self.adapter.driver().notify_work_submission(&Passive::enter(), self.queue.driver);
    }
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        self.adapter.doorbells.lock().remove(&self.os_handle);
        let transition = self.adapter.transition.lock_device();
        self.announce_disconnect(DisconnectReason::Abort);
        self.adapter.driver().destroy_doorbell(&Passive::enter(), self.driver);
        drop(transition);
    }
}

fn doorbell_words(adapter: &Adapter) -> usize {
    adapter.user_mode_submission_caps.map_or(1, |caps| caps.doorbell_size_bytes as usize).div_ceil(8).max(1)
}

/// DxgkCbDisconnectDoorbell: the driver takes the hardware away; it does so itself after this returns.
pub(crate) fn disconnected_by_driver(
    adapter: &Arc<Adapter>,
    _level: &Passive,
    hw_queue: OsHandle,
    doorbell: OsHandle,
    reason: DisconnectReason,
) -> Result<(), Status> {
    // spec: UMS-069
    let found = adapter.doorbells_of(|d| d.os_handle == doorbell && d.queue.os_handle == hw_queue).next();
    let doorbell = found.ok_or(Status::INVALID_PARAMETER)?;
    // spec: UMS-070
    let inside = adapter.transition.is_mine();
    let transition = (!inside).then(|| adapter.transition.lock_device());
    let was_connected = doorbell.announce_disconnect(reason);
    drop(transition);
    if was_connected {
        adapter.count(Count::doorbell_victims);
        // Inside a connect the hardware goes after this returns, and the connect looks at what is pending then.
        if inside && reason == DisconnectReason::Retry {
            adapter.victims.lock().push(doorbell);
        }
    }
    Ok(())
}
