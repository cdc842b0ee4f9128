//! Explores the interleavings of a machine: finds races, prints each as one line and replays it.
//!
//! A [`Scenario`] builds a machine on a [`Platform`] from the production code. On the explored
//! platform a [`Strategy`] chooses the next agent at every visible step. Stores wait in store
//! buffers, so a missing barrier shows up as an ordinary schedule.
//!
//! A search: 1. the strategy picks a schedule; 2. a fresh machine runs to its end; 3. the verdict
//! is formed (blocked, panicked, a property does not hold); 4. the first failure is repeated,
//! shrunk and printed.
//!
//! Files, from top to bottom layer: [`litmus`], [`planted`], [`states`], [`verify`] (replay) ·
//! [`explore`](mod@explore) · `shrink` · `execution` (one run) · [`schedule`] (a line), `lane`
//! (choices of a group), `sharing` (reduction) · [`strategy`] · [`scenario`], [`property`].
//!
//! The crate is independent of graphics and has no clock: the caller limits a search
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
mod lane;
pub mod litmus;
mod machine;
pub mod planted;
pub mod probe;
pub mod property;
mod prune;
mod quiet;
pub mod random_numbers;
pub mod scenario;
pub mod schedule;
mod sharing;
mod shrink;
pub mod states;
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
pub use states::{StateList, list_states};
pub use strategy::{Coverage, Strategy, StrategyKind};
pub use verify::{Move, Replayed, replay, replay_observed, step_in_words};

pub use tidegate_platform::{Choice, MemoryModel, Platform};
