//! The share of the machine that other programs use while a row is measured.
//!
//! The kernel counts busy time in ticks of 10 ms for each processor. The bench's own time
//! is subtracted. A row of a few milliseconds has a coarse share.

use std::fs;
use tidegate::Platform;
use tidegate::platform::os::process_cpu_ns;

const TICK_NS: u64 = 10_000_000;

/// Times of the machine and of the bench, at one moment.
pub(crate) struct Others {
    clock: Platform,
    start_ns: u64,
    processors: u64,
    busy_ticks: u64,
    own_ns: u64,
}

impl Others {
    /// Starts the measurement.
    pub(crate) fn start() -> Others {
        let clock = Platform::host();
        let (busy_ticks, processors) = busy(&read("/proc/stat"));
        Others { start_ns: clock.now().0, clock, processors, busy_ticks, own_ns: process_cpu_ns() }
    }

    /// Returns the share of all processors since the start, from 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        let (busy_ticks, _) = busy(&read("/proc/stat"));
        let busy_ns = busy_ticks.saturating_sub(self.busy_ticks) * TICK_NS;
        let own_ns = process_cpu_ns().saturating_sub(self.own_ns);
        let took_ns = self.clock.now().0 - self.start_ns;
        let all_ns = (took_ns * self.processors).max(TICK_NS);
        (busy_ns.saturating_sub(own_ns) as f64 / all_ns as f64).min(1.0)
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Ticks that all processors were busy, time stolen by the host included, and their number.
fn busy(stat: &str) -> (u64, u64) {
    const IDLE: [usize; 2] = [3, 4];
    /// The columns after these are the times of guests, which the first columns contain.
    const COLUMNS: usize = 8;
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or("");
    let columns = line.split_whitespace().take(COLUMNS).enumerate();
    let ticks = columns
        .filter(|(column, _)| !IDLE.contains(column))
        .filter_map(|(_, ticks)| ticks.parse::<u64>().ok())
        .sum();
    let is_processor = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    (ticks, stat.lines().filter(is_processor).count() as u64)
}

/// CPU time of a process and its threads, in whole ticks.
pub fn process_ns(process: u32) -> u64 {
    let stat = read(&format!("/proc/{process}/stat"));
    // The name may contain spaces; it ends with the last parenthesis.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    const USER_AND_SYSTEM: [usize; 2] = [11, 12];
    let columns: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = USER_AND_SYSTEM.iter().filter_map(|at| columns.get(*at)?.parse::<u64>().ok());
    ticks.sum::<u64>() * TICK_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_is_all_but_idle_time() {
        let stat = "cpu  10 2 3 400 50 6 7 8 90 0\ncpu0 5 1 1 200 25 3 3 4 45 0\ncpu1 5 1 2 200 25 3 4 4 45 0\nctxt 9\n";
        assert_eq!(busy(stat), (36, 2));
        assert_eq!(busy(""), (0, 0));
    }

    #[test]
    fn a_share_is_between_nothing_and_all() {
        let share = Others::start().share();
        assert!((0.0..=1.0).contains(&share), "{share}");
    }
}
