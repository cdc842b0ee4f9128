//! Reads PyTorch profiler (Kineto) traces: JSON becomes a
//! [`Recording`](crate::recording::Recording).
//!
//! Order: the JSON of one event after the other (`scan`), mended where a profiler writes what is no
//! JSON (`repair`) → events of interest (`event`) → records. `recording` makes the workload.
//! Invariant: the text of the trace is never in memory as a whole. Entry point: [`read`].

mod event;
mod number;
mod repair;
mod scan;

pub use event::read;
pub use number::us_to_ns;
pub use scan::BYTE_ORDER_MARK;

#[cfg(test)]
mod tests;
