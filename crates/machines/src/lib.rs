//! The machines behind the seam: threads of the host, fibers in virtual time, explored worlds.
//!
//! For `tidegate-platform` and `tidegate-check` only. Every other crate, the explorer too, names
//! the seam: a call that reaches a machine past it has no lock order, no timeline and no hazard
//! check. A machine knows no `Platform`. What belongs to the seam comes with the call, or as a
//! small trait: [`host::OwnsHost`], [`thread::TakesRecords`], [`cells::Header`],
//! [`cells::Accesses`] (decisions/0170).
//!
//! Rooms, each layer over the next:
//!
//! - [`fiber_scope`]: agents whose bodies borrow
//! - [`world`]: virtual time and exploration; [`host`]: threads
//! - [`cells`]: the storage of words, pages, bulk bytes and locks; [`fiber`]
//! - [`explorer`]: what an explorer decides and reads, and the blocks that a search keeps
//! - [`thread`]: what belongs to a thread, and to the agent that it runs; [`once`], [`spin`]
//! - [`os`], [`stacks`], [`time`], [`wait`], [`access`], [`run_report`]

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod access;
pub mod cells;
pub mod explorer;
pub mod fiber;
pub mod fiber_scope;
pub mod host;
pub mod once;
pub mod os;
pub mod run_report;
pub mod spin;
pub mod stacks;
pub mod thread;
pub mod time;
pub mod wait;
pub mod world;

pub use access::ClientAccess;
pub use explorer::*;
pub use host::ParkingCounts;
pub use run_report::RunReport;
pub use time::*;
pub use wait::*;
