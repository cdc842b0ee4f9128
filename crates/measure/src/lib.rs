//! Measurements of the stack, each beside the physical floor of what it does.
//!
//! Absolute times move by a factor of two with the machine's other guests. The ratio of a row to
//! its floor moves little, so each pass measures the floor directly before the row, and the pass
//! with the median ratio counts. The client runs on processor 0, the engines on processor 1.
//!
//! Rooms: `rows` (eight rows for a user's own machine) · `row` (what a row is) · `passes` (its
//! results) · `measure` (samples, counts, threads) · `setup` (the machine under measurement) ·
//! `floors` · `others` (other programs' share of the machine). Users: `tidegate bench` runs
//! [`ROWS`], and `tidegate-bench`, the laboratory, adds its rows to them.

pub mod floors;
mod measure;
mod others;
mod passes;
mod row;
pub mod rows;
mod setup;

pub use measure::{
    CLIENT_CPU, Count, CpuMeter, Found, Measured, SERVICE_CPU, Samples, Trouble,
    needs_two_processors, own, pin, spin_rarely, time,
};
pub use others::process_ns;
pub use passes::{Finished, FloorResult, Pass, PassResult, RowResult, Shown, choose, rate};
pub use row::{ASLEEP_NS, Floor, Row, Scale, Unit, floor, row};
pub use rows::ROWS;
pub use setup::{Happened, Meter, Setup, Shape, WATCHED, see, signal_and_see};
