//! Memory that several agents access: protocol pages made of [`Word`]s, [`Bulk`] bytes, and the
//! physical addresses by which devices reach both. `shared` is about other processes.
//!
//! Invariants: a page is created as protocol (words: fence cells, status, write pointers, log
//! headers, doorbells) or bulk (bytes: ring packets, log entries, allocations). A word loads with
//! acquire and stores with release. Where a store must be visible before a later load, the code
//! uses [`Platform::fence`] or a compare-exchange. Callers get copies, never references into
//! shared memory. On the explored platform each access goes to `world`, which delays stores in
//! store buffers.

mod bulk;
mod ordered;
mod physical;
mod room;
mod shared;
mod untrusted;

pub use bulk::{Bulk, COPY_PIECE_BYTES, OutOfBounds};
pub use physical::{CacheType, FoundRegion, PhysicalAddress, PhysicalMemory, Target};
pub use room::{DeviceMemory, InRoom, Room};
pub use shared::SharedFile;
pub use untrusted::Untrusted;

use crate::platform::{Platform, PlatformKind};
use crate::wait_order::Reason;
use crate::waits;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use tidegate_machines::cells::{Cells, OwnedPage, PinnedCell, PlacedPage, WordRef};
use tidegate_machines::{CpuTime, Deadline, Object, Step, WaitEnd, world};

/// Protocol words or bulk bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// An array of 64-bit words. A store to it is split into words.
    Protocol,
    /// Bytes. A store is one copy.
    Bulk,
}

/// What the words of a page share beside their cells.
struct Shared {
    platform: Platform,
    annexes: OnceLock<Box<Mutex<Annexes>>>,
}

/// Annexes by the index of their word and their number. Most pages have none.
type Annexes = BTreeMap<(u32, u32), Page>;

impl Shared {
    fn of(platform: &Platform) -> Shared {
        Shared { platform: platform.clone(), annexes: OnceLock::new() }
    }

    fn annexes<R>(&self, act: impl FnOnce(&mut Annexes) -> R) -> R {
        let annexes = self.annexes.get_or_init(Box::default);
        act(&mut annexes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Memory made of [`Word`]s.
#[derive(Clone)]
pub struct Page {
    inner: OwnedPage<Shared>,
}

impl Platform {
    /// Creates a page of `words` protocol words, all zero.
    pub fn page(&self, words: usize) -> Page {
        let (owner, explored) = (Shared::of(self), self.kind() == PlatformKind::Explored);
        Page { inner: OwnedPage::zeroed(owner, self.new_object_id(), explored, words) }
    }
}

impl Page {
    fn of(platform: &Platform, cells: Cells) -> Page {
        let (owner, explored) = (Shared::of(platform), platform.kind() == PlatformKind::Explored);
        Page { inner: OwnedPage::of(owner, platform.new_object_id(), explored, cells) }
    }

    /// Shows the page at a second address. Returns `false` if it cannot be shown there, which then
    /// shows no memory of others.
    pub(crate) fn show_at(&self, placed: &PlacedPage) -> bool {
        placed.show_cells(self.inner.cells()).is_ok()
    }

    /// Returns the number in the explored world; 0 elsewhere.
    pub(crate) fn number(&self) -> u32 {
        self.inner.id
    }

    /// Marks the page as written by a hostile process. On an explored platform each later load
    /// through [`Untrusted`] may return any value, as the strategy chooses. No effect elsewhere,
    /// where the process itself has to write.
    pub fn hand_to_hostile(&self) {
        self.inner.hand_to_hostile();
    }

    /// Returns the word at `index`.
    ///
    /// # Panics
    ///
    /// `index` is past the end, which is a bug of the caller and never of a client.
    #[inline]
    pub fn word(&self, index: usize) -> Word {
        Word { at: PinnedCell::new(&self.inner, index as u32) }
    }

    /// Loads the word at `index`, as [`Word::load`] does.
    #[inline]
    pub fn load(&self, index: usize) -> u64 {
        if self.inner.explored {
            return self.load_explored(index);
        }
        self.inner.cell(index).load(Ordering::Acquire)
    }

    #[cold]
    fn load_explored(&self, index: usize) -> u64 {
        world::load(WordRef { page: &self.inner, index: index as u32 })
    }

    /// Stores to the word at `index`, as [`Word::store`] does.
    #[inline]
    pub fn store(&self, index: usize, value: u64) {
        if self.inner.watched {
            self.store_watched(index, value);
        } else {
            self.inner.cell(index).store(value, Ordering::Release);
        }
    }

    #[cold]
    fn store_watched(&self, index: usize, value: u64) {
        match self.watch(index) {
            Watch::World(_) => world::store(&self.inner, index as u32, value),
            Watch::Copies(watched) => watched.change(|cell| cell.store(value, Ordering::SeqCst)),
        }
    }

    /// Marked cold, so that the code around a change is laid out for a word of real memory.
    #[cold]
    fn watch(&self, index: usize) -> Watch<'_> {
        Watch::of(&self.inner, index as u32)
    }

    /// Sets bits of the word at `index`, as [`Word::fetch_or`] does.
    #[inline]
    pub fn fetch_or(&self, index: usize, bits: u64) -> u64 {
        if !self.inner.watched {
            return self.inner.cell(index).fetch_or(bits, Ordering::SeqCst);
        }
        match self.watch(index) {
            Watch::World(word) => world::exchange(word, |v| v | bits),
            Watch::Copies(watched) => watched.change(|cell| cell.fetch_or(bits, Ordering::SeqCst)),
        }
    }

    /// Adds to the word at `index` and returns the previous value, as [`Word::fetch_add`] does.
    #[inline]
    pub fn fetch_add(&self, index: usize, value: u64) -> u64 {
        if !self.inner.watched {
            return self.inner.cell(index).fetch_add(value, Ordering::SeqCst);
        }
        match self.watch(index) {
            Watch::World(word) => world::exchange(word, |v| v.wrapping_add(value)),
            Watch::Copies(watched) => {
                watched.change(|cell| cell.fetch_add(value, Ordering::SeqCst))
            }
        }
    }

    /// Stores to the word at `index` and returns the previous value, as [`Word::exchange`] does.
    #[inline]
    pub fn exchange(&self, index: usize, value: u64) -> u64 {
        if !self.inner.watched {
            return self.inner.cell(index).swap(value, Ordering::SeqCst);
        }
        match self.watch(index) {
            Watch::World(word) => world::exchange(word, |_| value),
            Watch::Copies(watched) => watched.change(|cell| cell.swap(value, Ordering::SeqCst)),
        }
    }

    /// Names the page in the log of steps ([`Platform::take_steps`]). No effect without a log.
    #[inline]
    pub fn named(self, name: &str) -> Page {
        if self.inner.explored && self.inner.owner().platform.tracing() {
            world::name(|log| log.name_page(self.inner.id, name));
        }
        self
    }

    /// Returns the number of words.
    #[inline]
    pub fn len(&self) -> usize {
        self.inner.cells().count()
    }

    /// Returns whether there are no words.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Shares the annexes of all words of `from` with the words of the same index here, and drops
    /// the previous annexes of this page.
    pub fn take_annexes(&self, from: &Page) {
        let (from, to) = (from.inner.owner(), self.inner.owner());
        if from.annexes.get().is_some() || to.annexes.get().is_some() {
            let taken = from.annexes(std::mem::take);
            to.annexes(|own| *own = taken);
        }
    }

    /// Returns whether nothing else refers to the page in this process.
    pub fn is_only_reference(&self) -> bool {
        self.inner.is_only_reference()
    }

    /// Returns whether both are the same memory.
    pub fn same(&self, other: &Page) -> bool {
        self.inner.same(&other.inner)
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Page({} words)", self.len())
    }
}

/// What follows a change of a word.
enum Watch<'a> {
    /// The world of an explored machine carries it out.
    World(WordRef<'a>),
    /// Copies in rooms follow it.
    Copies(WithCopies<'a>),
}

/// A word with copies in rooms.
struct WithCopies<'a>(WordRef<'a>);

impl<'a> Watch<'a> {
    fn of(page: &'a OwnedPage<Shared>, index: u32) -> Watch<'a> {
        let word = WordRef { page, index };
        if page.explored { Watch::World(word) } else { Watch::Copies(WithCopies(word)) }
    }
}

impl WithCopies<'_> {
    /// Changes the word, and then its copies.
    fn change<R>(&self, change: impl FnOnce(&AtomicU64) -> R) -> R {
        let WordRef { page, index } = self.0;
        let result = change(page.cell(index as usize));
        page.refresh(index as usize);
        result
    }
}

/// A 64-bit protocol word that several agents load and store. Values are never torn.
#[derive(Clone)]
pub struct Word {
    at: PinnedCell<Shared>,
}

impl Word {
    #[inline]
    pub(crate) fn cell(&self) -> &AtomicU64 {
        self.at.get()
    }

    /// Stores without a step, before another agent knows the word.
    pub fn put(&self, value: u64) {
        self.at.page().cells().put(self.at.index as usize, value);
        if self.at.watched && !self.at.explored {
            self.at.page().refresh(self.at.index as usize);
        }
    }

    /// Returns what follows a change; `None` for a word of plain memory.
    #[inline]
    fn watch(&self) -> Option<Watch<'_>> {
        if self.at.watched { Some(self.watch_ref()) } else { None }
    }

    /// Marked cold, as [`Word::explored_ref`].
    #[cold]
    fn watch_ref(&self) -> Watch<'_> {
        Watch::of(self.at.page(), self.at.index)
    }

    #[inline]
    pub(crate) fn is_explored(&self) -> bool {
        self.at.explored
    }

    #[inline]
    fn explored(&self) -> Option<WordRef<'_>> {
        if self.at.explored { Some(self.explored_ref()) } else { None }
    }

    /// Marked cold, so that the code around an access is laid out for a word of real memory.
    #[cold]
    fn explored_ref(&self) -> WordRef<'_> {
        self.as_ref()
    }

    #[cold]
    fn load_explored(&self) -> u64 {
        world::load(self.as_ref())
    }

    #[cold]
    fn load_explored_untrusted(&self) -> u64 {
        world::load_untrusted(self.as_ref())
    }

    #[cold]
    fn store_watched(&self, value: u64) {
        match Watch::of(self.at.page(), self.at.index) {
            Watch::World(word) => world::store(self.at.page(), word.index, value),
            Watch::Copies(watched) => watched.change(|cell| cell.store(value, Ordering::SeqCst)),
        }
    }

    #[cold]
    fn compare_exchange_watched(&self, current: u64, new: u64) -> Result<u64, u64> {
        let word = match Watch::of(self.at.page(), self.at.index) {
            Watch::World(word) => word,
            Watch::Copies(watched) => {
                let order = Ordering::SeqCst;
                return watched.change(|cell| cell.compare_exchange(current, new, order, order));
            }
        };
        let old = world::exchange(word, |v| if v == current { new } else { v });
        if old == current { Ok(old) } else { Err(old) }
    }

    /// Marks the word's page as written by a hostile process; see [`Page::hand_to_hostile`].
    pub fn hand_to_hostile(&self) {
        self.at.page().hand_to_hostile();
    }

    /// Names the word in the log of steps ([`Platform::take_steps`]). No effect without a log.
    #[inline]
    pub fn named(self, name: &str) -> Word {
        self.named_by(|| name.to_owned())
    }

    /// Names the word as [`Word::named`] does, and makes the name only if there is a log.
    #[inline]
    pub fn named_by(self, name: impl FnOnce() -> String) -> Word {
        if self.at.explored && self.platform().tracing() {
            let object = Object::Word { page: self.at.page().id, index: self.at.index };
            world::name(|log| log.name(object, &name()));
        }
        self
    }

    /// Returns the word's page.
    pub fn page(&self) -> Page {
        Page { inner: self.at.page().clone() }
    }

    /// Returns the word's index in its page.
    #[inline]
    pub fn index(&self) -> usize {
        self.at.index as usize
    }

    /// Returns whether both are the same word.
    pub fn same(&self, other: &Word) -> bool {
        std::ptr::eq(self.cell(), other.cell())
    }

    /// Returns the address at which the CPU reaches the word while its page lives, for programs in
    /// other languages. Meaningless on an explored platform.
    pub fn cpu_address(&self) -> u64 {
        std::ptr::from_ref(self.cell()).expose_provenance() as u64
    }

    /// Returns the word at `index` of the same page.
    ///
    /// # Panics
    ///
    /// `index` is past the end.
    pub fn sibling(&self, index: usize) -> Word {
        Word { at: PinnedCell::new(self.at.page(), index as u32) }
    }

    /// Loads the word at `index` of the same page, as [`Word::load`] does.
    ///
    /// # Panics
    ///
    /// `index` is past the end.
    #[inline]
    pub fn load_sibling(&self, index: usize) -> u64 {
        if self.at.explored {
            return self.load_explored_sibling(index);
        }
        self.at.page().cell(index).load(Ordering::Acquire)
    }

    #[cold]
    fn load_explored_sibling(&self, index: usize) -> u64 {
        world::load(WordRef { page: self.at.page(), index: index as u32 })
    }

    /// Returns an annex of the word: a page of `words` words that belongs to this word, zeroed when
    /// created. It holds data that does not fit in the word's page. The same `number` always
    /// returns the same annex.
    pub fn annex(&self, number: u32, words: usize) -> Page {
        let make = || self.platform().page(words);
        let annex = |annexes: &mut Annexes| {
            annexes.entry((self.at.index, number)).or_insert_with(make).clone()
        };
        self.at.page().owner().annexes(annex)
    }

    /// Drops all annexes of the word.
    pub fn drop_annexes(&self) {
        let shared = self.at.page().owner();
        if shared.annexes.get().is_some() {
            shared.annexes(|annexes| annexes.retain(|(word, _), _| *word != self.at.index));
        }
    }

    /// Loads with acquire order.
    #[inline]
    pub fn load(&self) -> u64 {
        if self.at.explored { self.load_explored() } else { self.cell().load(Ordering::Acquire) }
    }

    /// Loads a word that an untrusted process may write.
    #[inline]
    fn load_untrusted(&self) -> u64 {
        if self.at.explored {
            self.load_explored_untrusted()
        } else {
            self.cell().load(Ordering::Acquire)
        }
    }

    /// Stores with release order. The store may become visible only after this agent's next loads:
    /// see [`Platform::fence`].
    #[inline]
    pub fn store(&self, value: u64) {
        if self.at.watched {
            self.store_watched(value);
        } else {
            self.cell().store(value, Ordering::Release);
        }
    }

    /// Replaces `current` by `new`. Returns the previous value, as `Ok` if it was `current`. A
    /// full barrier.
    #[inline]
    pub fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64> {
        if self.at.watched {
            return self.compare_exchange_watched(current, new);
        }
        self.cell().compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst)
    }

    /// Stores `value` and returns the previous value. A full barrier.
    #[inline]
    pub fn exchange(&self, value: u64) -> u64 {
        match self.watch() {
            None => self.cell().swap(value, Ordering::SeqCst),
            Some(Watch::World(word)) => world::exchange(word, |_| value),
            Some(Watch::Copies(watched)) => {
                watched.change(|cell| cell.swap(value, Ordering::SeqCst))
            }
        }
    }

    /// Adds (wrapping) and returns the previous value. A full barrier.
    #[inline]
    pub fn fetch_add(&self, value: u64) -> u64 {
        match self.watch() {
            None => self.cell().fetch_add(value, Ordering::SeqCst),
            Some(Watch::World(word)) => world::exchange(word, |v| v.wrapping_add(value)),
            Some(Watch::Copies(watched)) => {
                watched.change(|cell| cell.fetch_add(value, Ordering::SeqCst))
            }
        }
    }

    /// Adds (wrapping) and returns whether a bit of `mask` was set before. A full barrier. The
    /// addition must not carry into `mask`, so that the order of two additions cannot be observed.
    #[inline]
    pub fn add_and_test(&self, value: u64, mask: u64) -> bool {
        match self.watch() {
            None => self.cell().fetch_add(value, Ordering::SeqCst) & mask != 0,
            Some(Watch::World(word)) => world::add_and_test(word, value, mask),
            Some(Watch::Copies(watched)) => {
                watched.change(|cell| cell.fetch_add(value, Ordering::SeqCst)) & mask != 0
            }
        }
    }

    /// Sets bits and returns the previous value. A full barrier.
    #[inline]
    pub fn fetch_or(&self, bits: u64) -> u64 {
        match self.watch() {
            None => self.cell().fetch_or(bits, Ordering::SeqCst),
            Some(Watch::World(word)) => world::exchange(word, |v| v | bits),
            Some(Watch::Copies(watched)) => {
                watched.change(|cell| cell.fetch_or(bits, Ordering::SeqCst))
            }
        }
    }

    /// Keeps only `bits` and returns the previous value. A full barrier.
    #[inline]
    pub fn fetch_and(&self, bits: u64) -> u64 {
        match self.watch() {
            None => self.cell().fetch_and(bits, Ordering::SeqCst),
            Some(Watch::World(word)) => world::exchange(word, |v| v & bits),
            Some(Watch::Copies(watched)) => {
                watched.change(|cell| cell.fetch_and(bits, Ordering::SeqCst))
            }
        }
    }

    /// Sleeps while the low 32 bits are `expected`. May return [`WaitEnd::Woken`] spuriously, so
    /// the caller must check again.
    pub fn wait_while<'a>(
        &self,
        expected: u32,
        deadline: Option<CpuTime>,
        what: impl Into<Reason<'a>>,
    ) -> WaitEnd {
        let what = what.into();
        if cfg!(debug_assertions) || self.at.explored {
            waits::begin_wait(self.platform(), what);
        }
        self.wait_until(expected, deadline.map(Deadline::at), what.text)
    }

    pub(crate) fn wait_until(
        &self,
        expected: u32,
        deadline: Option<Deadline>,
        what: &str,
    ) -> WaitEnd {
        let platform = self.platform();
        match platform.kind() {
            PlatformKind::Host => {
                platform.host_threads().wait_word(&self.at, expected, deadline, what)
            }
            _ => world::wait_word(self.as_ref(), expected, deadline, what),
        }
    }

    /// Wakes up to `count` sleepers. `step` is the cost of their return in virtual time.
    pub fn wake(&self, count: u32, step: Step) {
        let platform = self.platform();
        match platform.kind() {
            PlatformKind::Host => platform.host_threads().wake_word(&self.at, count),
            _ => world::wake_word(self.as_ref(), count, step),
        }
    }

    fn as_ref(&self) -> WordRef<'_> {
        WordRef { page: self.at.page(), index: self.at.index }
    }

    /// Returns the platform of the word.
    #[inline]
    pub fn platform(&self) -> &Platform {
        &self.at.page().owner().platform
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Word({})", self.cell().load(Ordering::Relaxed))
    }
}
