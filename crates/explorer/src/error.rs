//! Errors of an exploration or a replay. Failures of the scenario are results, not errors.

use thiserror::Error;

/// The reason why an exploration or a replay was not possible.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExplorerError {
    /// The text is not a schedule.
    #[error(
        "'{line}' is not a schedule: {what}; expected scenario[+bug]/model/strategy:moves-checksum, as explore prints it"
    )]
    BadLine {
        /// The text, truncated.
        line: String,
        /// The syntax error.
        what: String,
    },
    /// The text is not the name of a memory model.
    #[error(
        "no memory model '{0}': use tso (store buffers) or sc (every store is visible immediately)"
    )]
    UnknownModel(String),
    /// The text is not the name of a strategy.
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
        /// The requested name.
        bug: String,
        /// The names of its planted bugs.
        has: String,
    },
    /// Two runs with the same choices diverged.
    #[error(
        "scenario '{scenario}' is not deterministic at choice {choice}: two runs with the same choices diverge; \
         it depends on something outside of the platform (a clock, an address, hash map order)"
    )]
    NotDeterministic {
        /// The scenario.
        scenario: String,
        /// Index of the first choice at which they differ.
        choice: u64,
    },
    /// A replayed schedule has other choices than the recorded run.
    #[error(
        "the schedule does not fit scenario '{scenario}': {what}; it was recorded with another version of the scenario"
    )]
    DoesNotFit {
        /// The scenario.
        scenario: String,
        /// The first difference.
        what: String,
    },
}
