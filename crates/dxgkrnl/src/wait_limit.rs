//! Time limits of the kernel's own waits, counted while the process has a processor.
//!
//! A process that is stopped (SIGSTOP, a debugger, a paused virtual machine) has no processor, and
//! neither have its engines and other threads.
//!
//! Invariant: a limit is waited for in parts of an eighth. A part that ends late counts as one
//! part, so a stop uses up an eighth of the limit at most. An explored machine has one part: its
//! time passes only when no agent can run.
//!
//! Entry points: [`WaitLimit`], and [`parts`] for a deadline of the timer.

use tidegate_platform::wait_order::Reason;
use tidegate_platform::{Event, Platform, WaitEnd};

const PARTS: u64 = 8;

/// Returns the number of parts in which a time is counted.
pub(crate) fn parts(platform: &Platform) -> u64 {
    if platform.can_be_stopped() { PARTS } else { 1 }
}

/// The time that one or several waits may take together.
pub(crate) struct WaitLimit {
    platform: Platform,
    part_ns: u64,
    left_ns: u64,
}

impl WaitLimit {
    /// Returns a limit of `ns` nanoseconds.
    pub(crate) fn new(platform: &Platform, ns: u64) -> WaitLimit {
        let part_ns = ns.div_ceil(parts(platform));
        WaitLimit { platform: platform.clone(), part_ns, left_ns: ns }
    }

    /// Blocks until the event is set or the limit is used up.
    pub(crate) fn wait<'a>(
        &mut self,
        event: &Event,
        what: impl Into<Reason<'a>> + Copy,
    ) -> WaitEnd {
        loop {
            let begin = self.platform.now();
            let part_ns = self.part_ns.min(self.left_ns);
            let end = event.wait_for(Some(begin.after(part_ns)), what);
            // spec: PRE-171
            self.left_ns -= self.platform.now().since(begin).min(part_ns);
            if end != WaitEnd::TimedOut || self.left_ns == 0 {
                return end;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_platform::{CpuTime, Step, StepCosts};

    /// Returns how the waits of a limit of 100 ns end, and when. The process is stopped from 10 ns
    /// to 90 ns, and the event is set at each time.
    fn ends(set_at: [u64; 2]) -> Vec<(WaitEnd, u64)> {
        let platform = Platform::virtual_time(StepCosts::free());
        let mut ends = Vec::new();
        platform.run_scoped(|| {
            let event = platform.event(false);
            let (setter, clock) = (event.clone(), platform.clone());
            let setter = platform.spawn("setter", move || {
                clock.sleep_until(CpuTime(10));
                clock.stop_process(80);
                for at in set_at {
                    clock.sleep_until(CpuTime(at));
                    setter.set(Step::ThreadWake);
                }
            });
            let mut limit = WaitLimit::new(&platform, 100);
            for _ in set_at {
                ends.push((limit.wait(&event, "a test"), platform.now().0));
            }
            setter.join();
        });
        ends
    }

    // spec: PRE-171
    #[test]
    fn a_stop_uses_up_one_part_of_a_limit() {
        // The part that began at 0 ends at 90 ns and counts 13 ns.
        assert_eq!(ends([500, 501])[0], (WaitEnd::TimedOut, 177));
    }

    #[test]
    fn waits_share_a_limit_and_an_event_that_is_set_is_taken_at_its_end() {
        assert_eq!(ends([120, 500]), [(WaitEnd::Woken, 120), (WaitEnd::TimedOut, 177)]);
        assert_eq!(ends([177, 177])[0].1, 177);
    }
}
