//! Doorbells: objects that are created without hardware and get it when they are connected.
//!
//! Order of a connect when all physical doorbells are taken: 1. the least recently rung doorbell
//! loses its seat; 2. the kernel disconnects it, and its process rings a dummy page and reads
//! RETRY; 3. the hardware drains its page a last time and releases it; 4. the hardware connects the
//! new doorbell to a fresh page. No driver lock is held over step 2.
//!
//! The kernel's transition lock serialises connect, disconnect and destroy on an adapter. The
//! callback of step 2 runs inside that lock.

use crate::hwqueue::RingPlace;
use crate::objects::Doorbell;
use crate::{DoorbellModel, KmdError, ReferenceDriver};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_ddi::doorbell::{ConnectDoorbellFlags, CreateDoorbell, CreateDoorbellFlags};
use tidegate_ddi::queue::RingAllocations;
use tidegate_ddi::{
    Callbacks, ConnectedDoorbell, DisconnectReason, DoorbellStatus, DriverHandle, NoHint, OsHandle,
    Passive, RingHint,
};
use tidegate_gpu_abi::ring::MAX_RING_SLOTS;
use tidegate_gpu_abi::{
    AdminCommand, CONTROL_WORDS, GpuVa, QueueId, QueueKind, Register, SLOT_BYTES, SummaryHint,
    global_base,
};

/// A doorbell that loses its seat.
struct Victim {
    os_queue: OsHandle,
    os_doorbell: OsHandle,
    hardware: Option<QueueId>,
}

/// What a connect decided under the lock.
struct Claim {
    hardware: QueueId,
    already_connected: bool,
    victim: Option<Victim>,
    callbacks: Arc<dyn Callbacks>,
}

impl ReferenceDriver {
    /// Creates the object, and the hardware queue that its ring makes possible. No physical
    /// doorbell is assigned.
    // spec: UMS-064
    pub(crate) fn add_doorbell(
        &self,
        level: &Passive,
        args: &CreateDoorbell,
    ) -> Result<DriverHandle, KmdError> {
        let place = ring_place(&args.ring)?;
        let doorbell = {
            let mut objects = self.objects.lock();
            let queue = objects.hw_queues.get(args.hw_queue)?;
            if !queue.user_mode {
                return Err(KmdError::Argument(
                    "a doorbell needs a queue made for user-mode submission",
                ));
            }
            let resize = args.flags.contains(CreateDoorbellFlags::RESIZE_RING_BUFFER_OPERATION);
            if !resize && (queue.hardware.is_some() || queue.doorbell.is_some()) {
                return Err(KmdError::Argument(
                    "the queue has a live doorbell; destroy that one first",
                ));
            }
            let os_queue = queue.os_handle;
            objects.doorbells.insert(Doorbell {
                os_handle: args.os_handle,
                hw_queue: args.hw_queue,
                os_queue,
                hardware: None,
                connected: false,
                superseded: false,
            })?
        };
        // In a resize, the old doorbell keeps its hardware until the kernel disconnects it, which
        // is its next call.
        let hardware = self.make_hardware(level, args.hw_queue, &place);
        let hardware =
            hardware.inspect_err(|_| _ = self.objects.lock().doorbells.remove(doorbell))?;
        let mut objects = self.objects.lock();
        objects.doorbells.get_mut(doorbell)?.hardware = Some(hardware);
        let before = objects.hw_queues.get_mut(args.hw_queue)?.doorbell.replace(doorbell);
        if let Some(before) = before {
            objects.doorbells.get_mut(before)?.superseded = true;
        }
        Ok(doorbell)
    }

    // spec: UMS-065, UMS-098
    pub(crate) fn connect(
        &self,
        level: &Passive,
        handle: DriverHandle,
        flags: ConnectDoorbellFlags,
    ) -> Result<ConnectedDoorbell, KmdError> {
        let secondary = flags.contains(ConnectDoorbellFlags::REQUIRE_SECONDARY_ADDRESS);
        if secondary && !self.config.secondary_doorbells {
            return Err(KmdError::NotSupported("secondary doorbells"));
        }
        let global = self.config.doorbells == DoorbellModel::Global;
        // 1. Claim a seat, a victim's if all are in use. A connected doorbell keeps its seat.
        let claim = self.claim_seat(handle)?;
        let command = AdminCommand::ConnectDoorbell { queue: claim.hardware, global, secondary };
        if !claim.already_connected
            && let Err(error) = self.connect_hardware(level, &claim, command)
        {
            self.objects.lock().seats.leave(handle);
            return Err(error);
        }
        self.objects.lock().doorbells.get_mut(handle)?.connected = true;
        self.connected_as(claim.hardware)
    }

    /// Steps 2 to 4 of a connect.
    fn connect_hardware(
        &self,
        level: &Passive,
        claim: &Claim,
        command: AdminCommand,
    ) -> Result<(), KmdError> {
        if let Some(victim) = &claim.victim {
            // 2. Disconnect in the kernel first: afterwards no ring of the victim's process can
            //    reach the hardware unseen. An error means that the kernel has already released
            //    the doorbell.
            // spec: UMS-095
            let _gone_already = claim.callbacks.disconnect_doorbell(
                level,
                victim.os_queue,
                victim.os_doorbell,
                DisconnectReason::Retry,
            );
            // 3. Disconnect the hardware, which drains the page a last time.
            // spec: UMS-097
            if let Some(queue) = victim.hardware {
                self.disconnect_hardware(level, queue)?;
            }
        }
        // 4. Connect the new doorbell.
        self.mailbox.complete(level, command)
    }

    /// Returns the time of the last ring of each candidate for victimisation. A single candidate
    /// needs no query.
    fn last_rings(&self) -> BTreeMap<DriverHandle, u64> {
        let candidates: Vec<(DriverHandle, Option<QueueId>)> = {
            let objects = self.objects.lock();
            let hardware =
                |d: &DriverHandle| objects.doorbells.get(*d).ok().and_then(|bell| bell.hardware);
            objects.seats.candidates().iter().map(|d| (*d, hardware(d))).collect()
        };
        if candidates.len() < 2 {
            return BTreeMap::new();
        }
        let last_ring =
            |queue: QueueId| self.device.read_register(Register::LAST_RING.offset(queue.place()));
        candidates
            .into_iter()
            .map(|(bell, hardware)| (bell, hardware.map_or(0, last_ring)))
            .collect()
    }

    /// Only the time of the last ring decides which doorbell is victimised: a suspended queue's
    /// doorbell can be taken too.
    // spec: UMS-045
    fn claim_seat(&self, handle: DriverHandle) -> Result<Claim, KmdError> {
        let last_rings = if self.config.doorbells == DoorbellModel::Global {
            BTreeMap::new()
        } else {
            self.last_rings()
        };
        let mut objects = self.objects.lock();
        let callbacks = Arc::clone(&objects.started()?.callbacks);
        let doorbell = objects.doorbells.get(handle)?;
        let hardware =
            doorbell.hardware.ok_or(KmdError::Argument("the doorbell's queue is destroyed"))?;
        if doorbell.connected {
            return Ok(Claim { hardware, already_connected: true, victim: None, callbacks });
        }
        let victim = objects
            .seats
            .claim(handle, |d| last_rings.get(&d).copied().unwrap_or(0))
            .and_then(|victim| {
                let victim = objects.doorbells.get_mut(victim).ok()?;
                victim.connected = false;
                Some(Victim {
                    os_queue: victim.os_queue,
                    os_doorbell: victim.os_handle,
                    hardware: victim.hardware,
                })
            });
        Ok(Claim { hardware, already_connected: false, victim, callbacks })
    }

    /// Returns page, status and hint of a connected doorbell.
    fn connected_as(&self, hardware: QueueId) -> Result<ConnectedDoorbell, KmdError> {
        let (page, summary, bit) = self.device.doorbell_page(hardware).ok_or(
            KmdError::Argument("the device reports no page for a doorbell that it connected"),
        )?;
        let (status, hint): (DoorbellStatus, Arc<dyn RingHint>) = if self.config.notify_submissions
        {
            (DoorbellStatus::ConnectedNotify, Arc::new(NoHint))
        } else {
            let (ringer, device) = (summary.ringer(bit), self.device.clone());
            (DoorbellStatus::Connected, Arc::new(SummaryHint { ringer, device, queue: hardware }))
        };
        // spec: UMS-100
        let value_base = match self.config.doorbells {
            DoorbellModel::Global => global_base(hardware),
            DoorbellModel::Dedicated { .. } => 0,
        };
        let secondary = self.device.secondary_doorbell_page(hardware);
        Ok(ConnectedDoorbell { page, secondary, value_base, status, hint })
    }

    /// Disconnects the queue's doorbell. A queue that is already destroyed has none, which is
    /// no error.
    fn disconnect_hardware(&self, level: &Passive, queue: QueueId) -> Result<(), KmdError> {
        self.complete_for_queue(level, AdminCommand::DisconnectDoorbell { queue })
    }

    /// Disconnects the doorbell's hardware, if it has any. The seat is free only after the hardware
    /// has drained the page.
    pub(crate) fn disconnect(&self, level: &Passive, handle: DriverHandle) -> Result<(), KmdError> {
        let (hw_queue, hardware, connected, superseded) = {
            let objects = self.objects.lock();
            let doorbell = objects.doorbells.get(handle)?;
            (doorbell.hw_queue, doorbell.hardware, doorbell.connected, doorbell.superseded)
        };
        let Some(queue) = hardware else { return Ok(()) };
        let drained = if connected { self.disconnect_hardware(level, queue) } else { Ok(()) };
        if connected || superseded {
            let mut objects = self.objects.lock();
            objects.seats.leave(handle);
            if let Ok(doorbell) = objects.doorbells.get_mut(handle) {
                doorbell.connected = false;
                doorbell.hardware = doorbell.hardware.filter(|_| !superseded);
            }
        }
        // A queue has one ring: the superseded ring is released for good.
        let retired =
            if superseded { self.retire_hardware(level, hw_queue, queue) } else { Ok(()) };
        drained.and(retired)
    }

    /// Frees the object and its hardware queue. The kernel releases the ring after this call.
    pub(crate) fn remove_doorbell(
        &self,
        level: &Passive,
        handle: DriverHandle,
    ) -> Result<(), KmdError> {
        let drained = self.disconnect(level, handle);
        let removed = {
            let mut objects = self.objects.lock();
            let removed = objects.doorbells.remove(handle)?;
            objects.seats.leave(handle);
            if let Ok(queue) = objects.hw_queues.get_mut(removed.hw_queue) {
                queue.doorbell = queue.doorbell.filter(|d| *d != handle);
            }
            removed
        };
        let retired =
            removed.hardware.map_or(Ok(()), |id| self.retire_hardware(level, removed.hw_queue, id));
        drained.and(retired)
    }
}

fn ring_place(ring: &RingAllocations) -> Result<RingPlace, KmdError> {
    let slots = ring.ring.len() / SLOT_BYTES;
    if !ring.ring.len().is_multiple_of(SLOT_BYTES)
        || !slots.is_power_of_two()
        || slots > MAX_RING_SLOTS
    {
        return Err(KmdError::Argument("a ring is a power of two of 64-byte slots, at most 2^20"));
    }
    if ring.control.len() < CONTROL_WORDS {
        return Err(KmdError::Argument("a ring's control area has at least 16 words"));
    }
    Ok(RingPlace {
        kind: QueueKind::User,
        ring: GpuVa(ring.ring_gpu_va),
        slots,
        control: GpuVa(ring.control_gpu_va),
    })
}
