//! Values that are made on first use.
//!
//! `OnceLock::get_or_init` holds a lock while it makes the value, and neither an explored machine
//! nor the lock order sees that lock. Agents of one machine share a thread, so an agent that comes
//! to the lock while another one makes the value would block that thread for ever.
//!
//! Entry points: [`make_alone`], [`make_first`], [`OfProcess`].

#![allow(clippy::disallowed_methods, reason = "the room that the rule names")]

use crate::thread::MAKES_ALONE;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

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

/// A value that belongs to the process that makes it. A forked child has a copy without the other
/// threads of its parent, so what one of them was making, or had locked, stays so for ever.
pub struct OfProcess<T> {
    /// The number of the process; 0 until the first caller comes.
    maker: AtomicU32,
    value: OnceLock<T>,
}

impl<T> Default for OfProcess<T> {
    fn default() -> OfProcess<T> {
        OfProcess::new()
    }
}

impl<T> OfProcess<T> {
    /// Returns a cell without a value.
    pub const fn new() -> OfProcess<T> {
        OfProcess { maker: AtomicU32::new(0), value: OnceLock::new() }
    }

    /// Returns the value, made as by [`make_alone`]; `None` in a child of the process that makes or
    /// has made it, which waits for nothing.
    pub fn get_or_make(&self, make: impl FnOnce() -> T) -> Option<&T> {
        self.get_or_make_in(std::process::id(), make)
    }

    /// Returns the value if this process has made it.
    pub fn get(&self) -> Option<&T> {
        let is_mine = self.maker.load(Ordering::Relaxed) == std::process::id();
        is_mine.then(|| self.value.get()).flatten()
    }

    fn get_or_make_in(&self, process: u32, make: impl FnOnce() -> T) -> Option<&T> {
        let first = self.maker.compare_exchange(0, process, Ordering::Relaxed, Ordering::Relaxed);
        let maker = first.map_or_else(|maker| maker, |_| process);
        (maker == process).then(|| make_alone(&self.value, make))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_does_not_wait_for_what_its_parent_was_making() {
        let value = OfProcess::new();
        let in_child = || value.get_or_make_in(std::process::id() ^ 1, || 2).copied();
        assert_eq!(value.get(), None);
        let made = value.get_or_make(|| {
            // The copy of a child that was forked now.
            assert_eq!(in_child(), None);
            1
        });
        assert_eq!((made, value.get()), (Some(&1), Some(&1)));
        assert_eq!(in_child(), None);
    }
}
