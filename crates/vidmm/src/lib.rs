//! VidMm, the video memory manager, as pure policy: decisions in, effects out.
//!
//! Nothing here locks, waits, moves bytes or calls a driver. The kernel's `memory` room locks a
//! value of this crate, takes the decision, drops the lock, and carries it out.
//!
//! - [`VidMm`]: local memory of one adapter and its only pager. It orders the operations on
//!   allocations and save areas, and keeps fence storage within its budget.
//! - [`Commitment`]: which allocations local memory holds, what is evicted for what, and budgets.
//! - [`AddressRanges`] and [`PageTableTree`]: one process's GPU addresses and their page tables.

mod address_range;
mod commitment;
mod fence_storage;
mod operation;
mod page_table;
mod pager;

pub use address_range::{AddressRanges, cpu_va, fence_window};
pub use commitment::{Allocation, AllocationId, Commitment, LastUse, Moves, Refusal};
pub use fence_storage::{FencePage, FencePageId, FenceStorage, choose_segment};
pub use operation::{Next, Operation, PagingOrder};
pub use page_table::{Access, Affinity, Cleared, EntryRun, Link, PageTableTree, TableKey};
pub use pager::{InitialContent, Start, VidMm};
