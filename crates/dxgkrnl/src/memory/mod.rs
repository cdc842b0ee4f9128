//! Memory of one adapter: the port to VidMm (`tidegate_vidmm`), which decides, and the protocols
//! that carry its decisions out.
//!
//! From the bottom up: `ports` (to the layers above) · `address_space` (GPU addresses and page
//! tables) · `use_mark` · `paging_context` (copies bytes) · `driver_allocation` (the driver's
//! objects) · `allocation` · `fence_page` · `save_areas` · `paging_queue` · `local_memory`
//! (decides; [`Memory`]) · `pager` (carries out) · `power` · `fence_eviction` ·
//! `context_allocation`.
//!
//! Locks: moves of fence storage → page tables of a process. The paging context's lock is held over
//! an operation. The state lock guards policy: no call to another room is made under it.

mod address_space;
mod allocation;
mod context_allocation;
mod driver_allocation;
mod fence_eviction;
mod fence_page;
mod local_memory;
mod pager;
mod paging_context;
mod paging_queue;
mod ports;
mod power;
mod reserved;
mod save_areas;
mod use_mark;

pub(crate) use address_space::AddressSpace;
pub(crate) use allocation::{AllocationObject, FixedMemory};
pub(crate) use fence_page::{FenceValuePage, FencesInPages};
pub use local_memory::LocalMemoryUse;
pub(crate) use local_memory::{Memory, Pinned};
pub(crate) use paging_queue::PagingQueue;
pub(crate) use ports::{ContextHolds, EngineWork, OwningDevice, PagingFence, PagingPackets};
pub(crate) use reserved::{Reserved, TileChange};
pub(crate) use save_areas::SaveAreaUse;
pub(crate) use tidegate_vidmm::{Access, Affinity, cpu_va};
pub(crate) use use_mark::{InUse, UseMark};
