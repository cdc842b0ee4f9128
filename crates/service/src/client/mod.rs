//! The client: the calls of one process of a service.
//!
//! Files, each using those before it: `channel` (calls and answers) · `notices` (ends of waits) ·
//! `memory` (what is mapped) · `doorbells` · `nt_handle` · `kernel` (the calls) · `connect` ·
//! `watch` (a viewer) · `record` (a recording).
//!
//! When the service is gone, each call returns DEVICE_REMOVED, waits end, and devices are
//! [`tidegate_calls::DeviceState::Removed`]. A new connection is a new process.

mod channel;
mod connect;
mod doorbells;
mod kernel;
mod memory;
mod notices;
mod nt_handle;
mod record;
mod watch;

pub use crate::transport::{GuestDevice, Life};
pub use connect::{ConnectError, connect, connect_agent, connect_as, connect_device, counts};
pub use kernel::RemoteKernel;
pub use nt_handle::{copy_nt_handle, nt_handle, nt_handle_file};
pub use record::Recording;
pub use tidegate_calls::ClientKind;
pub use watch::Watch;

#[cfg(test)]
mod tests;
