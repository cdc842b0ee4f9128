//! The trait that a GPU implements: registers, doorbell pages, an interrupt line, and local memory.
//! It accesses system memory by physical address. The interface fits a PCI or CUDA device as well
//! as the software GPU.

use crate::peer::CommonDoorbell;
use crate::program::Argument;
use crate::{QueueId, Register, Summary};
use std::sync::Arc;
use tidegate_platform::{Page, PhysicalAddress, PhysicalMemory, WaitClass, Word};

/// The wait of a pending mailbox command ([`Device::turn_ends`]).
pub static END_OF_TURN: WaitClass = WaitClass::named("the end of an engine's turn");

/// A GPU as its kernel-mode driver sees it.
pub trait Device: Send + Sync {
    /// Reads a register. Some reads pop what they return (see [`Register`]).
    fn read_register(&self, register: Register) -> u64;

    /// Writes a register.
    fn write_register(&self, register: Register, value: u64);

    /// Returns the page of a queue's connected doorbell, the summary, and the summary bit to set
    /// after a ring.
    fn doorbell_page(&self, queue: QueueId) -> Option<(Page, Summary, u32)>;

    /// The rings of a queue's connected doorbell set no bit: the engine looks at its page while it
    /// runs, until the doorbell is disconnected.
    fn poll_doorbell(&self, _queue: QueueId) {}

    /// Returns the page of a queue's secondary doorbell, if it was connected with one.
    fn secondary_doorbell_page(&self, _queue: QueueId) -> Option<Page> {
        None
    }

    /// Returns the common doorbell that other GPUs ring; `None` if the device has none.
    fn common_doorbell(&self) -> Option<CommonDoorbell> {
        None
    }

    /// Connects the common doorbell of another device, under the number that mailbox commands use
    /// for it. A device without a common doorbell ignores it.
    fn connect_common_doorbell(&self, _peer: u32, _doorbell: CommonDoorbell) {}

    /// Returns the word that is not 0 while a queue may wait for the CurrentValue at this bus
    /// address. A queue that begins to wait changes the word, executes a full barrier and loads
    /// CurrentValue again. After a store by the CPU, [`Register::FENCE_STORED`] releases the queues
    /// that wait. `None` if the device has no such words.
    fn waiting_word(&self, _current_value: PhysicalAddress) -> Option<Word> {
        None
    }

    /// Returns the word that changes, and wakes its sleepers, when a turn ends for which a pending
    /// mailbox command waits.
    fn turn_ends(&self) -> Word;

    /// Connects the interrupt line.
    fn connect_interrupt(&self, sink: Arc<dyn InterruptSink>);

    /// Returns the CPU-visible local memory of a physical GPU; `None` if that GPU does not exist.
    fn local_memory(&self, physical_gpu: u32) -> Option<&PhysicalMemory>;

    /// Returns the size of the CPU-visible local memory in bytes.
    fn local_memory_bytes(&self) -> u64;

    /// Returns the local memory that the CPU cannot see; `None` if there is none. Addresses can be
    /// allocated in it, but only the hardware accesses it.
    fn hidden_memory(&self) -> Option<&PhysicalMemory> {
        None
    }

    /// Returns the arguments of a program that the engines run, as its user-mode driver knows them;
    /// `None` for an unknown program.
    fn program_arguments(&self, _program: u32) -> Option<&'static [Argument]> {
        None
    }

    /// Returns the number of nodes of each physical GPU.
    fn node_count(&self) -> u32;

    /// Returns the number of physical GPUs linked into this device. All have the same nodes. One
    /// CMP serves all of them.
    fn physical_gpu_count(&self) -> u32;

    /// Returns the number of engines, one for each node of each physical GPU. Queues, registers and
    /// cause bits use the engine's number, `physical_gpu * node_count + node`.
    fn engine_count(&self) -> u32 {
        self.node_count() * self.physical_gpu_count()
    }
}

/// The receiver of an interrupt line.
pub trait InterruptSink: Send + Sync {
    /// Reports that the line was raised. Called on the raising agent, with no device lock held.
    fn raise(&self);

    /// Reports that the raising agent's turn has ended, so DPCs may run on it.
    fn turn_ended(&self);
}
