//! Random programs on the whole machine: one generator, many oracles, every failure shrunk to a few
//! lines. The models are TigerBeetle's simulator and swarm testing.
//!
//! Rooms: `operation` (the table of operations), `words`, `setup` (switches of an adapter),
//! `program` (with its text) · `model` (what a program must be, and what memory holds at its end) ·
//! `generate` (seeds) · `stage` (a run and its oracles), `failure`, `coverage`, `states` · `run`
//! (platforms) · `shrink` · `line` (a failure as one line) · `watchdog`, `processor`, `threads`,
//! `children` · `control`, `client`, `clients` (programs whose processes are real ones) · `hunt`
//! (many seeds).

pub mod children;
pub mod client;
pub mod clients;
mod control;
pub mod coverage;
pub mod failure;
pub mod generate;
pub mod hunt;
pub mod line;
pub mod model;
pub mod operation;
mod processor;
pub mod program;
pub mod run;
pub mod setup;
pub mod shrink;
pub mod stage;
pub mod states;
pub mod threads;
mod watchdog;
pub mod words;

pub use failure::Failure;
pub use generate::Shape;
pub use line::assert_holds;
pub use program::Program;
