//! Values of fences whose storage holds only the low half, for GPUs without 64-bit atomics.
//!
//! - The value is the one with the stored low half that is nearest to a recent value. This is right
//!   while every wait and signal lies within [`WINDOW`] of the last signalled value, which the
//!   kernel ensures. The window is published; the formula is not.
//! - In the mapping, the upper half of such a word is 0. A fence that ended reads as the maximum.

/// Largest distance of a wait or a signal from the value signalled last (UINT_MAX / 2).
pub const WINDOW: u64 = 0x7FFF_FFFF;

/// Returns the value with the low half `low` that is nearest to `known`, a recent value.
// spec: MF-018
pub fn follow(known: u64, low: u32) -> u64 {
    let distance = i64::from(low.wrapping_sub(known as u32) as i32);
    // At the ends of the 64 bits only one neighbour exists.
    let other_way = if distance < 0 { distance + (1 << 32) } else { distance - (1 << 32) };
    known.checked_add_signed(distance).unwrap_or_else(|| known.wrapping_add_signed(other_way))
}

/// Whether a wait or a signal may have `value` if the value signalled last is `known`.
pub fn in_window(known: u64, value: u64) -> bool {
    known.abs_diff(value) <= WINDOW
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: MF-018
    #[test]
    fn the_low_half_is_followed_through_its_wrap_both_ways() {
        assert_eq!(follow(0x1_FFFF_FFF0, 5), 0x2_0000_0005);
        assert_eq!(follow(0x2_0000_0005, 0xFFFF_FFF0), 0x1_FFFF_FFF0, "a rewind");
        assert_eq!(follow(7, 7), 7);
        assert_eq!(follow(0xFFFF_FFFF, 0), 1 << 32);
    }

    #[test]
    fn every_value_in_the_window_is_found_again() {
        for known in [
            0,
            1,
            WINDOW,
            1 << 31,
            (1 << 32) - 1,
            1 << 32,
            0x1234_5678_9ABC_DEF0,
            u64::MAX - 1,
            u64::MAX,
        ] {
            for distance in [0, 1, 2, 1000, WINDOW - 1, WINDOW] {
                for value in
                    [known.checked_add(distance), known.checked_sub(distance)].into_iter().flatten()
                {
                    assert!(in_window(known, value));
                    assert_eq!(follow(known, value as u32), value, "{known:#x} to {value:#x}");
                }
            }
        }
    }

    #[test]
    fn the_ends_of_the_64_bits_have_no_neighbour_beyond_them() {
        assert_eq!(follow(3, 0xFFFF_FFFE), 0xFFFF_FFFE);
        assert_eq!(follow(u64::MAX - 1, 5), 0xFFFF_FFFF_0000_0005);
    }

    // spec: MF-019
    #[test]
    fn the_window_is_half_of_32_bits_to_both_sides() {
        assert!(in_window(1 << 40, (1 << 40) + WINDOW) && in_window(1 << 40, (1 << 40) - WINDOW));
        assert!(
            !in_window(1 << 40, (1 << 40) + WINDOW + 1)
                && !in_window(1 << 40, (1 << 40) - WINDOW - 1)
        );
        assert!(!in_window(0, u64::MAX));
    }
}
