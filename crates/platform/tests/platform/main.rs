//! The platform: its three back ends and its memory.

mod backends;
mod memory;
mod once;
mod tracing;
mod wait_order;
