//! The guaranteed share of a band, measured in work that the engine has done.
//!
//! While the engine runs other bands, a waiting band is owed that time. Its own time pays the debt
//! back at 9 (NORMAL) or 99 (IDLE) times the rate. At 9 or 99 quanta the band is lifted for a turn:
//! a quantum of work, or more where turns are longer. What it has beyond its debt is overdrawn, and
//! it waits that much longer for its next turn. A packet that was only submitted, or that was
//! preempted at once, pays for what it ran.
//!
//! Invariants: the debt stays below its limit. It outlasts the moments in which the band wants
//! nothing, since a band whose packets are followed by signals has such a moment after each packet.

use tidegate_ddi::Priority;

/// Returns the quanta of others for each own quantum. `None` for HIGH, which only REALTIME can
/// starve, and for REALTIME.
fn quanta_of_others(priority: Priority) -> Option<u64> {
    match priority {
        Priority::Idle => Some(99),
        Priority::Normal => Some(9),
        Priority::High | Priority::Realtime => None,
    }
}

/// The quantum, and the present length of a turn, which is at least that.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) quantum_ns: u64,
    pub(crate) turn_ns: u64,
}

/// What a band is owed.
#[derive(Default)]
pub(crate) struct Share {
    owed_ns: u64,
    /// What others are owed first.
    overdrawn_ns: u64,
    lifted: bool,
    /// What the band has had while it is lifted.
    had_ns: u64,
}

impl Share {
    /// Counts time of other bands during which the band waited.
    pub(crate) fn waited(&mut self, priority: Priority, spent_ns: u64, turn: Turn) {
        let Some(quanta) = quanta_of_others(priority) else { return };
        let limit_ns = turn.quantum_ns.saturating_mul(quanta);
        let repaid_ns = self.overdrawn_ns.min(spent_ns);
        self.overdrawn_ns -= repaid_ns;
        // The debt is kept when the quantum gets shorter.
        let most_ns = limit_ns.max(self.owed_ns);
        self.owed_ns = self.owed_ns.saturating_add(spent_ns - repaid_ns).min(most_ns);
        if !self.lifted && self.overdrawn_ns == 0 && self.owed_ns >= limit_ns {
            (self.lifted, self.had_ns) = (true, 0);
        }
    }

    /// Counts time of the band.
    pub(crate) fn served(&mut self, priority: Priority, spent_ns: u64, turn: Turn) {
        let Some(quanta) = quanta_of_others(priority) else { return };
        let cost_ns = spent_ns.saturating_mul(quanta);
        let paid_ns = cost_ns.min(self.owed_ns);
        self.owed_ns -= paid_ns;
        if self.lifted {
            self.overdrawn_ns = self.overdrawn_ns.saturating_add(cost_ns - paid_ns);
            self.had_ns = self.had_ns.saturating_add(spent_ns);
            self.lifted = self.owed_ns > 0 || self.had_ns < turn.turn_ns;
        }
    }

    pub(crate) fn is_lifted(&self) -> bool {
        self.lifted
    }

    /// Returns the debt if the band is lifted.
    pub(crate) fn lifted_owed_ns(&self) -> Option<u64> {
        self.lifted.then_some(self.owed_ns)
    }

    /// Returns the further time of other bands after which the band is lifted.
    pub(crate) fn lift_begins_after_ns(&self, priority: Priority, turn: Turn) -> Option<u64> {
        let limit_ns = turn.quantum_ns.saturating_mul(quanta_of_others(priority)?);
        let left_ns = limit_ns.saturating_sub(self.owed_ns);
        (!self.lifted).then(|| left_ns.saturating_add(self.overdrawn_ns))
    }

    /// Returns the further time of the band after which its lift ends.
    pub(crate) fn lift_ends_after_ns(&self, priority: Priority, turn: Turn) -> Option<u64> {
        let quanta = quanta_of_others(priority)?;
        let rest_ns = turn.turn_ns.saturating_sub(self.had_ns);
        self.lifted.then(|| self.owed_ns.div_ceil(quanta).max(rest_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantum(quantum_ns: u64) -> Turn {
        Turn { quantum_ns, turn_ns: quantum_ns }
    }

    #[test]
    fn a_debt_outlasts_a_shorter_quantum_and_is_paid_in_full() {
        let ends = |share: &Share, turn| share.lift_ends_after_ns(Priority::Normal, turn);
        let mut share = Share::default();
        share.waited(Priority::Normal, 5_000, quantum(100));
        assert_eq!(share.lifted_owed_ns(), Some(900), "nine quanta");
        share.waited(Priority::Normal, 50, quantum(10));
        assert_eq!((share.owed_ns, share.is_lifted()), (900, true));
        share.served(Priority::Normal, 99, quantum(10));
        assert_eq!((share.owed_ns, ends(&share, quantum(10))), (9, Some(1)));
        let mut share = Share::default();
        share.waited(Priority::Normal, 95, quantum(10));
        assert_eq!((share.owed_ns, ends(&share, quantum(10))), (90, Some(10)));
        share.served(Priority::Normal, 9, quantum(10));
        share.waited(Priority::Normal, 1, quantum(10));
        assert_eq!(ends(&share, quantum(10)), Some(2), "10 at 9 a nanosecond");
        share.served(Priority::Normal, 1, quantum(10));
        assert!(share.is_lifted());
        share.served(Priority::Normal, 1, quantum(10));
        assert!(!share.is_lifted());
    }

    /// Its turn comes after nine quanta, is as long as turns are, and is paid afterwards.
    #[test]
    fn a_longer_turn_is_overdrawn_and_delays_the_next_one() {
        let (long, band) = (Turn { quantum_ns: 10, turn_ns: 40 }, Priority::Normal);
        let mut share = Share::default();
        assert_eq!(share.lift_begins_after_ns(band, long), Some(90));
        share.waited(band, 90, long);
        assert_eq!(share.lift_ends_after_ns(band, long), Some(40));
        share.served(band, 39, long);
        assert!(share.is_lifted());
        share.served(band, 1, long);
        assert!(!share.is_lifted());
        assert_eq!(share.lift_begins_after_ns(band, long), Some(9 * 40));
        share.waited(band, 9 * 40 - 1, long);
        assert!(!share.is_lifted());
        share.waited(band, 1, long);
        assert!(share.is_lifted());
    }
}
