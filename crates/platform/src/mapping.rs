//! A window onto a page that can be turned to another page: the CPU address of a doorbell.
//!
//! Invariants: a store through the window is one step, which finds the page and stores to it; no
//! rotation comes in between. After [`Mapping::rotate`] no store that starts later reaches the old
//! page. In an explored machine a store made before the rotation may still be in its agent's store
//! buffer. It reaches the page that it was made to.

use crate::{Page, Platform, PlatformKind, world};
use std::sync::{Arc, PoisonError, RwLock};

/// A window that shows one page at a time.
#[derive(Clone)]
pub struct Mapping {
    platform: Platform,
    shown: Arc<RwLock<Page>>,
    /// Number in the explored world; 0 elsewhere.
    id: u32,
}

impl Mapping {
    /// A window onto `page`.
    pub fn new(platform: &Platform, page: Page) -> Mapping {
        let id =
            if platform.kind() == PlatformKind::Explored { world::next_object_id() } else { 0 };
        Mapping { platform: platform.clone(), shown: Arc::new(RwLock::new(page)), id }
    }

    /// Stores to a word of the page that is shown now.
    #[inline]
    pub fn store(&self, index: usize, value: u64) {
        if self.platform.kind() == PlatformKind::Explored {
            world::mapping_step(self.id, None);
            // Without the guard: the store may let another agent run, and that one may rotate. The
            // store goes to the page that it was made to, as if it had sat in its agent's store
            // buffer.
            return self.page().store(index, value);
        }
        self.shown.read().unwrap_or_else(PoisonError::into_inner).store(index, value);
    }

    /// Turns the window to `page` and returns the page that it showed.
    pub fn rotate(&self, page: Page) -> Page {
        if self.platform.kind() == PlatformKind::Explored {
            world::mapping_step(self.id, Some((self.page().number(), page.number())));
        }
        let mut shown = self.shown.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *shown, page)
    }

    /// The page that is shown now.
    pub fn page(&self) -> Page {
        self.shown.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
