//! Windows of an explored machine: the protocol of `cells::shown` on words behind store buffers.
//!
//! Invariants: a page has a number, since addresses differ between runs of one schedule. The load
//! of a page's word stands for the load of the page itself, so a page that is dropped under its
//! user is found there. Each agent has a word for its announcements. The loads, stores and barriers
//! are steps; the table of pages is not, as a page enters it before its number is shown.

use super::stopped::{Trap, TrapsOfAgents};
use crate::memory::{Page, Word};
use crate::planted;
use crate::platform::Platform;
use crate::sync::Mutex;
use std::sync::{Arc, OnceLock, PoisonError};
use tidegate_machines::cells::{Accesses, MOST_KEPT, replace, use_announced};
use tidegate_machines::{WaitEnd, once, world};

/// Agents with a word for announcements. Others take the lock.
const USERS: usize = 64;

/// A page and those that it has replaced.
pub(super) struct ShownToAgents {
    pages: Pages,
    /// The numbers of replaced pages that an agent may still use.
    replaced: Mutex<Vec<u64>>,
    /// The trap on stores, once the window has an address.
    trap: OnceLock<Arc<Trap>>,
}

struct Pages {
    platform: Platform,
    /// The number of the page that is shown.
    shown: Word,
    /// The number of the page that an agent uses, by the number of the agent; 0 for none.
    announced: Page,
    /// All pages by their number, without those that were dropped.
    all: std::sync::Mutex<Vec<Option<Listed>>>,
}

#[derive(Clone)]
struct Listed {
    page: Page,
    /// 1 once the page was dropped.
    dropped: Word,
}

impl ShownToAgents {
    pub(super) fn new(platform: &Platform, page: Page) -> ShownToAgents {
        let pages = Pages {
            platform: platform.clone(),
            shown: platform.page(1).word(0).named("a window's page"),
            announced: platform.page(USERS).named("uses of a window"),
            all: std::sync::Mutex::new(vec![None]),
        };
        pages.shown.put(pages.list(page));
        let replaced = platform.mutex("rotations of a window", Vec::new());
        ShownToAgents { pages, replaced, trap: OnceLock::new() }
    }

    /// Has stores to the window trapped from now on, if its trap is armed. Returns its number among
    /// the words of the machine.
    pub(super) fn place(&self) -> u64 {
        self.trap().number()
    }

    fn trap(&self) -> &Arc<Trap> {
        let Pages { platform, announced, .. } = &self.pages;
        once::make_alone(&self.trap, || Arc::new(Trap::new(platform, announced.number().into())))
    }

    pub(super) fn arm(&self, traps: &Arc<TrapsOfAgents>) {
        self.trap().arm(traps);
        world::fence_of_agents();
    }

    pub(super) fn release(&self) {
        if let Some(trap) = self.trap.get() {
            trap.release();
        }
    }

    pub(super) fn with<R>(&self, f: impl FnOnce(&Page) -> R) -> R {
        match world::agent_index().filter(|agent| *agent < USERS) {
            Some(user) => use_announced(&self.pages, user, f),
            None => {
                let _excludes_rotations = self.replaced.lock_device();
                self.pages.read(self.pages.load(), f)
            }
        }
    }

    /// Apart from [`super::Mapping::store`], which is part of each caller.
    #[cold]
    #[inline(never)]
    pub(super) fn store(&self, index: usize, value: u64) {
        let store = || self.with(|page| page.store(index, value));
        match self.trap.get() {
            Some(trap) => trap.pass(store),
            None => store(),
        }
    }

    pub(super) fn replace(&self, page: Page) -> Page {
        let mut replaced = self.replaced.lock_device();
        let number = self.pages.list(page);
        let copy = self.pages.listed(self.pages.shown.load()).page;
        replace(&self.pages, number, &mut replaced, MOST_KEPT);
        copy
    }
}

impl Pages {
    fn all(&self) -> std::sync::MutexGuard<'_, Vec<Option<Listed>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a page its number.
    fn list(&self, page: Page) -> u64 {
        let dropped = self.platform.page(1).word(0).named("the end of a window's page");
        let mut all = self.all();
        all.push(Some(Listed { page, dropped }));
        all.len() as u64 - 1
    }

    /// Returns a page that is shown.
    fn listed(&self, number: u64) -> Listed {
        self.all()[number as usize].clone().expect("a page that is shown is kept")
    }
}

impl Accesses for Pages {
    type Value = Page;
    type Name = u64;
    type User = usize;
    type Users = usize;

    fn load(&self) -> u64 {
        self.shown.load()
    }

    fn announce(&self, user: usize, used: Option<u64>) {
        self.announced.store(user, used.unwrap_or(0));
    }

    fn read<R>(&self, number: u64, f: impl FnOnce(&Page) -> R) -> R {
        let listed = self.listed(number);
        let is_dropped = listed.dropped.load() == 1;
        assert!(!is_dropped, "page {number} of a window is used after it was dropped");
        let result = f(&listed.page);
        let is_kept = self.all()[number as usize].is_some();
        assert!(is_kept, "page {number} of a window was dropped during its use");
        result
    }

    fn exchange(&self, number: u64) -> u64 {
        self.shown.exchange(number)
    }

    fn barrier(&self) {
        world::fence_of_agents();
    }

    fn users(&self) -> usize {
        world::agents().min(USERS)
    }

    fn await_end_of_uses(&self, users: &usize, number: u64) -> bool {
        (0..*users).all(|user| {
            while self.announced.load(user) == number {
                if world::poll("the end of a use of a window") == WaitEnd::Stopped {
                    return false;
                }
            }
            true
        })
    }

    fn drop_value(&self, number: u64) {
        let listed = self.listed(number);
        listed.dropped.exchange(1);
        self.all()[number as usize] = None;
    }

    fn lacks_barrier(&self) -> bool {
        planted!(self.platform, NoBarrierOfAllAgents)
    }

    fn drops_announced(&self) -> bool {
        planted!(self.platform, AnnouncedPageDropped)
    }
}
