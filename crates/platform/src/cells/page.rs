//! The cells of a protocol page, and the state that its words share.

use super::Cells;
use crate::Platform;
use crate::os::Sharing;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub(crate) struct PageCells {
    /// Number in the explored world; 0 elsewhere.
    pub(crate) id: u32,
    pub(crate) explored: bool,
    pub(crate) hostile: AtomicBool,
    pub(crate) platform: Platform,
    pub(crate) cells: Cells,
    pub(crate) annexes: OnceLock<Box<Mutex<Annexes>>>,
    /// The words of a small page of an explored machine, to which `cells` points.
    inside: [AtomicU64; WORDS_INSIDE],
}

/// Most pages of an explored machine have at most so many words: they are events and single words.
const WORDS_INSIDE: usize = 2;

/// Annexes by the index of their word and their number. Most pages have none.
pub(crate) type Annexes = BTreeMap<(u32, u32), Arc<PageCells>>;

impl PageCells {
    /// Returns a page of these cells.
    pub(crate) fn of(platform: &Platform, id: u32, explored: bool, cells: Cells) -> Arc<PageCells> {
        Arc::new(PageCells {
            id,
            explored,
            hostile: AtomicBool::new(false),
            platform: platform.clone(),
            cells,
            annexes: OnceLock::new(),
            inside: Default::default(),
        })
    }

    /// Returns a zeroed page of this process.
    pub(crate) fn zeroed(
        platform: &Platform,
        id: u32,
        explored: bool,
        words: usize,
    ) -> Arc<PageCells> {
        // Elsewhere the words would share a cache line with the count of the page's references.
        if !explored || words > WORDS_INSIDE {
            let cells = Cells::private(words, explored, None);
            return PageCells::of(platform, id, explored, cells);
        }
        let mut page = PageCells::of(platform, id, explored, Cells::none());
        let inner = Arc::get_mut(&mut page).expect("a new page has one reference");
        // SAFETY: the words lie beside `cells` in a page that no code moves out of its `Arc`, so
        // they live as long and have no other address. They are reached through `cells` alone.
        inner.cells = unsafe { Cells::beside(&inner.inside[..words]) };
        page
    }

    pub(crate) fn annexes<R>(&self, act: impl FnOnce(&mut Annexes) -> R) -> R {
        let annexes = self.annexes.get_or_init(Box::default);
        act(&mut annexes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the cell at `index`.
    ///
    /// # Panics
    ///
    /// `index` is past the end.
    #[inline]
    pub(crate) fn cell(&self, index: usize) -> &AtomicU64 {
        self.cells.at(index)
    }

    /// Returns whether sleepers on the words may be in other processes.
    pub(crate) fn sharing(&self) -> Sharing {
        if self.cells.shared().is_some() { Sharing::Shared } else { Sharing::Private }
    }

    /// Returns whether an explorer may return any value to a load through [`crate::Untrusted`].
    pub(crate) fn is_hostile(&self) -> bool {
        self.hostile.load(Ordering::Relaxed)
    }
}

/// A cell of a page, and the page. An access follows one pointer.
#[derive(Clone)]
pub(crate) struct PinnedCell {
    pub(crate) page: Arc<PageCells>,
    at: NonNull<AtomicU64>,
    pub(crate) index: u32,
    /// As in the page.
    pub(crate) explored: bool,
}

// SAFETY: `at` is used as a reference to an atomic of the page alone, and both may be shared
// between threads.
unsafe impl Send for PinnedCell {}
// SAFETY: as for `Send`.
unsafe impl Sync for PinnedCell {}

impl PinnedCell {
    /// Returns the cell at `index`.
    ///
    /// # Panics
    ///
    /// `index` is past the end.
    pub(crate) fn new(page: &Arc<PageCells>, index: u32) -> PinnedCell {
        let at = NonNull::from(page.cell(index as usize));
        PinnedCell { page: Arc::clone(page), at, index, explored: page.explored }
    }

    #[inline]
    pub(crate) fn get(&self) -> &AtomicU64 {
        // SAFETY: `at` points into the boxed cells of `page`, which are neither moved nor freed
        // before the page. `page` keeps that alive while `self` is borrowed.
        unsafe { self.at.as_ref() }
    }
}

/// A word of a page.
#[derive(Clone, Copy)]
pub(crate) struct WordRef<'a> {
    pub(crate) page: &'a Arc<PageCells>,
    pub(crate) index: u32,
}

impl<'a> WordRef<'a> {
    #[inline]
    pub(crate) fn cell(self) -> &'a AtomicU64 {
        self.page.cell(self.index as usize)
    }

    pub(crate) fn key(self) -> usize {
        std::ptr::from_ref(self.cell()) as usize
    }
}
