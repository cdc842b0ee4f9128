//! The ends of CPU waits, which a client reads in memory: a word for each wait, and a bell for a
//! client that sleeps elsewhere.
//!
//! Nothing here blocks or grows: a word holds one end, and so does the bell. Registered waits name
//! at most `Limits::wait_fences` fences together, because the kernel keeps each of them.
//!
//! Order: the word is armed before the wait is registered, and holds its end before the bell rings.
//! Slots are used again: each use has a generation, which the word holds (decisions/0144).

use super::config::Limits;
use crate::transport::Bell;
use crate::wire::{armed, over};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_calls::{CpuWaitRegistration, SlotKey, Status, WaitCallback, WaitNotice};
use tidegate_platform::planted;
use tidegate_platform::{ClientAccess, Page, Platform, Step};

/// The notices of one client.
pub(super) struct Notices {
    pub(super) page: Page,
    pub(super) bell: Bell,
    registered: BTreeMap<u32, Registered>,
    /// Fences of all registered waits, and their limit.
    fences: u64,
    most_fences: u64,
}

/// A wait that was registered. One that is over is kept until its slot or its room is needed.
struct Registered {
    generation: u64,
    wait: CpuWaitRegistration,
    fences: u64,
}

struct Notice {
    page: Page,
    key: SlotKey,
    /// Rung for a client that does not sleep on the word.
    bell: Option<Bell>,
}

impl WaitCallback for Notice {
    fn wait_is_over(&self) {
        let word = self.page.word(self.key.slot as usize);
        // The fault is the mistake that the scenario served-event-against-signal must find.
        if planted!(word.platform(), RungBeforeTheEnd) {
            self.bell.iter().for_each(Bell::ring);
            word.store(over(self.key));
            return;
        }
        // An end that comes late leaves the next use of the slot as it is. The fault is the mistake
        // that the scenario served-slot-against-signal must find.
        match planted!(word.platform(), CancelledWaitGoesOn) {
            true => word.store(word.load() | 1),
            false => _ = word.compare_exchange(armed(self.key), over(self.key)),
        }
        word.wake(u32::MAX, Step::ThreadWake);
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }
}

impl Notices {
    /// Notices for the waits that a client may have at a time.
    pub(super) fn new(platform: &Platform, bell: Bell, limits: &Limits) -> Notices {
        let page = platform.client_page(limits.waits as usize, ClientAccess::ReadWrite);
        let page = page.named("the ends of waits");
        let most_fences = u64::from(limits.wait_fences);
        Notices { page, bell, registered: BTreeMap::new(), fences: 0, most_fences }
    }

    /// Has `register` enter a wait for so many fences that tells its end in the slot of `key`. A
    /// wait that was there is cancelled.
    ///
    /// # Errors
    /// INVALID_PARAMETER for a slot that there is not; INSUFFICIENT_RESOURCES for more fences than
    /// the limit; the statuses of `register`.
    pub(super) fn register(
        &mut self,
        key: SlotKey,
        announced: bool,
        fences: usize,
        register: impl FnOnce(WaitNotice) -> Result<CpuWaitRegistration, Status>,
    ) -> Result<(), Status> {
        let notice = self.notice(key, announced)?;
        let fences = fences as u64;
        self.check_fences(fences)?;
        let wait = register(notice)?;
        // The fault is the mistake that the scenario served-wait-against-signal must find.
        if planted!(self.page.word(0).platform(), ArmedAfterTheRegistration) {
            self.page.store(key.slot as usize, armed(key));
        }
        self.fences += fences;
        let generation = key.generation;
        self.registered.insert(key.slot, Registered { generation, wait, fences });
        Ok(())
    }

    /// Checks that a wait for so many fences more is within the limit.
    ///
    /// # Errors
    /// INSUFFICIENT_RESOURCES.
    fn check_fences(&mut self, fences: u64) -> Result<(), Status> {
        if self.fences + fences > self.most_fences {
            // The kernel has released the fences of waits that are over. The client's words do not
            // count: it can store to them.
            self.registered.retain(|_, registered| !registered.wait.is_over());
            self.fences = self.registered.values().map(|registered| registered.fences).sum();
        }
        match self.fences + fences <= self.most_fences {
            true => Ok(()),
            false => Err(Status::INSUFFICIENT_RESOURCES),
        }
    }

    /// Returns a notice that tells its end in the slot of `key`. A wait that was there is
    /// cancelled.
    ///
    /// # Errors
    /// INVALID_PARAMETER for a slot that there is not.
    pub(super) fn notice(&mut self, key: SlotKey, announced: bool) -> Result<WaitNotice, Status> {
        if key.slot as usize >= self.page.len() {
            return Err(Status::INVALID_PARAMETER);
        }
        self.remove(key.slot);
        self.page.store(key.slot as usize, armed(key));
        let bell = announced.then(|| self.bell.clone());
        let notice = Notice { page: self.page.clone(), key, bell };
        Ok(WaitNotice::Callback(Arc::new(notice)))
    }

    /// Cancels a wait. Its end is not told any more. A later wait in its slot goes on.
    pub(super) fn cancel(&mut self, key: SlotKey) {
        let is_it = |registered: &Registered| registered.generation == key.generation;
        // The fault is the mistake that the scenario served-cancel-against-register must find.
        if self.registered.get(&key.slot).is_some_and(is_it)
            || planted!(self.page.word(0).platform(), WaitIsCancelledByItsSlot)
        {
            self.remove(key.slot);
        }
    }

    /// Cancels the wait of a slot, if there is one.
    fn remove(&mut self, slot: u32) {
        let cancelled = self.registered.remove(&slot);
        self.fences -= cancelled.as_ref().map_or(0, |cancelled| cancelled.fences);
        if planted!(self.page.word(0).platform(), CancelledWaitGoesOn) {
            let kept = cancelled.map(|cancelled| Registered { fences: 0, ..cancelled });
            self.registered.extend(kept.map(|kept| (u32::MAX - slot, kept)));
        }
    }

    /// Cancels all waits.
    pub(super) fn cancel_all(&mut self) {
        self.registered.clear();
        self.fences = 0;
    }
}
