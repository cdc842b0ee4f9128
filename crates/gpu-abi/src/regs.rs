//! The registers through which the driver accesses the GPU, the interrupt causes, and the traits of
//! devices and nodes. A read described as "takes" also clears what it returns.

use tidegate_d3dukmdt::{ComputePreemption, GraphicsPreemption, RenderPipelineStage};

/// A register, by number. All are 64 bits wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Register(pub u32);

/// The number of words in the mailbox.
pub const MAILBOX_WORDS: u32 = 16;

impl Register {
    /// First of [`MAILBOX_WORDS`] words of an admin command.
    pub const MAILBOX: Register = Register(0);
    /// Any write runs the command in the mailbox. It returns without a wait for an engine.
    pub const MAILBOX_RUN: Register = Register(32);
    /// 0 if the last command succeeded, [`PENDING`](crate::admin::PENDING) if it waits for the end
    /// of a turn, else the error's number.
    pub const MAILBOX_STATUS: Register = Register(33);
    /// First word of the last command's result.
    pub const MAILBOX_RESULT: Register = Register(34);
    /// Second word of the last command's result.
    pub const MAILBOX_RESULT_HIGH: Register = Register(35);
    /// Reading takes the pending causes (see [`Cause`]) and lowers the line.
    pub const INTERRUPT_CAUSE: Register = Register(40);
    /// Reading takes the next signalled fence: its queue number plus one, 0 if there
    /// is none, or [`Register::SIGNALED_BY_CMP`] with an address space. The address is
    /// in [`Register::SIGNALED_VA`].
    pub const SIGNALED_QUEUE: Register = Register(41);
    /// The address of the signalled fence's CurrentValue, to be read
    /// after [`Register::SIGNALED_QUEUE`].
    pub const SIGNALED_VA: Register = Register(42);
    /// The GPU clock, in nanoseconds.
    pub const CLOCK: Register = Register(43);
    /// Of the next fault record: the queue number plus one, 0 if there is none.
    pub const FAULT_QUEUE: Register = Register(44);
    /// Of the next fault record: the address.
    pub const FAULT_VA: Register = Register(45);
    /// Of the next fault record: the slot number (user rings) or submission fence id (DMA packets).
    pub const FAULT_POSITION: Register = Register(46);
    /// Of the next fault record: see [`FaultInfo`]. Reading it takes the record, so the other
    /// `FAULT` registers are read first.
    pub const FAULT_INFO: Register = Register(47);
    /// Reading makes every log entry visible that is counted in a log's header. Hardware whose
    /// entries may arrive later than their index delays the read until they are visible.
    pub const LOG_FLUSH: Register = Register(48);
    /// The fence that [`Register::SHADOW_VALUE`] applies to, by its number
    /// in `AdminCommand::KeepShadow`.
    pub const SHADOW_FENCE: Register = Register(49);
    /// A write changes the CMP's shadow of that fence's MonitoredValue. After it completes, every
    /// signal whose CurrentValue is not yet in memory is compared with the new value. If
    /// CurrentValue is already above it, the CMP raises an interrupt.
    pub const SHADOW_VALUE: Register = Register(50);
    /// Set in [`Register::SIGNALED_QUEUE`] if the CMP found a fence above its new MonitoredValue.
    /// No queue is known then. The low half is the address space of the address.
    pub const SIGNALED_BY_CMP: u64 = 1 << 32;
    /// Of the next fault record: the progress value of the command buffer that faulted; 0 if
    /// none did.
    pub const FAULT_FENCE: Register = Register(51);
    /// Of the next fault record: the command's number in its buffer, counted from 1 without labels;
    /// 0 if no command faulted.
    pub const FAULT_COMMAND: Register = Register(52);
    /// A write of the bus address of a CurrentValue to which the CPU has stored releases the queues
    /// whose waits for it are satisfied. The writer executes a full barrier between the two.
    pub const FENCE_STORED: Register = Register(53);
    /// A write of the kernel's number of a context of DMA packets says that it has ended: the GPU
    /// need not keep its counts.
    pub const CONTEXT_ENDED: Register = Register(54);
    /// First of one register per engine: the last completed submission fence id. The driver writes
    /// it after a reset, whose packets never complete, while the engine's ring is empty.
    pub const COMPLETED_FENCE: Register = Register(64);
    /// First of one register per node, the same on every physical GPU: its traits,
    /// see [`NodeTraits`].
    pub const NODE_TRAITS: Register = Register(128);
    /// The device's traits, see [`DeviceTraits`].
    pub const DEVICE_TRAITS: Register = Register(192);
    /// Reading takes the bitmap of engines that wrote to a monitored fence.
    /// See [`Cause::MONITORED_SIGNALED`].
    pub const MONITORED_ENGINES: Register = Register(193);
    /// Reading takes the bitmap of engines that have been idle for their configured time.
    /// See [`Cause::ENGINE_IDLE`].
    pub const IDLE_ENGINES: Register = Register(194);

    /// Reading takes the bitmap of engines whose preemption is complete.
    /// See [`Cause::DMA_PREEMPTED`].
    pub const PREEMPTED_ENGINES: Register = Register(195);
    /// Reading takes the next queue whose delayed suspension completed: its number plus one, 0 if
    /// there is none. See [`Cause::QUEUE_SUSPENDED`].
    pub const SUSPENDED_QUEUE: Register = Register(196);
    /// The number of nodes of each physical GPU.
    pub const NODE_COUNT: Register = Register(197);
    /// The size of the CPU-visible local memory of each physical GPU, in bytes.
    pub const LOCAL_MEMORY_BYTES: Register = Register(198);
    /// The bus address of the first physical GPU's CPU-visible local memory.
    pub const LOCAL_MEMORY_BASE: Register = Register(199);
    /// First of one register per engine: the preemption fence id of the last answered request.
    pub const PREEMPTED_FENCE: Register = Register(256);
    /// First of one register per engine: the last complete submission fence id at that answer.
    pub const PREEMPTED_COMPLETED: Register = Register(320);
    /// First of one register per node, the same on every physical GPU: its preemption granularity
    /// for graphics (low half) and compute (high half).
    pub const NODE_PREEMPTION: Register = Register(384);
    /// First of one register per node, the same on every physical GPU: the number of its
    /// [`EngineKind`](crate::EngineKind).
    pub const NODE_CLASS: Register = Register(448);

    /// First of one register per place of a queue: the sequence number of the last ring or connect
    /// of the doorbell of the queue there. It rises with each ring of any queue; 0 without a queue.
    pub const LAST_RING: Register = Register(1 << 24);

    /// Returns the register `by` places after this one.
    pub fn offset(self, by: u32) -> Register {
        Register(self.0 + by)
    }
}

/// The reasons for an interrupt; bits of [`Register::INTERRUPT_CAUSE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cause(pub u64);

impl Cause {
    /// Fences were signalled above their MonitoredValue. They are in the signalled list.
    pub const FENCE_SIGNALED: Cause = Cause(1);
    /// Like [`Cause::FENCE_SIGNALED`], but the list overflowed: any fence may be signalled.
    pub const FENCE_COLLAPSED: Cause = Cause(2);
    /// DMA packets completed; the first of one bit per engine is bit 8.
    pub const DMA_COMPLETED: Cause = Cause(4);
    /// A queue faulted and was stopped.
    pub const FAULT: Cause = Cause(8);
    /// An engine that notifies of its fence writes wrote to a fence.
    /// [`Register::MONITORED_ENGINES`] names the engine.
    pub const MONITORED_SIGNALED: Cause = Cause(16);

    /// An engine was idle for its configured time. [`Register::IDLE_ENGINES`] names the engine.
    pub const ENGINE_IDLE: Cause = Cause(32);

    /// A requested preemption is complete. [`Register::PREEMPTED_ENGINES`] names the engine.
    pub const DMA_PREEMPTED: Cause = Cause(64);
    /// A vertical blank began.
    pub const VSYNC: Cause = Cause(128);

    /// Returns the bit for completed DMA packets of this engine.
    pub fn engine(engine: u32) -> Cause {
        Cause(1 << (8 + engine))
    }

    /// A delayed suspension completed. [`Register::SUSPENDED_QUEUE`] names the queue.
    pub const QUEUE_SUSPENDED: Cause = Cause(1 << 56);

    /// Returns whether any bit of `other` is set.
    pub fn has(self, other: Cause) -> bool {
        self.0 & other.0 != 0
    }
}

/// Traits of a node; bits of [`Register::NODE_TRAITS`]. With 0 an engine writes fences itself and
/// does not report plain stores to a fence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeTraits(pub u64);

impl NodeTraits {
    /// Its command streams cannot store values or signal fences. The kernel does so for them.
    pub const NO_FENCE_WRITES: NodeTraits = NodeTraits(1);
    /// Every store to a page of words, which holds fences, raises [`Cause::MONITORED_SIGNALED`].
    pub const NOTIFIES_FENCE_WRITES: NodeTraits = NodeTraits(2);

    /// Returns whether any bit of `other` is set.
    pub fn has(self, other: NodeTraits) -> bool {
        self.0 & other.0 != 0
    }
}

/// The preemption granularity of a node: the value of [`Register::NODE_PREEMPTION`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodePreemption {
    /// Granularity of draws.
    pub graphics: GraphicsPreemption,
    /// Granularity of all other work.
    pub compute: ComputePreemption,
}

impl NodePreemption {
    /// Encodes the register.
    pub fn encode(self) -> u64 {
        self.graphics as u64 | (self.compute as u64) << 32
    }

    /// Returns whether any work can be preempted before its packet ends.
    pub fn stops_in_the_middle(self) -> bool {
        self.graphics > GraphicsPreemption::DmaBuffer || self.compute > ComputePreemption::DmaBuffer
    }

    /// Decodes the register. An unknown number is the coarsest granularity.
    pub fn decode(word: u64) -> NodePreemption {
        NodePreemption {
            graphics: GraphicsPreemption::from_number(word as u32)
                .unwrap_or(GraphicsPreemption::None),
            compute: ComputePreemption::from_number((word >> 32) as u32)
                .unwrap_or(ComputePreemption::None),
        }
    }
}

/// Traits of a device; bits of [`Register::DEVICE_TRAITS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceTraits(pub u64);

impl DeviceTraits {
    /// It cannot tell a native fence signal from a write to a monitored fence. Both raise
    /// [`Cause::FENCE_COLLAPSED`], and no list names the fence.
    pub const FENCE_KINDS_ALIKE: DeviceTraits = DeviceTraits(1);
    /// Its engines compare with a shadow of MonitoredValue that the CMP keeps. The CMP must be sent
    /// every change.
    pub const MONITORED_SHADOW: DeviceTraits = DeviceTraits(2);
    /// Its engines update only 32 bits atomically. A store of a fence value writes the low half and
    /// sets the upper half to 0.
    pub const NO_64BIT_ATOMICS: DeviceTraits = DeviceTraits(4);
    /// Its accesses to system memory do not snoop the CPUs' caches, whatever the page table
    /// entry requests.
    pub const NOT_IO_COHERENT: DeviceTraits = DeviceTraits(8);
    /// It is behind an IoMmu that shares the CPU's page tables. Its engines use a process's
    /// CPU addresses.
    pub const IO_MMU: DeviceTraits = DeviceTraits(16);

    /// Returns whether any bit of `other` is set.
    pub fn has(self, other: DeviceTraits) -> bool {
        self.0 & other.0 != 0
    }
}

/// What stopped a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum FaultKind {
    /// A load from an address that is not mapped.
    ReadUnmapped = 1,
    /// A store to an address that is not mapped, or not writable.
    WriteUnmapped = 2,
    /// A malformed ring slot, command or pointer.
    BadPacket = 3,
    /// A program rejected its arguments.
    BadArguments = 4,
    /// A command that this engine cannot run.
    WrongEngine = 5,
    /// An access that bypasses the CPUs' caches: the page table entry requests coherency that the
    /// hardware lacks, or requests none and CPUs cache the page. Real hardware would occasionally
    /// read or leave stale values; this hardware faults immediately.
    Incoherent = 6,
    /// A wait whose value a dropped peak of the fence may have reached. Waiting on could hang the
    /// queue, and going on could break the order of its work.
    LostHistory = 7,
}

impl FaultKind {
    /// Returns the kind with this number.
    pub fn from_number(number: u64) -> Option<FaultKind> {
        [
            FaultKind::ReadUnmapped,
            FaultKind::WriteUnmapped,
            FaultKind::BadPacket,
            FaultKind::BadArguments,
            FaultKind::WrongEngine,
            FaultKind::Incoherent,
            FaultKind::LostHistory,
        ]
        .into_iter()
        .find(|k| *k as u64 == number)
    }
}

/// The value of [`Register::FAULT_INFO`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultInfo {
    /// The kind of fault; `None` for a kind unknown to this version.
    pub kind: Option<FaultKind>,
    /// The level of page tables at which translation failed, counted from the last level; 0 if
    /// translation did not fail.
    pub page_table_level: u32,
    /// The pipeline stage of a draw.
    pub stage: RenderPipelineStage,
    /// The program argument that caused the fault, counted from 1; 0 if unknown.
    pub argument: u32,
}

impl FaultInfo {
    /// Encodes the register.
    pub fn encode(self) -> u64 {
        self.kind.map_or(0, |kind| kind as u64)
            | u64::from(self.page_table_level & 0xFF) << 8
            | (self.stage as u64) << 16
            | u64::from(self.argument) << 32
    }

    /// Decodes the register.
    pub fn decode(word: u64) -> FaultInfo {
        FaultInfo {
            kind: FaultKind::from_number(word & 0xFF),
            page_table_level: (word >> 8) as u32 & 0xFF,
            stage: RenderPipelineStage::try_from((word >> 16) as u32 & 0xFF).unwrap_or_default(),
            argument: (word >> 32) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_record_keeps_what_it_says() {
        let info = FaultInfo {
            kind: Some(FaultKind::WriteUnmapped),
            page_table_level: 3,
            stage: RenderPipelineStage::OutputMerger,
            argument: 2,
        };
        assert_eq!(FaultInfo::decode(info.encode()), info);
        let unknown = FaultInfo::decode(99 | 9 << 16);
        assert_eq!((unknown.kind, unknown.stage), (None, RenderPipelineStage::Unknown));
    }
}
