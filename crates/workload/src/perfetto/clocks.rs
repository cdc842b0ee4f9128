//! Converts the clocks of a Perfetto trace to the clock of the trace.
//!
//! Invariants: the snapshot before a time, or the first snapshot, relates a clock to the clock of
//! the trace. Clocks 64 to 127 belong to a sequence; larger numbers are global. A built-in clock
//! without a snapshot runs with the trace's clock. Entry points: [`Clocks::snapshot`],
//! [`Clocks::time`].

use std::collections::HashMap;

use tidegate_trace::perfetto::wire::Fields;

/// `BUILTIN_CLOCK_BOOTTIME`, the default of a trace.
const BOOTTIME: u64 = 6;
/// The first number of a clock of a sequence.
const FIRST_OWN: u64 = 64;
/// The first number of a global clock that is not built in.
const FIRST_GLOBAL: u64 = 128;

/// A clock: its sequence, or 0 for a global clock, and its number.
type Key = (u64, u64);

#[derive(Default)]
struct Clock {
    /// (time of this clock, time of the trace), rising.
    ties: Vec<(i64, i64)>,
    /// Times are differences from the previous time.
    incremental: bool,
    /// Nanoseconds of a tick.
    multiplier: i64,
    last: i64,
}

#[derive(Default)]
pub struct Clocks(HashMap<Key, Clock>);

fn key(sequence: u64, clock: u64) -> Key {
    ((if (FIRST_OWN..FIRST_GLOBAL).contains(&clock) { sequence } else { 0 }), clock)
}

impl Clocks {
    /// Reads a `ClockSnapshot`.
    pub fn snapshot(&mut self, sequence: u64, message: &[u8]) {
        let (mut read, mut primary) = (Vec::new(), BOOTTIME);
        for (field, value) in Fields::of(message).flatten() {
            match field {
                1 => {
                    let (mut id, mut at, mut incremental, mut multiplier) = (0, 0, false, 1);
                    for (field, value) in Fields::of(value.bytes()).flatten() {
                        match field {
                            1 => id = value.number(),
                            2 => at = i64::try_from(value.number()).unwrap_or(i64::MAX),
                            3 => incremental = value.number() != 0,
                            4 => multiplier = i64::try_from(value.number()).unwrap_or(1).max(1),
                            _ => {}
                        }
                    }
                    read.push((id, at, incremental, multiplier));
                }
                2 => primary = value.number(),
                _ => {}
            }
        }
        let Some((_, trace, ..)) = read.iter().find(|(id, ..)| *id == primary).copied() else {
            return;
        };
        for (id, at, incremental, multiplier) in read {
            let clock = self.0.entry(key(sequence, id)).or_default();
            (clock.incremental, clock.multiplier, clock.last) = (incremental, multiplier, at);
            let at = at.saturating_mul(multiplier);
            if clock.ties.last().is_none_or(|(last, _)| *last <= at) {
                clock.ties.push((at, trace));
            }
        }
    }

    /// Converts to the trace's time; `None` for a clock without a snapshot that is not built in.
    pub fn time(&mut self, sequence: u64, clock: u64, at: u64) -> Option<i64> {
        let at = i64::try_from(at).ok()?;
        let Some(tied) = self.0.get_mut(&key(sequence, clock)) else {
            return (clock < FIRST_OWN).then_some(at);
        };
        let at = if tied.incremental { tied.last.checked_add(at)? } else { at };
        tied.last = at;
        if clock == BOOTTIME {
            return Some(at);
        }
        let at = at.checked_mul(tied.multiplier)?;
        let after = tied.ties.partition_point(|(from, _)| *from <= at);
        let (from, trace) = tied.ties[after.saturating_sub(1)];
        trace.checked_add(at.checked_sub(from)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(clocks: &[(u8, u8)]) -> Vec<u8> {
        clocks.iter().flat_map(|(id, at)| [0x0a, 4, 0x08, *id, 0x10, *at]).collect()
    }

    #[test]
    fn the_snapshot_before_a_time_ties_it() {
        let mut clocks = Clocks::default();
        clocks.snapshot(5, &snapshot(&[(6, 100), (64, 10)]));
        clocks.snapshot(5, &snapshot(&[(6, 120), (64, 20)]));
        assert_eq!(clocks.time(5, 64, 12), Some(102));
        assert_eq!(clocks.time(5, 64, 20), Some(120), "in the moment of the second");
        assert_eq!(clocks.time(5, 64, 21), Some(121));
        assert_eq!(clocks.time(5, 64, 4), Some(94), "before the first");
        assert_eq!(clocks.time(9, 64, 21), None, "another sequence's clock");
        assert_eq!((clocks.time(9, 6, 21), clocks.time(9, 3, 21)), (Some(21), Some(21)));
        assert_eq!(clocks.time(5, 64, u64::MAX), None);
    }

    #[test]
    fn clocks_are_of_a_sequence_up_to_127_and_of_all_from_128() {
        let mut clocks = Clocks::default();
        let mut message = snapshot(&[(6, 100), (127, 10)]);
        // 128 takes two bytes.
        message.extend([0x0a, 5, 0x08, 0x80, 0x01, 0x10, 10]);
        clocks.snapshot(5, &message);
        let of = |clocks: &mut Clocks, sequence| [127, 128].map(|id| clocks.time(sequence, id, 12));
        assert_eq!(of(&mut clocks, 5), [Some(102), Some(102)]);
        assert_eq!(of(&mut clocks, 9), [None, Some(102)]);
    }

    /// A snapshot of the trace's clock at `trace`, and of clock 64 with more fields.
    fn snapshot_of_64(trace: u8, at: u8, fields: &[u8]) -> Vec<u8> {
        let length = u8::try_from(4 + fields.len()).unwrap();
        let mut message = snapshot(&[(6, trace)]);
        message.extend([0x0a, length, 0x08, 64, 0x10, at]);
        message.extend(fields);
        message
    }

    /// The field that says how many nanoseconds a tick has.
    const MULTIPLIER: u8 = 0x20;
    const INCREMENTAL: u8 = 0x18;

    #[test]
    fn the_ticks_of_a_clock_are_multiplied_in_its_snapshots_too() {
        let mut clocks = Clocks::default();
        clocks.snapshot(5, &snapshot_of_64(50, 10, &[MULTIPLIER, 100]));
        // Tick 10 is 50 ns of the trace, and each further tick takes 100 ns.
        assert_eq!(clocks.time(5, 64, 10), Some(50));
        assert_eq!(clocks.time(5, 64, 12), Some(250));
        assert_eq!(clocks.time(5, 64, 9), Some(-50));
        // A second snapshot corrects the clock: tick 11 is 60 ns of the trace.
        clocks.snapshot(5, &snapshot_of_64(60, 11, &[MULTIPLIER, 100]));
        assert_eq!(clocks.time(5, 64, 10), Some(50), "by the first snapshot");
        assert_eq!(clocks.time(5, 64, 12), Some(160), "by the second");
    }

    #[test]
    fn differences_of_ticks_are_multiplied() {
        let mut clocks = Clocks::default();
        clocks.snapshot(5, &snapshot_of_64(50, 10, &[INCREMENTAL, 1, MULTIPLIER, 10]));
        // Two ticks after the snapshot, then three more.
        assert_eq!(clocks.time(5, 64, 2), Some(70));
        assert_eq!(clocks.time(5, 64, 3), Some(100));
    }

    #[test]
    fn a_multiplier_of_0_is_1() {
        let mut clocks = Clocks::default();
        clocks.snapshot(5, &snapshot_of_64(50, 10, &[MULTIPLIER, 0]));
        assert_eq!(clocks.time(5, 64, 12), Some(52));
    }
}
