//! A user-mode queue at the call surface: ring, control area and doorbell, one call per step.

use crate::client::{Client, at};
use std::sync::Arc;
use tidegate::calls::{
    Allocation, AllocationKind, AllocationMemory, Connection, CreateDoorbell, CreateDoorbellFlags,
    Doorbell, DoorbellStatus, FenceInstance, Handle, HwQueue, Kernel, Placement, ReadOnly, Status,
    WaitMode,
};
use tidegate::d3dukmdt::fence_cell::REACHED;
use tidegate::gpu_abi::ring::NO_LOG_ENTRY;
use tidegate::gpu_abi::{
    CONTROL_WORDS, CONTROL_WRITE_WORD, Command, DOORBELL_VALUE_WORD, GpuVa, RingPacket, SLOT_BYTES,
};
use tidegate::platform::{Bulk, Mapping, Mutex, Page, Word};

/// Number of slots of a ring.
const SLOTS: u64 = 64;

/// A user-mode queue.
pub struct UserQueue {
    /// The hardware queue.
    pub queue: HwQueue,
    /// Memory of the ring.
    pub ring: Allocation,
    /// Memory of the read and write pointers.
    pub control: Allocation,
    /// The doorbell.
    pub doorbell: Doorbell,
    kernel: Arc<dyn Kernel>,
    /// Bytes of the ring.
    pub slots: Bulk,
    /// The read and write pointers.
    pub pointers: Page,
    connection: Mutex<Option<Connection>>,
    written: Word,
}

impl Client {
    /// Creates a user-mode queue with a doorbell that is not connected.
    pub fn user_queue(&self, node_ordinal: u32) -> UserQueue {
        self.with_ring(self.try_hw_queue(node_ordinal, true).unwrap())
    }

    /// Creates a ring and a doorbell for a queue. The doorbell is not connected.
    pub fn with_ring(&self, queue: HwQueue) -> UserQueue {
        self.with_ring_of(SLOTS, CreateDoorbellFlags::empty(), queue)
    }

    /// Creates a user-mode queue with a connected doorbell.
    pub fn connected_queue(&self, node_ordinal: u32) -> UserQueue {
        let queue = self.user_queue(node_ordinal);
        queue.connect().unwrap();
        queue
    }

    /// Creates a ring of `slots` slots and an unconnected doorbell with any flags for a queue.
    pub fn with_ring_of(
        &self,
        slots: u64,
        flags: CreateDoorbellFlags,
        queue: HwQueue,
    ) -> UserQueue {
        self.try_with_ring_of(slots, flags, queue).unwrap()
    }

    /// Creates a ring of 64 slots and an unconnected doorbell for a queue.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn try_with_ring(&self, queue: HwQueue) -> Result<UserQueue, Status> {
        self.try_with_ring_of(SLOTS, CreateDoorbellFlags::empty(), queue)
    }

    fn try_with_ring_of(
        &self,
        slots: u64,
        flags: CreateDoorbellFlags,
        queue: HwQueue,
    ) -> Result<UserQueue, Status> {
        let system = Placement::System;
        let ring = self.try_allocate(slots * SLOT_BYTES, AllocationKind::Bulk, system)?;
        let words = CONTROL_WORDS as u64 * 8;
        let control = self.try_allocate(words, AllocationKind::Protocol, system)?;
        let args = doorbell_args(queue.handle, &ring, &control);
        let doorbell = self.kernel.create_doorbell(CreateDoorbell { flags, ..args })?;
        let (AllocationMemory::Bulk(slots), AllocationMemory::Protocol(pointers)) =
            (ring.memory.clone(), control.memory.clone())
        else {
            panic!("ring and control area have the requested kinds")
        };
        let connection = self.platform.mutex("a connection", None);
        let (kernel, written) = (self.kernel.clone(), self.platform.page(1).word(0));
        let queue = UserQueue {
            queue,
            ring,
            control,
            doorbell,
            kernel,
            slots,
            pointers,
            connection,
            written,
        };
        Ok(queue)
    }
}

/// Returns the arguments for a doorbell without flags or private data.
pub fn doorbell_args(hw_queue: Handle, ring: &Allocation, control: &Allocation) -> CreateDoorbell {
    CreateDoorbell {
        hw_queue,
        ring: ring.handle,
        control: control.handle,
        flags: CreateDoorbellFlags::empty(),
        private_data: Vec::new(),
    }
}

impl UserQueue {
    /// Returns the arguments for another doorbell of this queue.
    pub fn doorbell_args(&self) -> CreateDoorbell {
        doorbell_args(self.queue.handle, &self.ring, &self.control)
    }

    /// Returns the status of the doorbell.
    pub fn status(&self) -> DoorbellStatus {
        DoorbellStatus::from_word(self.doorbell.status.load())
    }

    /// Returns the same ring with another doorbell.
    pub fn with_doorbell(self, doorbell: Doorbell) -> UserQueue {
        UserQueue { doorbell, ..self }
    }

    /// Connects the doorbell.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn connect(&self) -> Result<(), Status> {
        let connection = self.kernel.connect_doorbell(self.doorbell.handle)?;
        *self.connection.lock() = Some(connection);
        Ok(())
    }

    /// Writes a packet to the ring and publishes the write pointer, without ringing the doorbell.
    pub fn put(&self, packet: &RingPacket) {
        let slot = self.written.fetch_add(1);
        self.slots.write(slot * SLOT_BYTES % self.ring.bytes, &packet.encode()).unwrap();
        self.pointers.store(CONTROL_WRITE_WORD, slot + 1);
    }

    /// Rings with the current write pointer.
    pub fn ring(&self) {
        self.ring_at(&self.doorbell.mapping);
    }

    /// Rings the secondary doorbell.
    pub fn ring_secondary(&self) {
        self.ring_at(self.doorbell.secondary.as_ref().unwrap());
    }

    /// Returns the doorbell value of an earlier write pointer.
    pub fn stale(&self, pointer: u64) -> u64 {
        self.connection.lock().as_ref().map_or(0, |c| c.value_base) + pointer
    }

    fn ring_at(&self, mapping: &Mapping) {
        let connection = self.connection.lock().clone();
        let base = connection.as_ref().map_or(0, |c| c.value_base);
        mapping.store(DOORBELL_VALUE_WORD, base + self.written.load());
        if let Some(Connection { hint, .. }) = connection {
            hint.rung();
        }
    }

    /// Writes a packet and rings.
    pub fn push(&self, packet: &RingPacket) {
        self.put(packet);
        self.ring();
    }

    /// Pushes a wait until the fence has reached `value`, which writes no log.
    pub fn wait(&self, fence: &FenceInstance, value: u64) -> &UserQueue {
        self.push(&wait_packet(fence, value, NO_LOG_ENTRY));
        self
    }

    /// Pushes a signal that writes no log.
    pub fn signal(&self, fence: &FenceInstance, value: u64) -> &UserQueue {
        self.push(&signal_packet(fence, value, NO_LOG_ENTRY));
        self
    }

    /// Pushes a signal, and blocks until it is executed.
    pub fn signal_and_wait(&self, fence: &FenceInstance, value: u64) {
        self.signal(fence, value);
        self.kernel.wait_from_cpu(&at(fence, value), WaitMode::All, None).unwrap();
    }
}

/// A store of a view that has none. A `store` of the view itself would be found before this one.
pub trait NoStore {
    /// Stores nothing.
    fn store(&self, _value: u64) -> &'static str {
        "read only"
    }
}

impl NoStore for ReadOnly {}

/// Returns the command that stores `value` at `destination`.
pub fn store(destination: u64, value: u64) -> Command {
    Command::WriteValue { destination: GpuVa(destination), value }
}

/// Returns the command that fills bytes with a value.
pub fn fill(destination: u64, bytes: u64, value: u32) -> Command {
    Command::Fill { destination: GpuVa(destination), bytes, value }
}

/// The command that copies 8 bytes.
pub fn copy_word(destination: u64, source: u64) -> Command {
    Command::Copy { source: GpuVa(source), destination: GpuVa(destination), bytes: 8 }
}

/// Returns a ring packet that signals a fence.
pub fn signal_packet(fence: &FenceInstance, value: u64, log_entry: u32) -> RingPacket {
    RingPacket::Signal {
        current_value: GpuVa(fence.current_value_gpu_va),
        monitored_value: GpuVa(fence.monitored_value_gpu_va),
        value,
        fence_handle: fence.handle.0,
        log_entry,
    }
}

/// Returns a ring packet that waits for a fence.
pub fn wait_packet(fence: &FenceInstance, value: u64, log_entry: u32) -> RingPacket {
    RingPacket::Wait {
        current_value: GpuVa(fence.current_value_gpu_va),
        value,
        epoch: epoch_of_wait(fence, value),
        fence_handle: fence.handle.0,
        log_entry,
    }
}

/// Returns the epoch that makes a wait latch from its call.
fn epoch_of_wait(fence: &FenceInstance, value: u64) -> u64 {
    let epoch = fence.epoch.as_ref().map_or(0, |word| word.load());
    if fence.value.get().is_some_and(|now| now >= value) { REACHED } else { epoch }
}
