//! Windows of threads, with and without an address.

use crate::memory::Page;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tidegate_machines::cells::{PlacedPage, Shown};

/// A page, and an address where it is shown if the window was given one.
pub(super) struct ShownToThreads {
    shown: Shown<Page>,
    /// The lock orders rotations.
    placed: Mutex<Option<PlacedPage>>,
}

impl ShownToThreads {
    /// `announced`: as in [`Shown::new`].
    pub(super) fn new(page: Page, announced: bool) -> ShownToThreads {
        ShownToThreads { shown: Shown::new(page, announced), placed: Mutex::new(None) }
    }

    #[inline(always)]
    pub(super) fn with<R>(&self, f: impl FnOnce(&Page) -> R) -> R {
        self.shown.with(f)
    }

    fn placed(&self) -> MutexGuard<'_, Option<PlacedPage>> {
        self.placed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn replace(&self, page: Page) -> Page {
        let placed = self.placed();
        if let Some(placed) = &*placed {
            // After a failure the last queued value tells the kernel of work.
            let _is_shown = page.show_at(placed);
        }
        self.shown.replace(page)
    }

    pub(super) fn place(&self) -> io::Result<u64> {
        let mut placed = self.placed();
        if placed.is_none() {
            let new = PlacedPage::reserve()?;
            let _is_shown = self.shown.with(|page| page.show_at(&new));
            *placed = Some(new);
        }
        Ok(placed.as_ref().map_or(0, PlacedPage::address))
    }
}
