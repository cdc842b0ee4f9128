//! Commands of the driver to the context management processor (CMP), in the mailbox registers. A new
//! command is one entry of the table of `commands!`.

use crate::log::LogType;
use crate::regs::MAILBOX_WORDS;
use crate::{AddressSpaceId, GpuVa};
use std::slice::{Iter, IterMut};
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

/// The mailbox as words.
pub type Mailbox = [u64; MAILBOX_WORDS as usize];

/// Declares the commands: the number in word 0, then the fields in their order, a word each.
macro_rules! commands {
    ($($(#[$doc:meta])* $number:literal => $name:ident $({
        $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)?
    })?),* $(,)?) => {
        /// A mailbox command.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum AdminCommand {
            $($(#[$doc])* $name $({ $($(#[$field_doc])* $field: $type),* })?),*
        }

        impl AdminCommand {
            /// The mailbox words.
            pub fn encode(&self) -> Mailbox {
                let mut words = Mailbox::default();
                let mut out = words.iter_mut();
                match *self {
                    $(AdminCommand::$name $({ $($field),* })? => {
                        u64::put($number, &mut out);
                        $($($field.put(&mut out);)*)?
                    })*
                }
                words
            }

            /// Reads the mailbox.
            pub fn decode(words: &Mailbox) -> Result<AdminCommand, AdminError> {
                let [number, words @ ..] = words;
                let mut words = words.iter();
                let words = &mut words;
                Ok(match number {
                    $($number => AdminCommand::$name $({ $($field: Field::take(words)?),* })?,)*
                    _ => return Err(AdminError::Malformed),
                })
            }
        }
    };
}

commands! {
    /// Names an address space by its root table. Result: nothing.
    1 => SetAddressSpace {
        /// Which.
        address_space: AddressSpaceId,
        /// Its root page table; 0 takes it away.
        root: PhysicalAddress,
        /// On which physical GPU: each has page tables of its own.
        physical_gpu: u32,
    },
    /// Forgets cached translations of an address space.
    2 => InvalidateTlb {
        /// Which.
        address_space: AddressSpaceId,
        /// On which physical GPU.
        physical_gpu: u32,
    },
    /// Makes a hardware queue and puts it on its engine's run list. Result: its [`QueueId`].
    3 => CreateQueue {
        /// What never changes about it.
        shape: QueueShape,
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
    4 => DestroyQueue {
        /// Which.
        queue: QueueId,
    },
    /// Takes a queue off the run list; its ring is not read until it is resumed. An engine that may
    /// not leave the queue where it stands, as coarsely as it is preempted, or that hangs in it,
    /// has it refused with [`AdminError::Busy`]: the queue is then suspended when the engine comes
    /// to a boundary, if it does, and [`crate::Cause::QUEUE_SUSPENDED`] says so.
    5 => SuspendQueue {
        /// Which.
        queue: QueueId,
    },
    /// Puts a queue back, or takes back that it is to be suspended; its write pointer is read anew.
    6 => ResumeQueue {
        /// Which.
        queue: QueueId,
    },
    /// Gives a queue a doorbell. Result: the page is found with `Device::doorbell_page`, and the
    /// doorbell's bit number in its process's summary.
    7 => ConnectDoorbell {
        /// Which.
        queue: QueueId,
        /// The location that all queues of its process share, not a fresh page of its own.
        global: bool,
        /// A second page beside it, which rings the same queue.
        secondary: bool,
    },
    /// Takes the doorbell page away, after reading it a last time.
    8 => DisconnectDoorbell {
        /// Which.
        queue: QueueId,
    },
    /// Reads the write pointer in the control area anew.
    9 => KickQueue {
        /// Which.
        queue: QueueId,
    },
    /// Where log entries of a queue go from its next operation on; `entries` 0 takes the log away.
    10 => SetLogBuffer {
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
    11 => NotifyFence {
        /// In which address space.
        address_space: AddressSpaceId,
        /// Where CurrentValue stands.
        current_value: GpuVa,
    },
    /// Some fence was changed: look at all queues that wait.
    14 => RescanWaits,
    /// No engine begins a turn from now on; done when none is in one. Holds count.
    17 => HoldEngines,
    /// Ends a hold. After the last one every wait is looked at anew.
    18 => ReleaseEngines,
    /// Moves a page of fence values, or of MonitoredValues, to another place on the bus: what
    /// stands in it, and the waits that are kept by its place. Refused unless engines are held,
    /// since what they store meanwhile would be lost.
    19 => MoveFencePage {
        /// Where the page begins.
        from: PhysicalAddress,
        /// Where it will; a page of as many words.
        to: PhysicalAddress,
    },
    /// A new fence stands here, which no CPU reaches: CurrentValue becomes 0, MonitoredValue the
    /// maximum, and waits for the fence that stood here before pass.
    22 => RenewFence {
        /// Where CurrentValue stands on the bus.
        current_value: PhysicalAddress,
        /// Where MonitoredValue stands.
        monitored_value: PhysicalAddress,
        /// Bytes of its page that the fence has.
        stride_bytes: u64,
    },
    /// The fence here is over or its device is lost: every wait for it passes, and signals do
    /// nothing.
    23 => CondemnFence {
        /// Where CurrentValue stands on the bus.
        current_value: PhysicalAddress,
    },
    /// Result: the queue's [`QueueState`] and the slots it has taken.
    12 => QueryQueue {
        /// Which.
        queue: QueueId,
    },
    /// Gives an engine power or takes it. Without power it runs nothing; what was rung meanwhile is
    /// found when it has power again.
    30 => PowerEngine {
        /// Which.
        engine: u32,
        /// Whether it gets power.
        on: bool,
        /// Refused with [`AdminError::Busy`] when a queue of the engine could go on, or waits.
        if_idle: bool,
    },
    /// The same for the device as a whole: without power it obeys this command and no other.
    31 => PowerDevice {
        /// Whether it gets power.
        on: bool,
        /// Refused with [`AdminError::Busy`] when a queue has work, also one that is suspended, or
        /// waits.
        if_idle: bool,
    },
    /// Has an engine raise [`crate::Cause::ENGINE_IDLE`] when it had nothing to do for so long;
    /// once until it has worked again.
    32 => ReportIdle {
        /// Which.
        engine: u32,
        /// Nanoseconds; 0 for never.
        after_ns: u64,
    },
    /// Changes where a queue stands among the others of its engine. It begins in its band at level,
    /// priority and quantum 0.
    13 => SetScheduling {
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
    33 => SetBands {
        /// By band: how long a process goes on while others wait, in nanoseconds; 0 for a turn.
        process_quantum_ns: [u64; 4],
        /// What NORMAL gets of the time of NORMAL and FOCUS when both want all of it, from 0 to 50.
        normal_percent: u32,
    },
    /// Keeps a shadow of a fence's MonitoredValue, which begins as memory says. A fence that has
    /// one keeps it. Result: 1 if there is a shadow, 0 if there was no room and its signals are
    /// compared with memory.
    15 => KeepShadow {
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
    16 => DropShadow {
        /// The driver's number for the fence.
        fence: u64,
    },
    /// Other GPUs will tell this one when a fence was signalled: it then looks at the queues that
    /// wait for it, and compares with its own MonitoredValue.
    20 => WatchFence {
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
    40 => PreemptNode {
        /// Which engine.
        engine: u32,
        /// Comes back in [`crate::Register::PREEMPTED_FENCE`].
        preemption_fence_id: u32,
    },
    /// Takes an engine out of whatever it is in, also when it hangs, and drops all of its node's
    /// ring. Done when the engine is empty and takes new work. Result: the submission fence id of
    /// the packet that was cut off, or of the last complete one; then the queue of a process that
    /// was cut off plus one, 0 for none. That queue is stopped, as by a fault.
    41 => ResetEngine {
        /// Which engine.
        engine: u32,
    },
    /// Result: see [`crate::EngineAnswer`].
    42 => QueryEngine {
        /// Which engine.
        engine: u32,
    },
    /// Another GPU, whose common doorbell was connected, watches a fence.
    21 => LinkPeer {
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

/// A field of a command.
trait Field: Sized {
    fn put(self, words: &mut IterMut<'_, u64>);
    fn take(words: &mut Iter<'_, u64>) -> Result<Self, AdminError>;
}

/// Declares a group of fields that a command holds as one: a word each, in their order.
macro_rules! group {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type),* }

        impl Field for $name {
            fn put(self, words: &mut IterMut<'_, u64>) {
                $(self.$field.put(words);)*
            }

            fn take(words: &mut Iter<'_, u64>) -> Result<Self, AdminError> {
                Ok($name { $($field: Field::take(words)?),* })
            }
        }
    };
}

group! {
    /// What never changes about a hardware queue.
    QueueShape {
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
    }
}

/// Fields of one word: how it is made of the value, and read.
macro_rules! fields {
    ($($type:ty: |$value:ident| $put:expr, |$word:ident| $take:expr;)*) => {
        $(impl Field for $type {
            fn put(self, words: &mut IterMut<'_, u64>) {
                let $value = self;
                if let Some(word) = words.next() {
                    *word = $put;
                }
            }

            fn take(words: &mut Iter<'_, u64>) -> Result<Self, AdminError> {
                let $word = *words.next().ok_or(AdminError::Malformed)?;
                Ok($take)
            }
        })*
    };
}

fields! {
    u64: |v| v, |w| w;
    u32: |v| v.into(), |w| narrow(w)?;
    i32: |v| i64::from(v).cast_unsigned(), |w| narrow(w.cast_signed())?;
    bool: |v| v.into(), |w| w != 0;
    GpuVa: |v| v.0, |w| GpuVa(w);
    PhysicalAddress: |v| v.0, |w| PhysicalAddress(w);
    AddressSpaceId: |v| v.0.into(), |w| AddressSpaceId(narrow(w)?);
    QueueId: |v| v.0.into(), |w| QueueId(narrow(w)?);
    LogType: |v| v as u64, |w| narrow::<_, u32>(w)?.try_into().map_err(|_| AdminError::BadValue)?;
    QueueKind: |v| v as u64, |w| match w {
        0 => QueueKind::User,
        1 => QueueKind::Kernel,
        2 => QueueKind::Node,
        _ => return Err(AdminError::BadValue),
    };
}

impl Field for [u64; 4] {
    fn put(self, words: &mut IterMut<'_, u64>) {
        self.into_iter().for_each(|value| value.put(words));
    }

    fn take(words: &mut Iter<'_, u64>) -> Result<Self, AdminError> {
        Ok([u64::take(words)?, u64::take(words)?, u64::take(words)?, u64::take(words)?])
    }
}

fn narrow<W, N: TryFrom<W>>(word: W) -> Result<N, AdminError> {
    N::try_from(word).map_err(|_| AdminError::BadValue)
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
