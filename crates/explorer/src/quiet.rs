//! Silences the panics of a run and its check: a search repeats a failing schedule hundreds of
//! times, and each panic would be printed. While a [`Quiet`] lives, panics of its thread are not
//! printed. They are in the report.

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
            // One hook for each thread that ever explored. Each decides for its own thread and then
            // calls the hook below.
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
