//! The errors of an exploration or a replay, as opposed to failures of the scenario.

use thiserror::Error;

/// Why an exploration or a replay could not be done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExplorerError {
    /// The text is no schedule.
    #[error(
        "'{line}' is no schedule: {what}; expected scenario[+bug]/model/strategy:moves-checksum, as explore prints it"
    )]
    BadLine {
        /// The text, shortened.
        line: String,
        /// What is wrong with it.
        what: String,
    },
    /// The text names no memory model.
    #[error("no memory model '{0}': use tso (store buffers) or sc (every store visible at once)")]
    UnknownModel(String),
    /// The text names no strategy.
    #[error(
        "no strategy '{0}': use exhaustive, bounded-N (at most N switches), random, or pct-N (bugs of depth N)"
    )]
    UnknownStrategy(String),
    /// No scenario has this name.
    #[error("no scenario '{0}': see the list of scenarios")]
    UnknownScenario(String),
    /// The scenario has no planted bug of this name.
    #[error("scenario '{scenario}' has no planted bug '{bug}'; it has: {has}")]
    UnknownBug {
        /// The scenario.
        scenario: String,
        /// What was asked for.
        bug: String,
        /// What there is.
        has: String,
    },
    /// The same choices led elsewhere in two runs of one process.
    #[error(
        "scenario '{scenario}' is not deterministic at choice {choice}: two runs with the same choices differ there; \
         something that is not on the platform decides (a clock, an address, the order of a hash map)"
    )]
    NotDeterministic {
        /// The scenario.
        scenario: String,
        /// Number of the first choice that differs, from 0.
        choice: u64,
    },
    /// A replayed schedule meets other choices than those it was made from.
    #[error(
        "the schedule does not fit scenario '{scenario}': {what}; it was made from another version of the scenario"
    )]
    DoesNotFit {
        /// The scenario.
        scenario: String,
        /// Where it parts.
        what: String,
    },
}
