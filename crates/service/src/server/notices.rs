//! The ends of CPU waits, which a client reads in memory: a word for each wait, and a bell for a client
//! that sleeps elsewhere.
//!
//! Nothing here blocks or grows: a word holds one end, and so does the bell.
//!
//! Order: the word is armed before the wait is registered, and holds its end before the bell rings.

use crate::transport::Bell;
use crate::wire::{ARMED, OVER};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_calls::{CpuWaitRegistration, Status, WaitCallback, WaitNotice};
use tidegate_platform::{ClientAccess, Page, Platform, Step};

/// The notices of one client.
pub(super) struct Notices {
    pub(super) page: Page,
    pub(super) bell: Bell,
    registered: BTreeMap<u32, CpuWaitRegistration>,
}

struct Notice {
    page: Page,
    slot: u32,
    /// Rung for a client that does not sleep on the word.
    bell: Option<Bell>,
}

impl WaitCallback for Notice {
    fn wait_is_over(&self) {
        let word = self.page.word(self.slot as usize);
        // The fault is the mistake that the scenario served-event-against-signal must find.
        if word.platform().fault("rung before the end") {
            self.bell.iter().for_each(Bell::ring);
            word.store(OVER);
            return;
        }
        word.store(OVER);
        word.wake(u32::MAX, Step::ThreadWake);
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }
}

impl Notices {
    /// Notices for `waits` waits at a time.
    pub(super) fn new(platform: &Platform, bell: Bell, waits: u32) -> Notices {
        let page = platform.client_page(waits as usize, ClientAccess::ReadWrite);
        let page = page.named("the ends of waits");
        Notices { page, bell, registered: BTreeMap::new() }
    }

    /// Has `register` enter a wait that tells its end in `slot`. A wait that was there is cancelled.
    ///
    /// # Errors
    /// INVALID_PARAMETER for a slot that there is not; those of `register`.
    pub(super) fn register(
        &mut self,
        slot: u32,
        announced: bool,
        register: impl FnOnce(WaitNotice) -> Result<CpuWaitRegistration, Status>,
    ) -> Result<(), Status> {
        let registered = register(self.notice(slot, announced)?)?;
        // The fault is the mistake that the scenario served-wait-against-signal must find.
        if self.page.word(0).platform().fault("armed after the registration") {
            self.page.store(slot as usize, ARMED);
        }
        self.registered.insert(slot, registered);
        Ok(())
    }

    /// Returns a notice that tells its end in `slot`. A wait that was there is cancelled.
    ///
    /// # Errors
    /// INVALID_PARAMETER for a slot that there is not.
    pub(super) fn notice(&mut self, slot: u32, announced: bool) -> Result<WaitNotice, Status> {
        if slot as usize >= self.page.len() {
            return Err(Status::INVALID_PARAMETER);
        }
        self.cancel(slot);
        self.page.store(slot as usize, ARMED);
        let bell = announced.then(|| self.bell.clone());
        let notice = Notice { page: self.page.clone(), slot, bell };
        Ok(WaitNotice::Callback(Arc::new(notice)))
    }

    /// Cancels the wait of `slot`, if there is one. Its end is not told any more.
    pub(super) fn cancel(&mut self, slot: u32) {
        let cancelled = self.registered.remove(&slot);
        // The fault is the mistake that the scenario served-slot-against-signal must find.
        if self.page.word(0).platform().fault("a cancelled wait goes on") {
            self.registered.extend(cancelled.map(|wait| (u32::MAX - slot, wait)));
        }
    }

    /// Cancels all waits.
    pub(super) fn cancel_all(&mut self) {
        self.registered.clear();
    }
}
