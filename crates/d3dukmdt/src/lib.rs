//! Types that user mode and kernel mode share, as the header of this name does: status codes,
//! doorbell status, fence types and flags, priorities, and the cell that holds a fence's value.
//! Both the call surface and the driver interface speak of them, and neither may see the other.
//!
//! [`mod@layout`] states the C structures behind them.

mod display;
mod doorbell;
mod fence;
pub mod fence_cell;
pub mod layout;
pub mod low_half;
mod page_fault;
mod preemption;
mod status;

pub use display::{MAX_SURFACE_PIXELS, PixelFormat, Surface};
pub use doorbell::{DoorbellStatus, RingHint};
pub use fence::{NativeFenceType, Priority, SyncObjectFlags, SynchronizationObjectType};
pub use fence_cell::{FenceCell, FenceWait};
pub use page_fault::{FaultErrorCode, GeneralErrorCode, PageFaultFlags, RenderPipelineStage};
pub use preemption::{ComputePreemption, GraphicsPreemption};
pub use status::Status;
