//! Memory: allocations, residency, page tables, save areas, packets with physical addresses.

#[path = "../world/mod.rs"]
mod world;

mod allocations;
mod context_allocations;
mod page_tables;
mod residency;
mod split_buffers;
