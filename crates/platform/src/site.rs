//! Owns the place in a program from which a step was taken.

use std::panic::Location;

/// The place in the program of a step, if it named one ([`crate::check`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Site(Option<&'static Location<'static>>);

impl Site {
    /// No place.
    pub const NONE: Site = Site(None);

    /// Returns the place from which the caller was called.
    #[track_caller]
    #[inline]
    pub fn caller() -> Site {
        Site(Some(Location::caller()))
    }

    /// Returns whether there is a place.
    pub fn is_some(self) -> bool {
        self.0.is_some()
    }

    /// Returns `file:line:column`; empty without a place.
    pub fn place(self) -> String {
        self.0.map_or_else(String::new, Location::to_string)
    }
}
