//! Purpose: machines for tests, scenarios, fuzzing and measurements, and drivers in front of the
//! reference driver that record, change or fail calls.
//!
//! Entry points: [`world`] and [`setup`] build a machine with one process; [`Adapters`]
//! builds several adapters under the queue API; [`Client`] is a process at the call surface;
//! [`Hooked`] records and fails driver calls. Nothing in the product depends on this crate.

mod adapters;
mod client;
mod declaring;
mod hooked;
mod page_tables;
mod save_areas;
mod user_queue;
mod world;

pub use adapters::{Adapters, Kind};
pub use client::{Client, at};
pub use declaring::{Declaration, Support};
pub use hooked::{ChangeCaps, DriverCalls, Hooked, KeptCurrent, KeptMonitored};
pub use page_tables::{leads_to, own_space};
pub use save_areas::SaveAreas;
pub use user_queue::{UserQueue, copy_word, signal_packet, store, wait_packet};
pub use world::{
    Setup, World, host_world, inline, inline_world, native_signalled, setup, signalled, world,
    world_with,
};
