//! The commands that the driver sends to the context management processor (CMP) through the mailbox
//! registers. A new command is one entry of the table of `commands!`.
//!
//! A write to MAILBOX_RUN returns without a wait. A command that needs the end of an engine's turn
//! is begun, and its status is [`PENDING`]. The driver waits, with no lock that a DPC can want,
//! until
//! `Device::turn_ends` changes, and sends [`AdminCommand::Continue`].

use crate::log::LogType;
use crate::regs::MAILBOX_WORDS;
use crate::{AddressSpaceId, GpuVa};
use std::slice::{Iter, IterMut};
use tidegate_platform::PhysicalAddress;

/// The number of a hardware queue on the GPU, which names one queue for ever. The low 20 bits are
/// the queue's place among the queues of the GPU. The others count the queues that had the place
/// before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u32);

impl QueueId {
    /// Bits of a number that hold the place.
    pub const PLACE_BITS: u32 = 20;
    /// The number of queues that had a place when it is used up.
    pub const QUEUES_OF_A_PLACE: u32 = 1 << (u32::BITS - QueueId::PLACE_BITS);

    /// Returns the number of the queue at `place` that `before` queues preceded there.
    pub fn new(place: u32, before: u32) -> QueueId {
        QueueId(before << QueueId::PLACE_BITS | place)
    }

    /// Returns the queue's place, which a later queue gets once this one has ended.
    #[inline]
    pub fn place(self) -> u32 {
        self.0 & ((1 << QueueId::PLACE_BITS) - 1)
    }
}

/// The side that writes a queue's ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// A process. Packets are untrusted, and a doorbell announces new ones.
    User,
    /// The kernel-mode driver, for a queue of one process. It kicks the queue and has no doorbell.
    Kernel,
    /// The kernel-mode driver, for DMA packets of any context: one per node.
    Node,
}

/// The words of the mailbox.
pub type Mailbox = [u64; MAILBOX_WORDS as usize];

/// Declares the commands: the number in word 0, then the fields in order, one word each.
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
            /// Returns the mailbox words.
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

            /// Decodes the mailbox.
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
    /// Sets the root table of an address space. Result: nothing.
    1 => SetAddressSpace {
        /// The address space.
        address_space: AddressSpaceId,
        /// Its root page table; 0 removes it.
        root: PhysicalAddress,
        /// The physical GPU. Each has its own page tables.
        physical_gpu: u32,
    },
    /// Invalidates cached translations of an address space.
    2 => InvalidateTlb {
        /// The address space.
        address_space: AddressSpaceId,
        /// The physical GPU.
        physical_gpu: u32,
    },
    /// Creates a hardware queue and puts it on its engine's run list. Result: its [`QueueId`].
    3 => CreateQueue {
        /// The properties that never change.
        shape: QueueShape,
        /// Priority band: 0 IDLE, 1 NORMAL, 2 FOCUS, 3 REALTIME. Higher runs first.
        band: u32,
        /// The kernel's handle of the queue, to which its work is attributed; 0 for a queue of
        /// the driver.
        os_handle: u64,
        /// The driver's number of the queue's context; 0 for a context of its own. Contexts of a
        /// process take turns.
        context: u32,
    },
    /// Takes a queue off the run list permanently.
    4 => DestroyQueue {
        /// The queue.
        queue: QueueId,
    },
    /// Takes a queue off the run list. Its ring is not read until it is resumed. The command is
    /// refused with [`AdminError::Busy`] if the engine hangs in the queue, or cannot be preempted
    /// at the present point. The suspension then completes at the engine's next preemption point,
    /// with [`crate::Cause::QUEUE_SUSPENDED`].
    5 => SuspendQueue {
        /// The queue.
        queue: QueueId,
    },
    /// Puts a queue back on the run list or cancels its pending suspension, and reloads its
    /// write pointer.
    6 => ResumeQueue {
        /// The queue.
        queue: QueueId,
    },
    /// Connects a doorbell to a queue. `Device::doorbell_page` then returns its page. Result: the
    /// doorbell's bit number in its process's summary.
    7 => ConnectDoorbell {
        /// The queue.
        queue: QueueId,
        /// Whether the doorbell is the location that all queues of its process share, or of all
        /// processes, as the hardware has it. Otherwise it gets a fresh page.
        global: bool,
        /// Whether to add a second page that rings the same queue.
        secondary: bool,
    },
    /// Drains the doorbell page a last time and disconnects it.
    8 => DisconnectDoorbell {
        /// The queue.
        queue: QueueId,
    },
    /// Reloads the write pointer from the control area.
    9 => KickQueue {
        /// The queue.
        queue: QueueId,
    },
    /// Sets a log buffer of a queue, starting with its next turn. `entries` 0 removes the log. The
    /// turn that the queue is in still writes the old buffer. Never pending.
    10 => SetLogBuffer {
        /// The queue.
        queue: QueueId,
        /// The kind of log.
        kind: LogType,
        /// The physical address of the header's protocol page.
        header: PhysicalAddress,
        /// The physical address of the entries.
        payload: PhysicalAddress,
        /// The capacity in entries.
        entries: u32,
        /// The number of entries after which an interrupt is raised each time, with or without a
        /// waiter; 0 for never.
        notify_every: u32,
    },
    /// Re-evaluates the queues that wait for a fence, because the CPU changed its CurrentValue.
    11 => NotifyFence {
        /// The address space of `current_value`.
        address_space: AddressSpaceId,
        /// The address of CurrentValue.
        current_value: GpuVa,
    },
    /// Re-evaluates all waiting queues, because some fence changed.
    14 => RescanWaits,
    /// Keeps all engines from starting turns. Done when no engine is in a turn. Holds are counted.
    17 => HoldEngines,
    /// Ends a hold. The last one makes all waits be re-evaluated.
    18 => ReleaseEngines,
    /// Moves a page of fence values or MonitoredValues on the bus: its content, and the waits
    /// that are keyed by its address. Refused unless engines are held, because their stores would
    /// be lost.
    19 => MoveFencePage {
        /// The present address of the page.
        from: PhysicalAddress,
        /// The new address of the page; it has the same number of words.
        to: PhysicalAddress,
    },
    /// Initialises a fence that no CPU reaches: CurrentValue becomes 0 and MonitoredValue the
    /// maximum. Waits for a previous fence at this address are satisfied.
    22 => RenewFence {
        /// The bus address of CurrentValue.
        current_value: PhysicalAddress,
        /// The bus address of MonitoredValue.
        monitored_value: PhysicalAddress,
        /// The fence's share of its page in bytes.
        stride_bytes: u64,
    },
    /// Condemns a fence that is destroyed or whose device is lost. All waits for it are satisfied,
    /// and signals do nothing.
    23 => CondemnFence {
        /// The bus address of CurrentValue.
        current_value: PhysicalAddress,
    },
    /// Queries a queue. Result: its [`QueueState`] and the number of slots taken.
    12 => QueryQueue {
        /// The queue.
        queue: QueueId,
    },
    /// Powers an engine on or off. Without power it runs nothing. Rings in the meantime are found
    /// when it is powered again.
    30 => PowerEngine {
        /// The engine's number.
        engine: u32,
        /// Whether to power the engine on.
        on: bool,
        /// Whether to refuse with [`AdminError::Busy`] if a queue of the engine is ready
        /// or waiting.
        if_idle: bool,
    },
    /// Powers the device on or off. Without power it accepts only this command.
    31 => PowerDevice {
        /// Whether to power the device on.
        on: bool,
        /// Whether to refuse with [`AdminError::Busy`] if a queue has work, even if suspended,
        /// or waits.
        if_idle: bool,
    },
    /// Makes an engine raise [`crate::Cause::ENGINE_IDLE`] when it has been idle for `after_ns`,
    /// once per idle period.
    32 => ReportIdle {
        /// The engine's number.
        engine: u32,
        /// The idle time in nanoseconds; 0 for never.
        after_ns: u64,
    },
    /// Sets the priority of a queue among the queues of its engine. A new queue has level, priority
    /// and quantum 0.
    13 => SetScheduling {
        /// The queue.
        queue: QueueId,
        /// The priority band, as in `CreateQueue`.
        band: u32,
        /// The level inside the REALTIME band, from 0 to 31; higher runs first.
        realtime_level: u32,
        /// The priority among the contexts of its process, from -7 to 7; higher runs first.
        in_process: i32,
        /// The time slice in nanoseconds while other contexts of the process wait; 0 for one turn.
        quantum_ns: u64,
    },
    /// Sets the scheduling parameters of all engines. Initially quanta are 0 and the percentage
    /// is 10.
    33 => SetBands {
        /// By band: the time slice of a process in nanoseconds while others wait; 0 for one turn.
        process_quantum_ns: [u64; 4],
        /// The guaranteed share of NORMAL when NORMAL and FOCUS compete, in percent from 0 to 50.
        normal_percent: u32,
    },
    /// Creates a shadow of a fence's MonitoredValue, loaded from memory, unless the fence has one.
    /// Result: 1 if there is a shadow, 0 if there was no room and signals are compared with memory.
    15 => KeepShadow {
        /// The driver's number for the fence. Never reused.
        fence: u64,
        /// The address space of the two values.
        address_space: AddressSpaceId,
        /// The address of CurrentValue.
        current_value: GpuVa,
        /// The address of MonitoredValue.
        monitored_value: GpuVa,
    },
    /// Removes a destroyed fence and its shadow, if it has one.
    16 => DropShadow {
        /// The driver's number for the fence.
        fence: u64,
    },
    /// Accepts signals of a fence from other GPUs. Each re-evaluates the queues that wait for the
    /// fence, and compares with this GPU's MonitoredValue.
    20 => WatchFence {
        /// The bus address of CurrentValue.
        current_value: PhysicalAddress,
        /// The bus address of this GPU's MonitoredValue; 0 stops watching.
        monitored_value: PhysicalAddress,
        /// Whether the page of CurrentValue is followed by a history.
        history: bool,
    },
    /// Preempts the packets of an engine's node ring as soon as its granularity allows. The state
    /// of a packet preempted in the middle goes to its save area. All packets of the ring that are
    /// not complete are dropped. [`crate::Cause::DMA_PREEMPTED`] answers. A second request before
    /// the answer replaces the first. Packets that are submitted after the request stay.
    40 => PreemptNode {
        /// The engine's number.
        engine: u32,
        /// Returned in [`crate::Register::PREEMPTED_FENCE`].
        preemption_fence_id: u32,
    },
    /// Resets an engine, even if it hangs, and drops its node's ring. When the command returns, the
    /// engine is idle and accepts new work. Result: the submission fence id of the packet that was
    /// cut off, or of the last complete one; then the number plus one of the process's queue that
    /// was cut off, 0 for none. That queue is stopped as by a fault.
    41 => ResetEngine {
        /// The engine's number.
        engine: u32,
    },
    /// Queries an engine. Result: see [`EngineAnswer`].
    42 => QueryEngine {
        /// The engine's number.
        engine: u32,
    },
    /// Continues a pending command. The answer is the command's, which may be [`PENDING`]
    /// again.
    43 => Continue {
        /// The ticket, from the command's result.
        ticket: u64,
        /// Whether to complete the command although the turn may go on, because the system stops.
        at_once: bool,
    },
    /// Adds or removes another GPU that watches a fence. Its common doorbell must be connected.
    21 => LinkPeer {
        /// The bus address of CurrentValue.
        current_value: PhysicalAddress,
        /// The other GPU's number.
        peer: u32,
        /// The bus address of its MonitoredValue, if this GPU is to load it. 0 forwards
        /// every signal.
        monitored_value: PhysicalAddress,
        /// Whether the other GPU watches the fence.
        linked: bool,
    },
}

/// A field of a command.
trait Field: Sized {
    fn put(self, words: &mut IterMut<'_, u64>);
    fn take(words: &mut Iter<'_, u64>) -> Result<Self, AdminError>;
}

/// Declares a group of fields that a command holds together: one word each, in order.
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
    /// The properties of a hardware queue that never change.
    QueueShape {
        /// The engine that runs it, by number (see `Device::engine_count`).
        engine: u32,
        /// The side that writes the ring.
        kind: QueueKind,
        /// The process's address space.
        address_space: AddressSpaceId,
        /// The address of the ring: in the queue's address space, or a physical address on the bus
        /// for kernel rings.
        ring: GpuVa,
        /// The number of slots; a power of two.
        slots: u64,
        /// The address of the control area, in the same space as the ring.
        control: GpuVa,
        /// The address of the progress fence's CurrentValue in the process's address space; 0
        /// for none.
        progress_current: GpuVa,
        /// The address of the progress fence's MonitoredValue; 0 for none.
        progress_monitored: GpuVa,
    }
}

/// Fields of one word, with their conversions.
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

/// The two result words of `AdminCommand::QueryEngine`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineAnswer {
    /// Whether the engine responds, as opposed to hanging in a command.
    pub responsive: bool,
    /// The queue whose commands the engine runs. It may be a node's ring.
    pub queue: Option<QueueId>,
    /// A counter of packets, commands and parts of commands. If it stands still while `queue` is
    /// set, the engine makes no progress.
    pub progress: u64,
    /// The number of the command that runs in its buffer, counted from 1 without labels; 0 if none
    /// does, or if it is unknown. At most [`EngineAnswer::MAX_COMMAND`].
    pub command: u32,
}

impl EngineAnswer {
    /// The highest number of a command that is reported.
    pub const MAX_COMMAND: u32 = (1 << 30) - 1;
    const COMMAND_SHIFT: u32 = 34;

    /// Encodes the result words.
    pub fn encode(self) -> (u64, u64) {
        let queue = self.queue.map_or(0, |q| u64::from(q.0) + 1);
        let command = u64::from(self.command.min(EngineAnswer::MAX_COMMAND));
        let low = u64::from(self.responsive) | queue << 1 | command << EngineAnswer::COMMAND_SHIFT;
        (low, self.progress)
    }

    /// Decodes the result words.
    pub fn decode((low, progress): (u64, u64)) -> EngineAnswer {
        let command = (low >> EngineAnswer::COMMAND_SHIFT) as u32;
        let queue = (low % (1 << EngineAnswer::COMMAND_SHIFT)) >> 1;
        let queue = queue.checked_sub(1).map(|q| QueueId(q as u32));
        EngineAnswer { responsive: low & 1 != 0, queue, progress, command }
    }
}

/// The state of a hardware queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum QueueState {
    /// The queue has no work.
    Idle = 0,
    /// The queue has work, and runs or will run.
    Ready = 1,
    /// The queue's next packet is an unsatisfied wait.
    Waiting = 2,
    /// The queue is off the run list.
    Suspended = 3,
    /// A fault stopped the queue.
    Faulted = 4,
}

impl QueueState {
    /// Returns the state with this number.
    pub fn from_number(number: u64) -> Option<QueueState> {
        use QueueState::{Faulted, Idle, Ready, Suspended, Waiting};
        [Idle, Ready, Waiting, Suspended, Faulted].into_iter().find(|s| *s as u64 == number)
    }
}

/// Why the CMP refused a command. Its number goes to the mailbox status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u64)]
pub enum AdminError {
    /// The words are not a command.
    #[error("the mailbox holds no command")]
    Malformed = 1,
    /// The queue does not exist.
    #[error("no such hardware queue")]
    NoSuchQueue = 2,
    /// The engine or physical GPU does not exist.
    #[error("no such engine or physical GPU")]
    NoSuchEngine = 3,
    /// An address in the command is not mapped, or is in the wrong kind of memory.
    #[error("an address in the command does not resolve")]
    BadAddress = 4,
    /// The device has no power.
    #[error("the device has no power; power it on first")]
    Asleep = 6,
    /// There is incomplete work.
    #[error("there is incomplete work")]
    Busy = 7,
    /// A number in the command is out of range.
    #[error("a number in the command is out of range")]
    BadValue = 5,
}

impl AdminError {
    /// Returns the error with this number.
    pub fn from_number(number: u64) -> Option<AdminError> {
        use AdminError::{
            Asleep, BadAddress, BadValue, Busy, Malformed, NoSuchEngine, NoSuchQueue,
        };
        let all = [Malformed, NoSuchQueue, NoSuchEngine, BadAddress, BadValue, Asleep, Busy];
        all.into_iter().find(|e| *e as u64 == number)
    }
}

/// The mailbox status of a command that the CMP has begun, and that waits for the end of a turn.
/// The first word of the result is the command's ticket.
pub const PENDING: u64 = 1 << 32;

/// The two result words of a command, or the error.
pub type AdminAnswer = Result<(u64, u64), AdminError>;

/// The result of a command without result words.
pub const DONE: AdminAnswer = Ok((0, 0));
