//! Windows onto a page that can be rotated to another page: the CPU address of a doorbell.
//!
//! Invariants: after [`Mapping::rotate`] no store that begins reaches the old page. One that began
//! before may still reach it, at the latest before the next full barrier of its agent: it waits in
//! a store buffer, or its agent has found the page and not stored yet. So an old page shows nothing
//! else to its readers.
//!
//! Below it: `agents` (windows of an explored machine), `cells::shown` of the machines (windows of
//! threads).

mod agents;

use crate::memory::Page;
use crate::platform::{Platform, PlatformKind};
use agents::ShownToAgents;
use std::sync::Arc;
use tidegate_machines::cells::Shown;

/// A window that shows one page at a time.
#[derive(Clone)]
pub struct Mapping(Window);

#[derive(Clone)]
enum Window {
    OfThreads(Arc<Shown<Page>>),
    OfAgents(Arc<ShownToAgents>),
}

impl Mapping {
    /// Returns a window onto `page`.
    pub fn new(platform: &Platform, page: Page) -> Mapping {
        Mapping(match platform.kind() {
            PlatformKind::Explored => {
                Window::OfAgents(Arc::new(ShownToAgents::new(platform, page)))
            }
            kind => Window::OfThreads(Arc::new(Shown::new(page, kind == PlatformKind::Host))),
        })
    }

    /// Stores to a word of the current page. It is part of each caller, and takes no lock: a ring
    /// is one store.
    #[inline(always)]
    pub fn store(&self, index: usize, value: u64) {
        match &self.0 {
            Window::OfThreads(shown) => shown.with(|page| page.store(index, value)),
            Window::OfAgents(shown) => shown.store(index, value),
        }
    }

    /// Rotates the window to `page` and returns the previous page.
    pub fn rotate(&self, page: Page) -> Page {
        match &self.0 {
            Window::OfThreads(shown) => shown.replace(page),
            Window::OfAgents(shown) => shown.replace(page),
        }
    }

    /// Returns the current page.
    pub fn page(&self) -> Page {
        match &self.0 {
            Window::OfThreads(shown) => shown.with(Page::clone),
            Window::OfAgents(shown) => shown.with(Page::clone),
        }
    }
}
