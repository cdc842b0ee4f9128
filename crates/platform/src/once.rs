//! Values that are made on first use.
//!
//! `OnceLock::get_or_init` holds a lock while it makes the value, and neither an explored machine
//! nor the lock order sees that lock. Agents of one machine share a thread, so an agent that comes
//! to the lock while another one makes the value would block that thread for ever.
//!
//! Entry points: [`make_alone`], [`make_first`].

#![allow(clippy::disallowed_methods, reason = "the room that the rule names")]

use std::cell::Cell;
use std::sync::OnceLock;

thread_local! {
    static MAKES_ALONE: Cell<bool> = const { Cell::new(false) };
}

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

/// Checks that the calling agent makes no value alone.
#[inline]
pub(crate) fn check_step() {
    debug_assert!(
        !MAKES_ALONE.get(),
        "a value that is made on first use takes a step in its making"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuTime, Platform};
    use std::sync::Arc;
    use std::sync::OnceLock;

    fn run(make: impl Fn(&Platform, &OnceLock<u64>) -> u64 + Send + Sync + 'static) -> Vec<String> {
        let platform = Platform::virtual_time(crate::StepCosts::free());
        let (cell, make) = (Arc::new(OnceLock::new()), Arc::new(make));
        let report = platform.run({
            let platform = platform.clone();
            move || {
                for name in ["a", "b"] {
                    let (p, cell, make) = (platform.clone(), cell.clone(), make.clone());
                    platform.spawn(name, move || assert_eq!(make(&p, &cell), 7));
                }
            }
        });
        report.panics
    }

    #[test]
    fn a_making_with_a_step_needs_no_lock() {
        let panics = run(|platform, cell| {
            *make_first(cell, || {
                platform.sleep_until(CpuTime(10));
                7
            })
        });
        assert_eq!(panics, Vec::<String>::new());
    }

    #[test]
    fn a_step_in_a_making_alone_is_named() {
        let panics = run(|platform, cell| {
            *make_alone(cell, || {
                platform.sleep_until(CpuTime(10));
                7
            })
        });
        assert!(panics[0].contains("takes a step in its making"), "{panics:?}");
    }
}
