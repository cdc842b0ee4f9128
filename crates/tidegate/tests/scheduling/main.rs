//! Scheduling: priority bands, time slices, preemption of packets, suspended contexts.

#[path = "../world/mod.rs"]
mod world;

mod hardware_scheduling;
mod packet_preemption;
mod priorities;
mod suspension;
mod time_slices;
