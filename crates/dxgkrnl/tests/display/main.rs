//! The display: flips, and what is on the screen, refresh by refresh.

mod flips;
mod queued_flips;
