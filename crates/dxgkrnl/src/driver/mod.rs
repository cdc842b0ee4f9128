//! One adapter's driver as the kernel may call it, with the facts that every layer reads.
//!
//! Invariants: a DDI call holds no guard of policy state, goes through the open entries alone
//! (`entry`), on a device that has power, and never into a driver that has stopped (`removed`).
//!
//! Entry points: [`DriverPort::driver`], [`DriverPort::bug_check`], [`DriverPort::check`]. What the
//! layers above must do for it are the ports [`DevicePower`] and [`FailurePort`].

mod declaration;
pub(crate) mod entry;
pub(crate) mod fault;
pub(crate) mod feature;
mod port;
mod removed;
mod start;
mod thread_gate;

pub use fault::{DdiCall, DriverFault, OutstandingWork};
pub(crate) use port::{Awake, DevicePower, DriverPort, EngineUse, FailurePort};
pub(crate) use start::start;
