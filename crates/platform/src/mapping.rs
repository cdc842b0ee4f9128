//! Windows onto a page that can be rotated to another page: the CPU address of a doorbell.
//!
//! Invariants: after [`Mapping::rotate`] no store that begins reaches the old page. One that began
//! before may still reach it, at the latest before the next full barrier of its agent: it waits in
//! a store buffer, or its agent has found the page and not stored yet. So an old page shows nothing
//! else to its readers.
//!
//! A window can have an address for a program that only stores ([`Mapping::place`]), and stores
//! there can be trapped ([`traps`]).
//!
//! Below it: `agents` (windows of an explored machine), `stopped` (their traps), `threads` (windows
//! of threads).

mod agents;
mod stopped;
mod threads;
pub mod traps;

use crate::memory::Page;
use crate::platform::{Platform, PlatformKind};
use agents::ShownToAgents;
use std::io;
use std::sync::Arc;
use threads::ShownToThreads;

/// A window that shows one page at a time.
#[derive(Clone)]
pub struct Mapping(Window);

#[derive(Clone)]
enum Window {
    OfThreads(Arc<ShownToThreads>),
    OfAgents(Arc<ShownToAgents>),
}

impl Mapping {
    /// Returns a window onto `page`.
    pub fn new(platform: &Platform, page: Page) -> Mapping {
        Mapping(match platform.kind() {
            PlatformKind::Explored => {
                Window::OfAgents(Arc::new(ShownToAgents::new(platform, page)))
            }
            kind => {
                Window::OfThreads(Arc::new(ShownToThreads::new(page, kind == PlatformKind::Host)))
            }
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

    /// Returns an address of the window, which stays as long as the window: a store there is a
    /// store to the current page, or to no memory of others where that page cannot be shown at a
    /// second address. See [`Platform::placing_host`]. In an explored machine it is the number by
    /// which traps know the window.
    ///
    /// # Errors
    /// The system has no memory or mapping left.
    pub fn place(&self) -> io::Result<u64> {
        match &self.0 {
            Window::OfThreads(shown) => shown.place(),
            Window::OfAgents(shown) => Ok(shown.place()),
        }
    }
}
