//! Runs workloads on the queues of a device, and reports.
//!
//! 1. [`prepare()`] creates queues, fences and buffers with their contents, and closes the lists of
//!    a recorded workload. None of this is measured.
//! 2. The caller passes [`Prepared::main`] to [`Platform::run`](tidegate_platform::Platform::run):
//!    one agent per thread of the workload (`thread`), then a wait until every queue is idle.
//! 3. [`Prepared::finish`] reads counters, fences, buffers and the trace, checks the results
//!    (`verify`), and explains a standstill (`deadlock`) or a fault (`fault`). The result is a
//!    [`Report`].
//!
//! Comparisons: [`ranking`] over the ranges of [`cost`], [`verdict`], [`diff`] of two tables of
//! [`kernels`]. The caller builds the machine and implements [`MachineProbe`] for its counters.

#[cfg(feature = "columns")]
pub mod columns;
pub mod cost;
mod deadlock;
pub mod diff;
mod error;
mod fault;
mod finish;
mod held_back;
pub mod kernels;
mod lists;
mod main_agent;
mod measure;
mod options;
mod prepare;
mod probe;
mod queue_log;
pub mod ranking;
pub mod recovery;
pub mod report;
mod run_state;
mod scene;
mod thread;
pub mod verdict;
mod verify;
mod work;

pub use error::RunError;
pub use finish::{Outcome, Picture};
pub use measure::replay::ReplayError;
pub use options::{HangAt, Progress, RunOptions};
pub use prepare::{Prepared, prepare};
pub use probe::{
    MachineCounters, MachineProbe, fence_choice, required_engines, residency_choice, ring_slots,
    submission_of, wants_trace,
};
pub use report::Report;
pub use verify::MetricRow;
pub use work::restore_kinds;
