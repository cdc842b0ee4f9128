//! Owns the registers by which the driver reaches the GPU, the causes of an interrupt, and what a
//! GPU says about itself.

use tidegate_d3dukmdt::{ComputePreemption, GraphicsPreemption, RenderPipelineStage};

/// A register, by number. All are 64 bits wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Register(pub u32);

/// Words of the mailbox.
pub const MAILBOX_WORDS: u32 = 16;

impl Register {
    /// First of [`MAILBOX_WORDS`] words of an admin command.
    pub const MAILBOX: Register = Register(0);
    /// Any write runs the command in the mailbox.
    pub const MAILBOX_RUN: Register = Register(32);
    /// 0 when the last command succeeded, else the error's number.
    pub const MAILBOX_STATUS: Register = Register(33);
    /// First word of the last command's result.
    pub const MAILBOX_RESULT: Register = Register(34);
    /// Second word of the last command's result.
    pub const MAILBOX_RESULT_HIGH: Register = Register(35);
    /// Reading takes the pending causes (see [`Cause`]); the line falls.
    pub const INTERRUPT_CAUSE: Register = Register(40);
    /// Reading takes the next signalled fence: its queue number plus one in this register (0: none
    /// left), or [`Register::SIGNALED_BY_CMP`] with an address space ...
    pub const SIGNALED_QUEUE: Register = Register(41);
    /// ... and the address of its CurrentValue in this one, to be read second.
    pub const SIGNALED_VA: Register = Register(42);
    /// The GPU clock, in nanoseconds.
    pub const CLOCK: Register = Register(43);
    /// Reading takes the next fault record: queue number plus one, 0 for none ...
    pub const FAULT_QUEUE: Register = Register(44);
    /// ... its address ...
    pub const FAULT_VA: Register = Register(45);
    /// ... the slot number (user rings) or submission fence id (DMA packets) ...
    pub const FAULT_POSITION: Register = Register(46);
    /// ... and what happened: see [`FaultInfo`]. Reading this one takes the record, with what else
    /// stands in [`Register::FAULT_FENCE`] and [`Register::FAULT_COMMAND`].
    pub const FAULT_INFO: Register = Register(47);
    /// Reading makes every log entry visible that the GPU has counted in a log's header. Hardware
    /// whose entries may come later than the index that counts them keeps the read waiting until
    /// they are there.
    pub const LOG_FLUSH: Register = Register(48);
    /// Names the fence that [`Register::SHADOW_VALUE`] is about, as `AdminCommand::KeepShadow` did.
    pub const SHADOW_FENCE: Register = Register(49);
    /// A write changes the CMP's shadow of that fence's MonitoredValue. When it is done, every
    /// signal whose CurrentValue is not in memory yet will be compared with the new value; an
    /// interrupt comes if CurrentValue was above it already.
    pub const SHADOW_VALUE: Register = Register(50);
    /// Set in [`Register::SIGNALED_QUEUE`] when the CMP found a fence above its new MonitoredValue:
    /// no queue is known, and the low half is the address space of the address.
    pub const SIGNALED_BY_CMP: u64 = 1 << 32;
    /// Of the next fault record: the progress value of the command buffer that faulted; 0 when it
    /// was none.
    pub const FAULT_FENCE: Register = Register(51);
    /// Of the next fault record: the command's number in its buffer, counted from 1 and without
    /// labels; 0 when it was none.
    pub const FAULT_COMMAND: Register = Register(52);
    /// First of one register per engine: the last completed submission fence id.
    pub const COMPLETED_FENCE: Register = Register(64);
    /// First of one register per node, the same on every physical GPU: what is particular about it,
    /// see [`NodeTraits`].
    pub const NODE_TRAITS: Register = Register(128);
    /// What is particular about the device, see [`DeviceTraits`].
    pub const DEVICE_TRAITS: Register = Register(192);
    /// Reading takes the engines that wrote to a monitored fence, bit by bit; see
    /// [`Cause::MONITORED_SIGNALED`].
    pub const MONITORED_ENGINES: Register = Register(193);
    /// Reading takes the engines that were idle as long as they were told to be, bit by bit; see
    /// [`Cause::ENGINE_IDLE`].
    pub const IDLE_ENGINES: Register = Register(194);

    /// Reading takes the engines whose preemption is over, bit by bit; see
    /// [`Cause::DMA_PREEMPTED`].
    pub const PREEMPTED_ENGINES: Register = Register(195);
    /// Reading takes the next queue that was suspended after all, its number plus one; 0: none
    /// left. See [`Cause::QUEUE_SUSPENDED`].
    pub const SUSPENDED_QUEUE: Register = Register(196);
    /// First of one register per engine: the preemption fence id of the last request that was
    /// answered ...
    pub const PREEMPTED_FENCE: Register = Register(256);
    /// ... and the last submission fence id that was complete then.
    pub const PREEMPTED_COMPLETED: Register = Register(320);
    /// First of one register per node, the same on every physical GPU: how finely it is preempted.
    /// Low half: the number of its graphics granularity; high half: that of its compute
    /// granularity.
    pub const NODE_PREEMPTION: Register = Register(384);
    /// First of one register per node, the same on every physical GPU: the number of its
    /// [`EngineClass`](crate::EngineClass).
    pub const NODE_CLASS: Register = Register(448);

    /// First of one register per queue: when its doorbell was connected or rung last. The number
    /// rises with each ring of any queue; 0 for a queue that is not there.
    pub const LAST_RING: Register = Register(1 << 24);

    /// The register `by` places further on.
    pub fn offset(self, by: u32) -> Register {
        Register(self.0 + by)
    }
}

/// Why the line is up; bits of [`Register::INTERRUPT_CAUSE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cause(pub u64);

impl Cause {
    /// Fences were signalled above their MonitoredValue; they stand in the signalled list.
    pub const FENCE_SIGNALED: Cause = Cause(1);
    /// Like [`Cause::FENCE_SIGNALED`], but the list ran over: any fence may be meant.
    pub const FENCE_COLLAPSED: Cause = Cause(2);
    /// DMA packets completed; bit 8 + engine.
    pub const DMA_COMPLETED: Cause = Cause(4);
    /// A queue faulted and was stopped.
    pub const FAULT: Cause = Cause(8);
    /// An engine that notifies of its fence writes made one; [`Register::MONITORED_ENGINES`] says
    /// which.
    pub const MONITORED_SIGNALED: Cause = Cause(16);

    /// An engine was idle for the time that it was told; [`Register::IDLE_ENGINES`] says which.
    pub const ENGINE_IDLE: Cause = Cause(32);

    /// A preemption that was asked for is over; [`Register::PREEMPTED_ENGINES`] says where.
    pub const DMA_PREEMPTED: Cause = Cause(64);
    /// A vertical blank began.
    pub const VSYNC: Cause = Cause(128);

    /// The bit that says that this engine's DMA packets completed.
    pub fn engine(engine: u32) -> Cause {
        Cause(1 << (8 + engine))
    }

    /// A queue that could not be suspended at once is now; [`Register::SUSPENDED_QUEUE`] says
    /// which.
    pub const QUEUE_SUSPENDED: Cause = Cause(1 << 56);

    /// Whether any bit of `other` is set.
    pub fn has(self, other: Cause) -> bool {
        self.0 & other.0 != 0
    }
}

/// How a node differs from most; bits of [`Register::NODE_TRAITS`]. 0 is an engine that writes fences
/// by itself and reports no plain store to a fence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeTraits(pub u64);

impl NodeTraits {
    /// Its command streams can store no value and signal no fence: the kernel does it for them.
    pub const NO_FENCE_WRITES: NodeTraits = NodeTraits(1);
    /// Every store to a page of words, where fences stand, raises [`Cause::MONITORED_SIGNALED`].
    pub const NOTIFIES_FENCE_WRITES: NodeTraits = NodeTraits(2);

    /// Whether any bit of `other` is set.
    pub fn has(self, other: NodeTraits) -> bool {
        self.0 & other.0 != 0
    }
}

/// How finely a node is preempted: what [`Register::NODE_PREEMPTION`] reads as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodePreemption {
    /// Draws.
    pub graphics: GraphicsPreemption,
    /// Everything else.
    pub compute: ComputePreemption,
}

impl NodePreemption {
    /// The register.
    pub fn encode(self) -> u64 {
        self.graphics as u64 | (self.compute as u64) << 32
    }

    /// Whether it stops anything before its packet ends.
    pub fn stops_in_the_middle(self) -> bool {
        self.graphics > GraphicsPreemption::DmaBuffer || self.compute > ComputePreemption::DmaBuffer
    }

    /// Reads the register; a number that is not known is the coarsest.
    pub fn decode(word: u64) -> NodePreemption {
        NodePreemption {
            graphics: GraphicsPreemption::from_number(word as u32)
                .unwrap_or(GraphicsPreemption::None),
            compute: ComputePreemption::from_number((word >> 32) as u32)
                .unwrap_or(ComputePreemption::None),
        }
    }
}

/// What a device does otherwise than most; bits of [`Register::DEVICE_TRAITS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceTraits(pub u64);

impl DeviceTraits {
    /// It cannot tell a signal of a native fence from a write to a monitored one: both raise
    /// [`Cause::FENCE_COLLAPSED`], and no list says more.
    pub const FENCE_KINDS_ALIKE: DeviceTraits = DeviceTraits(1);
    /// Its engines compare with a shadow of MonitoredValue that the CMP keeps: the CMP is to be
    /// told of every change.
    pub const MONITORED_SHADOW: DeviceTraits = DeviceTraits(2);
    /// Its engines update only 32 bits atomically: the store of a fence's value lands as its low
    /// half, over an upper half of 0.
    pub const NO_64BIT_ATOMICS: DeviceTraits = DeviceTraits(4);
    /// Its accesses to system memory do not look into the CPUs' caches, whatever a page table entry
    /// asks for.
    pub const NOT_IO_COHERENT: DeviceTraits = DeviceTraits(8);
    /// It is behind an IoMmu that shares the CPU's page tables: its engines use a process's CPU
    /// addresses.
    pub const IO_MMU: DeviceTraits = DeviceTraits(16);

    /// Whether any bit of `other` is set.
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
    /// A ring slot, a command or a pointer that makes no sense.
    BadPacket = 3,
    /// A program refused its arguments.
    BadArguments = 4,
    /// A command that this engine cannot run.
    WrongEngine = 5,
    /// An access that passes the CPUs' caches by: the page table entry asks for coherency that the
    /// hardware lacks, or asks for none and CPUs cache the page. Real hardware would now and then
    /// see or leave old values; this one says so at once.
    Incoherent = 6,
}

impl FaultKind {
    /// The kind with this number.
    pub fn from_number(number: u64) -> Option<FaultKind> {
        [
            FaultKind::ReadUnmapped,
            FaultKind::WriteUnmapped,
            FaultKind::BadPacket,
            FaultKind::BadArguments,
            FaultKind::WrongEngine,
            FaultKind::Incoherent,
        ]
        .into_iter()
        .find(|k| *k as u64 == number)
    }
}

/// What [`Register::FAULT_INFO`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultInfo {
    /// What happened; `None` for a kind that this version does not know.
    pub kind: Option<FaultKind>,
    /// The level of page tables that did not lead on, counted from the last one; 0 where it was not
    /// that.
    pub page_table_level: u32,
    /// Where in the pipeline of a draw.
    pub stage: RenderPipelineStage,
    /// Which argument of the program led there, counted from 1; 0 when unknown.
    pub argument: u32,
}

impl FaultInfo {
    /// The register.
    pub fn encode(self) -> u64 {
        self.kind.map_or(0, |kind| kind as u64)
            | u64::from(self.page_table_level & 0xFF) << 8
            | (self.stage as u64) << 16
            | u64::from(self.argument) << 32
    }

    /// Reads the register.
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
