//! Access to the log of an explored machine's steps, which exists while tracing is on.

use crate::explorer::StepLog;
use crate::world::exploration::Explored;
use crate::world::machine::{Discipline, World, with};

impl World {
    /// Appends to the log of steps, if there is one.
    #[inline]
    pub(crate) fn log(&mut self, add: impl FnOnce(&mut StepLog, u64)) {
        let steps = self.steps;
        if let Discipline::Explored(Explored { log: Some(log), .. }) = &mut self.discipline {
            add(log, steps);
        }
    }
}

/// Returns the number of visible steps so far, or of events in the log of steps, if there is one.
pub fn steps() -> u64 {
    with(|w| match &w.explored_mut().log {
        Some(log) => log.events.len() as u64,
        None => w.steps,
    })
}

/// Starts the log of steps.
pub fn log_steps() {
    with(|w| _ = w.explored_mut().log.get_or_insert_default());
}

/// Takes the log of steps.
pub fn take_log() -> StepLog {
    with(|w| w.explored_mut().log.take().map_or_else(StepLog::default, |log| *log))
}

/// Names objects in the log of steps, if there is one.
pub fn name(name: impl FnOnce(&mut StepLog)) {
    with(|w| w.log(|log, _| name(log)));
}
