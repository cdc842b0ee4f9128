//! The service: adapters of one machine for many processes.
//!
//! Files, each using those before it: `config` · `counts` · `ledger` (limits) ·
//! `notices` (ends of waits) · `waiting_calls` (beside a session) · `views` (memory of the
//! answers) · `shared` (by all sessions) · `usage` (what each process holds) · `users` (of clients)
//! · `watch` (a viewer) · `record` (a recording) · `calls` (what a message does) · `special` (calls
//! that are more than passed on) · `resources` (shared ones) · `session` (one client) · `sessions`
//! · `guests` (of virtual machines) · `listener` (the socket).

mod calls;
mod config;
mod counts;
mod guests;
mod ledger;
mod listener;
mod notices;
mod record;
mod resources;
mod session;
mod sessions;
mod shared;
mod special;
mod usage;
mod users;
mod views;
mod waiting_calls;
mod watch;

pub use config::{Limits, ServerConfig};
pub use counts::Counts;
pub use guests::{GUEST_BYTES, listen_for_guests};
pub use listener::{Server, Stopper, listen, raise_descriptor_limit};
pub use sessions::Sessions;
pub use shared::{Adapters, Opened, OpenedProcess};
pub(crate) use special::MOVING_PIECE_BYTES;
pub use tidegate_calls::Grant;

#[cfg(test)]
mod tests;
