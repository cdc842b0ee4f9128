//! Silences the panics of runs and checks, because a search repeats a failing schedule hundreds of
//! times. While a [`Quiet`] exists, panics of its thread are not printed; the report contains them.
//!
//! Invariant: the hook is installed once for the process and decides for the calling thread, so
//! searches on several threads do not replace each other's hooks.

use std::cell::Cell;
use std::panic;
use std::sync::OnceLock;
use tidegate_platform::{note_panic_place, once};

thread_local! {
    static QUIET: Cell<u32> = const { Cell::new(0) };
    static PLACES: Cell<bool> = const { Cell::new(false) };
}

static INSTALLED: OnceLock<()> = OnceLock::new();

/// Silences the panics of this thread while it exists.
pub(crate) struct Quiet {
    outer_places: bool,
}

impl Quiet {
    pub(crate) fn new() -> Quiet {
        Quiet::of(false)
    }

    /// Also notes the place of each panic, for the report of the run.
    pub(crate) fn with_places() -> Quiet {
        Quiet::of(true)
    }

    fn of(places: bool) -> Quiet {
        once::make_alone(&INSTALLED, install);
        QUIET.set(QUIET.get() + 1);
        Quiet { outer_places: PLACES.replace(places) }
    }
}

fn install() {
    let below = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if QUIET.try_with(Cell::get).unwrap_or(0) == 0 {
            below(info);
        } else if PLACES.try_with(Cell::get).unwrap_or(false)
            && let Some(place) = info.location()
        {
            note_panic_place(&place.to_string());
        }
    }));
}

impl Drop for Quiet {
    fn drop(&mut self) {
        PLACES.set(self.outer_places);
        QUIET.set(QUIET.get() - 1);
    }
}
