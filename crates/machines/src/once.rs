//! Values that are made on first use.
//!
//! `OnceLock::get_or_init` holds a lock while it makes the value, and neither an explored machine
//! nor the lock order sees that lock. Agents of one machine share a thread, so an agent that comes
//! to the lock while another one makes the value would block that thread for ever.
//!
//! Entry points: [`make_alone`], [`make_first`].

#![allow(clippy::disallowed_methods, reason = "the room that the rule names")]

use crate::thread::MAKES_ALONE;
use std::sync::OnceLock;

/// Returns the value of `cell`. The first caller makes it, and others wait. `make` takes no step:
/// no lock of a platform, no word, no call of a driver. A debug build panics at a step of a
/// cooperative machine.
pub fn make_alone<T>(cell: &OnceLock<T>, make: impl FnOnce() -> T) -> &T {
    if let Some(value) = cell.get() {
        return value;
    }
    cell.get_or_init(|| {
        let _making = Making(MAKES_ALONE.replace(true));
        make()
    })
}

/// A making alone, until it ends or panics.
struct Making(bool);

impl Drop for Making {
    fn drop(&mut self) {
        MAKES_ALONE.set(self.0);
    }
}

/// Returns the value of `cell`. Callers that come at the same time each make a value; the first one
/// stays, and the others are dropped.
pub fn make_first<T>(cell: &OnceLock<T>, make: impl FnOnce() -> T) -> &T {
    if let Some(value) = cell.get() {
        return value;
    }
    let mine = make();
    cell.get_or_init(|| mine)
}
