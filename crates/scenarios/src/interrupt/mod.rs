//! Interrupts and the routines behind them. A file for each race.

pub(crate) mod drop_against_completion;
pub(crate) mod signals_in_a_burst;
pub(crate) mod two_interrupts;
pub(crate) mod wake_word;
