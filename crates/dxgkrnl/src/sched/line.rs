//! Owns the number line of an engine: submissions and preemption requests take the next number of
//! one line of 32 bits, which wraps. Which of two numbers came first is only known of numbers that
//! are less than half the line apart.

/// Numbers that an engine has given out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FenceLine {
    last: u32,
}

impl FenceLine {
    /// The next number, for a submission or for a request.
    // spec: PRE-021
    pub(super) fn next(&mut self) -> u32 {
        self.last = self.last.wrapping_add(1);
        self.last
    }
}

/// Whether `id` comes after `other` on its line.
pub(super) fn is_after(id: u32, other: u32) -> bool {
    id.wrapping_sub(other).cast_signed() > 0
}

#[cfg(test)]
impl FenceLine {
    /// A line that has given out `last`.
    pub(super) fn behind(last: u32) -> FenceLine {
        FenceLine { last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_wraps_and_keeps_its_order() {
        let mut line = FenceLine::behind(u32::MAX - 1);
        let ids = [line.next(), line.next(), line.next()];
        assert_eq!(ids, [u32::MAX, 0, 1]);
        assert!(
            is_after(0, u32::MAX) && is_after(1, 0) && !is_after(u32::MAX, 1) && !is_after(7, 7)
        );
    }
}
