//! The guaranteed share of a band, measured in work that the engine has done.
//!
//! While the engine runs other bands, a waiting band is owed that time. Its own time pays the debt
//! back at 9 (NORMAL) or 99 (IDLE) times the rate. At 9 or 99 quanta the band is lifted, until the
//! debt is paid: after one quantum of work. A packet that was only submitted, or that was preempted
//! at once, pays for what it ran.
//!
//! Invariants: the debt stays below its limit, so a lift is at most a quantum of work. It outlasts
//! the moments in which the band wants nothing, since a band whose packets are followed by signals
//! has such a moment after each packet.

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

/// What a band is owed.
#[derive(Default)]
pub(crate) struct Share {
    owed_ns: u64,
    lifted: bool,
}

impl Share {
    /// Counts time of other bands during which the band waited.
    pub(crate) fn waited(&mut self, priority: Priority, spent_ns: u64, quantum_ns: u64) {
        let Some(quanta) = quanta_of_others(priority) else { return };
        let limit_ns = quantum_ns.saturating_mul(quanta);
        // The debt is kept when the quantum gets shorter.
        let most_ns = limit_ns.max(self.owed_ns);
        self.owed_ns = self.owed_ns.saturating_add(spent_ns).min(most_ns);
        self.lifted |= self.owed_ns >= limit_ns;
    }

    /// Counts time of the band.
    pub(crate) fn served(&mut self, priority: Priority, spent_ns: u64) {
        let Some(quanta) = quanta_of_others(priority) else { return };
        self.owed_ns = self.owed_ns.saturating_sub(spent_ns.saturating_mul(quanta));
        self.lifted &= self.owed_ns > 0;
    }

    pub(crate) fn is_lifted(&self) -> bool {
        self.lifted
    }

    /// Returns the debt if the band is lifted.
    pub(crate) fn lifted_owed_ns(&self) -> Option<u64> {
        self.lifted.then_some(self.owed_ns)
    }

    /// Returns the further time of other bands after which the band is lifted.
    pub(crate) fn lift_begins_after_ns(&self, priority: Priority, quantum_ns: u64) -> Option<u64> {
        let limit_ns = quantum_ns.saturating_mul(quanta_of_others(priority)?);
        (!self.lifted).then(|| limit_ns.saturating_sub(self.owed_ns))
    }

    /// Returns the further time of the band after which its lift ends.
    pub(crate) fn lift_ends_after_ns(&self, priority: Priority) -> Option<u64> {
        let quanta = quanta_of_others(priority)?;
        self.lifted.then(|| self.owed_ns.div_ceil(quanta))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debt_outlasts_a_shorter_quantum_and_is_paid_in_full() {
        let mut share = Share::default();
        share.waited(Priority::Normal, 5_000, 100);
        assert_eq!(share.lifted_owed_ns(), Some(900), "nine quanta");
        share.waited(Priority::Normal, 50, 10);
        assert_eq!((share.owed_ns, share.is_lifted()), (900, true));
        share.served(Priority::Normal, 99);
        assert_eq!((share.owed_ns, share.lift_ends_after_ns(Priority::Normal)), (9, Some(1)));
        let mut share = Share::default();
        share.waited(Priority::Normal, 95, 10);
        assert_eq!((share.owed_ns, share.lift_ends_after_ns(Priority::Normal)), (90, Some(10)));
        share.served(Priority::Normal, 9);
        share.waited(Priority::Normal, 1, 10);
        assert_eq!(share.lift_ends_after_ns(Priority::Normal), Some(2), "10 at 9 a nanosecond");
        share.served(Priority::Normal, 1);
        assert!(share.is_lifted());
        share.served(Priority::Normal, 1);
        assert!(!share.is_lifted());
    }
}
