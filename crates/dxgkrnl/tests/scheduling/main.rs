//! Scheduling: priority bands, time slices, preemption of packets, suspended contexts.

mod hardware_scheduling;
mod packet_preemption;
mod priorities;
mod suspension;
mod time_slices;
