//! VidMm, the video memory manager, as pure policy: decisions as input, effects as output.
//!
//! This crate takes no locks, does not wait, copy memory or call a driver. The kernel's `memory`
//! room locks a value of this crate, takes a decision, drops the lock and carries out the decision.
//!
//! - [`VidMm`]: the local memory of one adapter and its only pager. It orders the operations on
//!   allocations and save areas, and keeps fence storage within its budget.
//! - [`Commitment`]: which allocations are in local memory, which are evicted, and budgets.
//! - [`AddressRanges`] and [`PageTableTree`]: GPU virtual addresses and page tables of one process.

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
