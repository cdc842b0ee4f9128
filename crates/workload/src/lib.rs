//! Multi-engine GPU work as data.
//!
//! A workload says which buffers, queues and fences there are, what each queue and each CPU thread does, and what
//! must be true at the end. It comes from a TOML file (`toml_file`, documented in `SCHEMA.md`) or from a recorded
//! run of a real program (`kineto`), and both end in the same intermediate form, [`model::Workload`].
//!
//! The order that matters: read ([`load`]) → check and resolve names (`toml_file`, `kineto`) → a `Workload` that
//! names nothing by text any more → run. Whoever runs a workload sees only `model`, `expression`, `expect` and
//! `cost`.
//!
//! What it does not do: it touches no queue, fence or clock itself; nothing here knows which submission model or
//! platform will carry the work.

pub mod content;
pub mod cost;
mod error;
pub mod expect;
pub mod expression;
pub mod kineto;
mod load;
pub mod model;
pub mod toml_file;

pub use error::{Error, Problem};
pub use load::{LoadOptions, Loaded, load, load_bytes};
