//! Timeouts of calls that wait, as NT states them: a number of 100 ns that is an interval from now
//! if it is negative, and else a time of the system's clock since 1 January 1601.
//!
//! Invariant: a time of the system's clock follows that clock when it is set. A wait for it is
//! divided into parts of at most [`PART_NS`], so a change is noticed after that time.
//!
//! Entry points: [`Timeout::begin`], [`Timeout::next`].

use tidegate_platform::{CpuTime, Platform};

/// Nanoseconds of the unit.
const UNIT_NS: u64 = 100;
/// Units from 1 January 1601 to 1 January 1970.
const UNITS_TO_1970: u64 = 11_644_473_600 * 10_000_000;
/// The longest part of a wait for a time of the system's clock.
const PART_NS: u64 = 1_000_000_000;

/// When a call that waits gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeout {
    /// Never.
    None,
    /// At this time of the machine's clock, which nothing sets.
    At(CpuTime),
    /// When the system's clock reads so many nanoseconds since 1970.
    AtSystemTime(u64),
}

/// What a call may do that has found nothing yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Wait without a limit.
    Wait,
    /// Wait until then, and ask again.
    WaitUntil(CpuTime),
    /// Return: the time is over.
    Expired,
}

impl Timeout {
    /// The timeout of a call that begins now. `None` is a call without a limit.
    pub(crate) fn begin(platform: &Platform, units: Option<i64>) -> Timeout {
        match units {
            None => Timeout::None,
            Some(units @ 1..) => {
                let since_1970 = units.unsigned_abs().saturating_sub(UNITS_TO_1970);
                Timeout::AtSystemTime(since_1970.saturating_mul(UNIT_NS))
            }
            Some(units) => {
                let ns = units.unsigned_abs().saturating_mul(UNIT_NS);
                Timeout::At(platform.now().after(ns))
            }
        }
    }

    /// Decides what follows an attempt that found nothing.
    pub(crate) fn next(self, platform: &Platform) -> Next {
        match self {
            Timeout::None => Next::Wait,
            Timeout::At(deadline) if platform.now() >= deadline => Next::Expired,
            Timeout::At(deadline) => Next::WaitUntil(deadline),
            Timeout::AtSystemTime(ns) => match ns.saturating_sub(platform.system_time_ns()) {
                0 => Next::Expired,
                left => Next::WaitUntil(platform.now().after(left.min(PART_NS))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_platform::StepCosts;

    /// The time of the system's clock `ns` from now.
    fn system_time(platform: &Platform, ns: u64) -> i64 {
        let since_1970 = (platform.system_time_ns() + ns) / UNIT_NS;
        (since_1970 + UNITS_TO_1970).cast_signed()
    }

    #[test]
    fn a_timeout_ends_at_its_time_and_no_sooner() {
        let platform = Platform::virtual_time(StepCosts::free());
        let own = platform.clone();
        platform.run(move || {
            let begin = |units| Timeout::begin(&own, Some(units));
            assert_eq!(Timeout::begin(&own, None).next(&own), Next::Wait);
            let expired = [0, 1, UNITS_TO_1970.cast_signed()];
            assert_eq!(expired.map(|units| begin(units).next(&own)), [Next::Expired; 3]);
            own.busy(1_000);
            let start = own.now();
            for timeout in [begin(-5), begin(system_time(&own, 500))] {
                assert_eq!(timeout.next(&own), Next::WaitUntil(start.after(500)));
            }
            let (interval, time) = (begin(-5), begin(system_time(&own, 500)));
            own.busy(499);
            assert_eq!(interval.next(&own), Next::WaitUntil(start.after(500)));
            assert_eq!(time.next(&own), Next::WaitUntil(start.after(500)));
            own.busy(1);
            assert_eq!([interval, time].map(|timeout| timeout.next(&own)), [Next::Expired; 2]);
        });
    }

    #[test]
    fn a_long_wait_for_a_time_asks_again_and_no_number_overflows() {
        let platform = Platform::virtual_time(StepCosts::free());
        let own = platform.clone();
        platform.run(move || {
            let now = own.now();
            let far = Timeout::begin(&own, Some(system_time(&own, 3 * PART_NS)));
            assert_eq!(far.next(&own), Next::WaitUntil(now.after(PART_NS)));
            let last = Timeout::begin(&own, Some(i64::MAX));
            assert_eq!(last.next(&own), Next::WaitUntil(now.after(PART_NS)));
            assert!(matches!(Timeout::begin(&own, Some(i64::MIN)), Timeout::At(end) if end > now));
        });
    }
}
