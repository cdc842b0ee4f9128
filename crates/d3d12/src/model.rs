//! What an application chooses, as plain data: submission models, list types, heaps, fence flags,
//! and the descriptions of devices, queues, fences and buffers.

use std::fmt;
use tidegate_calls::Priority;
use tidegate_d3dukmdt::EngineKind;

pub use tidegate_d3dukmdt::{Submission, UnknownSubmission};
pub use tidegate_gpu_abi::ring::MAX_RING_SLOTS;

bitflags::bitflags! {
    /// The sharing of a fence (D3D12_FENCE_FLAGS).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct FenceFlags: u32 {
        /// Only its own device uses the fence.
        const NONE = 0;
        /// Other devices of the adapter may open the fence.
        const SHARED = 1;
        /// Devices on other adapters may open the fence. Valid together with SHARED only.
        const SHARED_CROSS_ADAPTER = 2;
        /// Only queues wait for and signal the fence. The CPU can only read its value.
        const NON_MONITORED = 4;
    }
}

// spec: ME-016
/// The type of a queue and of its lists (D3D12_COMMAND_LIST_TYPE). Bundles, number 1, have no queue
/// and are left out.
#[doc(alias = "D3D12_COMMAND_LIST_TYPE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum CommandListType {
    /// Draws, dispatches, copies and fills: a 3D queue.
    Direct = 0,
    /// Dispatches, copies and fills.
    Compute = 2,
    /// Copies and fills.
    Copy = 3,
    /// Decodes video.
    VideoDecode = 4,
    /// Encodes video.
    VideoEncode = 6,
}

impl CommandListType {
    /// Returns the name in messages.
    pub fn name(self) -> &'static str {
        match self {
            CommandListType::Direct => "direct",
            CommandListType::Compute => "compute",
            CommandListType::Copy => "copy",
            CommandListType::VideoDecode => "video decode",
            CommandListType::VideoEncode => "video encode",
        }
    }

    /// Every type, by its number.
    pub const ALL: [CommandListType; 5] = [
        CommandListType::Direct,
        CommandListType::Compute,
        CommandListType::Copy,
        CommandListType::VideoDecode,
        CommandListType::VideoEncode,
    ];

    /// Returns the type of the lists that are made for this kind of engine.
    pub fn made_for(kind: EngineKind) -> CommandListType {
        let is_made_for = |list_type: &CommandListType| list_type.engine_kinds()[0] == kind;
        let made_for = CommandListType::ALL.into_iter().find(is_made_for);
        made_for.expect("each kind of engine has a type of lists")
    }

    /// Returns the kinds of engines that can run such work, the preferred one first. A 3D engine
    /// runs draws, dispatches and copies. A compute engine runs dispatches and copies.
    fn engine_kinds(self) -> &'static [EngineKind] {
        use tidegate_d3dukmdt::EngineKind::{Compute, Copy, ThreeD};
        match self {
            CommandListType::Direct => &[ThreeD],
            CommandListType::Compute => &[Compute, ThreeD],
            CommandListType::Copy => &[Copy, Compute, ThreeD],
            CommandListType::VideoDecode => &[EngineKind::VideoDecode],
            CommandListType::VideoEncode => &[EngineKind::VideoEncode],
        }
    }

    // spec: ME-054
    /// Returns whether such lists take dispatches and clears.
    pub(crate) fn takes_dispatches(self) -> bool {
        self.engine_kinds()[0] <= EngineKind::Compute
    }

    /// Returns whether such lists take copies.
    pub(crate) fn takes_copies(self) -> bool {
        self.engine_kinds()[0] <= EngineKind::Copy
    }

    /// Returns the published types of the engines that can run such work, the preferred one first.
    pub(crate) fn engine_types(self) -> impl Iterator<Item = u32> {
        self.engine_kinds().iter().map(|kind| kind.engine_type())
    }
}

/// D3D12_COMMAND_LIST_TYPE_BUNDLE.
const BUNDLE: u32 = 1;

/// A number of D3D12_COMMAND_LIST_TYPE for which there is no queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no queue takes {}; use 0 (direct), 2 (compute), 3 (copy), 4 (video decode) or 6 (video encode)",
    type_text(*.0)
)]
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
        let mut types = CommandListType::ALL.into_iter();
        types.find(|of| *of as u32 == number).ok_or(NoQueueOfType(number))
    }
}

/// A number that names no D3D12_COMMAND_QUEUE_PRIORITY.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no queue has priority {0}; use 0 (normal), 100 (high) or 10000 (global realtime)")]
pub struct UnknownPriority(pub i32);

// spec: ME-017
/// Returns the priority of a number of D3D12_COMMAND_QUEUE_PRIORITY. [`Priority::Idle`] has no
/// number.
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

/// The kind of fence that [`crate::Device::create_fence`] creates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FenceChoice {
    /// Native if the adapter supports it, else monitored.
    #[default]
    Auto,
    /// Native. Creating the device fails on an adapter without native fences.
    Native,
    /// Always monitored.
    Monitored,
}

/// The side that makes buffers resident in local memory before the GPU uses them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResidencyChoice {
    /// The application. A buffer is resident from its creation until it is evicted.
    #[default]
    Explicit,
    /// Each submission, for the buffers that its lists name. All buffers together may then exceed
    /// local memory.
    Automatic,
}

/// What carries out waits and signals of native fences on hardware queues. Those of monitored
/// fences, and waits of packet queues, are always left to the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HardwareFences {
    /// The engine: they are commands of the queue's command buffers. A wait needs no kernel call,
    /// and a signal interrupts only if a CPU, or the scheduler, waits for its value.
    #[default]
    Engine,
    /// The scheduler: each is a kernel call, and each signal interrupts.
    Scheduler,
}

/// The minimum number of slots of a ring. A quarter of it has room for a checkpoint and one more
/// packet.
pub const MIN_RING_SLOTS: u64 = 8;
/// The default number of slots of a ring.
pub const DEFAULT_RING_SLOTS: u64 = 1024;

/// Describes a device to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceOptions {
    /// The name of the process, which groups the device's lanes on the timeline.
    pub process_name: String,
    /// The kind of its fences.
    pub fences: FenceChoice,
    /// The number of slots in the ring of a user-mode queue: a power of two from
    /// [`MIN_RING_SLOTS`] to [`MAX_RING_SLOTS`]. Each command buffer, wait and signal occupies a
    /// slot until the engine has taken it.
    pub ring_slots: u64,
    /// The side that manages the residency of buffers.
    pub residency: ResidencyChoice,
    /// What carries out waits and signals of hardware queues. Without effect on an adapter without
    /// native fences.
    pub hardware_fences: HardwareFences,
    /// Whether the process that is opened for the device has the privilege to raise priorities
    /// (SE_INC_BASE_PRIORITY), which a queue of priority realtime needs. Ignored for a device in a
    /// process that exists.
    pub may_raise_priority: bool,
    /// The checks of the application. They change neither results nor modelled times.
    pub validation: Validation,
}

bitflags::bitflags! {
    /// Checks of an application's use of the device.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Validation: u32 {
        /// Resource states: each access needs a state that allows it.
        const STATES = 1;
        /// Hazards: the program's waits and signals must order conflicting accesses. And a signal
        /// must end each wait.
        const HAZARDS = 2;
        /// As STATES, and a violation is an error of the call that makes it: the end of the
        /// recording fails ([`crate::Error::State`]). ExecuteCommandLists drops the call and
        /// removes the device with INVALID_CALL. What depends on the order of queues stays a
        /// report.
        const STATE_ERRORS = 4;
    }
}

impl Default for DeviceOptions {
    fn default() -> DeviceOptions {
        DeviceOptions {
            process_name: "app".to_owned(),
            fences: FenceChoice::Auto,
            ring_slots: DEFAULT_RING_SLOTS,
            residency: ResidencyChoice::Explicit,
            hardware_fences: HardwareFences::Engine,
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

    /// Sets the kind of the device's fences.
    pub fn fences(self, fences: FenceChoice) -> DeviceOptions {
        DeviceOptions { fences, ..self }
    }

    /// Sets the number of slots in the ring of a user-mode queue.
    pub fn ring_slots(self, ring_slots: u64) -> DeviceOptions {
        DeviceOptions { ring_slots, ..self }
    }

    /// Sets the side that manages the residency of buffers.
    pub fn residency(self, residency: ResidencyChoice) -> DeviceOptions {
        DeviceOptions { residency, ..self }
    }

    /// Sets what carries out waits and signals of native fences on hardware queues.
    pub fn hardware_fences(self, hardware_fences: HardwareFences) -> DeviceOptions {
        DeviceOptions { hardware_fences, ..self }
    }

    /// Sets whether the device's process has the privilege to raise priorities.
    pub fn may_raise_priority(self, may_raise_priority: bool) -> DeviceOptions {
        DeviceOptions { may_raise_priority, ..self }
    }

    /// Sets the checks of the application.
    pub fn validation(self, validation: Validation) -> DeviceOptions {
        DeviceOptions { validation, ..self }
    }
}

bitflags::bitflags! {
    /// Flags of a queue (D3D12_COMMAND_QUEUE_FLAGS). ALLOW_DYNAMIC_PRIORITY is left out, because
    /// the priority of a queue never changes.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct QueueFlags: u32 {
        /// No flag.
        const NONE = 0;
        /// The queue's work may run for any length of time and is never reset as hung.
        const DISABLE_GPU_TIMEOUT = 1;
    }
}

/// The engines that run the lists of a queue. A 3D queue can drive the 3D, compute and copy
/// engines, a compute queue the compute and copy engines. Each policy keeps the order of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EnginePolicy {
    /// The engine of the queue's node runs all lists.
    #[default]
    Own,
    /// Each list runs on the engine for its commands. A list of copies and fills runs on the copy
    /// engine, a list of dispatches and copies on the compute engine. The engine of the queue's
    /// node runs all other lists, lists with modelled work, and lists whose engine is missing or
    /// does not offer the queue's submission model.
    ByCommands,
}

/// Describes a queue to create (D3D12_COMMAND_QUEUE_DESC).
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
    /// The type of its lists.
    pub list_type: CommandListType,
    /// Its priority.
    pub priority: Priority,
    /// The submission model. With `None` the queue gets the first of these that its node offers:
    /// user mode, if the device has native fences; hardware; packet.
    pub submission: Option<Submission>,
    /// Its flags.
    pub flags: QueueFlags,
    /// The node (NodeOrdinal) that runs the queue. `None` takes the first node for `list_type`, see
    /// [`crate::Device::nodes_for`].
    pub node: Option<u32>,
    /// D3D12's NodeMask: the bit of the physical GPU that runs the queue, or 0 for the first GPU.
    /// The description of a queue that exists has 1 for the first GPU.
    /// It is independent of `node`: each physical GPU of a linked adapter has every node.
    pub node_mask: u32,
    /// The engines that run its lists.
    pub engines: EnginePolicy,
}

impl Default for QueueDesc {
    /// Describes a direct queue, as a zeroed D3D12_COMMAND_QUEUE_DESC does.
    fn default() -> QueueDesc {
        QueueDesc::new(CommandListType::Direct)
    }
}

impl QueueDesc {
    /// Describes a queue of normal priority, named after its type, on the first node for that type.
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

    /// Sets the name.
    pub fn name(self, name: impl Into<String>) -> QueueDesc {
        QueueDesc { name: name.into(), ..self }
    }

    /// Sets the priority.
    pub fn priority(self, priority: Priority) -> QueueDesc {
        QueueDesc { priority, ..self }
    }

    /// Sets the submission model.
    pub fn submission(self, submission: impl Into<Option<Submission>>) -> QueueDesc {
        QueueDesc { submission: submission.into(), ..self }
    }

    /// Sets its flags.
    pub fn flags(self, flags: QueueFlags) -> QueueDesc {
        QueueDesc { flags, ..self }
    }

    /// Sets the node.
    pub fn node(self, node: impl Into<Option<u32>>) -> QueueDesc {
        QueueDesc { node: node.into(), ..self }
    }

    /// Sets the bit of the physical GPU.
    pub fn node_mask(self, node_mask: u32) -> QueueDesc {
        QueueDesc { node_mask, ..self }
    }

    /// Sets the engines that run its lists.
    pub fn engines(self, engines: EnginePolicy) -> QueueDesc {
        QueueDesc { engines, ..self }
    }
}

/// Describes a fence to create.
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
    /// Its initial value.
    pub initial_value: u64,
    /// Its flags.
    pub flags: FenceFlags,
}

impl FenceDesc {
    /// Describes a fence of one device with the value 0.
    pub fn new(name: impl Into<String>) -> FenceDesc {
        FenceDesc { name: name.into(), ..FenceDesc::default() }
    }

    /// Sets the initial value.
    pub fn initial_value(self, initial_value: u64) -> FenceDesc {
        FenceDesc { initial_value, ..self }
    }

    /// Replaces the flags.
    pub fn flags(self, flags: FenceFlags) -> FenceDesc {
        FenceDesc { flags, ..self }
    }

    /// Lets other devices of the adapter open the fence.
    pub fn shared(self) -> FenceDesc {
        FenceDesc { flags: self.flags | FenceFlags::SHARED, ..self }
    }

    /// Lets devices on other adapters open the fence as well.
    pub fn shared_cross_adapter(self) -> FenceDesc {
        let flags = self.flags | FenceFlags::SHARED | FenceFlags::SHARED_CROSS_ADAPTER;
        FenceDesc { flags, ..self }
    }

    /// Restricts the fence to queues: the CPU can only read its value.
    pub fn non_monitored(self) -> FenceDesc {
        FenceDesc { flags: self.flags | FenceFlags::NON_MONITORED, ..self }
    }
}

/// What happens to a user-mode queue that has lost its doorbell for good (DISCONNECTED_ABORT) or
/// cannot connect it. Applies while the device is not removed; calls of a removed device fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnAbort {
    /// User mode creates the hardware queue, the ring and the doorbell again. Work that had not
    /// started is submitted again, in order. An interrupted command buffer is lost and reported as
    /// [`crate::Error::WorkLost`].
    #[default]
    RecreateUser,
    /// As [`OnAbort::RecreateUser`], but as a hardware queue that the kernel submits to, without a
    /// doorbell. Waits that are submitted again latch from then on.
    RecreateHardware,
    /// The queue is left unchanged. Its calls fail with [`crate::Error::QueueAborted`] or with the
    /// error of the connect. Its queued work may never run.
    Report,
}

/// Options of a queue besides its [`QueueDesc`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueOptions {
    /// The reaction of a user-mode queue to the loss of its doorbell. The next call that submits or
    /// waits for the queue to be idle detects the loss.
    pub on_abort: OnAbort,
}

/// The memory of a resource (D3D12_HEAP_TYPE). A CPU maps every heap but the default one.
#[doc(alias = "D3D12_HEAP_TYPE")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Heap {
    /// The adapter's local memory.
    #[default]
    Default,
    /// System memory, for data that the CPU writes and the GPU reads.
    Upload,
    /// System memory, for data that the GPU writes and the CPU reads.
    Readback,
    /// The adapter's local memory, mapped by the CPU too. Resources have states as in the default
    /// heap.
    GpuUpload,
}

impl Heap {
    /// Returns whether a CPU maps its resources.
    pub fn is_mapped(self) -> bool {
        self != Heap::Default
    }

    /// Returns whether its resources stay in one state.
    pub fn has_fixed_states(self) -> bool {
        matches!(self, Heap::Upload | Heap::Readback)
    }
}

/// Describes a buffer to create.
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
    /// Its length in bytes; at least 1.
    pub bytes: u64,
    /// Its heap.
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

    /// Describes a buffer in local memory that the CPU maps too.
    #[doc(alias = "D3D12_HEAP_TYPE_GPU_UPLOAD")]
    pub fn gpu_upload(name: impl Into<String>, bytes: u64) -> BufferDesc {
        BufferDesc::new(name, bytes).heap(Heap::GpuUpload)
    }

    /// Sets the heap.
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
        let types = CommandListType::ALL;
        assert_eq!(types.map(|t| t as u32), [0, 2, 3, 4, 6]);
        assert_eq!([0, 2, 3, 4, 6].map(CommandListType::try_from), types.map(Ok));
        let bundle = CommandListType::try_from(1).unwrap_err();
        assert_eq!(
            bundle.to_string(),
            "no queue takes bundles (type 1), which are left out; use 0 (direct), 2 (compute), \
             3 (copy), 4 (video decode) or 6 (video encode)"
        );
    }
}
