//! Checks a kernel-mode driver against the contract of the driver interface.
//!
//! A *clause* is one rule, with an id, a sentence and its source. A *situation* is a program that
//! runs on a machine with the driver, in virtual time. A watch in front of the
//! driver keeps a journal of calls, results and reports, and the clauses are judged from the
//! journal, so a verdict quotes what was seen. Each clause has a *twin*: a mistake, put between the
//! watch and a driver, that breaks it.
//!
//! Invariants: a judgement reads the journal only; nothing is judged after a violation has stopped
//! the adapter.
//!
//! Entry points: [`examine`], [`clauses`], [`Subject`].

mod breach;
mod clause;
mod exam;
mod families;
mod journal;
mod judge;
mod order;
mod report;
mod situation;
mod subject;
mod tally;
mod twin;
mod verifier;
mod walk;
mod watch;

pub use breach::Breach;
pub use clause::{Clause, Family, Words};
pub use exam::{ExamError, Selection, examine};
pub use families::{UnknownClause, clause, clauses};
pub use journal::RunEnd;
pub use report::{Finding, Report, Row, Schedule, Verdict};
pub use situation::{Situation, UnknownSituation, situation, situations};
pub use subject::{DEVICE, Subject};
pub use verifier::Verifier;
pub use watch::ExaminedDevice;
