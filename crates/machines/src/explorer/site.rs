//! The place in a program from which a step was taken.

use std::panic::Location;

/// The place of a step in the program: an operation of the checker, or a call
/// which takes steps on behalf of its caller (`Platform::enter_call`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Site {
    place: Option<&'static Location<'static>>,
    /// The name of the call; empty for an operation.
    call: &'static str,
}

impl Site {
    /// No place.
    pub const NONE: Site = Site { place: None, call: "" };

    /// Returns the place from which the caller was called.
    #[track_caller]
    #[inline]
    pub fn caller() -> Site {
        Site::of_call("")
    }

    /// Returns the place from which the caller, the function `call`, was called.
    #[track_caller]
    #[inline]
    pub fn of_call(call: &'static str) -> Site {
        Site { place: Some(Location::caller()), call }
    }

    /// Returns whether there is a place.
    pub fn is_some(self) -> bool {
        self.place.is_some()
    }

    /// Returns the name of the call that took the step; empty for an operation of the program.
    pub fn call(self) -> &'static str {
        self.call
    }

    /// Returns `file:line:column`; empty without a place.
    pub fn place(self) -> String {
        self.place.map_or_else(String::new, Location::to_string)
    }
}
