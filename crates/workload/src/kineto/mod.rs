//! Reads PyTorch profiler (Kineto) traces: JSON, plain or packed, becomes a [`Recording`].
//!
//! Order: JSON, mended where a profiler writes what is none (`repair`) → events of interest
//! (`event`) → records. `recording` makes the workload.
//! Entry point: [`read`].

mod event;
mod number;
mod repair;

pub use event::{BYTE_ORDER_MARK, read};
pub use number::us_to_ns;

#[cfg(test)]
mod tests;
