//! Access to one adapter's driver, with the facts that every layer reads.
//!
//! Invariants: a DDI call holds no guard of policy state, uses only open entries (`entry`), reaches
//! only a powered device, and never a stopped driver (`removed`).
//!
//! Entry points: [`DriverPort::driver`], [`DriverPort::bug_check`], [`DriverPort::check`]. Ports to
//! the layers above: [`DevicePower`] and [`FailurePort`].

mod condition;
mod declaration;
pub(crate) mod entry;
pub(crate) mod fault;
pub(crate) mod feature;
mod lanes;
mod port;
mod removed;
mod start;
mod thread_gate;

pub(crate) use declaration::Declaration;
pub use fault::{DdiCall, DriverFault, OutstandingWork};
pub(crate) use port::{Awake, DevicePower, DriverPort, EngineUse, FailurePort, Powered};
pub(crate) use start::start;
