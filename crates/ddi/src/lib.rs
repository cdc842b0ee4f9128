//! The contract between the graphics kernel and a kernel-mode driver.
//!
//! Purpose: [`Driver`] and its groups of entries are what the kernel calls (DxgkDdi…),
//! [`Callbacks`] what the driver calls back (DxgkCb…). All entries are in one table
//! ([`driver`]); their arguments are in the modules named for them. [`DriverLayer`] is a driver
//! in front of a driver: [`Recording`] records calls, [`Overrides`] replaces entries by closures.
//! The C structures of these calls are in `wddm-abi`.
//!
//! Invariants: the kernel holds no lock of policy state over any of these calls; kernel CPU
//! addresses that are handed in are valid only during the call; a broken contract is a `BugCheck`
//! of the adapter and never an abort of the process.

pub mod allocation;
pub mod callbacks;
pub mod caps;
pub mod display;
pub mod doorbell;
pub mod driver;
pub mod engine;
pub mod feature;
pub mod fence;
pub mod handle;
mod injection;
pub mod interrupt;
pub mod level;
pub mod memory;
pub mod patch;
pub mod peer;
pub mod power;
pub mod preemption;
pub mod queue;
pub mod record;
pub mod recording;
mod refusal;
pub mod scheduling;
mod table;
pub mod timeout;
pub mod version;

pub use callbacks::{CallbackLayer, Callbacks, InterruptService, StartInfo};
pub use caps::{
    AdapterCaps, MonitoredNotification, NativeFenceCaps, NodeMetadata, PreemptionCaps,
    UserModeSubmissionCaps, VidSchCaps,
};
pub use display::{DisplayCaps, SetVidPnSourceAddress, SetVidPnSourceAddressFlags};
pub use doorbell::{
    ConnectDoorbellFlags, ConnectedDoorbell, CreateDoorbellFlags, DisconnectReason,
};
pub use driver::{
    AdapterResetDdi, AllocationDdi, CancellationDdi, DdiCall, DisplayDdi, Driver, DriverLayer,
    EngineResetDdi, Entry, EntryGroup, FeatureDdi, FenceWaitDdi, HwQueueDdi, NativeFenceDdi,
    Overrides, PatchDdi, PeerDdi, PowerDdi, PreemptionDdi, PrimaryDdi, PriorityBandDdi,
    UserModeSubmissionDdi,
};
pub use engine::{EngineId, EngineMap};
pub use feature::{FeatureId, FeatureInterface, FeatureState};
pub use handle::{DriverHandle, OsHandle};
pub use injection::Injection;
pub use interrupt::{EngineState, InterruptData, InterruptType, PageFault};
pub use level::{Dirql, Dispatch, Irql, Passive};
pub use patch::{Patch, PatchLocation, Render, RenderAllocation, SubmitCommandPhysical};
pub use peer::{LinkNativeFence, PeerDoorbell, PeerFence, PeerSignalCaps};
pub use power::{ComponentState, DevicePowerState, PowerAction};
pub use preemption::{
    CancelCommand, ContextAllocation, ContextAllocationOwner, CreateContextAllocation,
    PreemptCommand, SubmitCommandFlags,
};
pub use recording::Recording;
pub use tidegate_d3dukmdt::{
    BroadcastExclusions, ComputePreemption, DoorbellStatus, FaultErrorCode, GeneralErrorCode,
    GraphicsPreemption, NativeFenceType, NoHint, PageFaultFlags, PixelFormat, Priority,
    RenderPipelineStage, RingBits, RingHint, Status, Surface,
};
pub use timeout::{DebugInfo, DebugReason, EngineStatus, HwContextLoss, RunningCommand};
pub use version::DdiVersion;
