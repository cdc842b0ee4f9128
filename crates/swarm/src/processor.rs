//! How long the threads of a run have waited for a processor, as the scheduler of the system
//! counts it: a run beside other programs may be slow without standing still.
//!
//! Entry points: [`Waiting`], [`tasks`].

use std::collections::BTreeMap;
use std::path::Path;

/// The time that each thread has waited for a processor while it could run, in nanoseconds.
#[derive(Default)]
pub(crate) struct Waiting {
    of_threads: BTreeMap<u32, u64>,
}

impl Waiting {
    /// Looks at the threads of these processes. Returns the longest that one of them has waited
    /// since the last look, in nanoseconds.
    pub(crate) fn since_last_look(&mut self, processes: &[u32]) -> u64 {
        let now: BTreeMap<u32, u64> = processes.iter().flat_map(|id| threads_of(*id)).collect();
        let before = std::mem::replace(&mut self.of_threads, now);
        longest(&before, &self.of_threads)
    }
}

/// A thread that was not there before counts from its start.
fn longest(before: &BTreeMap<u32, u64>, now: &BTreeMap<u32, u64>) -> u64 {
    let of_thread = |(thread, waited): (&u32, &u64)| {
        waited.saturating_sub(before.get(thread).copied().unwrap_or(0))
    };
    now.iter().map(of_thread).max().unwrap_or(0)
}

/// The folders of the threads of a process. Empty if the process has ended.
pub(crate) fn tasks(process: u32) -> impl Iterator<Item = std::fs::DirEntry> {
    std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten()
}

/// Each thread of a process with the time that it has waited.
fn threads_of(process: u32) -> Vec<(u32, u64)> {
    let of_task = |task: std::fs::DirEntry| {
        let thread = task.file_name().to_str()?.parse().ok()?;
        Some((thread, waited_ns(&task.path().join("schedstat"))?))
    };
    tasks(process).filter_map(of_task).collect()
}

/// The second number of `schedstat`: the first is the time on a processor, the third the number of
/// times that the thread was given one.
fn waited_ns(schedstat: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(schedstat).ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_that_waited_longest_counts() {
        let before = BTreeMap::from([(1, 50), (2, 10), (3, 400)]);
        assert_eq!(longest(&before, &BTreeMap::from([(1, 60), (2, 40), (4, 25)])), 30);
        assert_eq!(longest(&before, &BTreeMap::from([(1, 60), (4, 25)])), 25, "a new thread");
        assert_eq!(longest(&before, &BTreeMap::new()), 0);
    }

    #[test]
    fn the_system_counts_for_each_thread_of_a_process() {
        let own = std::process::id();
        let threads = threads_of(own);
        assert!(threads.iter().any(|(thread, _)| *thread == own), "{threads:?}");
        assert_eq!(threads_of(u32::MAX), [], "no such process");
    }
}
