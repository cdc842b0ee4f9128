//! The table of operations: name, arguments and the kernel calls that each reaches.
//!
//! Invariant: every call of `calls::Kernel` is in the `calls` of an operation, or in
//! [`UNREACHED`] with the reason (`cargo xtask tidy`). A new operation is a row here, its rule in
//! `model`, its arm in `stage`, and its weight in `generate`.
//!
//! Entry points: [`Operation`], [`Kind`].

use crate::words::{
    BadWord, Band, BufferId, Class, FenceId, FenceKind, Model, ProcessId, Question, QueueId,
    Sharing, Surface, WaitId,
};
use std::fmt;

/// A line that is not an operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOperation {
    /// No operation has the name.
    #[error("'{0}' is no operation; the table is crates/swarm/src/operation.rs")]
    Unknown(String),
    /// The number of arguments is wrong.
    #[error("{name} takes {takes}, and has {has} arguments")]
    Arguments {
        /// The operation.
        name: &'static str,
        /// The arguments by name.
        takes: String,
        /// The number of words after the name.
        has: usize,
    },
    /// An argument is wrong.
    #[error("{name}: {word}")]
    Word {
        /// The operation.
        name: &'static str,
        /// The argument.
        word: BadWord,
    },
}

fn read<T: ReadWord>(name: &'static str, word: &str) -> Result<T, BadOperation> {
    T::read(word).map_err(|word| BadOperation::Word { name, word })
}

trait ReadWord: Sized {
    fn read(word: &str) -> Result<Self, BadWord>;
}

impl ReadWord for u64 {
    fn read(word: &str) -> Result<u64, BadWord> {
        word.parse().map_err(|_| BadWord {
            word: word.to_owned(),
            what: "number",
            allowed: "write digits".to_owned(),
        })
    }
}

macro_rules! read_by_from_str {
    ($($name:ident),+) => {$(
        impl ReadWord for $name {
            fn read(word: &str) -> Result<$name, BadWord> {
                word.parse()
            }
        }
    )+};
}

read_by_from_str! {
    Band, BufferId, Class, FenceId, FenceKind, Model, ProcessId, Question, QueueId, Sharing,
    Surface, WaitId
}

/// What a queue is created as.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewQueue {
    pub(crate) surface: Surface,
    pub(crate) model: Model,
    pub(crate) class: Class,
    pub(crate) band: Band,
}

/// What a fence is created as.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewFence {
    pub(crate) surface: Surface,
    pub(crate) kind: FenceKind,
    pub(crate) sharing: Sharing,
    pub(crate) initial: u64,
}

macro_rules! operations {
    ($(
        $(#[$doc:meta])*
        $variant:ident $name:literal [$($call:ident),* $(,)?] { $($(#[$fdoc:meta])* $field:ident: $type:ty),* $(,)? }
    )+) => {
        /// One operation of a thread.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Operation {
            $($(#[$doc])* #[allow(missing_docs)] $variant { $($(#[$fdoc])* $field: $type),* }),+
        }

        /// An operation without its arguments.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[$doc])* $variant),+
        }

        impl Kind {
            /// Every kind, in the order of the table.
            pub const ALL: &[Kind] = &[$(Kind::$variant),+];

            /// Returns the name.
            pub fn name(self) -> &'static str {
                match self { $(Kind::$variant => $name),+ }
            }

            /// Returns the kernel calls that the operation reaches.
            pub fn calls(self) -> &'static [&'static str] {
                match self { $(Kind::$variant => &[$(stringify!($call)),*]),+ }
            }
        }

        impl Operation {
            /// Returns the kind.
            pub fn kind(&self) -> Kind {
                match self { $(Operation::$variant { .. } => Kind::$variant),+ }
            }

            /// Reads an operation from its words.
            ///
            /// # Errors
            /// Names the operation and the word.
            pub fn of_words(words: &[&str]) -> Result<Operation, BadOperation> {
                let (name, arguments) = words.split_first().map_or(("", &[][..]), |(n, a)| (*n, a));
                match name {
                    $($name => {
                        #[allow(unused_mut, unused_variables)]
                        let mut next = arguments.iter();
                        let takes: &[&str] = &[$(stringify!($field)),*];
                        if takes.len() != arguments.len() {
                            return Err(BadOperation::Arguments {
                                name: $name,
                                takes: takes.join(", "),
                                has: arguments.len(),
                            });
                        }
                        Ok(Operation::$variant {
                            $($field: read($name, next.next().expect("counted above"))?),*
                        })
                    })+
                    _ => Err(BadOperation::Unknown(name.to_owned())),
                }
            }
        }

        impl fmt::Display for Operation {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Operation::$variant { $($field),* } => {
                        f.write_str($name)?;
                        $(write!(f, " {}", $field)?;)*
                        Ok(())
                    })+
                }
            }
        }
    };
}

operations! {
    /// Creates a queue.
    CreateQueue "queue" [
        create_device, create_context_virtual, create_hw_context, create_hw_queue,
        create_doorbell, connect_doorbell, native_fence_log_detail,
    ] { queue: QueueId, surface: Surface, model: Model, class: Class, band: Band }
    /// Drops a queue whose work is done.
    DropQueue "drop-queue" [
        destroy_context, destroy_hw_context, destroy_hw_queue, destroy_doorbell,
    ] { queue: QueueId }
    /// Destroys a queue while other threads add work to it.
    CloseQueue "close-queue" [destroy_context, destroy_hw_context, destroy_hw_queue] {
        queue: QueueId,
    }
    /// Keeps an engine busy, from a queue of any model.
    Flood "flood" [submit_command, submit_command_to_hw_queue, signal_from_gpu2] {
        queue: QueueId,
        /// Packets.
        count: u64,
        /// Nanoseconds of each packet.
        ns: u64,
        /// Whether a signal follows each packet: 0 or 1.
        signals: u64,
    }
    /// Executes on a NORMAL queue and waits. In virtual time its share bounds the wait: PRE-072 for
    /// packets, HS-006 and HS-021 for hardware and user-mode queues.
    Prompt "prompt" [submit_command, submit_command_to_hw_queue, wait_from_cpu] {
        queue: QueueId,
        /// Nanoseconds.
        ns: u64,
    }
    /// Occupies the engine of a queue.
    Execute "execute" [submit_command, submit_command_to_hw_queue, notify_work_submission] {
        queue: QueueId,
        /// Nanoseconds.
        ns: u64,
    }
    /// Stores a 32-bit value by an engine.
    Store "store" [submit_command, submit_command_to_hw_queue] {
        queue: QueueId,
        buffer: BufferId,
        /// Index of the word.
        word: u64,
        value: u64,
    }
    /// Queues one signal on two queues of one kind at the call surface: it is made when both reach
    /// it.
    Broadcast "broadcast" [signal_from_gpu2, submit_signal_to_hw_queues] {
        queue: QueueId,
        other: QueueId,
        fence: FenceId,
        value: u64,
    }
    /// Blocks until all work of a queue is done.
    Drain "drain" [wait_from_cpu] { queue: QueueId }
    /// Creates a fence.
    CreateFence "fence" [create_monitored_fence, create_native_fence, share_objects] {
        fence: FenceId,
        surface: Surface,
        kind: FenceKind,
        sharing: Sharing,
        initial: u64,
    }
    /// Opens a shared fence in the thread's process.
    OpenFence "open-fence" [open_sync_object_from_nt_handle, open_native_fence_from_nt_handle] {
        fence: FenceId,
        surface: Surface,
    }
    /// Closes an instance of a fence.
    DropFence "drop-fence" [destroy_synchronization_object] { fence: FenceId, surface: Surface }
    /// Closes a private instance at the call surface while other threads use it. Its waits end.
    CloseFence "close-fence" [destroy_synchronization_object] { fence: FenceId }
    /// Queues a signal.
    QueueSignal "queue-signal" [signal_from_gpu2, submit_signal_to_hw_queues] {
        queue: QueueId,
        fence: FenceId,
        value: u64,
    }
    /// Queues a wait.
    QueueWait "queue-wait" [wait_from_gpu, submit_wait_to_hw_queue] {
        queue: QueueId,
        fence: FenceId,
        value: u64,
    }
    /// Signals from the CPU.
    Signal "signal" [signal_from_cpu] { fence: FenceId, surface: Surface, value: u64 }
    /// Queues a wait, then signals its value and a lower one from the CPU. The wait latches.
    PulseQueue "pulse-queue" [wait_from_gpu, submit_wait_to_hw_queue, signal_from_cpu] {
        queue: QueueId,
        fence: FenceId,
        value: u64,
        low: u64,
    }
    /// Registers a wait, signals its value and a lower one, and blocks until the wait is over.
    PulseWait "pulse-wait" [register_cpu_wait, signal_from_cpu] {
        fence: FenceId,
        surface: Surface,
        value: u64,
        low: u64,
    }
    /// Blocks until a fence has reached a value.
    Wait "wait" [wait_from_cpu] { fence: FenceId, surface: Surface, value: u64 }
    /// Blocks until two fences have reached their values.
    WaitAll "wait-all" [wait_from_cpu] {
        fence: FenceId,
        value: u64,
        other: FenceId,
        /// The value of the other fence.
        least: u64,
    }
    /// Blocks until one of two fences has reached its value.
    WaitAny "wait-any" [wait_from_cpu] {
        fence: FenceId,
        value: u64,
        other: FenceId,
        /// The value of the other fence.
        least: u64,
    }
    /// Registers a wait.
    Register "register" [register_cpu_wait] {
        wait: WaitId,
        fence: FenceId,
        surface: Surface,
        value: u64,
    }
    /// Blocks until a registered wait is over.
    Await "await" [] { wait: WaitId }
    /// Cancels a registered wait.
    Cancel "cancel" [] { wait: WaitId }
    /// Creates a buffer of 64 KiB pages that the CPU can read.
    CreateBuffer "buffer" [create_allocation, create_paging_queue, make_resident] {
        buffer: BufferId,
        surface: Surface,
        /// In pages of 4 KiB.
        pages: u64,
    }
    /// Drops a buffer that no work uses.
    DropBuffer "drop-buffer" [destroy_allocation, destroy_paging_queue] { buffer: BufferId }
    /// Creates and drops a buffer.
    Scratch "scratch" [create_allocation, destroy_allocation] { surface: Surface, pages: u64 }
    /// Takes the reference of a local allocation away and gives it back.
    Evict "evict" [evict, make_resident, query_allocation_residency, set_allocation_priority] {
        buffer: BufferId,
    }
    /// Takes the reference of a local allocation away. It leaves local memory when others need
    /// room.
    PageOut "page-out" [evict] { buffer: BufferId }
    /// Gives the reference back, and waits for the paging.
    PageIn "page-in" [make_resident] { buffer: BufferId }
    /// Asks without changing anything.
    Query "query" [
        query_adapter_info, query_clock_calibration, device_state, query_video_memory_info,
        queue_number,
    ] { question: Question }
    /// Sets the bands of the hardware context of a queue at the call surface.
    SetPriority "set-priority" [
        set_context_scheduling_priority, set_context_in_process_scheduling_priority,
    ] {
        queue: QueueId,
        /// Steps below NORMAL, and below 0 inside of the process.
        below: u64,
    }
    /// Reserves addresses, maps an allocation there in the order of a fence, and frees both.
    Tiles "tiles" [
        reserve_gpu_virtual_address, update_gpu_virtual_address, free_gpu_virtual_address, lock2,
    ] {
        /// Tiles of 64 KiB.
        tiles: u64,
    }
    /// Shares allocations as a resource, opens it again, and ends both.
    ShareResource "share-resource" [
        create_resource, query_resource_info, open_resource, destroy_resource,
    ] { pages: u64 }
    /// Creates a semaphore, takes it and gives it back on a context, and destroys it.
    Semaphore "semaphore" [
        create_synchronization_object, open_synchronization_object,
        wait_for_synchronization_objects, signal_synchronization_objects,
    ] {
        /// Times that it is taken and given back.
        rounds: u64,
    }
    /// Creates a keyed mutex, opens it, passes it between both instances, and ends both.
    KeyedMutex "keyed-mutex" [
        create_keyed_mutex, open_keyed_mutex, open_keyed_mutex_changes, acquire_keyed_mutex,
        release_keyed_mutex, destroy_keyed_mutex,
    ] {
        /// Times that each instance has it.
        rounds: u64,
    }
    /// Creates a fence, shares it by a name of the thread, finds it again, and closes all.
    NameFence "name-fence" [share_objects, open_sync_object_nt_handle_from_name] {
        value: u64,
    }
    /// Waits for a vertical sync, on an adapter with a display.
    Vsync "vsync" [display, wait_for_vertical_blank_event] {}
    /// Presents a picture of a context and waits until it is shown.
    Flip "flip" [present] { interval: u64 }
    /// Lets time pass.
    Rest "rest" [] {
        /// Nanoseconds.
        ns: u64,
    }
    /// Stops the whole process, as SIGSTOP does: time passes and no agent runs. Virtual time only.
    StopProcess "stop-process" [] {
        /// Nanoseconds.
        ns: u64,
    }
    /// Takes all hardware contexts off the run list for a time.
    Suspend "suspend" [] {
        /// Nanoseconds.
        ns: u64,
    }
    /// Puts the adapter into D3 and back into D0.
    SleepResume "sleep-resume" [] {
        /// Nanoseconds between the two.
        ns: u64,
    }
    /// Offers every idle engine for F1.
    IdleEngines "idle-engines" [] {}
    /// Resets an engine.
    ResetEngine "reset-engine" [debug_timeouts] { class: Class }
    /// Resets an adapter of doomed processes.
    ResetAdapter "reset-adapter" [debug_timeouts] {}
    /// Removes an adapter of doomed processes.
    RemoveAdapter "remove-adapter" [] {}
    /// Hangs the engine of a queue of a doomed process.
    Hang "hang" [submit_command, submit_command_to_hw_queue] { queue: QueueId }
    /// Puts the device of a doomed process into error.
    MarkDevice "mark-device" [mark_device_as_error] { process: ProcessId }
    /// Destroys the D3DKMT device of a doomed process while other threads use it.
    DestroyDevice "destroy-device" [destroy_device] {}
    /// Terminates a doomed process.
    Kill "kill" [destroy_device] { process: ProcessId }
}

/// Operations of an operator, which a process cannot carry out by a call, with the reason. On the
/// ground of processes a client asks the machine's process for them.
pub const BY_OPERATOR: &[(Kind, &str)] = &[
    (Kind::Suspend, "the kernel suspends contexts for its own work; no call asks for it"),
    (Kind::SleepResume, "the system puts a device to sleep"),
    (Kind::IdleEngines, "the power manager decides which engines are idle"),
    (Kind::ResetEngine, "a debugger forces it, and not a client of the service"),
    (Kind::ResetAdapter, "a debugger forces it, and not a client of the service"),
    (Kind::RemoveAdapter, "the system removes a device"),
    (Kind::Kill, "the parent of a process kills it"),
];

impl Kind {
    /// Returns whether an operator carries out the operation.
    pub fn is_by_operator(self) -> bool {
        BY_OPERATOR.iter().any(|(kind, _)| *kind == self)
    }
}

/// Kernel calls that no operation reaches yet, with the reason.
pub const UNREACHED: &[(&str, &str)] = &[
    ("disable_gpu_timeout", "its work may run for ever, so no bound of a wait holds beside it"),
    ("render", "the model has no allocation lists; `split_buffers` in the tests has them"),
    ("open_nt_handle_from_name", "the model has no names of resources; `windows.c` has them"),
];
