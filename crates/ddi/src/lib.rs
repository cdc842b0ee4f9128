//! The contract between the graphics kernel and a kernel-mode driver.
//!
//! [`Driver`] is what the kernel calls (DxgkDdi…), [`Callbacks`] what the driver calls back
//! (DxgkCb…). Rooms: [`level`] (which thread may call what, as tokens) · [`caps`] · [`fence`] ·
//! [`queue`] (contexts and hardware queues) · [`doorbell`] · [`preemption`] (requests, and where
//! contexts are kept) · [`timeout`] (recovery) · [`display`] · [`memory`] (page tables) ·
//! [`interrupt`] · [`version`] and [`feature`] (what both sides can do) · [`handle`] · [`patch`]
//! (packets with physical addresses) · [`peer`] (GPUs that tell each other of signals) · [`layer`]
//! (a driver around a driver) · [`recording`] (one that writes down calls). The C structures of
//! these calls are in `wddm-abi`.
//!
//! Laws: the kernel holds no lock of policy state over any of these calls; kernel CPU addresses
//! that are handed in are valid only during the call; a broken contract is a `BugCheck` of the
//! adapter and never an abort of the process.

mod callback_layer;
pub mod caps;
pub mod display;
pub mod doorbell;
pub mod driver;
pub mod entries;
pub mod feature;
pub mod fence;
pub mod handle;
pub mod interrupt;
pub mod layer;
pub mod level;
pub mod memory;
pub mod patch;
pub mod peer;
pub mod power;
pub mod preemption;
pub mod queue;
pub mod recording;
pub mod scheduling;
pub mod timeout;
pub mod version;

pub use callback_layer::CallbackLayer;
pub use caps::{
    AdapterCaps, EngineId, EngineType, MonitoredNotification, NativeFenceCaps, NodeMetadata,
    UserModeSubmissionCaps, VidSchCaps,
};
pub use display::{DisplayCaps, SetVidPnSourceAddress, SetVidPnSourceAddressFlags};
pub use doorbell::{
    ConnectDoorbellFlags, ConnectedDoorbell, CreateDoorbellFlags, DisconnectReason,
};
pub use driver::{Callbacks, Driver, InterruptService, StartInfo};
pub use entries::OptionalEntries;
pub use feature::{FeatureId, FeatureInterface, FeatureState};
pub use handle::{DriverHandle, OsHandle};
pub use interrupt::{EngineState, InterruptData, InterruptType, PageFault};
pub use layer::DriverLayer;
pub use level::{Dirql, Dispatch, Passive};
pub use patch::{Patch, PatchLocation, Render, RenderAllocation, SubmitCommandPhysical};
pub use peer::{LinkNativeFence, PeerDoorbell, PeerFence, PeerSignalCaps};
pub use power::{ComponentState, DevicePowerState, PowerAction};
pub use preemption::{
    CancelCommand, ContextAllocation, ContextAllocationOwner, CreateContextAllocation,
    PreemptCommand, PreemptionCaps, SubmitCommandFlags,
};
pub use recording::Recording;
pub use tidegate_d3dukmdt::{
    ComputePreemption, DoorbellStatus, FaultErrorCode, GeneralErrorCode, GraphicsPreemption,
    NativeFenceType, PageFaultFlags, PixelFormat, Priority, RenderPipelineStage, RingHint, Status,
    Surface,
};
pub use timeout::{DebugReason, EngineStatus, HwContextLoss};
pub use version::DdiVersion;
