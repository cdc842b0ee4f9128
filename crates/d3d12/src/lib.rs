//! Multi-engine queues in the manner of Direct3D 12: what an application sees of tidegate.
//!
//! Rooms, each above the ones that it uses: [`swap_chain`] · [`device`] (where everything is
//! created) · [`queue`] (execute, wait, signal, in call order) · [`list`] (recording commands) ·
//! [`fence`], [`resource`] · [`states`] (the rules of resource states) · `shared_device` (what the
//! objects of a device share) · `umd`, the user-mode driver · [`model`] (the choices of an
//! application), [`error`], [`error_code`],
//! [`device_loss`], [`counters`], [`teardown`].
//!
//! An application calls in. This crate calls only the graphics kernel, through
//! [`tidegate_calls::Kernel`]; with the GPU it shares memory whose layout `gpu-abi` gives: rings,
//! control areas, command buffers, doorbells.
//!
//! Handles ([`Device`], [`Queue`], [`Fence`], [`Buffer`]) are cheap to clone. A clone can be bound
//! to the timeline lane of a CPU thread ([`Device::with_lane`], [`Queue::on_lane`], ...), so that
//! calls made through it are drawn there.
//!
//! Queued work keeps what it uses: its queue, lists, their buffers, and the fences that it signals
//! and waits for. It ends when it is complete, or with its device.
//!
//! # Left out
//!
//! | of Direct3D 12 | why |
//! |---|---|
//! | bundles, `ExecuteBundle` | recorded once per frame or less, they order nothing: type 1 is refused by name |
//! | vertex and index buffer binding, root state of graphics, `IASet…`, `RSSet…`, `OMSet…`, `SOSetTargets` | a draw has its program and buffers as a type, see [`CommandList::draw`]; the rasteriser stands for 3D work |
//! | root signatures as objects, `SetComputeRootSignature` | the root signature of a pipeline state is its program's |
//! | descriptors that change behind a recorded list | a list reads a heap when it sets it |
//! | `SetComputeRootConstantBufferView` | constants in a buffer are an argument that the program reads: a shader resource view |
//! | `BeginQuery`, occlusion and pipeline statistics queries | timestamps alone order work in time, and they have an end only |
//! | `ClearDepthStencilView` | depth values lie in a buffer: clear it with a float |
//! | `ResolveSubresource`, `SetSamplePositions` | a texel has one sample |
//! | `AtomicCopyBufferUINT`, `WriteBufferImmediate` | programs store and exchange words: see `programs::AtomicSteps` |
//! | render passes, mesh shaders, ray tracing, shading rates, protected sessions, work graphs | no program needs them, and they add no rule of order |
//! | `BeginEvent`, `SetMarker` | [`CommandList::label`] names commands on the timeline |
//! | reserved textures, `CopyTileMappings` | texels lie in rows here, so a tile of a texture has no shape; reserved buffers have tiles |
//! | enhanced barriers | the states of resources say the same |
//! | video lists and queues (types 4 to 6) | no engine runs them |
//! | fence barriers in lists | a preview without published numbers |
//!
//! A list takes what its type takes: copies and barriers in every list; clears, dispatches,
//! predicates and queries in compute and direct lists; draws and clears of render targets in direct
//! lists. Anything else is [`Error::NotAccepted`].
//!
//! [`Validation::STATES`] has the states of resources checked against each access
//! ([`Device::state_violations`]) and changes no result. [`Validation::STATE_ERRORS`] makes each
//! violation an error.

pub mod clock;
pub mod counters;
pub mod device;
pub mod device_loss;
pub mod error;
pub mod error_code;
pub mod event;
pub mod fence;
mod hazards;
pub mod list;
pub mod model;
pub mod queue;
pub mod reached;
pub mod residency;
pub mod resource;
mod retired_queues;
mod shared_device;
mod state_tracker;
pub mod states;
pub mod swap_chain;
pub mod teardown;
pub mod testing;
mod umd;
mod waits;
mod wakers;

pub use counters::{Counters, EngineStats, QueueStats};
pub use device::Device;
pub use device_loss::{Fault, Hang, InvalidCall, RemovedReason, ReportedCommand};
pub use error::Error;
pub use error_code::ErrorCode;
pub use event::{Event, EventDesc, EventRegistration, Waited};
pub use fence::Fence;
pub use list::{
    AnyList, Arg, Barrier, BufferAt, ClosedList, CommandAllocator, CommandList, DescriptorHeap,
    INDIRECT_BYTES, MAX_INDIRECT, PipelineState, PredicationOp, QueryHeap, TexelBox,
    TextureCopyLocation, TileCopy,
};
pub use model::{
    BufferDesc, CommandListType, DEFAULT_RING_SLOTS, DeviceOptions, EnginePolicy, FenceChoice,
    FenceDesc, FenceFlags, HardwareFences, Heap, MAX_RING_SLOTS, MIN_RING_SLOTS, NoQueueOfType,
    OnAbort, QueueDesc, QueueFlags, QueueOptions, ResidencyChoice, Submission, UnknownPriority,
    Validation, queue_priority,
};
pub use queue::Queue;
pub use reached::Reached;
pub use resource::{
    Buffer, CopyableFootprints, Format, HeapDesc, Resource, ResourceHeap, SubresourceFootprint,
    TILE_BYTES, Texture, TextureDesc, TextureDimension, TileMapping,
};
pub use states::flags::ResourceStates;
pub use states::policy::{ResourceKind, TypeClass};
pub use states::subresource::BarrierPhase;
pub use states::violation::{CommandSite, MissingFence, StateRule, StateViolation};
pub use swap_chain::{SwapChain, SwapChainDesc};
pub use teardown::{RefusedDestroy, TeardownReport};
pub use tidegate_calls::{
    ClockCalibration, DisplayInfo, FaultReport, HangReport, NtHandle, Priority, ResidencyPriority,
    VideoMemoryInfo, WaitMode,
};
pub use tidegate_platform::{DescriptorError, EventFd};
