//! Hangs, resets, losses and removal. A file for each race.

pub(crate) mod completion_against_reset;
pub(crate) mod destroy_against_reset;
pub(crate) mod hang_against_signal;
pub(crate) mod remove_against_submit;
pub(crate) mod reset_against_doorbell;
pub(crate) mod rest_against_unblock;
