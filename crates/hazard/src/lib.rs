//! Detects hazards (conflicting accesses of the same bytes that no path of waits and signals
//! orders) and deadlocks (waits that no signal ends).
//!
//! The input is the program's calls (execute, wait, signal, CPU accesses) and the actual accesses
//! of engines. The checker runs the calls on an ideal machine where work takes no time, and assigns
//! each submission a vector clock. Operations ordered there are ordered in every run
//! (decisions/0083), so one run finds the races of all runs with the same calls and accesses.
//!
//! Invariants: it depends on no other crate, takes no lock and reads no clock. The internals of
//! drivers and the kernel add no edges; queues execute in order.
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
mod tiles;
mod tiles_of_spaces;
mod waits;

pub use access::{CommandRef, ListInfo, SpaceKey};
pub use checker::{Checker, FenceKey, QueueKey};
pub use clock::{Released, TimelineId};
pub use finding::{FenceFault, FenceSignal, Hazard, Hint, Report, Side, TimelineKind};
pub use footprint::{AccessKind, Footprint};
pub use resources::ResourceKey;
