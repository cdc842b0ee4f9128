//! The ends of CPU waits, told to a client through memory: a word for each wait, and a descriptor for a
//! client that sleeps elsewhere.
//!
//! Nothing here blocks or grows: a word holds one end, and the descriptor counts.

use crate::wire::{ARMED, OVER};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tidegate_calls::{CpuWaitRegistration, Status, WaitCallback, WaitNotice};
use tidegate_platform::{ClientAccess, Page, Platform, Step};

/// The notices of one client.
pub(super) struct Notices {
    pub(super) page: Page,
    pub(super) descriptor: Arc<OwnedFd>,
    registered: BTreeMap<u32, CpuWaitRegistration>,
}

struct Notice {
    page: Page,
    slot: u32,
    /// Written to for a client that does not sleep on the word.
    descriptor: Option<Arc<OwnedFd>>,
}

impl WaitCallback for Notice {
    fn wait_is_over(&self) {
        let word = self.page.word(self.slot as usize);
        word.store(OVER);
        word.wake(u32::MAX, Step::ThreadWake);
        if let Some(descriptor) = &self.descriptor {
            // A counter that is full is readable, too.
            let _ = rustix::io::write(descriptor, &1u64.to_ne_bytes());
        }
    }
}

impl Notices {
    /// Notices for `waits` waits at a time.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub(super) fn new(platform: &Platform, waits: u32) -> io::Result<Notices> {
        use rustix::event::EventfdFlags;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let descriptor = Arc::new(rustix::event::eventfd(0, flags)?);
        let page = platform.client_page(waits as usize, ClientAccess::ReadWrite);
        Ok(Notices { page, descriptor, registered: BTreeMap::new() })
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
        let descriptor = announced.then(|| self.descriptor.clone());
        let notice = Notice { page: self.page.clone(), slot, descriptor };
        Ok(WaitNotice::Callback(Arc::new(notice)))
    }

    /// Cancels the wait of `slot`, if there is one. Its end is not told any more.
    pub(super) fn cancel(&mut self, slot: u32) {
        drop(self.registered.remove(&slot));
    }

    /// Cancels all waits.
    pub(super) fn cancel_all(&mut self) {
        self.registered.clear();
    }
}
