//! The reference driver between two doubles: a device that is scripted and remembers what it was
//! asked, and a kernel that remembers what it was told. Both write one journal, so that orders
//! between the two can be asserted.

mod display;
mod doorbells;
mod fences;
mod interrupts;
mod kernel;
mod life;
mod paging;
mod preemption;
mod races;
mod scripted;
mod submission;
