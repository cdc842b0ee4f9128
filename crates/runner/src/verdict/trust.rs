//! Grades the replay of a recording by its error.
//!
//! The replay under the recording's own submission model should reproduce the recorded times. Its
//! error bounds the claims of a comparison. `decisions/0039` has the thresholds and reasons. Entry
//! point: [`trust`].

use serde::Serialize;

use crate::report::Report;

/// Largest errors of a good and of a fair replay, in thousandths of the recorded makespan.
const GOOD_PERMILLE: u64 = 20;
const FAIR_PERMILLE: u64 = 100;

/// Grades of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// Both errors are at most 2 %, all work ran, and the trace explains at least half of the
    /// starts.
    Good,
    /// Both errors are at most 10 % and all work ran.
    Fair,
    /// Anything else: the models are not ranked.
    Poor,
}

impl Grade {
    /// The word of reports.
    pub fn name(self) -> &'static str {
        match self {
            Grade::Good => "good",
            Grade::Fair => "fair",
            Grade::Poor => "poor",
        }
    }
}

/// The grade of a replay and its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trust {
    /// The submission model of the recording.
    pub recorded_as: &'static str,
    /// The grade.
    pub grade: Grade,
    /// Replayed less recorded makespan without sign, in thousandths of the recorded one.
    pub makespan_error_permille: u64,
    /// Error at the 95th percentile of all starts, in thousandths of the recorded makespan.
    pub start_error_permille: u64,
    /// Starts that the trace explains.
    pub explained: u64,
    /// Starts that the trace does not explain. Delays imitate them.
    pub unexplained: u64,
    /// Work that did not run.
    pub missing: u64,
    /// The time of blocked calls for which the recording names nothing, in thousandths of the
    /// recorded makespan. The models cannot change it, although the program's waits would.
    pub unresolved_permille: u64,
}

/// Grades the replay under the model that a recording is taken as made under, with its gaps kept;
/// `None` for a run that is not a replay.
pub fn trust(replay: &Report) -> Option<Trust> {
    let (recorded_ns, errors) = (replay.recorded_ns?, replay.replay.as_ref()?);
    let permille = |error_ns: u64| {
        let share = u128::from(error_ns) * 1_000 / u128::from(recorded_ns.max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    };
    let makespan_error_permille = permille(replay.makespan_ns.abs_diff(recorded_ns));
    let start_error_permille = permille(errors.all_p95_error_ns);
    let unresolved_ns = replay.import.as_ref().map_or(0, |import| import.syncs_unresolved_ns);
    let unresolved_permille = permille(unresolved_ns);
    let worst = makespan_error_permille.max(start_error_permille).max(unresolved_permille);
    let whole = replay.completed && errors.missing == 0;
    let grade = match worst {
        _ if !whole => Grade::Poor,
        0..=GOOD_PERMILLE if errors.explained >= errors.unexplained => Grade::Good,
        0..=FAIR_PERMILLE => Grade::Fair,
        _ => Grade::Poor,
    };
    Some(Trust {
        recorded_as: replay.submission,
        grade,
        makespan_error_permille,
        start_error_permille,
        explained: errors.explained,
        unexplained: errors.unexplained,
        missing: errors.missing,
        unresolved_permille,
    })
}

impl Trust {
    /// Report line.
    pub fn line(&self) -> String {
        let percent = |permille: u64| format!("{}.{} %", permille / 10, permille % 10);
        let mut line = format!(
            "taken as recorded under {} (--recorded-as): the replay is {}: makespan {} off",
            self.recorded_as,
            self.grade.name(),
            percent(self.makespan_error_permille)
        );
        if self.explained + self.unexplained > 0 {
            line +=
                &format!(", 19 of 20 starts within {} of it", percent(self.start_error_permille));
        }
        if self.unexplained > self.explained {
            let all = self.explained + self.unexplained;
            line += &format!(
                "; {} of {all} starts are imitated, not explained by the trace",
                self.unexplained
            );
        }
        if self.unresolved_permille > 0 {
            line += &format!(
                "; waits for something that is not recorded take {}",
                percent(self.unresolved_permille)
            );
        }
        if self.missing > 0 {
            line += &format!("; {} pieces of work did not run", self.missing);
        }
        if self.grade == Grade::Poor {
            line += "; too far from the recording to rank the models";
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::replay::ReplayError;
    use crate::report::tests::report;
    use tidegate_workload::recording::ImportReport;

    fn replay(makespan_ns: u64, p95_error_ns: u64, explained: u64, missing: u64) -> Trust {
        let errors = ReplayError {
            explained,
            unexplained: 10,
            missing,
            median_error_ns: 0,
            all_median_error_ns: 0,
            all_p95_error_ns: p95_error_ns,
            all_max_error_ns: p95_error_ns,
            p95_error_ns: 0,
            max_error_ns: 0,
            within_10us: 0,
            unexplained_median_error_ns: 0,
            unexplained_p95_error_ns: p95_error_ns,
            unexplained_max_error_ns: p95_error_ns,
            steps: 0,
            median_shift_ns: 0,
            median_step_error_ns: 0,
            p95_step_error_ns: 0,
        };
        trust(&Report {
            makespan_ns,
            recorded_ns: Some(1_000_000),
            replay: Some(errors),
            ..report()
        })
        .unwrap()
    }

    #[test]
    fn the_larger_error_decides_the_grade() {
        assert_eq!(replay(1_020_000, 20_000, 10, 0).grade, Grade::Good);
        assert_eq!(replay(979_000, 0, 10, 0).grade, Grade::Fair, "21 thousandths short");
        assert_eq!(replay(1_000_000, 21_000, 10, 0).grade, Grade::Fair);
        assert_eq!(replay(1_000_000, 101_000, 10, 0).grade, Grade::Poor);
        assert_eq!(replay(1_101_000, 0, 10, 0).grade, Grade::Poor);
        assert_eq!(replay(1_000_000, 0, 10, 1).grade, Grade::Poor, "work that did not run");
        assert_eq!(trust(&report()), None);
    }

    #[test]
    fn waits_for_something_unknown_count_like_an_error() {
        let graded = |syncs_unresolved_ns| {
            let errors = crate::measure::replay::tests::exact();
            let import = ImportReport { syncs_unresolved_ns, ..ImportReport::default() };
            let (recorded_ns, replay) = (Some(1_000_000), Some(errors));
            let (makespan_ns, import) = (1_000_000, Some(import));
            trust(&Report { makespan_ns, recorded_ns, replay, import, ..report() }).unwrap()
        };
        assert_eq!(
            [0, 20_000, 21_000, 101_000].map(|ns| graded(ns).grade),
            [Grade::Good, Grade::Good, Grade::Fair, Grade::Poor]
        );
        let line = graded(300_000).line();
        assert!(line.contains("waits for something that is not recorded take 30.0 %"), "{line}");
    }

    #[test]
    fn starts_that_are_imitated_are_fair_at_best() {
        let imitated = replay(1_000_000, 0, 9, 0);
        assert_eq!(imitated.grade, Grade::Fair);
        assert!(
            imitated.line().ends_with("10 of 19 starts are imitated, not explained by the trace")
        );
        let poor = replay(1_500_000, 0, 10, 0).line();
        assert!(
            poor.contains("makespan 50.0 % off")
                && poor.ends_with("too far from the recording to rank the models")
        );
    }

    #[test]
    fn a_replay_that_did_not_complete_is_poor() {
        let cut = |completed| {
            let errors = crate::measure::replay::tests::exact();
            let (makespan_ns, recorded_ns, replay) = (1_000, Some(1_000), Some(errors));
            trust(&Report { completed, makespan_ns, recorded_ns, replay, ..report() })
                .unwrap()
                .grade
        };
        assert_eq!([true, false].map(cut), [Grade::Good, Grade::Poor]);
    }
}
