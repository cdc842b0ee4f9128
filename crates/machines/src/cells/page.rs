//! The cells of a protocol page, and the state that its words share.
//!
//! Invariant: the cells of a small page lie inside of it, so a page is never moved out of its
//! allocation. [`OwnedPage`] gives it away by reference only.
//!
//! A page has an owner, the state of the seam, whose type a machine does not know. Words reach it
//! without a look-up ([`OwnedPage::owner`]), and a machine keeps pages as [`KeptPage`].

use super::Cells;
use crate::os::Sharing;
use std::any::Any;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The cells of a page.
pub struct PageCells {
    /// Number in the explored world; 0 elsewhere.
    pub id: u32,
    /// Whether the page is one of an explored machine.
    pub explored: bool,
    /// Whether changes take another path: the page is explored, or has copies in rooms.
    pub watched: bool,
    hostile: AtomicBool,
    cells: Cells,
    /// The words of a small page of an explored machine, to which `cells` points.
    inside: [AtomicU64; WORDS_INSIDE],
}

/// Most pages of an explored machine have at most so many words: they are events and single words.
const WORDS_INSIDE: usize = 2;

impl PageCells {
    #[inline]
    fn of(id: u32, explored: bool, cells: Cells) -> PageCells {
        let hostile = AtomicBool::new(false);
        let watched = explored || cells.has_copies();
        PageCells { id, explored, watched, hostile, cells, inside: Default::default() }
    }

    /// Returns the cell at `index`.
    ///
    /// # Panics
    ///
    /// `index` is past the end.
    #[inline]
    pub fn cell(&self, index: usize) -> &AtomicU64 {
        self.cells.at(index)
    }

    /// Returns all cells.
    #[inline]
    pub fn cells(&self) -> &Cells {
        &self.cells
    }

    /// Returns whether sleepers on the words may be in other processes.
    pub(crate) fn sharing(&self) -> Sharing {
        if self.cells.shared().is_some() { Sharing::Shared } else { Sharing::Private }
    }

    /// Brings copies of a cell in rooms to its value.
    #[cold]
    pub fn refresh(&self, index: usize) {
        if let Some(shared) = self.cells.shared() {
            shared.refresh(index);
        }
    }

    /// Has an explorer return any value to a load of an untrusted word, from now on.
    pub fn hand_to_hostile(&self) {
        self.hostile.store(true, Ordering::Relaxed);
    }

    /// Returns whether an explorer may return any value to such a load.
    pub(crate) fn is_hostile(&self) -> bool {
        self.hostile.load(Ordering::Relaxed)
    }
}

struct Owned<O: ?Sized> {
    page: PageCells,
    owner: O,
}

/// A counted reference to a page and its owner.
pub struct OwnedPage<O: ?Sized>(Arc<Owned<O>>);

/// What the owner of a page may be.
pub trait Owner: Any + Send + Sync {}
impl<O: Any + Send + Sync> Owner for O {}

/// A page that a machine keeps, whatever its owner.
pub type KeptPage = OwnedPage<dyn Owner>;

impl<O> OwnedPage<O> {
    /// Returns a page of these cells.
    pub fn of(owner: O, id: u32, explored: bool, cells: Cells) -> OwnedPage<O> {
        OwnedPage(Arc::new(Owned { page: PageCells::of(id, explored, cells), owner }))
    }

    /// Returns a zeroed page of this process.
    pub fn zeroed(owner: O, id: u32, explored: bool, words: usize) -> OwnedPage<O> {
        // Elsewhere the words would share a cache line with the count of the page's references.
        if !explored || words > WORDS_INSIDE {
            let cells = Cells::private(words, explored, None);
            return OwnedPage::of(owner, id, explored, cells);
        }
        let mut owned = OwnedPage::of(owner, id, explored, Cells::none());
        let page = &mut Arc::get_mut(&mut owned.0).expect("a new page has one reference").page;
        // SAFETY: the words lie beside `cells` in a page that no code moves out of its `Arc`, so
        // they live as long and have no other address. They are reached only through `cells`.
        page.cells = unsafe { Cells::beside(&page.inside[..words]) };
        owned
    }

    /// Returns the page's owner.
    #[inline]
    pub fn owner(&self) -> &O {
        &self.0.owner
    }

    /// Returns another reference, for a machine to keep.
    pub fn keep(&self) -> KeptPage
    where
        O: Owner,
    {
        OwnedPage(Arc::clone(&self.0) as Arc<Owned<dyn Owner>>)
    }

    /// Returns whether nothing else refers to the page in this process.
    pub fn is_only_reference(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Returns whether both are the same page.
    pub fn same(&self, other: &OwnedPage<O>) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<O: ?Sized> Clone for OwnedPage<O> {
    #[inline]
    fn clone(&self) -> OwnedPage<O> {
        OwnedPage(Arc::clone(&self.0))
    }
}

impl<O: ?Sized> Deref for OwnedPage<O> {
    type Target = PageCells;
    #[inline]
    fn deref(&self) -> &PageCells {
        &self.0.page
    }
}

/// A cell of a page, and the page. An access follows one pointer.
pub struct PinnedCell<O> {
    page: OwnedPage<O>,
    at: NonNull<AtomicU64>,
    /// The cell's index.
    pub index: u32,
    /// As in the page.
    pub explored: bool,
    /// As in the page.
    pub watched: bool,
}

// SAFETY: `at` is used only as a reference to an atomic of the page, and both may be shared
// between threads if the owner may.
unsafe impl<O: Send + Sync> Send for PinnedCell<O> {}
// SAFETY: as for `Send`.
unsafe impl<O: Send + Sync> Sync for PinnedCell<O> {}

impl<O> Clone for PinnedCell<O> {
    #[inline]
    fn clone(&self) -> PinnedCell<O> {
        PinnedCell { page: self.page.clone(), ..*self }
    }
}

impl<O> PinnedCell<O> {
    /// Returns the cell at `index`.
    ///
    /// # Panics
    ///
    /// `index` is past the end.
    pub fn new(page: &OwnedPage<O>, index: u32) -> PinnedCell<O> {
        let at = NonNull::from(page.cell(index as usize));
        let (explored, watched) = (page.explored, page.watched);
        PinnedCell { page: page.clone(), at, index, explored, watched }
    }

    /// Returns the page.
    #[inline]
    pub fn page(&self) -> &OwnedPage<O> {
        &self.page
    }

    /// Returns the cell.
    #[inline]
    pub fn get(&self) -> &AtomicU64 {
        // SAFETY: `at` points into the boxed cells of `page`, which are neither moved nor freed
        // before the page. `page` keeps that alive while `self` is borrowed.
        unsafe { self.at.as_ref() }
    }
}

/// A word of a page.
#[derive(Clone, Copy)]
pub struct WordRef<'a> {
    /// The page.
    pub page: &'a PageCells,
    /// The word's index in the page.
    pub index: u32,
}

impl<'a> WordRef<'a> {
    #[inline]
    pub(crate) fn cell(self) -> &'a AtomicU64 {
        self.page.cell(self.index as usize)
    }

    #[inline]
    pub(crate) fn key(self) -> usize {
        std::ptr::from_ref(self.cell()).addr()
    }
}
