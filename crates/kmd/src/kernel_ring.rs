//! A ring that the driver writes. Slots and control area are in system memory, and the GPU uses
//! their physical addresses.
//!
//! Order: 1. the slot's bytes; 2. the write pointer (a release store); 3. the kick, by the caller.
//! the caller, 3. the kick.

use crate::KmdError;
use tidegate_gpu_abi::ring::MAX_COMMAND_BYTES;
use tidegate_gpu_abi::{
    CONTROL_READ_WORD, CONTROL_WORDS, CONTROL_WRITE_WORD, GpuVa, QueueId, RingPacket, SLOT_BYTES,
};
use tidegate_platform::{Bulk, Mutex, Page, PhysicalAddress, PhysicalMemory, Platform};

/// A ring written by the driver.
pub(crate) struct KernelRing {
    slots: u64,
    bytes: Bulk,
    bytes_at: PhysicalAddress,
    control: Page,
    control_at: PhysicalAddress,
    /// Slots published since the ring was created.
    written: Mutex<u64>,
}

/// An engine's ring and the hardware queue that runs it.
pub(crate) struct NodeRing {
    pub(crate) queue: QueueId,
    pub(crate) ring: KernelRing,
}

impl KernelRing {
    pub(crate) fn new(platform: &Platform, memory: &PhysicalMemory, slots: u32) -> KernelRing {
        let slots = u64::from(slots);
        let (bytes_at, bytes) = memory.bulk((slots * SLOT_BYTES) as usize);
        let (control_at, control) = memory.protocol(CONTROL_WORDS);
        let (bytes, control) = (
            bytes.named("the slots of a kernel ring"),
            control.named("the control area of a kernel ring"),
        );
        KernelRing {
            slots,
            bytes,
            bytes_at,
            control,
            control_at,
            written: platform.mutex("kmd ring", 0),
        }
    }

    pub(crate) fn slots(&self) -> u64 {
        self.slots
    }

    /// Returns the bus address of the slots, in the form that CreateQueue takes for
    /// kernel-owned rings.
    pub(crate) fn bytes_at(&self) -> GpuVa {
        GpuVa(self.bytes_at.0)
    }

    /// Returns the bus address of the control area in the same form.
    pub(crate) fn control_at(&self) -> GpuVa {
        GpuVa(self.control_at.0)
    }

    /// Publishes one packet without blocking.
    ///
    /// # Errors
    ///
    /// The ring is full.
    pub(crate) fn publish(&self, packet: &RingPacket) -> Result<(), KmdError> {
        let mut written = self.written.lock();
        let taken = self.control.word(CONTROL_READ_WORD).load();
        if written.wrapping_sub(taken) >= self.slots {
            return Err(KmdError::RingFull { slots: self.slots });
        }
        self.bytes.write_words(*written % self.slots * SLOT_BYTES, packet.words())?;
        *written += 1;
        self.control.store(CONTROL_WRITE_WORD, *written);
        Ok(())
    }

    /// Removes the ring from the bus after the hardware has released it.
    pub(crate) fn release(&self, memory: &PhysicalMemory) {
        memory.remove(self.bytes_at);
        memory.remove(self.control_at);
    }
}

/// Refuses a length that no packet can carry.
pub(crate) fn check_command_bytes(bytes: u32) -> Result<u32, KmdError> {
    if bytes == 0 || !bytes.is_multiple_of(8) || bytes > MAX_COMMAND_BYTES {
        return Err(KmdError::Argument(
            "a command buffer has a multiple of 8 bytes, from 8 to 16 MiB",
        ));
    }
    Ok(bytes)
}
