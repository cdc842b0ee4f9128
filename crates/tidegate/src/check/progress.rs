//! The progress of a check and its limit of time.
//!
//! The line of progress goes to standard error, on a terminal only, and only after two seconds. The
//! clock of the host decides when it is drawn, and when a check with a limit ends. It has no part
//! in what a schedule does.
//!
//! Entry point: [`Progress::go_on`], called before each run.

use crate::Platform;
use std::cell::Cell;
use std::io::{IsTerminal, Write};

/// Checks shorter than this show no line.
const PATIENCE_NS: u64 = 2_000_000_000;
/// Time between two lines.
const PERIOD_NS: u64 = 200_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// The progress of one check, through all of its searches.
pub(super) struct Progress {
    name: String,
    host: Platform,
    limit_ns: Option<u64>,
    runs: Cell<u64>,
    /// Time of the next line; `u64::MAX` where none is shown.
    due_ns: Cell<u64>,
    is_shown: Cell<bool>,
}

impl Progress {
    pub(super) fn new(name: &str, seconds: Option<u64>) -> Progress {
        let due_ns = if std::io::stderr().is_terminal() { PATIENCE_NS } else { u64::MAX };
        Progress {
            name: name.to_owned(),
            host: Platform::host(),
            limit_ns: seconds.map(|seconds| seconds.saturating_mul(SECOND_NS)),
            runs: Cell::new(0),
            due_ns: Cell::new(due_ns),
            is_shown: Cell::new(false),
        }
    }

    /// Counts a run of a search. Returns whether there is time for it: `share` percent of the limit
    /// are for this search and those before it.
    pub(super) fn go_on(&self, search: &str, share: u64) -> bool {
        let now_ns = self.host.now().0;
        self.runs.set(self.runs.get() + 1);
        if now_ns >= self.due_ns.get() {
            self.due_ns.set(now_ns + PERIOD_NS);
            self.is_shown.set(true);
            // A check goes on without its terminal.
            let line = line(&self.name, search, self.runs.get(), now_ns, self.limit_ns);
            let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
        }
        has_time(now_ns, self.limit_ns, share)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown.get() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn has_time(now_ns: u64, limit_ns: Option<u64>, share: u64) -> bool {
    limit_ns.is_none_or(|limit_ns| now_ns < limit_ns / 100 * share)
}

fn line(name: &str, search: &str, runs: u64, now_ns: u64, limit_ns: Option<u64>) -> String {
    let limit = limit_ns.map_or_else(String::new, |ns| format!(" of at most {}", ns / SECOND_NS));
    format!("check '{name}': {runs} schedules ({search}), {}{limit} s", now_ns / SECOND_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_search_the_schedules_and_the_time() {
        let of = |limit| line("ring", "exhaustive", 1_234, 5 * SECOND_NS + 1, limit);
        assert_eq!(of(None), "check 'ring': 1234 schedules (exhaustive), 5 s");
        assert_eq!(
            of(Some(60 * SECOND_NS)),
            "check 'ring': 1234 schedules (exhaustive), 5 of at most 60 s"
        );
    }

    #[test]
    fn a_limit_ends_each_search_at_its_share() {
        let has_time = |ns, share| has_time(ns, Some(10 * SECOND_NS), share);
        assert!(has_time(5 * SECOND_NS - 1, 50) && !has_time(5 * SECOND_NS, 50));
        assert!(has_time(10 * SECOND_NS - 1, 100) && !has_time(10 * SECOND_NS, 100));
        assert!(super::has_time(u64::MAX, None, 50));
        assert!(!has_time(0, 0) && super::has_time(0, None, 0));
    }
}
