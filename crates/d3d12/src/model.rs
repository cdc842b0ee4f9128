//! The choices of an application: submission models, list types, heaps, fences, and the
//! descriptions of devices, queues and buffers. Plain data.

use std::fmt;
use tidegate_calls::Priority;

pub use tidegate_d3dukmdt::{Submission, UnknownSubmission};
pub use tidegate_gpu_abi::ring::MAX_RING_SLOTS;

bitflags::bitflags! {
    /// What a fence is made for (D3D12_FENCE_FLAGS).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct FenceFlags: u32 {
        /// One device uses it.
        const NONE = 0;
        /// Other devices may open it.
        const SHARED = 1;
        /// Devices on other adapters may; only together with SHARED.
        const SHARED_CROSS_ADAPTER = 2;
        /// Queues alone use it: the CPU reads its value and does nothing else with it.
        const NON_MONITORED = 4;
    }
}

// spec: ME-016
/// What a queue runs and a list holds (D3D12_COMMAND_LIST_TYPE). The number 1, bundles, has no
/// queue and is left out.
#[doc(alias = "D3D12_COMMAND_LIST_TYPE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum CommandListType {
    /// 3D: everything.
    Direct = 0,
    /// Dispatches, copies and fills.
    Compute = 2,
    /// Copies and fills.
    Copy = 3,
}

impl CommandListType {
    /// The word used in messages.
    pub fn name(self) -> &'static str {
        match self {
            CommandListType::Direct => "direct",
            CommandListType::Compute => "compute",
            CommandListType::Copy => "copy",
        }
    }

    /// Engine types (DXGK_ENGINE_TYPE) that can run such work, the one made for it first. A 3D
    /// engine runs everything, a compute engine copies too.
    pub(crate) fn engine_types(self) -> &'static [u32] {
        const OTHER: u32 = 0;
        const THREE_D: u32 = 1;
        const COPY: u32 = 6;
        match self {
            CommandListType::Direct => &[THREE_D],
            CommandListType::Compute => &[OTHER, THREE_D],
            CommandListType::Copy => &[COPY, OTHER, THREE_D],
        }
    }
}

/// D3D12_COMMAND_LIST_TYPE_BUNDLE.
const BUNDLE: u32 = 1;

/// A number of D3D12_COMMAND_LIST_TYPE for which there is no queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no queue takes {}; use 0 (direct), 2 (compute) or 3 (copy)", type_text(*.0))]
pub struct NoQueueOfType(pub u32);

fn type_text(number: u32) -> String {
    match number {
        BUNDLE => "bundles (type 1), which are left out".to_owned(),
        other => format!("command lists of type {other}"),
    }
}

impl TryFrom<u32> for CommandListType {
    type Error = NoQueueOfType;

    // spec: ME-020, ME-028, ME-056
    fn try_from(number: u32) -> Result<CommandListType, NoQueueOfType> {
        let types = [CommandListType::Direct, CommandListType::Compute, CommandListType::Copy];
        types.into_iter().find(|of| *of as u32 == number).ok_or(NoQueueOfType(number))
    }
}

/// A number that is no D3D12_COMMAND_QUEUE_PRIORITY.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no queue has priority {0}; use 0 (normal), 100 (high) or 10000 (global realtime)")]
pub struct UnknownPriority(pub i32);

// spec: ME-017
/// The priority that a number of D3D12_COMMAND_QUEUE_PRIORITY stands for. [`Priority::Idle`] has
/// none.
///
/// # Errors
/// [`UnknownPriority`] for every other number.
pub fn queue_priority(number: i32) -> Result<Priority, UnknownPriority> {
    match number {
        0 => Ok(Priority::Normal),
        100 => Ok(Priority::High),
        10_000 => Ok(Priority::Realtime),
        _ => Err(UnknownPriority(number)),
    }
}

impl fmt::Display for CommandListType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Which kind of fence [`crate::Device::create_fence`] makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FenceChoice {
    /// Native where the adapter supports it, monitored elsewhere.
    #[default]
    Auto,
    /// Native, or an error.
    Native,
    /// Monitored.
    Monitored,
}

/// Which side makes buffers resident in local memory before the GPU uses them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResidencyChoice {
    /// The application: a buffer is resident from its making on, until it is evicted.
    #[default]
    Explicit,
    /// Each submission, for the buffers that its lists name; so there may be more of them than
    /// local memory holds.
    Automatic,
}

/// Fewest slots of a ring: a quarter has room for a checkpoint and something else.
pub const MIN_RING_SLOTS: u64 = 8;
/// Slots of a ring where [`DeviceOptions`] says nothing else.
pub const DEFAULT_RING_SLOTS: u64 = 1024;

/// How a device is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceOptions {
    /// The process: groups its lanes on the timeline.
    pub process_name: String,
    /// Which fences it makes.
    pub fences: FenceChoice,
    /// Slots in the ring of a user-mode queue: a power of two from [`MIN_RING_SLOTS`] to
    /// [`MAX_RING_SLOTS`]. Each command buffer, wait and signal takes a slot until the engine has
    /// taken it.
    pub ring_slots: u64,
    /// Which side manages the residency of buffers.
    pub residency: ResidencyChoice,
    /// Whether the process that is opened for it has the privilege to raise priorities
    /// (SE_INC_BASE_PRIORITY): its queues may be of priority realtime. It says nothing where the
    /// process is there already.
    pub may_raise_priority: bool,
    /// The checks of the application that run beside it. They change no result and no time.
    pub validation: Validation,
}

bitflags::bitflags! {
    /// Checks of an application's use of the device.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Validation: u32 {
        /// The states of resources, against each access.
        const STATES = 1;
        /// The order of conflicting accesses, by the program's own waits and signals.
        const HAZARDS = 2;
    }
}

impl Default for DeviceOptions {
    fn default() -> DeviceOptions {
        DeviceOptions {
            process_name: "app".to_owned(),
            fences: FenceChoice::Auto,
            ring_slots: DEFAULT_RING_SLOTS,
            residency: ResidencyChoice::Explicit,
            may_raise_priority: false,
            validation: Validation::empty(),
        }
    }
}

impl DeviceOptions {
    /// Returns the default options for a process of this name.
    pub fn new(process_name: impl Into<String>) -> DeviceOptions {
        DeviceOptions { process_name: process_name.into(), ..DeviceOptions::default() }
    }

    /// Sets which fences the device makes.
    pub fn fences(self, fences: FenceChoice) -> DeviceOptions {
        DeviceOptions { fences, ..self }
    }

    /// Sets the number of slots in the ring of a user-mode queue.
    pub fn ring_slots(self, ring_slots: u64) -> DeviceOptions {
        DeviceOptions { ring_slots, ..self }
    }

    /// Sets which side manages the residency of buffers.
    pub fn residency(self, residency: ResidencyChoice) -> DeviceOptions {
        DeviceOptions { residency, ..self }
    }

    /// Sets whether the process has the privilege to raise priorities.
    pub fn may_raise_priority(self, may_raise_priority: bool) -> DeviceOptions {
        DeviceOptions { may_raise_priority, ..self }
    }

    /// Sets the checks of the application that run beside it.
    pub fn validation(self, validation: Validation) -> DeviceOptions {
        DeviceOptions { validation, ..self }
    }
}

bitflags::bitflags! {
    /// Flags of a queue (D3D12_COMMAND_QUEUE_FLAGS). ALLOW_DYNAMIC_PRIORITY is left out: the
    /// priority of a queue is that of its creation.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct QueueFlags: u32 {
        /// No flag.
        const NONE = 0;
        /// The work of the queue may run for any time: it is never reset as hung.
        const DISABLE_GPU_TIMEOUT = 1;
    }
}

/// Which engines run the lists of a queue. A 3D queue can drive the 3D, the compute and the copy
/// engine, a compute queue the compute and the copy engine. The order of the queue is the same
/// under each policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EnginePolicy {
    /// The engine of the queue's node runs all of them.
    #[default]
    Own,
    /// Each list runs on the engine that its commands are made for: a list of copies and fills on
    /// the copy engine, a list of dispatches and copies on the compute engine, every other list on
    /// the engine of the queue's node. A list with modelled work stays there too. Where the adapter
    /// has no such engine, or the engine does not offer the queue's submission model, the lists
    /// stay on the queue's node.
    ByCommands,
}

/// How a queue is made (D3D12_COMMAND_QUEUE_DESC).
///
/// ```
/// use tidegate_d3d12::{Priority, QueueDesc, Submission};
///
/// let physics = QueueDesc::compute("physics").priority(Priority::High);
/// let upload = QueueDesc::copy("upload").submission(Submission::Hardware);
/// assert_eq!((physics.submission, upload.node), (None, None));
/// ```
#[doc(alias = "D3D12_COMMAND_QUEUE_DESC")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDesc {
    /// Its name in messages and on the timeline.
    pub name: String,
    /// What it runs.
    pub list_type: CommandListType,
    /// Its priority.
    pub priority: Priority,
    /// How its work reaches the engine; `None` takes the first of these that the node offers:
    /// user mode, if the device makes native fences; hardware; packet.
    pub submission: Option<Submission>,
    /// Its flags.
    pub flags: QueueFlags,
    /// The node (NodeOrdinal) that runs it; `None` takes the first node made for `list_type`, see
    /// [`crate::Device::nodes_for`].
    pub node: Option<u32>,
    /// D3D12's NodeMask: the physical GPU that runs it, by its bit; 0 is the first one. It has
    /// nothing to do with `node`: every physical GPU of a linked adapter has every node.
    pub node_mask: u32,
    /// Which engines run its lists.
    pub engines: EnginePolicy,
}

impl Default for QueueDesc {
    /// Describes a direct queue, as a zeroed D3D12_COMMAND_QUEUE_DESC does.
    fn default() -> QueueDesc {
        QueueDesc::new(CommandListType::Direct)
    }
}

impl QueueDesc {
    /// Describes a queue of normal priority, named for its type, on the first node made for it.
    pub fn new(list_type: CommandListType) -> QueueDesc {
        QueueDesc {
            name: list_type.name().to_owned(),
            list_type,
            priority: Priority::Normal,
            submission: None,
            flags: QueueFlags::NONE,
            node: None,
            node_mask: 0,
            engines: EnginePolicy::default(),
        }
    }

    /// Describes a queue for direct (3D) lists.
    pub fn direct(name: impl Into<String>) -> QueueDesc {
        QueueDesc::new(CommandListType::Direct).name(name)
    }

    /// Describes a queue for compute lists.
    pub fn compute(name: impl Into<String>) -> QueueDesc {
        QueueDesc::new(CommandListType::Compute).name(name)
    }

    /// Describes a queue for copy lists.
    pub fn copy(name: impl Into<String>) -> QueueDesc {
        QueueDesc::new(CommandListType::Copy).name(name)
    }

    /// Sets its name.
    pub fn name(self, name: impl Into<String>) -> QueueDesc {
        QueueDesc { name: name.into(), ..self }
    }

    /// Sets its priority.
    pub fn priority(self, priority: Priority) -> QueueDesc {
        QueueDesc { priority, ..self }
    }

    /// Sets how its work reaches the engine.
    pub fn submission(self, submission: impl Into<Option<Submission>>) -> QueueDesc {
        QueueDesc { submission: submission.into(), ..self }
    }

    /// Sets its flags.
    pub fn flags(self, flags: QueueFlags) -> QueueDesc {
        QueueDesc { flags, ..self }
    }

    /// Sets the node that runs it.
    pub fn node(self, node: impl Into<Option<u32>>) -> QueueDesc {
        QueueDesc { node: node.into(), ..self }
    }

    /// Sets the physical GPU that runs it, by its bit.
    pub fn node_mask(self, node_mask: u32) -> QueueDesc {
        QueueDesc { node_mask, ..self }
    }

    /// Sets which engines run its lists.
    pub fn engines(self, engines: EnginePolicy) -> QueueDesc {
        QueueDesc { engines, ..self }
    }
}

/// How a fence is made.
///
/// ```
/// use tidegate_d3d12::FenceDesc;
///
/// let handed_over = FenceDesc::new("handed over").initial_value(1).shared();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FenceDesc {
    /// Its name in messages and on the timeline.
    pub name: String,
    /// Its value when it has been made.
    pub initial_value: u64,
    /// What it is made for.
    pub flags: FenceFlags,
}

impl FenceDesc {
    /// Describes a fence of one device, whose value is 0.
    pub fn new(name: impl Into<String>) -> FenceDesc {
        FenceDesc { name: name.into(), ..FenceDesc::default() }
    }

    /// Sets its first value.
    pub fn initial_value(self, initial_value: u64) -> FenceDesc {
        FenceDesc { initial_value, ..self }
    }

    /// Sets its flags, all at once.
    pub fn flags(self, flags: FenceFlags) -> FenceDesc {
        FenceDesc { flags, ..self }
    }

    /// Lets other devices of the adapter open it.
    pub fn shared(self) -> FenceDesc {
        FenceDesc { flags: self.flags | FenceFlags::SHARED, ..self }
    }

    /// Lets devices on other adapters open it too.
    pub fn shared_cross_adapter(self) -> FenceDesc {
        let flags = self.flags | FenceFlags::SHARED | FenceFlags::SHARED_CROSS_ADAPTER;
        FenceDesc { flags, ..self }
    }

    /// Makes it for queues alone: the CPU reads its value and does nothing else with it.
    pub fn non_monitored(self) -> FenceDesc {
        FenceDesc { flags: self.flags | FenceFlags::NON_MONITORED, ..self }
    }
}

/// What a user-mode queue does when it has lost its doorbell for good (DISCONNECTED_ABORT), or
/// cannot connect it, while its device lives. When the device is lost, nothing helps: calls say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnAbort {
    /// It is recreated from user mode: hardware queue, ring and doorbell. Work that had not run is
    /// submitted again, in order. An interrupted command buffer is not, and is reported as
    /// [`crate::Error::WorkLost`].
    #[default]
    RecreateUser,
    /// The same as a kernel-mode hardware queue, which needs no doorbell. Waits that are submitted
    /// again latch from then on.
    RecreateHardware,
    /// It stays as it is and says so: [`crate::Error::QueueAborted`], or what the connect was
    /// refused with. What it had queued may never run.
    Report,
}

/// Options of a queue beside its [`QueueDesc`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueOptions {
    /// For user-mode queues. The loss is noticed by the next call that submits, or that waits for
    /// the queue to be idle.
    pub on_abort: OnAbort,
}

/// Where a buffer stands (D3D12_HEAP_TYPE). Every heap can be written and read by the CPU.
#[doc(alias = "D3D12_HEAP_TYPE")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Heap {
    /// The adapter's local memory.
    #[default]
    Default,
    /// System memory, for data on its way to the GPU.
    Upload,
    /// System memory, for data on its way from the GPU.
    Readback,
}

/// How a buffer is made.
///
/// ```
/// use tidegate_d3d12::{BufferDesc, Heap};
///
/// let particles = BufferDesc::new("particles", 1 << 20);
/// let staging = BufferDesc::upload("staging", 1 << 16);
/// assert_eq!((particles.heap, staging.heap), (Heap::Default, Heap::Upload));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BufferDesc {
    /// Its name in messages.
    pub name: String,
    /// Its length in bytes, not 0.
    pub bytes: u64,
    /// Where it stands.
    pub heap: Heap,
}

impl BufferDesc {
    /// Describes a buffer in the default heap.
    pub fn new(name: impl Into<String>, bytes: u64) -> BufferDesc {
        BufferDesc { name: name.into(), bytes, heap: Heap::Default }
    }

    /// Describes a buffer in the upload heap.
    pub fn upload(name: impl Into<String>, bytes: u64) -> BufferDesc {
        BufferDesc::new(name, bytes).heap(Heap::Upload)
    }

    /// Describes a buffer in the readback heap.
    pub fn readback(name: impl Into<String>, bytes: u64) -> BufferDesc {
        BufferDesc::new(name, bytes).heap(Heap::Readback)
    }

    /// Sets where it stands.
    pub fn heap(self, heap: Heap) -> BufferDesc {
        BufferDesc { heap, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    // spec: UMS-003, ME-016, ME-020, ME-028, ME-056
    fn words_and_numbers_are_the_documents() {
        for submission in Submission::ALL {
            assert_eq!(submission.to_string().parse(), Ok(submission));
        }
        assert_eq!("User".parse::<Submission>(), Err(UnknownSubmission("User".to_owned())));
        let types = [CommandListType::Direct, CommandListType::Compute, CommandListType::Copy];
        assert_eq!(types.map(|t| t as u32), [0, 2, 3]);
        assert_eq!([0, 2, 3].map(CommandListType::try_from), types.map(Ok));
        let bundle = CommandListType::try_from(1).unwrap_err();
        assert_eq!(
            bundle.to_string(),
            "no queue takes bundles (type 1), which are left out; use 0 (direct), 2 (compute) or 3 (copy)"
        );
    }
}
