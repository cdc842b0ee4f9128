//! A walk over the events of a run.

use crate::journal::{Event, RunEnd};
use crate::tally::Tally;

/// Judges the clauses of a family, event by event. What it keeps does not grow with the run.
pub(crate) trait Walk: Send {
    /// Judges an event.
    fn event(&mut self, tally: &mut Tally, event: &Event);

    /// Judges what is due at the end.
    fn end(&mut self, _tally: &mut Tally, _end: &RunEnd) {}
}
