//! Types that user mode and kernel mode share: status codes, doorbell status, fence types and
//! flags, priorities, fence logs, and the cell that holds a fence's value. The call surface and the
//! driver interface both use them, and neither may depend on the other. The C structures of the
//! same headers are in `wddm-abi`.

mod display;
mod doorbell;
mod engine_kind;
mod fence;
pub mod fence_cell;
pub mod log;
pub mod low_half;
mod page_fault;
mod preemption;
pub mod ring_watch;
mod status;
mod submission;

pub use display::{MAX_SURFACE_PIXELS, PixelFormat, Surface};
pub use doorbell::{DoorbellStatus, NoHint, RingBits, RingHint};
pub use engine_kind::EngineKind;
pub use fence::{BroadcastExclusions, NativeFenceType, Priority, SyncObjectFlags};
pub use fence_cell::{FenceCell, FenceWait};
pub use page_fault::{FaultErrorCode, GeneralErrorCode, PageFaultFlags, RenderPipelineStage};
pub use preemption::{ComputePreemption, GraphicsPreemption};
pub use status::Status;
pub use submission::{Submission, UnknownSubmission};
pub use tidegate_wddm_abi::d3dukmdt::{
    DOORBELL_PRIVATE_DATA_BYTES, MAX_BROADCAST_CONTEXTS, MAX_OBJECTS_SIGNALED,
    MAX_OBJECTS_WAITED_ON, NATIVE_FENCE_PRIVATE_DATA_BYTES,
};
