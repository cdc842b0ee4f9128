//! Owns a process's memory on the GPU: its address space (`gpu_va`) and its allocations.
//!
//! Everything is resident from birth to death at present; a memory manager with budgets and eviction takes this room.

mod allocation;
mod gpu_va;

pub(crate) use allocation::AllocationObject;
pub(crate) use gpu_va::{Access, AddressSpace};
