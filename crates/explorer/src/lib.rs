//! Explores the interleavings of a machine: finds races, prints each as one line, replays the line.
//!
//! What is explored is the code that users run: a [`Scenario`] builds a machine on the [`Platform`]
//! that it is given, and on the explored platform at every visible step a [`Strategy`] chooses
//! the next agent. Stores wait in store buffers, so a missing barrier is a schedule like any other.
//!
//! The order of a search: 1. the strategy picks a schedule; 2. one run on a fresh machine, always
//! to its end; 3. the verdict (blocked, panicked, a property that does not hold); 4. at the first
//! failure the schedule is run again to see that it is deterministic, made smaller, and printed.
//!
//! Rooms: [`scenario`] and [`property`] (what is explored and what must hold) · [`strategy`] (the
//! choice of the next agent; each says what it guarantees) · `prune` (states seen before) · [`schedule`] (a
//! schedule as one line) · `execution` (one run) · [`explore`](mod@explore) (the search) ·
//! [`verify`] (replay) · `shrink` · [`planted`] (bugs put in on purpose) · [`litmus`] (the race of
//! CurrentValue and MonitoredValue).
//!
//! It knows nothing about graphics and has no clock: how long to search is the caller's to say
//! ([`Options::keep_going`]).
//!
//! ```
//! use tidegate_explorer::{Litmus, Options, Scenario, explore, replay};
//!
//! let broken = Litmus::pair().with_bug("no-gpu-barrier").unwrap();
//! let report = explore(broken.as_ref(), &Options::default()).unwrap();
//! let failure = report.failure.expect("the missing barrier loses a wake-up");
//! let again = replay(&failure.line, &|name| (name == "litmus").then(|| Litmus::boxed())).unwrap();
//! assert_eq!(again.failure.unwrap(), failure.failure);
//! ```

mod error;
mod execution;
pub mod explore;
pub mod litmus;
mod machine;
pub mod planted;
pub mod probe;
pub mod property;
mod prune;
mod quiet;
mod random_numbers;
pub mod scenario;
pub mod schedule;
mod sharing;
mod shrink;
pub mod strategy;
pub mod verify;

pub use error::ExplorerError;
pub use explore::{Found, Options, Report, explore, explore_with};
pub use litmus::Litmus;
pub use machine::{Searched, machine, search};
pub use planted::{PlantedReport, explore_planted};
pub use probe::Probe;
pub use property::{Failure, Verdict};
pub use scenario::{PlantedBug, Prepared, Scenario};
pub use schedule::Schedule;
pub use strategy::{Coverage, Strategy, StrategyKind};
pub use verify::{Move, Replayed, replay, replay_observed, step_in_words};

pub use tidegate_platform::{MemoryModel, Platform};
