//! Silences the panics of runs and checks, because a search repeats a failing schedule hundreds of
//! times. While a [`Quiet`] exists, panics of its thread are not printed; the report contains them.

use std::cell::Cell;
use std::panic;

thread_local! {
    static QUIET: Cell<u32> = const { Cell::new(0) };
    static INSTALLED: Cell<bool> = const { Cell::new(false) };
}

/// Silences the panics of this thread while it exists.
pub(crate) struct Quiet(());

impl Quiet {
    pub(crate) fn new() -> Quiet {
        if !INSTALLED.replace(true) {
            // One hook per exploring thread. Each decides for its own thread and then calls the
            // hook that it replaced.
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
