//! CPU waits of a client: each has a word of memory that the service sets when the wait is over.
//!
//! A thread that blocks sleeps on its word. Events and callbacks are served by one thread, which
//! sleeps until the session's bell rings or the connection ends. Then all waits end.
//!
//! Invariants: a wait is known by its slot and its generation, at both ends and in the word,
//! because a registration outlives its wait (decisions/0144). A slot is therefore free as soon as
//! its notice is given or cancelled, before the service has forgotten the wait.

use super::channel::Channel;
use crate::transport::{Bell, Heard};
use crate::wire::{Call, LOST, Message, OwnMessage, WaitingCall, armed};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use tidegate_calls::{FenceValue, RegisteredWait, SlotKey, Slots, Status, WaitMode, WaitNotice};
use tidegate_platform::planted;
use tidegate_platform::{Mutex, Page, Platform, Step, WaitEnd};

pub(super) struct Notices {
    platform: Platform,
    channel: Arc<Channel>,
    page: Page,
    waits: Mutex<Waits>,
}

struct Waits {
    platform: Platform,
    slots: Slots<()>,
    /// What the end of a wait does, for waits that no thread sleeps for.
    announced: BTreeMap<SlotKey, WaitNotice>,
}

impl Waits {
    /// Takes the notice of a wait that has neither been given nor cancelled, and frees its slot.
    fn take_notice(&mut self, key: SlotKey) -> Option<WaitNotice> {
        // The fault is the mistake that the scenario served-destroy-against-wait must find.
        let key = match planted!(self.platform, RegistrationIsKnownByItsSlot) {
            true => *self.announced.keys().find(|other| other.slot == key.slot)?,
            false => key,
        };
        let notice = self.announced.remove(&key)?;
        self.slots.remove(key);
        Some(notice)
    }
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
        let slots = Slots::new(page.len() as u32);
        let waits = Waits { platform: platform.clone(), slots, announced: BTreeMap::new() };
        let waits = platform.mutex("waits of a client", waits);
        let notices =
            Arc::new(Notices { platform: platform.clone(), channel: channel.clone(), page, waits });
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
        // The lock orders a notice with the cancellation: after that has returned, none is given.
        // The fault is the mistake that the scenario served-cancel-against-signal must find.
        let mut waits = self.waits.lock_device();
        let is_over = |key: &SlotKey| self.page.load(key.slot as usize) != armed(*key);
        let ended: Vec<SlotKey> = waits.announced.keys().copied().filter(is_over).collect();
        let due: Vec<WaitNotice> =
            ended.into_iter().filter_map(|key| waits.take_notice(key)).collect();
        let held = Some(waits).filter(|waits| !planted!(waits.platform, NoticeAfterCancel));
        due.iter().for_each(|notice| notice.give(&self.platform));
        drop(held);
    }

    /// Ends all waits: the service is gone. The faults are the mistakes that the scenarios
    /// served-stop-against-wait and served-stop-against-event must find.
    fn lose(&self) {
        self.channel.close();
        for slot in 0..self.page.len() {
            let word = self.page.word(slot);
            let value = word.load();
            // An odd word belongs to a wait that is over.
            let was_armed = value & 1 == 0 && word.compare_exchange(value, LOST).is_ok();
            if was_armed && !planted!(word.platform(), LostWithoutAWake) {
                word.wake(u32::MAX, Step::ThreadWake);
            }
        }
        if !planted!(self.page.word(0).platform(), EventsForgotten) {
            self.give_due();
        }
    }

    /// Takes a slot and arms its word, for a wait that gives `notice` or that a thread sleeps for.
    fn take(&self, notice: Option<WaitNotice>) -> Result<SlotKey, Status> {
        let mut waits = self.waits.lock();
        let key = waits.slots.insert(()).ok_or(Status::INSUFFICIENT_RESOURCES)?;
        // Armed before the notice can be found: the word holds the end of the slot's former use.
        self.page.store(key.slot as usize, armed(key));
        if let Some(notice) = notice {
            waits.announced.insert(key, notice);
        }
        Ok(key)
    }

    fn release(&self, key: SlotKey) {
        self.waits.lock().slots.remove(key);
    }

    /// Blocks until a wait is over.
    ///
    /// # Errors
    /// Those of the call; CANCELLED when the platform stops; DEVICE_REMOVED when the service is
    /// gone.
    pub(super) fn block(
        self: &Arc<Notices>,
        fences: &[FenceValue],
        mode: WaitMode,
    ) -> Result<(), Status> {
        let fences = fences.to_vec();
        let wait = |key, announced| OwnMessage::RegisterWait { fences, mode, key, announced };
        self.sleep_for(wait).map(drop)
    }

    /// Makes a call that waits. Other threads make calls meanwhile, unless all slots are in use.
    ///
    /// # Errors
    /// As [`Notices::block`].
    pub(super) fn wait_in(self: &Arc<Notices>, call: WaitingCall) -> Result<(), Status> {
        match self.sleep_for(|key, announced| OwnMessage::Enter { call, key, announced }) {
            Ok(key) => self.channel.call(OwnMessage::TakeOutcome { key }),
            Err(Status::INSUFFICIENT_RESOURCES) => self.channel.call(Call::from(call)),
            Err(status) => Err(status),
        }
    }

    /// Makes the call that has the end of what it enters told by the key that it names, and blocks
    /// until that.
    fn sleep_for(
        self: &Arc<Notices>,
        call: impl FnOnce(SlotKey, bool) -> OwnMessage,
    ) -> Result<SlotKey, Status> {
        if !self.channel.wakes_sleepers() {
            return self.sleep_by_bell(|key| call(key, true));
        }
        let key = self.take(None)?;
        let result = self.channel.call(call(key, false)).and_then(|()| self.sleep(key));
        if result == Err(Status::CANCELLED) {
            let _: Result<(), Status> = self.channel.call(OwnMessage::CancelWait { key });
        }
        self.release(key);
        result.map(|()| key)
    }

    /// As [`Notices::sleep_for`], where the service wakes only the thread that serves events.
    fn sleep_by_bell(
        self: &Arc<Notices>,
        call: impl FnOnce(SlotKey) -> OwnMessage,
    ) -> Result<SlotKey, Status> {
        let over = self.platform.event(true);
        let wait = self.announce(WaitNotice::Event(over.clone()), call)?;
        if over.wait() == WaitEnd::Stopped {
            wait.cancel();
            return Err(Status::CANCELLED);
        }
        // The end of the connection ends all waits.
        if self.channel.is_lost() { Err(Status::DEVICE_REMOVED) } else { Ok(wait.key) }
    }

    fn sleep(&self, key: SlotKey) -> Result<(), Status> {
        let word = self.page.word(key.slot as usize);
        loop {
            match word.load() {
                LOST => return Err(Status::DEVICE_REMOVED),
                // The call that registered this wait found the connection open after the word was
                // armed, so the thread that ends all waits finds it armed.
                value if value == armed(key) => {}
                _ => return Ok(()),
            }
            let what = "a fence of a service";
            if word.wait_while(armed(key) as u32, None, what) == WaitEnd::Stopped {
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
        self.announce(notice, |key| {
            let fences = fences.to_vec();
            OwnMessage::RegisterWait { fences, mode, key, announced: true }
        })
    }

    /// Makes the call that has `notice` given at the end of what it enters, by the key that it
    /// names.
    ///
    /// # Errors
    /// As [`Notices::register`].
    pub(super) fn announce<M: Into<Message>>(
        self: &Arc<Notices>,
        notice: WaitNotice,
        call: impl FnOnce(SlotKey) -> M,
    ) -> Result<Wait, Status> {
        let key = self.take(Some(notice))?;
        match self.channel.call(call(key)) {
            Ok(()) => {
                // What was over at once.
                self.give_due();
                Ok(Wait { notices: self.clone(), key })
            }
            Err(status) => {
                let _not_given = self.waits.lock().take_notice(key);
                Err(status)
            }
        }
    }
}

/// A registered wait. Its slot may have a later wait when it is over.
pub(super) struct Wait {
    notices: Arc<Notices>,
    key: SlotKey,
}

impl RegisteredWait for Wait {
    fn is_over(&self) -> bool {
        !self.notices.waits.lock().announced.contains_key(&self.key)
    }

    fn cancel(&self) {
        let notices = &self.notices;
        if notices.waits.lock_device().take_notice(self.key).is_none() {
            return;
        }
        let cancel = OwnMessage::CancelWait { key: self.key };
        let _: Result<(), Status> = notices.channel.call(cancel);
    }
}
