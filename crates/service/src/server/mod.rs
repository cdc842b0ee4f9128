//! The service: adapters of one machine for many processes.
//!
//! Files, each using those before it: `config` · `counts` · `ledger` (limits) ·
//! `notices` (ends of waits) · `views` (memory of the answers) · `shared` (by all sessions) ·
//! `usage` (what each process holds) · `watch` (a viewer) ·
//! `record` (a recording) · `calls` (what a client's calls do) · `resources` (those that are
//! shared) · `session` (one client) · `sessions` · `listener` (the socket).

mod calls;
mod config;
mod counts;
mod ledger;
mod listener;
mod notices;
mod record;
mod resources;
mod session;
mod sessions;
mod shared;
mod usage;
mod views;
mod watch;

pub(crate) use calls::MOVING_PIECE_BYTES;
pub use config::{Limits, ServerConfig};
pub use counts::Counts;
pub use listener::{Server, Stopper, listen};
pub use sessions::Sessions;
pub use shared::{Adapters, Opened};
