//! Owns a process's memory on the GPU: its address space (`gpu_va`) and its allocations.
//!
//! Allocations are resident from birth to death at present; fence storage can be demoted (`fence::residency`).

mod allocation;
mod gpu_va;

pub(crate) use allocation::AllocationObject;
pub(crate) use gpu_va::{Access, AddressSpace, Affinity, check_fence_window, cpu_va};
