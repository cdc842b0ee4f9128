//! The share of NORMAL: what FOCUS owes it while both want the engine.
//!
//! Guarantee: a NORMAL band that always wants the engine gets its percentage p of the common time
//! of FOCUS and NORMAL, within (p·(100−p)·[`FLOOR_WINDOW_NS`]/100 + p·M + (100−p)·M)/100. M is the
//! longest time in which the engine may not leave a queue. REALTIME gives way to no band, and IDLE
//! has no share.

use super::place::FOCUS;

/// FOCUS keeps NORMAL waiting until NORMAL is owed its share of this time. All of it is then paid.
pub(super) const FLOOR_WINDOW_NS: u64 = 10_000_000;

/// The debt to NORMAL, in nanoseconds times a hundred.
#[derive(Default)]
pub(super) struct Floor {
    owed: i128,
    /// Whether the debt is being paid.
    paying: bool,
}

impl Floor {
    // spec: HS-004
    /// Counts time of FOCUS or NORMAL while both want the engine.
    pub(super) fn account(&mut self, band: u32, spent_ns: u64, percent: u32) {
        let (spent, percent) = (i128::from(spent_ns), i128::from(percent));
        self.owed += if band == FOCUS { spent * percent } else { spent * (percent - 100) };
        self.paying = match self.owed {
            owed if owed <= 0 => false,
            owed => self.paying || owed >= full(percent),
        };
    }

    /// Returns whether NORMAL precedes FOCUS until it has caught up.
    pub(super) fn is_paying(&self) -> bool {
        self.paying
    }

    /// Returns the further time of `band`, in nanoseconds, after which it gives way to the other;
    /// `None` for never.
    pub(super) fn turns_after_ns(&self, band: u32, percent: u32) -> Option<u64> {
        let percent = i128::from(percent);
        let left = match (band == FOCUS, self.paying) {
            _ if percent == 0 => return None,
            (true, false) => (full(percent) - self.owed).div_euclid(percent) + 1,
            (false, true) => self.owed.div_euclid(100 - percent) + 1,
            _ => return None,
        };
        Some(u64::try_from(left).unwrap_or(0))
    }
}

/// Returns the debt at which NORMAL is paid.
fn full(percent: i128) -> i128 {
    i128::from(FLOOR_WINDOW_NS) * percent * (100 - percent) / 100
}
