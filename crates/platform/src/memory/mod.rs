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
mod shared;
mod untrusted;

pub use bulk::{Bulk, COPY_PIECE_BYTES, OutOfBounds};
pub use physical::{CacheType, FoundRegion, PhysicalAddress, PhysicalMemory, Target};
pub use shared::SharedFile;
pub use untrusted::Untrusted;

use crate::cells::{Annexes, Cells, PageCells, PinnedCell, WordRef};
use crate::wait::{Deadline, WaitEnd};
use crate::wait_order::{self, Reason};
use crate::{CpuTime, Object, Platform, PlatformKind, Step, world};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Protocol words or bulk bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// An array of 64-bit words. A store to it is split into words.
    Protocol,
    /// Bytes. A store is one copy.
    Bulk,
}

/// Memory made of [`Word`]s.
#[derive(Clone)]
pub struct Page {
    inner: Arc<PageCells>,
}

impl Page {
    pub(crate) fn new(platform: &Platform, words: usize) -> Page {
        let (id, explored) = Page::numbered(platform);
        Page { inner: PageCells::zeroed(platform, id, explored, words) }
    }

    fn of(platform: &Platform, cells: Cells) -> Page {
        let (id, explored) = Page::numbered(platform);
        Page { inner: PageCells::of(platform, id, explored, cells) }
    }

    /// Returns the number of a new page, and whether it is one of an explored machine.
    fn numbered(platform: &Platform) -> (u32, bool) {
        let explored = platform.kind() == PlatformKind::Explored;
        (if explored { world::next_object_id() } else { 0 }, explored)
    }

    /// Marks the page as written by a hostile process. On an explored platform each later load
    /// through [`Untrusted`] may return any value, as the strategy chooses. No effect elsewhere,
    /// where the process itself has to write.
    pub fn hand_to_hostile(&self) {
        self.inner.hostile.store(true, Ordering::Relaxed);
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
        if self.inner.explored {
            world::store(WordRef { page: &self.inner, index: index as u32 }, value);
        } else {
            self.inner.cell(index).store(value, Ordering::Release);
        }
    }

    /// Sets bits of the word at `index`, as [`Word::fetch_or`] does.
    #[inline]
    pub fn fetch_or(&self, index: usize, bits: u64) -> u64 {
        if self.inner.explored {
            world::exchange(WordRef { page: &self.inner, index: index as u32 }, |v| v | bits)
        } else {
            self.inner.cell(index).fetch_or(bits, Ordering::SeqCst)
        }
    }

    /// Adds to the word at `index` and returns the previous value, as [`Word::fetch_add`] does.
    #[inline]
    pub fn fetch_add(&self, index: usize, value: u64) -> u64 {
        if self.inner.explored {
            let word = WordRef { page: &self.inner, index: index as u32 };
            world::exchange(word, |v| v.wrapping_add(value))
        } else {
            self.inner.cell(index).fetch_add(value, Ordering::SeqCst)
        }
    }

    /// Stores to the word at `index` and returns the previous value, as [`Word::exchange`] does.
    #[inline]
    pub fn exchange(&self, index: usize, value: u64) -> u64 {
        if self.inner.explored {
            world::exchange(WordRef { page: &self.inner, index: index as u32 }, |_| value)
        } else {
            self.inner.cell(index).swap(value, Ordering::SeqCst)
        }
    }

    /// Names the page in the log of steps ([`Platform::take_steps`]). No effect without a log.
    #[inline]
    pub fn named(self, name: &str) -> Page {
        if self.inner.explored && self.inner.platform.tracing() {
            world::name(|log| log.name_page(self.inner.id, name));
        }
        self
    }

    /// Returns the number of words.
    #[inline]
    pub fn len(&self) -> usize {
        self.inner.cells.len()
    }

    /// Returns whether there are no words.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Shares the annexes of all words of `from` with the words of the same index here, and drops
    /// the previous annexes of this page.
    pub fn take_annexes(&self, from: &Page) {
        if from.inner.annexes.get().is_some() || self.inner.annexes.get().is_some() {
            let taken = from.inner.annexes(std::mem::take);
            self.inner.annexes(|own| *own = taken);
        }
    }

    /// Returns whether nothing else refers to the page in this process.
    pub fn is_only_reference(&self) -> bool {
        Arc::strong_count(&self.inner) == 1
    }

    /// Returns whether both are the same memory.
    pub fn same(&self, other: &Page) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Page({} words)", self.len())
    }
}

/// A 64-bit protocol word that several agents load and store. Values are never torn.
#[derive(Clone)]
pub struct Word {
    at: PinnedCell,
}

impl Word {
    #[inline]
    pub(crate) fn cell(&self) -> &AtomicU64 {
        self.at.get()
    }

    /// Stores without a step, before another agent knows the word.
    pub(crate) fn put(&self, value: u64) {
        self.at.page.cells.put(self.at.index as usize, value);
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
    fn store_explored(&self, value: u64) {
        world::store(self.as_ref(), value);
    }

    #[cold]
    fn compare_exchange_explored(&self, current: u64, new: u64) -> Result<u64, u64> {
        let old = world::exchange(self.as_ref(), |v| if v == current { new } else { v });
        if old == current { Ok(old) } else { Err(old) }
    }

    /// Marks the word's page as written by a hostile process; see [`Page::hand_to_hostile`].
    pub fn hand_to_hostile(&self) {
        self.at.page.hostile.store(true, Ordering::Relaxed);
    }

    /// Names the word in the log of steps ([`Platform::take_steps`]). No effect without a log.
    #[inline]
    pub fn named(self, name: &str) -> Word {
        self.named_by(|| name.to_owned())
    }

    /// Names the word as [`Word::named`] does, and makes the name only if there is a log.
    #[inline]
    pub fn named_by(self, name: impl FnOnce() -> String) -> Word {
        if self.at.page.explored && self.at.page.platform.tracing() {
            let object = Object::Word { page: self.at.page.id, index: self.at.index };
            world::name(|log| log.name(object, &name()));
        }
        self
    }

    /// Returns the word's page.
    pub fn page(&self) -> Page {
        Page { inner: Arc::clone(&self.at.page) }
    }

    /// Returns the word's index in its page.
    #[inline]
    pub fn index(&self) -> usize {
        self.at.index as usize
    }

    /// Returns the word's address, which is unique among live words. It serves as an identity only.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self.cell()) as usize
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
        Word { at: PinnedCell::new(&self.at.page, index as u32) }
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
        self.at.page.cell(index).load(Ordering::Acquire)
    }

    #[cold]
    fn load_explored_sibling(&self, index: usize) -> u64 {
        world::load(WordRef { page: &self.at.page, index: index as u32 })
    }

    /// Returns an annex of the word: a page of `words` words that belongs to this word, zeroed when
    /// created. It holds data that does not fit in the word's page. The same `number` always
    /// returns the same annex.
    pub fn annex(&self, number: u32, words: usize) -> Page {
        let make = || Page::new(&self.at.page.platform, words).inner;
        let annex = |annexes: &mut Annexes| {
            Arc::clone(annexes.entry((self.at.index, number)).or_insert_with(make))
        };
        Page { inner: self.at.page.annexes(annex) }
    }

    /// Drops all annexes of the word.
    pub fn drop_annexes(&self) {
        if self.at.page.annexes.get().is_some() {
            self.at.page.annexes(|annexes| annexes.retain(|(word, _), _| *word != self.at.index));
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
        if self.at.explored {
            self.store_explored(value);
        } else {
            self.cell().store(value, Ordering::Release);
        }
    }

    /// Replaces `current` by `new`. Returns the previous value, as `Ok` if it was `current`. A
    /// full barrier.
    #[inline]
    pub fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64> {
        if self.at.explored {
            return self.compare_exchange_explored(current, new);
        }
        self.cell().compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst)
    }

    /// Stores `value` and returns the previous value. A full barrier.
    #[inline]
    pub fn exchange(&self, value: u64) -> u64 {
        match self.explored() {
            None => self.cell().swap(value, Ordering::SeqCst),
            Some(word) => world::exchange(word, |_| value),
        }
    }

    /// Adds (wrapping) and returns the previous value. A full barrier.
    #[inline]
    pub fn fetch_add(&self, value: u64) -> u64 {
        match self.explored() {
            None => self.cell().fetch_add(value, Ordering::SeqCst),
            Some(word) => world::exchange(word, |v| v.wrapping_add(value)),
        }
    }

    /// Adds (wrapping) and returns whether a bit of `mask` was set before. A full barrier. The
    /// addition must not carry into `mask`, so that the order of two additions cannot be observed.
    #[inline]
    pub fn add_and_test(&self, value: u64, mask: u64) -> bool {
        match self.explored() {
            None => self.cell().fetch_add(value, Ordering::SeqCst) & mask != 0,
            Some(word) => world::add_and_test(word, value, mask),
        }
    }

    /// Sets bits and returns the previous value. A full barrier.
    #[inline]
    pub fn fetch_or(&self, bits: u64) -> u64 {
        match self.explored() {
            None => self.cell().fetch_or(bits, Ordering::SeqCst),
            Some(word) => world::exchange(word, |v| v | bits),
        }
    }

    /// Keeps only `bits` and returns the previous value. A full barrier.
    #[inline]
    pub fn fetch_and(&self, bits: u64) -> u64 {
        match self.explored() {
            None => self.cell().fetch_and(bits, Ordering::SeqCst),
            Some(word) => world::exchange(word, |v| v & bits),
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
            wait_order::begin_wait(self.platform(), what);
        }
        self.wait_until(expected, deadline.map(Deadline::at), what.text)
    }

    pub(crate) fn wait_until(
        &self,
        expected: u32,
        deadline: Option<Deadline>,
        what: &str,
    ) -> WaitEnd {
        let platform = &self.at.page.platform;
        match platform.kind() {
            PlatformKind::Host => {
                platform.host_threads().wait_word(self.as_ref(), expected, deadline, what)
            }
            _ => world::wait_word(self.as_ref(), expected, deadline, what),
        }
    }

    /// Wakes up to `count` sleepers. `step` is the cost of their return in virtual time.
    pub fn wake(&self, count: u32, step: Step) {
        let platform = &self.at.page.platform;
        match platform.kind() {
            PlatformKind::Host => platform.host_threads().wake_word(self.as_ref(), count),
            _ => world::wake_word(self.as_ref(), count, step),
        }
    }

    fn as_ref(&self) -> WordRef<'_> {
        WordRef { page: &self.at.page, index: self.at.index }
    }

    /// Returns the platform of the word.
    pub fn platform(&self) -> &Platform {
        &self.at.page.platform
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Word({})", self.cell().load(Ordering::Relaxed))
    }
}
