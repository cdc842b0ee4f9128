//! Memory: allocations, residency, page tables, save areas, packets with physical addresses.

mod allocations;
mod context_allocations;
mod page_tables;
mod residency;
mod shared_resources;
mod split_buffers;
