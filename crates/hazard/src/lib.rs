//! Hazards: conflicting accesses of the same bytes that no path of waits and signals orders. And
//! deadlocks: waits that no signal ends.
//!
//! The checker is told of the program's calls (execute, wait, signal, CPU accesses) and of the
//! accesses that engines really made. It runs the calls on an ideal machine in which all work takes
//! no time, and gives each submission a vector clock. What is ordered there is ordered in every run
//! (decisions/0083), so one run finds the races of all runs with the same calls and accesses.
//!
//! Invariants: it depends on no other crate, takes no lock and reads no clock. Work of drivers and
//! kernel is no edge, except that a queue is in order.
//!
//! Entry points: [`Checker`], [`deadlock::find`].

mod access;
mod checker;
mod clock;
mod cpu_waits;
pub mod deadlock;
mod edges;
mod fence;
mod finding;
mod footprint;
mod groups;
mod open_waits;
mod resources;
mod shadow;
mod waits;

pub use access::{CommandRef, ListInfo, SpaceKey};
pub use checker::{Checker, FenceKey, QueueKey};
pub use clock::{Released, TimelineId};
pub use finding::{FenceSignal, Hazard, Hint, Report, Side, TimelineKind};
pub use footprint::{AccessKind, Footprint};
pub use resources::ResourceKey;
