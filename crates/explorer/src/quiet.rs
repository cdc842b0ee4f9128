//! Owns silence: a search runs a failing schedule hundreds of times while it makes it smaller, and
//! the panic of each would be printed. While a [`Quiet`] lives (during a run and its check), panics
//! of this thread are not printed; they are in the report.

use std::cell::Cell;
use std::panic;

thread_local! {
    static QUIET: Cell<u32> = const { Cell::new(0) };
    static INSTALLED: Cell<bool> = const { Cell::new(false) };
}

/// Keeps this thread's panics unprinted.
pub(crate) struct Quiet(());

impl Quiet {
    pub(crate) fn new() -> Quiet {
        if !INSTALLED.replace(true) {
            // One layer for each thread that ever explored: each speaks for its own thread and asks
            // the one below.
            let below = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                if QUIET.try_with(Cell::get).unwrap_or(0) == 0 {
                    below(info);
                }
            }));
        }
        QUIET.set(QUIET.get() + 1);
        Quiet(())
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        QUIET.set(QUIET.get() - 1);
    }
}
