//! The bounded polling of a thread before it sleeps.
//!
//! Invariants: at most one thread fewer polls than the process has processors, so the threads that
//! could end a wait have one to run on. With one processor no thread polls. Only host threads poll:
//! elsewhere a poll would be a step of the machine and no time would pass.

use crate::os;
use crate::time::CpuTime;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Polls between two readings of the clock. A reading costs more than a poll.
const POLLS_PER_CLOCK: u32 = 16;

/// The threads of the process that poll now.
static POLLING: AtomicUsize = AtomicUsize::new(0);

/// The number of processors on which the process may run.
fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(os::processors)
}

/// The right to poll, until it is dropped.
struct Polling;

impl Polling {
    /// Returns `None` while as many threads poll as may.
    fn begin(processors: usize) -> Option<Polling> {
        // Counted before the comparison, so two threads never take one place.
        let begun = Polling;
        let others = POLLING.fetch_add(1, Ordering::Relaxed);
        (others + 1 < processors).then_some(begun)
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        POLLING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Polls `is_met` for `ns` nanoseconds at most, if a processor is free for it. Returns whether it
/// was met.
pub fn poll_for(ns: u64, now: impl Fn() -> CpuTime, is_met: impl Fn() -> bool) -> bool {
    let Some(_polling) = Polling::begin(processors()) else { return false };
    let end = now().after(ns);
    poll_until(now, end, is_met)
}

fn poll_until(now: impl Fn() -> CpuTime, end: CpuTime, is_met: impl Fn() -> bool) -> bool {
    loop {
        for _ in 0..POLLS_PER_CLOCK {
            if is_met() {
                return true;
            }
            std::hint::spin_loop();
        }
        if now() >= end {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn no_thread_polls_on_the_last_processor() {
        assert!(Polling::begin(1).is_none());
        assert!(Polling::begin(0).is_none());
    }

    #[test]
    fn polling_ends_when_the_condition_is_met_or_the_time_is_over() {
        let (clock, polls) = (Cell::new(0), Cell::new(0));
        let now = || {
            clock.set(clock.get() + 10);
            CpuTime(clock.get())
        };
        let never = || {
            polls.set(polls.get() + 1);
            false
        };
        assert!(!poll_until(now, CpuTime(20), never));
        assert_eq!((clock.get(), polls.get()), (20, 2 * POLLS_PER_CLOCK));
        assert!(poll_until(now, CpuTime(20), || true));
        assert_eq!(clock.get(), 20, "the clock was read");
    }
}
