//! The right to carry out effects. A single agent holds it, so submissions reach the driver in the
//! order in which they were decided.
//!
//! Invariant: while an agent waits for the right, no effect is decided before the handoff.

use std::collections::VecDeque;

/// A waiter for the right. The caller chooses the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaiterId(pub u64);

#[derive(Debug, Default)]
pub(crate) struct SubmissionRight {
    held: bool,
    waiters: VecDeque<WaiterId>,
}

impl SubmissionRight {
    /// Takes the right. Returns `false` while an agent holds it; that agent also handles all work
    /// queued before this call.
    pub(crate) fn try_take(&mut self) -> bool {
        !std::mem::replace(&mut self.held, true)
    }

    pub(crate) fn release(&mut self) {
        self.held = false;
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    /// Registers a waiter, to which the holder hands off the right.
    pub(crate) fn wait(&mut self, waiter: WaiterId) {
        self.waiters.push_back(waiter);
    }

    /// Cancels a wait. Returns `false` if the waiter holds the right already.
    pub(crate) fn cancel_wait(&mut self, waiter: WaiterId) -> bool {
        let before = self.waiters.len();
        self.waiters.retain(|other| *other != waiter);
        self.waiters.len() < before
    }

    pub(crate) fn has_waiter(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// Hands off a released right to the first waiter.
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
