//! Owns a process's memory on the GPU: its address space (`gpu_va`), its allocations
//! (`allocation`), and where they stand.
//!
//! Local memory is one segment, and `segment` is its only book-keeper: who is in (`residency`,
//! pure), what happens in which order (`paging`, pure), what is still in use (`last_use`), and the
//! engine that carries bytes over (`transfer`). Drivers have save areas for the states of contexts
//! (`context_allocation`), which are members of it too. Fence storage moves by itself
//! (`fence::residency`), since values may not be missed, and is counted here.

mod allocation;
pub(crate) mod context_allocation;
mod gpu_va;
mod last_use;
mod paging;
mod residency;
mod segment;
mod transfer;

pub(crate) use allocation::AllocationObject;
pub(crate) use context_allocation::ContextAllocations;
pub(crate) use gpu_va::{Access, AddressSpace, Affinity, check_fence_window, cpu_va};
pub(crate) use last_use::UseMark;
pub use segment::LocalMemoryUse;
pub(crate) use segment::{LocalMemory, PagingQueue};
