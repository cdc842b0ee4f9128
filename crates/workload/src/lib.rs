//! Multi-engine GPU work as data.
//!
//! A workload says which buffers, queues and fences there are, what each queue and each CPU thread
//! does, and what must be true at the end. It comes from a TOML file (`toml_file`, documented in
//! `SCHEMA.md`) or from a recorded run of a real program (`recording`; `kineto`, `nsys`, `rocprof`,
//! `perfetto` and `own_timeline` read formats). Both end in the same intermediate form,
//! [`model::Workload`].
//!
//! The order that matters: read ([`load`]) → check and resolve names (`toml_file`, `kineto`) → a
//! `Workload` that names nothing by text any more → run on queues (`runner`) → numbers (`measure`),
//! judgement (`verify`), and where it went wrong the reason (`deadlock`, `fault`) → [`report`] and
//! the per-kernel table (`kernels`, `diff`, and Parquet with the feature `columns`). `ranking` says
//! whether a comparison of submission models holds over the ranges of `cost`, and `verdict` what it
//! came to and why. `what_if` changes recordings.
//!
//! What it does not do: it builds no machine. Whoever has one hands in a device and a
//! [`MachineProbe`](runner::MachineProbe); which submission model or platform carries the work is a
//! word here.

#[cfg(feature = "columns")]
pub mod columns;
pub mod content;
pub mod cost;
mod database;
mod deadlock;
pub mod diff;
mod error;
pub mod expect;
pub mod expression;
mod fault;
mod format;
pub mod kernels;
mod kineto;
mod load;
mod measure;
pub mod model;
mod nsys;
mod own_timeline;
mod perfetto;
pub mod ranking;
pub mod recording;
pub mod recovery;
pub mod report;
mod rocprof;
pub mod runner;
pub mod scene;
pub mod toml_file;
mod unpack;
pub mod verdict;
mod verify;
pub mod what_if;

pub use error::{Error, Problem};
pub use load::{LoadOptions, Loaded, load, load_bytes};
pub use measure::replay::ReplayError;
pub use report::Report;
pub use verify::MetricRow;
