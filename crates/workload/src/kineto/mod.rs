//! Reads PyTorch profiler (Kineto) traces: JSON becomes a
//! [`Recording`](crate::recording::Recording).
//!
//! Order: `scan` yields the JSON of one event at a time, `members` splits events of common
//! spelling,
//! `repair` mends malformed JSON, `event` makes records of the events that matter,
//! `xla_names` has the names of XLA's profiler. `recording`
//! makes the workload. Invariant: the text of the trace is never in memory as a whole. Entry point:
//! [`read`].

mod event;
mod members;
mod number;
mod repair;
mod scan;
pub mod xla_names;

pub use event::read;
pub use number::us_to_ns;
pub use scan::BYTE_ORDER_MARK;

#[cfg(test)]
mod tests;
