//! Submission fence IDs of an engine: 32 bits, wrapping. Submissions and requests share a sequence.
//!
//! Invariant: two IDs are comparable only if they are less than half the range apart.

/// The most IDs that are left out at once: less than half the range, with room for the IDs that are
/// given before a driver has seen the last completed one.
const MOST_LEFT_OUT: u32 = u32::MAX / 4;

/// The ID sequence of one engine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FenceIds {
    last: u32,
    /// IDs that are still to be left out.
    ahead: u32,
}

impl FenceIds {
    /// Creates a sequence that leaves out `ahead` IDs after the first call of
    /// [`FenceIds::leave_out`].
    pub(crate) fn new(ahead: u32) -> FenceIds {
        FenceIds { last: 0, ahead }
    }

    /// Leaves out IDs of those that are ahead. Called when the last ID given is complete: a driver
    /// compares the next one with it.
    pub(crate) fn leave_out(&mut self) {
        let left_out = self.ahead.min(MOST_LEFT_OUT);
        self.last = self.last.wrapping_add(left_out);
        self.ahead -= left_out;
    }

    /// Returns the next ID, for a submission or for a preemption request.
    // spec: PRE-021
    pub(crate) fn next(&mut self) -> u32 {
        self.last = self.last.wrapping_add(1);
        self.last
    }
}

/// Whether `id` was assigned after `other`.
pub(crate) fn is_after(id: u32, other: u32) -> bool {
    id.wrapping_sub(other).cast_signed() > 0
}

#[cfg(test)]
impl FenceIds {
    /// Creates a sequence whose last assigned ID is `last`.
    pub(crate) fn after(last: u32) -> FenceIds {
        FenceIds { last, ahead: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_wrap_and_keep_their_order() {
        let mut ids = FenceIds::after(u32::MAX - 1);
        assert_eq!([ids.next(), ids.next(), ids.next()], [u32::MAX, 0, 1]);
        assert!(
            is_after(0, u32::MAX) && is_after(1, 0) && !is_after(u32::MAX, 1) && !is_after(7, 7)
        );
    }

    #[test]
    fn ids_that_are_left_out_keep_the_order_of_the_others() {
        let mut ids = FenceIds::new(u32::MAX - 1);
        let mut given = vec![0];
        for _ in 0..6 {
            ids.leave_out();
            given.push(ids.next());
        }
        assert!(given.is_sorted_by(|first, second| is_after(*second, *first)), "{given:x?}");
        assert_eq!(given[4..], [0, 3, 4]);
    }
}
