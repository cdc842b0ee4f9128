//! One machine for many processes: the D3DKMT calls over a Unix socket.
//!
//! A service hosts the adapters of a machine. A client connects, and has the calls of a process
//! ([`tidegate_calls::Kernel`]): what it creates is the service's, and the memory that it may reach
//! is mapped. So a fence's value is read without a call, and work is submitted to a connected
//! doorbell without one.
//!
//! Rooms: [`server`] · [`client`] · `wire` (messages) · `arguments` (in messages) · `transport`
//! (the socket, queues of an explored machine, or the memory of a guest) · `long` (bytes beside a
//! message) · `rows` (of a view) · `nt_handles` (objects behind descriptors, also for a kernel in
//! this process).

mod arguments;
pub mod client;
mod long;
mod nt_handles;
mod rows;
pub mod server;
mod transport;
mod wire;

pub use nt_handles::NtHandles;
pub use rows::ProcessRow;
pub use wire::{Refusal, VERSION as PROTOCOL_VERSION};

/// The messages, for clients that keep no rule of the protocol.
#[doc(hidden)]
pub mod hostile {
    pub use crate::arguments::*;
    pub use crate::wire::{Call, Message, OwnMessage, encode};
}
