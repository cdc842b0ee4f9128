//! Errors of a replay: starts on the engine against recorded starts, each from its origin. Starts
//! that the trace does not explain are counted separately.

use std::collections::BTreeMap;

use serde::Serialize;

use tidegate_workload::model::{QueueId, Recorded};

/// A start this close to its recorded time is counted as met.
const CLOSE_NS: u64 = 10_000;

/// The errors of a replay: of all starts, and apart of those that the trace explains and those that
/// it does not. Times in nanoseconds, errors without sign; 0 where nothing was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReplayError {
    /// Work whose start the trace explains, and that ran.
    pub explained: u64,
    /// Work whose start it does not explain, and that ran.
    pub unexplained: u64,
    /// Work that did not run.
    pub missing: u64,
    /// Median error of all starts.
    pub all_median_error_ns: u64,
    /// Error of all starts at the 95th percentile.
    pub all_p95_error_ns: u64,
    /// Largest error of all starts.
    pub all_max_error_ns: u64,
    /// Median error of the explained starts.
    pub median_error_ns: u64,
    /// Error of the explained starts at the 95th percentile.
    pub p95_error_ns: u64,
    /// Largest error of the explained starts.
    pub max_error_ns: u64,
    /// Number of explained starts with an error of at most 10 µs.
    pub within_10us: u64,
    /// Median error of the starts that are not explained.
    pub unexplained_median_error_ns: u64,
    /// Error of the starts that are not explained, at the 95th percentile.
    pub unexplained_p95_error_ns: u64,
    /// Largest error of the starts that are not explained.
    pub unexplained_max_error_ns: u64,
    /// Median lateness of the explained starts; negative if they are early.
    pub median_shift_ns: i64,
    /// Steps from one start to the next on a queue.
    pub steps: u64,
    /// Median error of the steps from one start to the next on a queue. Errors of starts are sums
    /// of errors of steps.
    pub median_step_error_ns: u64,
    /// Error of the steps at the 95th percentile.
    pub p95_step_error_ns: u64,
}

/// Compares. `starts` has the start of each recorded item in the run, from its start; `None` if the
/// item did not run.
pub(crate) fn compare(recorded: &Recorded, starts: &[Option<u64>]) -> ReplayError {
    let (mut explained, mut unexplained, mut shifts) = (Vec::new(), Vec::new(), Vec::new());
    let mut missing = 0;
    for (item, start) in recorded.items.iter().zip(starts) {
        let Some(start) = start else {
            missing += 1;
            continue;
        };
        let error = start.abs_diff(item.start_ns);
        if item.unexplained {
            unexplained.push(error);
        } else {
            explained.push(error);
            shifts.push(start.cast_signed().saturating_sub(item.start_ns.cast_signed()));
        }
    }
    let mut all: Vec<u64> = explained.iter().chain(&unexplained).copied().collect();
    all.sort_unstable();
    explained.sort_unstable();
    unexplained.sort_unstable();
    shifts.sort_unstable();
    let steps = step_errors(recorded, starts);
    ReplayError {
        explained: explained.len() as u64,
        unexplained: unexplained.len() as u64,
        missing,
        all_median_error_ns: share(&all, 50),
        all_p95_error_ns: share(&all, 95),
        all_max_error_ns: all.last().copied().unwrap_or(0),
        median_error_ns: share(&explained, 50),
        p95_error_ns: share(&explained, 95),
        max_error_ns: explained.last().copied().unwrap_or(0),
        within_10us: explained.partition_point(|error| *error <= CLOSE_NS) as u64,
        unexplained_median_error_ns: share(&unexplained, 50),
        unexplained_p95_error_ns: share(&unexplained, 95),
        unexplained_max_error_ns: unexplained.last().copied().unwrap_or(0),
        median_shift_ns: shifts.get(shifts.len() / 2).copied().unwrap_or(0),
        steps: steps.len() as u64,
        median_step_error_ns: share(&steps, 50),
        p95_step_error_ns: share(&steps, 95),
    }
}

/// Errors of the steps between neighbours on a queue, smallest first.
fn step_errors(recorded: &Recorded, starts: &[Option<u64>]) -> Vec<u64> {
    let mut before: BTreeMap<QueueId, (u64, u64)> = BTreeMap::new();
    let mut errors = Vec::new();
    for (item, start) in recorded.items.iter().zip(starts) {
        let Some(start) = *start else { continue };
        if let Some((last_recorded, last)) = before.insert(item.queue, (item.start_ns, start)) {
            let (was, is) =
                (item.start_ns.saturating_sub(last_recorded), start.saturating_sub(last));
            errors.push(was.abs_diff(is));
        }
    }
    errors.sort_unstable();
    errors
}

/// The percentile of sorted values.
fn share(sorted: &[u64], percent: usize) -> u64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((sorted.len() * percent / 100).min(last)).copied().unwrap_or(0)
}

impl ReplayError {
    /// Report line: all starts, then apart those that the trace explains and those that it does
    /// not. A group without starts has no figures.
    pub fn line(&self) -> String {
        let us = |ns: u64| format!("{:.1} us", ns as f64 / 1e3);
        let figures = |[median, p95, max]: [u64; 3]| {
            format!(
                "{} off in the median, {} at the 95th percentile, {} at worst",
                us(median),
                us(p95),
                us(max)
            )
        };
        let started = self.explained + self.unexplained;
        let mut parts = Vec::new();
        let of_all = [self.all_median_error_ns, self.all_p95_error_ns, self.all_max_error_ns];
        match started {
            0 => parts.push("no work of the recording was replayed".to_owned()),
            _ => parts.push(format!("{started} replayed starts are {}", figures(of_all))),
        }
        let explained = [self.median_error_ns, self.p95_error_ns, self.max_error_ns];
        let unexplained = [
            self.unexplained_median_error_ns,
            self.unexplained_p95_error_ns,
            self.unexplained_max_error_ns,
        ];
        if self.unexplained > 0 && self.explained > 0 {
            let [explained, unexplained] = [figures(explained), figures(unexplained)];
            parts.push(format!("the {} that the trace explains {explained}", self.explained));
            parts.push(format!("the {} that it does not {unexplained}", self.unexplained));
        } else if self.unexplained > 0 {
            parts.push("the trace explains none of them".to_owned());
        }
        if self.explained > 0 {
            let of = self.explained;
            parts.push(format!("{} of {of} explained starts are within 10 us", self.within_10us));
        }
        if self.steps > 0 {
            let (median, p95) = (us(self.median_step_error_ns), us(self.p95_step_error_ns));
            parts.push(format!(
                "from one start to the next {median} in the median, {p95} at the 95th percentile"
            ));
        }
        parts.join("; ")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tidegate_workload::model::{Ready, RecordedItem};
    use tidegate_workload::recording::ImportReport;

    /// Work that starts at `start_ns` and takes no time.
    fn item(start_ns: u64, unexplained: bool) -> RecordedItem {
        RecordedItem {
            queue: QueueId(0),
            name: 0,
            launched_ns: None,
            start_ns,
            end_ns: start_ns,
            ready: Ready::Launch,
            gap_ns: 0,
            unexplained,
        }
    }

    fn recorded(makespan_ns: u64, items: Vec<RecordedItem>) -> Recorded {
        let (names, report) = (vec!["k".into()], ImportReport::default());
        Recorded { makespan_ns, items, names, kinds: Vec::new(), report }
    }

    /// Ten starts, all explained and met.
    pub(crate) fn exact() -> ReplayError {
        let items: Vec<RecordedItem> = (0..10).map(|start_ns| item(start_ns, false)).collect();
        let starts: Vec<Option<u64>> = items.iter().map(|item| Some(item.start_ns)).collect();
        compare(&recorded(10, items), &starts)
    }

    #[test]
    fn errors_are_counted_apart_from_what_nothing_explains() {
        let items = vec![
            item(100, false),
            item(200, false),
            item(300, true),
            item(400, false),
            item(500, false),
        ];
        let recorded = recorded(501, items);
        let starts = [Some(90), Some(20_200), Some(305), None, Some(507)];
        let error = compare(&recorded, &starts);
        assert_eq!((error.explained, error.unexplained, error.missing), (3, 1, 1));
        assert_eq!((error.median_error_ns, error.max_error_ns, error.within_10us), (10, 20_000, 2));
        assert_eq!(error.unexplained_median_error_ns, 5);
        assert_eq!(error.median_shift_ns, 7);
        assert_eq!(
            (error.median_step_error_ns, error.p95_step_error_ns),
            (100, 20_010),
            "2, 100 and 20,010"
        );
        assert_eq!(
            (error.all_median_error_ns, error.all_p95_error_ns, error.all_max_error_ns),
            (10, 20_000, 20_000)
        );
        let line = error.line();
        for said in [
            "4 replayed starts are 0.0 us off in the median, 20.0 us at the 95th percentile",
            "the 3 that the trace explains 0.0 us off",
            "the 1 that it does not 0.0 us off in the median, 0.0 us at the 95th",
            "2 of 3 explained starts are within 10 us",
        ] {
            assert!(line.contains(said), "{said}: {line}");
        }
        let none = compare(&Recorded { items: Vec::new(), ..recorded }, &[]);
        assert_eq!((none.explained, none.p95_error_ns), (0, 0));
        assert_eq!(none.line(), "no work of the recording was replayed");
    }

    #[test]
    fn the_worst_work_counts_although_nothing_explains_it() {
        let recorded = recorded(100, vec![item(0, true), item(50, true)]);
        let error = compare(&recorded, &[Some(0), Some(68_500_000_050)]);
        let line = error.line();
        assert!(line.contains("68500000.0 us at worst"), "{line}");
        assert!(line.contains("the trace explains none of them"), "{line}");
        assert!(!line.contains("within 10 us") && !line.contains(" 0 "), "{line}");
    }

    #[test]
    fn ten_microseconds_are_within_ten_microseconds() {
        let items = [20_000, 40_000, 60_000].map(|start_ns| item(start_ns, false)).to_vec();
        let recorded = recorded(60_000, items);
        let error = compare(&recorded, &[Some(10_000), Some(50_000), Some(70_001)]);
        assert_eq!((error.within_10us, error.median_shift_ns), (2, 10_000));
    }
}
