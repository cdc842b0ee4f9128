//! The gate of the driver: counts the calls that are inside, and lets one exclusive call in when
//! all others have left.
//!
//! Invariants: one word holds the count and the closed bit, so each side sees the other. A caller
//! counts itself and reads the bit in one step; it steps back while the gate is closed. A caller
//! that leaves a closed gate empty sets `emptied`. A DPC counts itself and passes, since it must
//! not wait. A call from inside the driver passes: the exclusive call waits for it (decision 142).
//!
//! Lock order: a caller that may wait holds no lock that a caller inside can want (`lock_order`).
//!
//! Entry points: [`ThreadGate::enter`], [`ThreadGate::exclusive`] (DDI threading level three).

use crate::wait_classes::{CALLS_LEAVE, END_OF_EXCLUSIVE_CALL};
use crate::wait_limit::WaitLimit;
use tidegate_ddi::Irql;
use tidegate_platform::planted;
use tidegate_platform::{Event, Mutex, Owed, Passage, Platform, Step, WaitEnd, Word};

/// The bit of the word that is set while the gate is closed. The bits below it count callers.
const CLOSED: u64 = 1 << 32;

pub(crate) struct ThreadGate {
    platform: Platform,
    /// `None` on an adapter that makes no exclusive calls.
    word: Option<Word>,
    /// The callers that are inside, by agent, and the gate's place in the lock order.
    passage: Passage,
    /// Set when the gate opens again; `None` while it is open.
    opened: Mutex<Option<Event>>,
    /// Set by the last caller that leaves a closed gate.
    emptied: Event,
    /// Held by the agent of the exclusive call: its own calls pass.
    exclusive: Mutex<()>,
}

/// A call is under way as long as this lives. Empty for a call from inside the driver, which the
/// outer call counts.
pub(crate) struct Inside<'a>(Option<(&'a ThreadGate, Owed)>);

impl ThreadGate {
    pub(crate) fn new(platform: &Platform, counts: bool) -> ThreadGate {
        ThreadGate {
            platform: platform.clone(),
            word: counts.then(|| platform.page(1).word(0).named("the driver's gate")),
            opened: platform.mutex("opening of the driver's gate", None),
            emptied: platform.event(false),
            passage: platform.passage("the driver's gate"),
            exclusive: platform.mutex("exclusive call of the driver", ()),
        }
    }

    /// Enters the driver. Blocks while the gate is closed, but not in a call from inside.
    // spec: PRE-142
    pub(crate) fn enter(&self, level: Irql<'_>) -> Inside<'_> {
        let Some(word) = &self.word else { return Inside(None) };
        let nested = self.passage.is_inside();
        if nested && !planted!(self.platform, NestedCallWaitsAtTheGate) {
            return Inside(None);
        }
        let may_wait = level.passive().is_some();
        self.passage.enter(may_wait && !nested);
        if may_wait && !self.exclusive.is_mine() {
            self.platform.may_wait_for(&END_OF_EXCLUSIVE_CALL);
        }
        loop {
            let closed = word.add_and_test(1, CLOSED);
            if !closed || !may_wait || self.exclusive.is_mine() {
                return Inside(Some((self, self.platform.owe(&CALLS_LEAVE))));
            }
            self.step_out(word);
            let opened = self.opened.lock().clone();
            if opened.is_some_and(|event| {
                event.wait_for(None, &END_OF_EXCLUSIVE_CALL) == WaitEnd::Stopped
            }) {
                self.passage.leave();
                return Inside(None);
            }
        }
    }

    /// Makes `call` when no other call is inside. Returns `None` when a call is still inside after
    /// `timeout_ns`.
    pub(crate) fn exclusive<R>(&self, timeout_ns: u64, call: impl FnOnce() -> R) -> Option<R> {
        let Some(word) = &self.word else { return Some(call()) };
        let _one_at_a_time = self.exclusive.lock_device();
        let _owed = self.platform.owe(&END_OF_EXCLUSIVE_CALL);
        self.platform.may_wait_for(&CALLS_LEAVE);
        let opened = self.platform.event(true);
        *self.opened.lock() = Some(opened.clone());
        word.fetch_add(CLOSED);
        let outcome = self.await_empty(word, timeout_ns).then(call);
        word.fetch_add(CLOSED.wrapping_neg());
        *self.opened.lock() = None;
        opened.set(Step::ThreadWake);
        outcome
    }

    /// Whether the closed gate was seen empty before `timeout_ns` passed. One load decides:
    /// afterwards a caller that meets the closed gate counts itself until it steps back.
    fn await_empty(&self, word: &Word, timeout_ns: u64) -> bool {
        let mut limit = WaitLimit::new(&self.platform, timeout_ns);
        let is_empty = || word.load() == CLOSED;
        // The event may be set from an earlier exclusive call, so the count decides.
        while !is_empty() {
            let end = limit.wait(&self.emptied, &CALLS_LEAVE);
            if end != WaitEnd::Woken {
                return is_empty();
            }
        }
        !planted!(self.platform, GateCountedTwice) || is_empty()
    }

    fn step_out(&self, word: &Word) {
        if word.add_and_test(u64::MAX, CLOSED) && word.load() == CLOSED {
            self.emptied.set(Step::ThreadWake);
        }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if let Some((gate, _owed)) = self.0.take()
            && let Some(word) = &gate.word
        {
            gate.step_out(word);
            gate.passage.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::ControlFlow;
    use std::sync::Arc;
    use tidegate_ddi::Passive;
    use tidegate_explorer::search;
    use tidegate_explorer::strategy::exhaustive::Exhaustive;
    use tidegate_platform::MemoryModel;
    use tidegate_platform::PlantedFault;

    /// In how many schedules an exclusive call is refused though every caller leaves.
    fn refusals(fault: Option<PlantedFault>) -> u64 {
        let mut refused = 0;
        let searched = search(Exhaustive::new(), MemoryModel::TotalStoreOrder, |platform| {
            fault.into_iter().for_each(|fault| platform.plant(fault));
            let outcome = platform.page(1).word(0);
            let (world, refusal) = (platform.clone(), outcome.clone());
            platform.run(move || {
                let gate = Arc::new(ThreadGate::new(&world, true));
                let entered = gate.clone();
                let caller =
                    world.spawn("caller", move || drop(entered.enter((&Passive::enter()).into())));
                let made = gate.exclusive(1_000_000, || ());
                refusal.store(u64::from(made.is_none()));
                caller.join();
            });
            refused += outcome.load();
            ControlFlow::Continue(())
        });
        println!("{} states", searched.states);
        refused
    }

    #[test]
    fn a_caller_that_steps_back_refuses_no_exclusive_call() {
        assert_eq!(refusals(None), 0);
        assert!(refusals(Some(PlantedFault::GateCountedTwice)) > 0);
    }

    #[test]
    fn an_exclusive_call_waits_for_the_last_caller_and_its_own_calls_pass() {
        let platform = Platform::virtual_time(tidegate_platform::StepCosts::free());
        let gate = std::sync::Arc::new(ThreadGate::new(&platform, true));
        let world = platform.clone();
        platform.run(move || {
            let inside = gate.enter((&Passive::enter()).into());
            assert_eq!(gate.exclusive(1_000, || ()), None, "the call did not leave");
            assert_eq!(world.now().0, 1_000);
            let leaver = world.clone();
            world.spawn_worker("leaver", {
                let end = world.now().after(500);
                let holder = gate.clone();
                move || {
                    let inside = holder.enter((&Passive::enter()).into());
                    leaver.sleep_until(end);
                    drop(inside);
                }
            });
            drop(inside);
            world.sleep_until(world.now().after(100));
            let nested = gate.exclusive(1_000, || drop(gate.enter((&Passive::enter()).into())));
            assert_eq!((nested, world.now().0), (Some(()), 1_500));
            assert_eq!(gate.exclusive(0, || ()), Some(()), "a stale event does no harm");
        });
        // The first call waits for its own agent, which is inside, until it times out.
        let circles = platform.take_wait_circles();
        assert_eq!(circles.is_empty(), !cfg!(debug_assertions), "{circles:?}");
    }
}
