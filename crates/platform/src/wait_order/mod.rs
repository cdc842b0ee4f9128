//! The classes of locks and waits, and the circles among them. Locks and waits are classes with
//! names; see decision 139.
//!
//! Invariants: an edge "X, then Y" says that an agent that held or owed X came to a wait for Y,
//! whether or not it blocked there. A circle of edges of one machine is a failure of its run.
//!
//! Entry points: [`WaitClass`]; `Platform::may_wait_for` and `Platform::owe` (`waits`) add edges.

mod class;
mod graph;
mod reason;
mod rows;
mod sightings;

pub(crate) use class::{ClassId, class_named, class_of_text};
pub use class::{DPC, INTERRUPT_ROUTINE, WaitClass};
pub(crate) use graph::Graph;
pub use reason::Reason;
pub(crate) use sightings::Kind;
