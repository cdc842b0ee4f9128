//! CPU waits of a client: each has a word of memory that the service sets when the wait is over.
//!
//! A thread that blocks sleeps on its word. Events and callbacks are served by one thread, which sleeps
//! until the session's bell rings or the connection ends. Then all waits end.

use super::channel::Channel;
use crate::transport::{Bell, Heard};
use crate::wire::{ARMED, Call, FenceCall, LOST};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use tidegate_calls::{FenceValue, RegisteredWait, Status, WaitMode, WaitNotice};
use tidegate_platform::{Mutex, Page, Platform, Step, WaitEnd};

pub(super) struct Notices {
    channel: Arc<Channel>,
    page: Page,
    slots: Mutex<Slots>,
}

struct Slots {
    free: Vec<u32>,
    /// What the end of a wait does, for waits that no thread sleeps for.
    announced: BTreeMap<u32, WaitNotice>,
}

impl Notices {
    /// Starts the thread that serves events and callbacks. It ends with the connection.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(super) fn start(
        platform: &Platform,
        channel: &Arc<Channel>,
        page: Page,
        bell: Bell,
    ) -> io::Result<Arc<Notices>> {
        let free = (0..page.len() as u32).rev().collect();
        let slots = Slots { free, announced: BTreeMap::new() };
        let slots = platform.mutex("waits of a client", slots);
        let notices = Arc::new(Notices { channel: channel.clone(), page, slots });
        let served = notices.clone();
        platform.spawn_outside("tidegate waits", move || served.serve(&bell))?;
        Ok(notices)
    }

    fn serve(&self, bell: &Bell) {
        // A ring is taken before the words are read, so that a later notice ends the next wait.
        while self.channel.wait_for(bell) == Heard::Bell {
            self.give_due();
        }
        self.lose();
    }

    /// Gives the notices of waits that are over. A call that ends waits of its own process does so
    /// before it returns.
    pub(super) fn give_due(&self) {
        // The lock orders a notice with the cancellation: after that has returned, none is given. The
        // fault is the mistake that the scenario served-cancel-against-signal must find.
        let mut slots = self.slots.lock_device();
        let is_over = |slot: &u32| self.page.load(*slot as usize) != ARMED;
        let over: Vec<u32> = slots.announced.keys().copied().filter(is_over).collect();
        let due: Vec<WaitNotice> =
            over.iter().filter_map(|slot| slots.announced.remove(slot)).collect();
        slots.free.extend(over);
        let held =
            Some(slots).filter(|_| !self.page.word(0).platform().fault("notice after cancel"));
        due.iter().for_each(WaitNotice::give);
        drop(held);
    }

    /// Ends all waits: the service is gone. The faults are the mistakes that the scenarios
    /// served-stop-against-wait and served-stop-against-event must find.
    fn lose(&self) {
        self.channel.close();
        for slot in 0..self.page.len() {
            let word = self.page.word(slot);
            let was_armed = word.compare_exchange(ARMED, LOST).is_ok();
            if was_armed && !word.platform().fault("lost without a wake") {
                word.wake(u32::MAX, Step::ThreadWake);
            }
        }
        if !self.page.word(0).platform().fault("events forgotten") {
            self.give_due();
        }
    }

    fn take(&self) -> Result<u32, Status> {
        let slot = self.slots.lock().free.pop().ok_or(Status::INSUFFICIENT_RESOURCES)?;
        self.page.store(slot as usize, ARMED);
        Ok(slot)
    }

    /// Blocks until a wait is over.
    ///
    /// # Errors
    /// Those of the call; CANCELLED when the platform stops; DEVICE_REMOVED when the service is gone.
    pub(super) fn block(&self, fences: &[FenceValue], mode: WaitMode) -> Result<(), Status> {
        let slot = self.take()?;
        let fences = fences.to_vec();
        let call = FenceCall::RegisterWait { fences, mode, slot, announced: false };
        let result = self.channel.call(&Call::Fence(call)).and_then(|()| self.sleep(slot));
        if result == Err(Status::CANCELLED) {
            let _: Result<(), Status> =
                self.channel.call(&Call::Fence(FenceCall::CancelWait { slot }));
        }
        self.slots.lock().free.push(slot);
        result
    }

    fn sleep(&self, slot: u32) -> Result<(), Status> {
        let word = self.page.word(slot as usize);
        loop {
            match word.load() {
                // The call that registered this wait found the connection open after the word was
                // armed, so the thread that ends all waits finds it armed.
                ARMED => {}
                LOST => return Err(Status::DEVICE_REMOVED),
                _ => return Ok(()),
            }
            let what = "a fence of a service";
            if word.wait_while(ARMED as u32, None, what) == WaitEnd::Stopped {
                return Err(Status::CANCELLED);
            }
        }
    }

    /// Registers a wait whose end gives `notice`.
    ///
    /// # Errors
    /// Those of the call; INSUFFICIENT_RESOURCES for one wait too many.
    pub(super) fn register(
        self: &Arc<Notices>,
        fences: &[FenceValue],
        mode: WaitMode,
        notice: WaitNotice,
    ) -> Result<Wait, Status> {
        self.announce(notice, |slot| {
            let fences = fences.to_vec();
            FenceCall::RegisterWait { fences, mode, slot, announced: true }
        })
    }

    /// Makes the call that has `notice` given at the end of what it enters, by the slot that it names.
    ///
    /// # Errors
    /// As [`Notices::register`].
    pub(super) fn announce(
        self: &Arc<Notices>,
        notice: WaitNotice,
        call: impl FnOnce(u32) -> FenceCall,
    ) -> Result<Wait, Status> {
        let slot = self.take()?;
        self.slots.lock().announced.insert(slot, notice);
        match self.channel.call(&Call::Fence(call(slot))) {
            Ok(()) => {
                // What was over at once.
                self.give_due();
                Ok(Wait { notices: self.clone(), slot })
            }
            Err(status) => {
                let mut slots = self.slots.lock();
                if slots.announced.remove(&slot).is_some() {
                    slots.free.push(slot);
                }
                Err(status)
            }
        }
    }
}

/// A registered wait.
pub(super) struct Wait {
    notices: Arc<Notices>,
    slot: u32,
}

impl RegisteredWait for Wait {
    fn is_over(&self) -> bool {
        !self.notices.slots.lock().announced.contains_key(&self.slot)
    }

    fn cancel(&self) {
        if self.notices.slots.lock_device().announced.remove(&self.slot).is_none() {
            return;
        }
        // The slot is free when the service has forgotten the wait.
        let call = Call::Fence(FenceCall::CancelWait { slot: self.slot });
        let _: Result<(), Status> = self.notices.channel.call(&call);
        self.notices.slots.lock().free.push(self.slot);
    }
}
