//! Memory: allocations, residency, page tables, save areas, packets with physical addresses.

mod allocations;
mod context_allocations;
mod page_tables;
mod residency;
mod split_buffers;
