//! The right to carry effects out: one agent holds it at a time, so that submissions reach the
//! driver in the order in which they were decided.
//!
//! Invariant: an agent that waits for the right receives it before any further effect is decided.

use std::collections::VecDeque;

/// An agent that waits for the right; the caller chooses the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaiterId(pub u64);

#[derive(Debug, Default)]
pub(crate) struct SubmissionRight {
    held: bool,
    waiters: VecDeque<WaiterId>,
}

impl SubmissionRight {
    /// Takes the right; `false` while an agent holds it. That agent sees what was queued before
    /// this call.
    pub(crate) fn try_take(&mut self) -> bool {
        !std::mem::replace(&mut self.held, true)
    }

    pub(crate) fn release(&mut self) {
        self.held = false;
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// The holder gives the right to this waiter at its next release.
    pub(crate) fn wait(&mut self, waiter: WaiterId) {
        self.waiters.push_back(waiter);
    }

    /// Ends a wait; `false` when the waiter holds the right already.
    pub(crate) fn cancel_wait(&mut self, waiter: WaiterId) -> bool {
        let before = self.waiters.len();
        self.waiters.retain(|other| *other != waiter);
        self.waiters.len() < before
    }

    pub(crate) fn has_waiter(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// Gives a released right to the first waiter.
    pub(crate) fn hand_off(&mut self) -> Option<WaiterId> {
        if self.held {
            return None;
        }
        let waiter = self.waiters.pop_front()?;
        self.held = true;
        Some(waiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_agent_holds_the_right_and_waiters_receive_it_in_order() {
        let mut right = SubmissionRight::default();
        assert!(right.try_take() && !right.try_take() && right.is_held());
        (1..=3).for_each(|waiter| right.wait(WaiterId(waiter)));
        assert_eq!(right.hand_off(), None, "it is held");
        assert!(right.cancel_wait(WaiterId(2)) && !right.cancel_wait(WaiterId(2)));
        right.release();
        assert_eq!(right.hand_off(), Some(WaiterId(1)));
        assert!(!right.try_take() && !right.cancel_wait(WaiterId(1)), "waiter 1 holds it");
        right.release();
        assert_eq!(right.hand_off(), Some(WaiterId(3)));
        right.release();
        assert!(!right.has_waiter() && right.hand_off().is_none() && right.try_take());
    }
}
