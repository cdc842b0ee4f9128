//! The share of the machine that other programs use while a row is measured.
//!
//! The kernel counts busy time in ticks of 10 ms for each processor. The time of the bench and of
//! its peers is subtracted. A row of a few milliseconds has a coarse share.

use std::fs;
use tidegate::Platform;
use tidegate::platform::os::process_cpu_ns;

const TICK_NS: u64 = 10_000_000;

/// Times of the machine and of the bench, at one moment.
pub(super) struct Others {
    clock: Platform,
    start_ns: u64,
    processors: u64,
    busy_ticks: u64,
    own_ns: u64,
    peers_ticks: u64,
    peers_process: Option<u32>,
}

impl Others {
    /// Starts the measurement. `peers_process` is the process of the peers.
    pub(super) fn start(peers_process: Option<u32>) -> Others {
        let clock = Platform::host();
        let (busy_ticks, processors) = busy(&read("/proc/stat"));
        Others {
            start_ns: clock.now().0,
            clock,
            processors,
            busy_ticks,
            own_ns: process_cpu_ns(),
            peers_ticks: peers_process.map_or(0, ticks_of),
            peers_process,
        }
    }

    /// Returns the share of all processors since the start, from 0 to 1.
    pub(super) fn share(&self) -> f64 {
        let (busy_ticks, _) = busy(&read("/proc/stat"));
        let peers_ticks = self.peers_process.map_or(0, ticks_of);
        let busy_ns = busy_ticks.saturating_sub(self.busy_ticks) * TICK_NS;
        let own_ns = process_cpu_ns().saturating_sub(self.own_ns)
            + peers_ticks.saturating_sub(self.peers_ticks) * TICK_NS;
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
    /// Behind these columns stand the times of guests, which the first columns contain.
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
pub(super) fn process_ns(process: u32) -> u64 {
    ticks_of(process) * TICK_NS
}

/// Ticks of a process and its threads.
fn ticks_of(process: u32) -> u64 {
    let stat = read(&format!("/proc/{process}/stat"));
    // The name may contain spaces; it ends with the last parenthesis.
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    const USER_AND_SYSTEM: [usize; 2] = [11, 12];
    let columns: Vec<&str> = behind_name.split_whitespace().collect();
    let ticks = USER_AND_SYSTEM.iter().filter_map(|at| columns.get(*at)?.parse::<u64>().ok());
    ticks.sum()
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
    fn a_share_lies_between_nothing_and_all() {
        let share = Others::start(Some(std::process::id())).share();
        assert!((0.0..=1.0).contains(&share), "{share}");
    }
}
