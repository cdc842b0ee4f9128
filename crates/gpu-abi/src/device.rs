//! Owns the trait behind which a GPU stands: registers, doorbell pages, an interrupt line, and
//! nothing else. Memory it reaches by physical address. A PCI or CUDA device must be able to take
//! the software GPU's place.

use crate::peer::CommonDoorbell;
use crate::{QueueId, Register, Summary};
use std::sync::Arc;
use tidegate_platform::{Page, PhysicalMemory};

/// A GPU as its kernel-mode driver sees it.
pub trait Device: Send + Sync {
    /// Reads a register; some take what they report (see [`Register`]).
    fn read_register(&self, register: Register) -> u64;

    /// Writes a register.
    fn write_register(&self, register: Register, value: u64);

    /// The page of a queue's connected doorbell, with the summary and the bit to set in it after a
    /// ring.
    fn doorbell_page(&self, queue: QueueId) -> Option<(Page, Summary, u32)>;

    /// The page of its secondary doorbell, if it was connected with one.
    fn secondary_doorbell_page(&self, _queue: QueueId) -> Option<Page> {
        None
    }

    /// The device's own common doorbell, for other GPUs; `None` for a device that has none.
    fn common_doorbell(&self) -> Option<CommonDoorbell> {
        None
    }

    /// Where the common doorbell of another device is, under a number for the mailbox commands that
    /// speak of it. A device without one of its own ignores it.
    fn connect_common_doorbell(&self, _peer: u32, _doorbell: CommonDoorbell) {}

    /// Connects the interrupt line.
    fn connect_interrupt(&self, sink: Arc<dyn InterruptSink>);

    /// Local memory of a physical GPU, as the CPU sees it through the bus; `None` for one that is
    /// not there.
    fn local_memory(&self, physical_gpu: u32) -> Option<&PhysicalMemory>;

    /// How many bytes of it there are.
    fn local_memory_bytes(&self) -> u64;

    /// Local memory that the CPU does not see: addresses can be given out there, and only the
    /// hardware looks. `None` where there is none.
    fn hidden_memory(&self) -> Option<&PhysicalMemory> {
        None
    }

    /// How many nodes each physical GPU has.
    fn node_count(&self) -> u32;

    /// How many physical GPUs are linked into this device; all have the same nodes. One CMP serves
    /// them all.
    fn physical_gpu_count(&self) -> u32;

    /// How many engines there are: one for each node of each physical GPU. Queues, registers and
    /// cause bits know an engine by its number, which counts through the nodes of physical GPU 0
    /// first: `physical_gpu * node_count + node`.
    fn engine_count(&self) -> u32 {
        self.node_count() * self.physical_gpu_count()
    }
}

/// The other end of an interrupt line.
pub trait InterruptSink: Send + Sync {
    /// The line went up. Called on the raising agent, with no lock of the device held.
    fn raise(&self);

    /// The raising agent's turn is over: deferred routines may run on it now.
    fn turn_ended(&self);
}
