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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::{Bell, Heard, Link};
    use tidegate_calls::RegisteredWait;
    use tidegate_platform::{StepCosts, Word};

    const LIMITS: Limits = Limits {
        objects: 1,
        memory_bytes: 1,
        queues: 1,
        waits: 3,
        wait_fences: 5,
        nt_handles: 1,
        queued: 1,
    };

    /// A wait that is over when its word is 1 and cancelled when its word is 2.
    struct Scripted(Word);

    impl RegisteredWait for Scripted {
        fn is_over(&self) -> bool {
            self.0.load() == 1
        }

        fn cancel(&self) {
            self.0.store(2);
        }
    }

    /// The notices of a client, and the client's end of the connection.
    struct Fixture {
        notices: Notices,
        platform: Platform,
        client: Link,
        _session: Link,
        bell: Bell,
    }

    /// A wait in the kernel.
    struct Entered {
        notice: WaitNotice,
        state: Word,
        platform: Platform,
    }

    impl Entered {
        fn end(&self) {
            self.state.store(1);
            self.notice.give(&self.platform);
        }

        fn is_cancelled(&self) -> bool {
            self.state.load() == 2
        }
    }

    impl Fixture {
        fn new() -> Fixture {
            let platform = Platform::virtual_time(StepCosts::free());
            let (client, session, _) = Link::pair(&platform);
            let bell = session.bell().unwrap();
            let notices = Notices::new(&platform, bell.clone(), &LIMITS);
            Fixture { notices, platform, client, _session: session, bell }
        }

        fn try_register(&mut self, key: SlotKey, fences: usize) -> Result<Entered, Status> {
            let (platform, state) = (self.platform.clone(), self.platform.page(1).word(0));
            let mut entered = None;
            self.notices.register(key, true, fences, |notice| {
                entered = Some(Entered { notice, state: state.clone(), platform });
                Ok(CpuWaitRegistration::new(Scripted(state)))
            })?;
            Ok(entered.unwrap())
        }

        fn register(&mut self, key: SlotKey, fences: usize) -> Entered {
            self.try_register(key, fences).unwrap()
        }

        fn word(&self, slot: usize) -> u64 {
            self.notices.page.load(slot)
        }

        /// Takes a ring. Without one it ends the connection, which is heard then.
        fn takes_ring(&self) -> bool {
            let Bell::Word(word) = &self.bell else { panic!("the bell of queues is a word") };
            let rung = word.load() == 1;
            rung && self.client.wait_for(&self.bell) == Heard::Bell
        }
    }

    fn key(slot: u32, generation: u64) -> SlotKey {
        SlotKey { slot, generation }
    }

    #[test]
    fn the_end_of_a_wait_is_in_the_word_of_its_slot_and_rings() {
        let mut client = Fixture::new();
        let wait = client.register(key(2, 9), 1);
        assert_eq!((client.word(2), client.takes_ring()), (18, false), "twice the generation");
        wait.end();
        assert_eq!((client.word(2), client.takes_ring()), (19, true), "odd");
        assert_eq!((client.word(0), client.word(1)), (0, 0));
    }

    #[test]
    fn a_client_that_sleeps_on_the_word_is_not_rung_for() {
        let mut client = Fixture::new();
        client.notices.notice(key(0, 0), false).unwrap().give(&client.platform);
        assert_eq!((client.word(0), client.takes_ring()), (1, false));
        client.notices.notice(key(0, 1), true).unwrap().give(&client.platform);
        assert_eq!((client.word(0), client.takes_ring()), (3, true));
    }

    #[test]
    fn there_are_as_many_slots_as_waits() {
        let mut client = Fixture::new();
        let _last = client.register(key(2, 0), 1);
        for slot in [3, u32::MAX] {
            let refused = client.try_register(key(slot, 0), 1).map(drop);
            assert_eq!(refused, Err(Status::INVALID_PARAMETER), "{slot}");
        }
    }

    #[test]
    fn a_late_end_leaves_the_next_use_of_its_slot() {
        let mut client = Fixture::new();
        let first = client.register(key(1, 4), 1);
        let second = client.register(key(1, 5), 1);
        assert!(first.is_cancelled() && !second.is_cancelled());
        first.notice.give(&client.platform);
        assert_eq!(client.word(1), 10, "the second wait is still armed");
        second.end();
        assert_eq!(client.word(1), 11);
    }

    #[test]
    fn a_wait_is_cancelled_by_slot_and_generation() {
        let mut client = Fixture::new();
        let (one, other) = (client.register(key(0, 7), 1), client.register(key(1, 7), 1));
        for of_another in [key(0, 6), key(0, 8), key(2, 7)] {
            client.notices.cancel(of_another);
        }
        assert!(!one.is_cancelled() && !other.is_cancelled());
        client.notices.cancel(key(0, 7));
        assert!(one.is_cancelled() && !other.is_cancelled());
        client.notices.cancel_all();
        assert!(other.is_cancelled());
    }

    #[test]
    fn registered_waits_have_at_most_so_many_fences() {
        let mut client = Fixture::new();
        let refusal = Some(Status::INSUFFICIENT_RESOURCES);
        assert_eq!(client.try_register(key(0, 0), 6).err(), refusal);
        let three = client.register(key(0, 2), 3);
        assert_eq!(client.try_register(key(1, 0), 3).err(), refusal);
        let _two = client.register(key(1, 1), 2);
        assert_eq!(client.try_register(key(2, 0), 1).err(), refusal);
        // The room of a wait that is over is used before its client cancels it.
        three.end();
        let again = client.register(key(2, 1), 3);
        assert_eq!(client.try_register(key(0, 3), 1).err(), refusal);
        client.notices.cancel(key(2, 1));
        assert!(again.is_cancelled());
        let _three = client.register(key(2, 2), 3);
        client.notices.cancel_all();
        let _five = client.register(key(0, 4), 5);
    }

    #[test]
    fn a_word_that_the_client_has_stored_to_frees_no_room() {
        let mut client = Fixture::new();
        let _five = client.register(key(0, 0), 5);
        client.notices.page.store(0, over(key(0, 0)));
        let refused = client.try_register(key(1, 0), 1).err();
        assert_eq!(refused, Some(Status::INSUFFICIENT_RESOURCES));
    }

    #[test]
    fn a_wait_that_the_kernel_refuses_takes_no_room_and_its_slot_is_free() {
        let mut client = Fixture::new();
        let former = client.register(key(0, 0), 1);
        let refuse = |_| Err(Status::ACCESS_DENIED);
        let refused = client.notices.register(key(0, 1), true, 5, refuse);
        assert_eq!(refused, Err(Status::ACCESS_DENIED));
        assert!(former.is_cancelled());
        let _five = client.register(key(0, 2), 5);
    }
}
