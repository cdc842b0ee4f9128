//! The reference driver between two doubles: a scripted device and a kernel that only records. Both
//! write one journal, so that tests can assert the order of calls across the two. The kernel itself
//! would hide that order: it reports only what it makes of the calls.

mod display;
mod doorbells;
mod faults;
mod fences;
mod interrupts;
mod kernel;
mod life;
mod paging;
mod preemption;
mod races;
mod scripted;
mod submission;
