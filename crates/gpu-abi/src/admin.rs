//! Owns what the driver asks of the context management processor (CMP) through the mailbox
//! registers.

use crate::log::LogType;
use crate::regs::MAILBOX_WORDS;
use crate::{AddressSpaceId, GpuVa};
use tidegate_platform::PhysicalAddress;

/// Names a hardware queue to the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u32);

/// Which side writes a queue's ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// A process; packets are untrusted, a doorbell says that there are new ones.
    User,
    /// The kernel-mode driver, for a queue of one process; it kicks instead of ringing.
    Kernel,
    /// The kernel-mode driver, for DMA packets of any context: one per node.
    Node,
}

/// A mailbox command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminCommand {
    /// Names an address space by its root table. Result: nothing.
    SetAddressSpace {
        /// Which.
        address_space: AddressSpaceId,
        /// Its root page table; 0 takes it away.
        root: PhysicalAddress,
        /// On which physical GPU: each has page tables of its own.
        physical_gpu: u32,
    },
    /// Forgets cached translations of an address space.
    InvalidateTlb {
        /// Which.
        address_space: AddressSpaceId,
        /// On which physical GPU.
        physical_gpu: u32,
    },
    /// Makes a hardware queue and puts it on its engine's run list. Result: its [`QueueId`].
    CreateQueue {
        /// The engine that runs it, by number (see `Device::engine_count`).
        engine: u32,
        /// Which side writes the ring.
        kind: QueueKind,
        /// The process's address space.
        address_space: AddressSpaceId,
        /// Where the ring stands: in the address space of the queue, or, for kernel rings, on the
        /// bus (a physical address).
        ring: GpuVa,
        /// How many slots it has; a power of two.
        slots: u64,
        /// Where the control area stands, likewise.
        control: GpuVa,
        /// Progress fence: CurrentValue, in the process's address space; 0 for none.
        progress_current: GpuVa,
        /// Progress fence: MonitoredValue; 0 for none.
        progress_monitored: GpuVa,
        /// Higher runs first: 0 IDLE, 1 NORMAL, 2 FOCUS, 3 REALTIME.
        band: u32,
        /// The kernel's handle of the queue: its work is counted under it. 0 for a queue of the
        /// driver's own.
        os_handle: u64,
        /// Which context it belongs to, by the driver's number; 0 for one of its own. Contexts of a
        /// process take turns.
        context: u32,
    },
    /// Takes a queue off the run list for good.
    DestroyQueue {
        /// Which.
        queue: QueueId,
    },
    /// Takes a queue off the run list; its ring is not read until it is resumed. An engine that may
    /// not leave the queue where it stands, as coarsely as it is preempted, or that hangs in it,
    /// has it refused with [`AdminError::Busy`]: the queue is then suspended when the engine comes
    /// to a boundary, if it does, and [`crate::Cause::QUEUE_SUSPENDED`] says so.
    SuspendQueue {
        /// Which.
        queue: QueueId,
    },
    /// Puts a queue back, or takes back that it is to be suspended; its write pointer is read anew.
    ResumeQueue {
        /// Which.
        queue: QueueId,
    },
    /// Gives a queue a doorbell. Result: the page is found with `Device::doorbell_page`, and the
    /// doorbell's bit number in its process's summary.
    ConnectDoorbell {
        /// Which.
        queue: QueueId,
        /// The location that all queues of its process share, not a fresh page of its own.
        global: bool,
        /// A second page beside it, which rings the same queue.
        secondary: bool,
    },
    /// Takes the doorbell page away, after reading it a last time.
    DisconnectDoorbell {
        /// Which.
        queue: QueueId,
    },
    /// Reads the write pointer in the control area anew.
    KickQueue {
        /// Which.
        queue: QueueId,
    },
    /// Where log entries of a queue go from its next operation on; `entries` 0 takes the log away.
    SetLogBuffer {
        /// Which.
        queue: QueueId,
        /// What is logged there.
        kind: LogType,
        /// The header's protocol page, by physical address.
        header: PhysicalAddress,
        /// The entries' bulk bytes, by physical address.
        payload: PhysicalAddress,
        /// How many entries fit.
        entries: u32,
        /// Raise an interrupt each time another so many entries are written, with or without a
        /// waiter; 0 for never.
        notify_every: u32,
    },
    /// CurrentValue at this address was changed by the CPU: look at the queues that wait for it.
    NotifyFence {
        /// In which address space.
        address_space: AddressSpaceId,
        /// Where CurrentValue stands.
        current_value: GpuVa,
    },
    /// Some fence was changed: look at all queues that wait.
    RescanWaits,
    /// No engine begins a turn from now on; done when none is in one. Holds count.
    HoldEngines,
    /// Ends a hold. After the last one every wait is looked at anew.
    ReleaseEngines,
    /// Moves a page of fence values, or of MonitoredValues, to another place on the bus: what
    /// stands in it, and the waits that are kept by its place. Refused unless engines are held,
    /// since what they store meanwhile would be lost.
    MoveFencePage {
        /// Where the page begins.
        from: PhysicalAddress,
        /// Where it will; a page of as many words.
        to: PhysicalAddress,
    },
    /// A new fence stands here, which no CPU reaches: CurrentValue becomes 0, MonitoredValue the
    /// maximum, and waits for the fence that stood here before pass.
    RenewFence {
        /// Where CurrentValue stands on the bus.
        current_value: PhysicalAddress,
        /// Where MonitoredValue stands.
        monitored_value: PhysicalAddress,
        /// Bytes of its page that the fence has.
        stride_bytes: u64,
    },
    /// The fence here is over or its device is lost: every wait for it passes, and signals do
    /// nothing.
    CondemnFence {
        /// Where CurrentValue stands on the bus.
        current_value: PhysicalAddress,
    },
    /// Result: the queue's [`QueueState`] and the slots it has taken.
    QueryQueue {
        /// Which.
        queue: QueueId,
    },
    /// Gives an engine power or takes it. Without power it runs nothing; what was rung meanwhile is
    /// found when it has power again.
    PowerEngine {
        /// Which.
        engine: u32,
        /// Whether it gets power.
        on: bool,
        /// Refused with [`AdminError::Busy`] when a queue of the engine could go on, or waits.
        if_idle: bool,
    },
    /// The same for the device as a whole: without power it obeys this command and no other.
    PowerDevice {
        /// Whether it gets power.
        on: bool,
        /// Refused with [`AdminError::Busy`] when a queue has work, also one that is suspended, or
        /// waits.
        if_idle: bool,
    },
    /// Has an engine raise [`crate::Cause::ENGINE_IDLE`] when it had nothing to do for so long;
    /// once until it has worked again.
    ReportIdle {
        /// Which.
        engine: u32,
        /// Nanoseconds; 0 for never.
        after_ns: u64,
    },
    /// Changes where a queue stands among the others of its engine. It begins in its band at level,
    /// priority and quantum 0.
    SetScheduling {
        /// Which.
        queue: QueueId,
        /// As in `CreateQueue`.
        band: u32,
        /// Inside the REALTIME band, from 0 to 31; higher runs first.
        realtime_level: u32,
        /// Among the contexts of its process, from -7 to 7; higher runs first.
        in_process: i32,
        /// How long its context goes on while others of its process wait, in nanoseconds; 0 for a
        /// turn.
        quantum_ns: u64,
    },
    /// Changes what holds for all queues of all engines. At first quanta are 0 and the percentage
    /// is 10.
    SetBands {
        /// By band: how long a process goes on while others wait, in nanoseconds; 0 for a turn.
        process_quantum_ns: [u64; 4],
        /// What NORMAL gets of the time of NORMAL and FOCUS when both want all of it, from 0 to 50.
        normal_percent: u32,
    },
    /// Keeps a shadow of a fence's MonitoredValue, which begins as memory says. A fence that has
    /// one keeps it. Result: 1 if there is a shadow, 0 if there was no room and its signals are
    /// compared with memory.
    KeepShadow {
        /// The driver's number for the fence: any, never used again.
        fence: u64,
        /// In which address space the two values are found.
        address_space: AddressSpaceId,
        /// Where CurrentValue stands.
        current_value: GpuVa,
        /// Where MonitoredValue stands.
        monitored_value: GpuVa,
    },
    /// The fence is gone, and its shadow with it, if it had one.
    DropShadow {
        /// The driver's number for the fence.
        fence: u64,
    },
    /// Other GPUs will tell this one when a fence was signalled: it then looks at the queues that
    /// wait for it, and compares with its own MonitoredValue.
    WatchFence {
        /// Where CurrentValue stands on the bus.
        current_value: PhysicalAddress,
        /// Where this GPU's MonitoredValue stands on the bus; 0 ends the watching.
        monitored_value: PhysicalAddress,
        /// Whether a history stands behind the page of CurrentValue.
        history: bool,
    },
    /// The engine stops what it runs for its node's ring as soon as its granularity allows, keeps
    /// the state of a packet in the middle in its save area, and drops every packet of the ring
    /// that is not complete. Answered by [`crate::Cause::DMA_PREEMPTED`]; a second request before
    /// that is refused with [`AdminError::Busy`].
    PreemptNode {
        /// Which engine.
        engine: u32,
        /// Comes back in [`crate::Register::PREEMPTED_FENCE`].
        preemption_fence_id: u32,
    },
    /// Takes an engine out of whatever it is in, also when it hangs, and drops all of its node's
    /// ring. Done when the engine is empty and takes new work. Result: the submission fence id of
    /// the packet that was cut off, or of the last complete one; then the queue of a process that
    /// was cut off plus one, 0 for none. That queue is stopped, as by a fault.
    ResetEngine {
        /// Which engine.
        engine: u32,
    },
    /// Result: see [`crate::EngineAnswer`].
    QueryEngine {
        /// Which engine.
        engine: u32,
    },
    /// Another GPU, whose common doorbell was connected, watches a fence.
    LinkPeer {
        /// Where CurrentValue stands on the bus.
        current_value: PhysicalAddress,
        /// The other GPU's number.
        peer: u32,
        /// Where its MonitoredValue stands on the bus, if this GPU is to load it; 0 has it told of
        /// every signal.
        monitored_value: PhysicalAddress,
        /// `false` when it watches no more.
        linked: bool,
    },
}

/// What `AdminCommand::QueryEngine` answers, in its two results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineAnswer {
    /// Whether the engine takes part: not one that hangs in a command.
    pub responsive: bool,
    /// The queue in whose commands it is, a node's ring among them.
    pub queue: Option<QueueId>,
    /// Rises with every packet, command and part of a command that the engine does: standing still
    /// while there is a queue, it makes no progress.
    pub progress: u64,
}

impl EngineAnswer {
    /// The result words.
    pub fn encode(self) -> (u64, u64) {
        (
            u64::from(self.responsive) | self.queue.map_or(0, |q| u64::from(q.0) + 1) << 1,
            self.progress,
        )
    }

    /// Reads the result words.
    pub fn decode((low, progress): (u64, u64)) -> EngineAnswer {
        let queue = (low >> 1).checked_sub(1).map(|q| QueueId(q as u32));
        EngineAnswer { responsive: low & 1 != 0, queue, progress }
    }
}

/// Where a hardware queue stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum QueueState {
    /// Nothing to do.
    Idle = 0,
    /// Has work, runs or will run.
    Ready = 1,
    /// Its head is a wait that is not satisfied.
    Waiting = 2,
    /// Off the run list.
    Suspended = 3,
    /// Stopped by a fault.
    Faulted = 4,
}

impl QueueState {
    /// The state with this number.
    pub fn from_number(number: u64) -> Option<QueueState> {
        use QueueState::{Faulted, Idle, Ready, Suspended, Waiting};
        [Idle, Ready, Waiting, Suspended, Faulted].into_iter().find(|s| *s as u64 == number)
    }
}

/// Why the CMP refused a command; its number goes to the mailbox status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u64)]
pub enum AdminError {
    /// The words are no command.
    #[error("the mailbox holds no command")]
    Malformed = 1,
    /// No such queue.
    #[error("no such hardware queue")]
    NoSuchQueue = 2,
    /// No such engine, or no such physical GPU.
    #[error("no such engine or physical GPU")]
    NoSuchEngine = 3,
    /// An address in the command is not mapped, or not the right kind of memory.
    #[error("an address in the command does not resolve")]
    BadAddress = 4,
    /// The device has no power.
    #[error("the device has no power; give it some first")]
    Asleep = 6,
    /// There is work.
    #[error("there is work that is not complete")]
    Busy = 7,
    /// A number in the command is out of its range.
    #[error("a number in the command is out of range")]
    BadValue = 5,
}

impl AdminError {
    /// The error with this number.
    pub fn from_number(number: u64) -> Option<AdminError> {
        use AdminError::{
            Asleep, BadAddress, BadValue, Busy, Malformed, NoSuchEngine, NoSuchQueue,
        };
        let all = [Malformed, NoSuchQueue, NoSuchEngine, BadAddress, BadValue, Asleep, Busy];
        all.into_iter().find(|e| *e as u64 == number)
    }
}

/// The two result words of a command, or why it was refused.
pub type AdminAnswer = Result<(u64, u64), AdminError>;

/// The answer of a command without results.
pub const DONE: AdminAnswer = Ok((0, 0));

/// The mailbox as words.
pub type Mailbox = [u64; MAILBOX_WORDS as usize];

impl AdminCommand {
    /// The mailbox words.
    pub fn encode(&self) -> Mailbox {
        let mut m = [0; MAILBOX_WORDS as usize];
        let mut put = |words: &[u64]| m[..words.len()].copy_from_slice(words);
        match *self {
            AdminCommand::SetAddressSpace { address_space, root, physical_gpu } => {
                put(&[1, address_space.0.into(), root.0, physical_gpu.into()])
            }
            AdminCommand::InvalidateTlb { address_space, physical_gpu } => {
                put(&[2, address_space.0.into(), physical_gpu.into()])
            }
            AdminCommand::CreateQueue {
                engine,
                kind,
                address_space,
                ring,
                slots,
                control,
                progress_current,
                progress_monitored,
                band,
                os_handle,
                context,
            } => put(&[
                3,
                engine.into(),
                kind as u64,
                address_space.0.into(),
                ring.0,
                slots,
                control.0,
                progress_current.0,
                progress_monitored.0,
                band.into(),
                os_handle,
                context.into(),
            ]),
            AdminCommand::DestroyQueue { queue } => put(&[4, queue.0.into()]),
            AdminCommand::SuspendQueue { queue } => put(&[5, queue.0.into()]),
            AdminCommand::ResumeQueue { queue } => put(&[6, queue.0.into()]),
            AdminCommand::ConnectDoorbell { queue, global, secondary } => {
                put(&[7, queue.0.into(), global.into(), secondary.into()])
            }
            AdminCommand::DisconnectDoorbell { queue } => put(&[8, queue.0.into()]),
            AdminCommand::KickQueue { queue } => put(&[9, queue.0.into()]),
            AdminCommand::SetLogBuffer { queue, kind, header, payload, entries, notify_every } => {
                let (entries, notify_every) = (entries.into(), notify_every.into());
                put(&[10, queue.0.into(), kind as u64, header.0, payload.0, entries, notify_every]);
            }
            AdminCommand::NotifyFence { address_space, current_value } => {
                put(&[11, address_space.0.into(), current_value.0]);
            }
            AdminCommand::QueryQueue { queue } => put(&[12, queue.0.into()]),
            AdminCommand::SetScheduling { queue, band, realtime_level, in_process, quantum_ns } => {
                let (band, level, in_process) =
                    (band.into(), realtime_level.into(), i64::from(in_process));
                put(&[13, queue.0.into(), band, level, in_process.cast_unsigned(), quantum_ns]);
            }
            AdminCommand::SetBands {
                process_quantum_ns: [idle, normal, focus, realtime],
                normal_percent,
            } => {
                put(&[33, idle, normal, focus, realtime, normal_percent.into()]);
            }
            AdminCommand::RescanWaits => put(&[14]),
            AdminCommand::PowerEngine { engine, on, if_idle } => {
                put(&[30, engine.into(), on.into(), if_idle.into()]);
            }
            AdminCommand::PowerDevice { on, if_idle } => put(&[31, on.into(), if_idle.into()]),
            AdminCommand::ReportIdle { engine, after_ns } => put(&[32, engine.into(), after_ns]),
            AdminCommand::PreemptNode { engine, preemption_fence_id } => {
                put(&[40, engine.into(), preemption_fence_id.into()]);
            }
            AdminCommand::ResetEngine { engine } => put(&[41, engine.into()]),
            AdminCommand::QueryEngine { engine } => put(&[42, engine.into()]),
            AdminCommand::KeepShadow { fence, address_space, current_value, monitored_value } => {
                put(&[15, fence, address_space.0.into(), current_value.0, monitored_value.0]);
            }
            AdminCommand::DropShadow { fence } => put(&[16, fence]),
            AdminCommand::HoldEngines => put(&[17]),
            AdminCommand::ReleaseEngines => put(&[18]),
            AdminCommand::MoveFencePage { from, to } => put(&[19, from.0, to.0]),
            AdminCommand::RenewFence { current_value, monitored_value, stride_bytes } => {
                put(&[22, current_value.0, monitored_value.0, stride_bytes]);
            }
            AdminCommand::CondemnFence { current_value } => put(&[23, current_value.0]),
            AdminCommand::WatchFence { current_value, monitored_value, history } => {
                put(&[20, current_value.0, monitored_value.0, history.into()]);
            }
            AdminCommand::LinkPeer { current_value, peer, monitored_value, linked } => {
                put(&[21, current_value.0, peer.into(), monitored_value.0, linked.into()]);
            }
        }
        m
    }

    /// Reads the mailbox.
    pub fn decode(m: &Mailbox) -> Result<AdminCommand, AdminError> {
        let narrow = |w: u64| u32::try_from(w).map_err(|_| AdminError::BadValue);
        let queue = || narrow(m[1]).map(QueueId);
        Ok(match m[0] {
            1 => AdminCommand::SetAddressSpace {
                address_space: AddressSpaceId(narrow(m[1])?),
                root: PhysicalAddress(m[2]),
                physical_gpu: narrow(m[3])?,
            },
            2 => AdminCommand::InvalidateTlb {
                address_space: AddressSpaceId(narrow(m[1])?),
                physical_gpu: narrow(m[2])?,
            },
            3 => AdminCommand::CreateQueue {
                engine: narrow(m[1])?,
                kind: match m[2] {
                    0 => QueueKind::User,
                    1 => QueueKind::Kernel,
                    2 => QueueKind::Node,
                    _ => return Err(AdminError::BadValue),
                },
                address_space: AddressSpaceId(narrow(m[3])?),
                ring: GpuVa(m[4]),
                slots: m[5],
                control: GpuVa(m[6]),
                progress_current: GpuVa(m[7]),
                progress_monitored: GpuVa(m[8]),
                band: narrow(m[9])?,
                os_handle: m[10],
                context: narrow(m[11])?,
            },
            4 => AdminCommand::DestroyQueue { queue: queue()? },
            5 => AdminCommand::SuspendQueue { queue: queue()? },
            6 => AdminCommand::ResumeQueue { queue: queue()? },
            7 => AdminCommand::ConnectDoorbell {
                queue: queue()?,
                global: m[2] != 0,
                secondary: m[3] != 0,
            },
            8 => AdminCommand::DisconnectDoorbell { queue: queue()? },
            9 => AdminCommand::KickQueue { queue: queue()? },
            10 => AdminCommand::SetLogBuffer {
                queue: queue()?,
                kind: LogType::try_from(narrow(m[2])?).map_err(|_| AdminError::BadValue)?,
                header: PhysicalAddress(m[3]),
                payload: PhysicalAddress(m[4]),
                entries: narrow(m[5])?,
                notify_every: narrow(m[6])?,
            },
            11 => AdminCommand::NotifyFence {
                address_space: AddressSpaceId(narrow(m[1])?),
                current_value: GpuVa(m[2]),
            },
            12 => AdminCommand::QueryQueue { queue: queue()? },
            13 => AdminCommand::SetScheduling {
                queue: queue()?,
                band: narrow(m[2])?,
                realtime_level: narrow(m[3])?,
                in_process: i32::try_from(m[4].cast_signed()).map_err(|_| AdminError::BadValue)?,
                quantum_ns: m[5],
            },
            33 => AdminCommand::SetBands {
                process_quantum_ns: [m[1], m[2], m[3], m[4]],
                normal_percent: narrow(m[5])?,
            },
            14 => AdminCommand::RescanWaits,
            30 => AdminCommand::PowerEngine {
                engine: narrow(m[1])?,
                on: m[2] != 0,
                if_idle: m[3] != 0,
            },
            31 => AdminCommand::PowerDevice { on: m[1] != 0, if_idle: m[2] != 0 },
            32 => AdminCommand::ReportIdle { engine: narrow(m[1])?, after_ns: m[2] },
            40 => AdminCommand::PreemptNode {
                engine: narrow(m[1])?,
                preemption_fence_id: narrow(m[2])?,
            },
            41 => AdminCommand::ResetEngine { engine: narrow(m[1])? },
            42 => AdminCommand::QueryEngine { engine: narrow(m[1])? },
            15 => AdminCommand::KeepShadow {
                fence: m[1],
                address_space: AddressSpaceId(narrow(m[2])?),
                current_value: GpuVa(m[3]),
                monitored_value: GpuVa(m[4]),
            },
            16 => AdminCommand::DropShadow { fence: m[1] },
            17 => AdminCommand::HoldEngines,
            18 => AdminCommand::ReleaseEngines,
            19 => AdminCommand::MoveFencePage {
                from: PhysicalAddress(m[1]),
                to: PhysicalAddress(m[2]),
            },
            22 => AdminCommand::RenewFence {
                current_value: PhysicalAddress(m[1]),
                monitored_value: PhysicalAddress(m[2]),
                stride_bytes: m[3],
            },
            23 => AdminCommand::CondemnFence { current_value: PhysicalAddress(m[1]) },
            20 => AdminCommand::WatchFence {
                current_value: PhysicalAddress(m[1]),
                monitored_value: PhysicalAddress(m[2]),
                history: m[3] != 0,
            },
            21 => AdminCommand::LinkPeer {
                current_value: PhysicalAddress(m[1]),
                peer: narrow(m[2])?,
                monitored_value: PhysicalAddress(m[3]),
                linked: m[4] != 0,
            },
            _ => return Err(AdminError::Malformed),
        })
    }
}
