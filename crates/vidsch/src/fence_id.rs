//! Submission fence IDs of an engine: 32 bits, wrapping. Submissions and requests share a sequence.
//!
//! Invariant: two IDs are comparable only if they are less than half the range apart.

/// The ID sequence of one engine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FenceIds {
    last: u32,
}

impl FenceIds {
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
        FenceIds { last }
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
}
