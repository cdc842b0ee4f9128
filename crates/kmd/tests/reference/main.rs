//! The reference driver without GPU and kernel: the commands and callbacks that each of its entries
//! makes, in order.

mod allocations;
mod display;
mod doorbells;
mod faults;
mod fences;
mod interrupts;
mod life;
mod paging;
mod preemption;
mod races;
mod refusals;
mod resets;
mod submission;
