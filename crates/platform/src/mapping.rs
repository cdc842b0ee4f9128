//! Owns windows onto a page that can be rotated to another page: the CPU address of a doorbell.
//!
//! Invariants: after [`Mapping::rotate`] no store that begins reaches the old page. One that began
//! before may still reach it, at the latest before the next full barrier of its agent: an explored
//! machine keeps it in the agent's store buffer, on the host the thread has found the page and not
//! stored yet. So an old page shows nothing else to its readers.

use crate::cells::Shown;
use crate::{Page, Platform, PlatformKind, world};
use std::sync::Arc;

/// A window that shows one page at a time.
#[derive(Clone)]
pub struct Mapping {
    platform: Platform,
    shown: Arc<Shown<Page>>,
    /// The number in the explored world; 0 elsewhere.
    id: u32,
}

impl Mapping {
    /// Returns a window onto `page`.
    pub fn new(platform: &Platform, page: Page) -> Mapping {
        let id =
            if platform.kind() == PlatformKind::Explored { world::next_object_id() } else { 0 };
        let shown = Shown::new(page, platform.kind() == PlatformKind::Host);
        Mapping { platform: platform.clone(), shown: Arc::new(shown), id }
    }

    /// Stores to a word of the current page. It is part of each caller, and takes no lock: a ring is
    /// one store.
    #[inline(always)]
    pub fn store(&self, index: usize, value: u64) {
        if self.platform.kind() == PlatformKind::Explored {
            return self.store_explored(index, value);
        }
        self.shown.with(|page| page.store(index, value));
    }

    /// Apart from [`Mapping::store`], which is part of each caller.
    #[inline(never)]
    fn store_explored(&self, index: usize, value: u64) {
        world::mapping_step(self.id, None);
        // Without the guard, because the store may switch to an agent that rotates. The store then
        // reaches the old page, as if it had been in its agent's store buffer.
        self.page().store(index, value);
    }

    /// Rotates the window to `page` and returns the previous page.
    pub fn rotate(&self, page: Page) -> Page {
        if self.platform.kind() == PlatformKind::Explored {
            world::mapping_step(self.id, Some((self.page().number(), page.number())));
        }
        self.shown.replace(page)
    }

    /// Returns the current page.
    pub fn page(&self) -> Page {
        self.shown.with(Page::clone)
    }
}
