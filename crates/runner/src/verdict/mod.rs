//! The verdict of a comparison: each submission model against the first one, with reasons, and
//! whether it holds over the cost settings.
//!
//! Makes typed facts of reports and accounts. Every number is a field of the JSON; `SCHEMA.md`
//! defines each. Invariant: [`ranking::relation`] decides what a difference is. Rooms: `account`,
//! `critical_path` (parts of a makespan) · `words` (sentences) · `trust` (grade of a replay) ·
//! `repeated` (runs in real time) · `lengths` (longer runs and halves). Entry points: [`account()`]
//! for each run, then [`judge`] with [`Verdict::at_lengths`] or, for runs in real time,
//! [`Verdict::repeated`], then [`Verdict::sentences`].

mod account;
mod critical_path;
mod lengths;
mod path_index;
mod repeated;
mod trust;
mod words;

use serde::Serialize;

pub use account::{Account, Busy, EngineBusy, Part, RunOnTimeline};
pub use critical_path::{account, account_and_path};
pub use lengths::{AtLength, halves};
pub use trust::{Grade, Trust, trust};
pub use words::percent;

use crate::ranking::{self, Ranking, Relation, TIE_PARTS};
use crate::report::Report;

/// The time with full rings is stated beside every claim if it is at least the makespan divided by
/// this.
const RING_SPACE_PARTS: u64 = 100;

/// A model against the baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Against {
    /// Faster, slower, or no difference of the steady work.
    pub relation: Relation,
    /// The steady work less the baseline's, in thousandths of the latter; negative where it is
    /// shorter.
    pub change_permille: i64,
    /// Cost settings with the same relation of model and baseline; `None` if only one was tried.
    pub held_on: Option<usize>,
    /// Cost settings that were tried.
    pub settings: Option<usize>,
    /// Names of the cost settings with another relation.
    pub not_on: Vec<String>,
    /// Start-up is more than half of the makespan under either model: what is left is too short for
    /// a comparison.
    pub mostly_start_up: bool,
    /// The comparison over other lengths; empty if only one was measured.
    pub lengths: Vec<AtLength>,
}

/// One model of a comparison. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelVerdict {
    /// `packet`, `hardware` or `user`.
    pub model: &'static str,
    /// From the start of the threads to the end of the last work.
    pub makespan_ns: u64,
    /// The part of it that is start-up, which a run of any length pays once; 0 without an account.
    pub start_up_ns: u64,
    /// In real time: the shortest steady work of each half of the runs, which are of every
    /// other round.
    pub halves_ns: Option<[u64; 2]>,
    /// The account of that time; `None` without a timeline.
    pub account: Option<Account>,
    /// The part that binds the run. In a near tie it is the baseline's.
    pub bound: Option<Part>,
    /// Calls into the kernel.
    pub kernel_calls: u64,
    /// Times the interrupt line went up.
    pub interrupts: u64,
    /// Threads that slept in a wait and were woken.
    pub wake_ups: u64,
    /// Time of submissions in the backlogs of full rings, summed over the queues.
    pub ring_wait_ns: u64,
    /// Its comparison with the baseline; `None` for the baseline and if models are not compared.
    pub against: Option<Against>,
}

impl ModelVerdict {
    /// The makespan without start-up: what models are compared by.
    pub fn steady_ns(&self) -> u64 {
        self.makespan_ns.saturating_sub(self.start_up_ns)
    }

    /// Whether rings were full for a noticeable share of the makespan: 1 % or more.
    pub fn rests_on_ring_space(&self) -> bool {
        rests_on_ring_space(self.ring_wait_ns, self.makespan_ns)
    }
}

/// Whether rings were full for a noticeable share of a makespan: 1 % or more.
pub fn rests_on_ring_space(ring_wait_ns: u64, makespan_ns: u64) -> bool {
    ring_wait_ns > 0 && ring_wait_ns.saturating_mul(RING_SPACE_PARTS) >= makespan_ns
}

/// The verdict of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The baseline: the first model that ran.
    pub baseline: &'static str,
    /// Times of steady work that differ by at most one part in this many of the longer one count as
    /// no difference.
    pub tie_parts: u64,
    /// The grade of a recording's replay; `None` if it is unknown.
    pub trust: Option<Trust>,
    /// Every model, the baseline first.
    pub models: Vec<ModelVerdict>,
}

/// Compares every run with the first one; `None` without a run. `accounts` belong to the runs
/// with a timeline. If `trust` is poor, the models are not compared.
pub fn judge(
    runs: &[&Report],
    accounts: &[Option<Account>],
    ranking: Option<&Ranking>,
    trust: Option<Trust>,
) -> Option<Verdict> {
    let baseline = runs.first()?;
    let compared = trust.as_ref().is_none_or(|trust| trust.grade != Grade::Poor);
    let of_baseline = accounts.first().and_then(Option::as_ref).map(Account::bound);
    let bound = |account: &Account| {
        let bounds = account.bounds();
        of_baseline.filter(|bound| bounds.contains(bound)).unwrap_or(bounds[0])
    };
    let base_ns = steady_ns(baseline, accounts.first().and_then(Option::as_ref));
    let of = |(number, run): (usize, &&Report)| {
        let account = accounts.get(number).cloned().flatten();
        let steady_ns = steady_ns(run, account.as_ref());
        ModelVerdict {
            model: run.submission,
            makespan_ns: run.makespan_ns,
            start_up_ns: run.makespan_ns.saturating_sub(steady_ns),
            halves_ns: None,
            bound: account.as_ref().map(bound),
            account,
            kernel_calls: run.kernel_calls,
            interrupts: run.machine.interrupts,
            wake_ups: run.cpu_wakes,
            ring_wait_ns: run.ring_wait_ns,
            against: (number > 0 && compared).then(|| {
                let models = [run.submission, baseline.submission];
                let mostly_start_up =
                    steady_ns < run.makespan_ns / 2 || base_ns < baseline.makespan_ns / 2;
                let against = against(models, [steady_ns, base_ns], ranking);
                Against { mostly_start_up, ..against }
            }),
        }
    };
    let models = runs.iter().enumerate().map(of).collect();
    Some(Verdict { baseline: baseline.submission, tie_parts: TIE_PARTS, trust, models })
}

/// The makespan of a run without start-up; the whole of it without an account.
pub fn steady_ns(run: &Report, account: Option<&Account>) -> u64 {
    account.map_or(run.makespan_ns, Account::steady_ns)
}

fn against(
    [model, baseline]: [&str; 2],
    [own_ns, base_ns]: [u64; 2],
    ranking: Option<&Ranking>,
) -> Against {
    let held = ranking.map(|ranking| ranking.held(model, baseline));
    let not_on = ranking.map(|ranking| {
        let pair = |c: &&ranking::Change| {
            [c.first, c.second].contains(&model) && [c.first, c.second].contains(&baseline)
        };
        ranking.changes.iter().filter(pair).map(|change| change.variation.clone()).collect()
    });
    Against {
        relation: ranking::relation(own_ns, base_ns),
        change_permille: permille(own_ns, base_ns),
        held_on: held.map(|(held, _)| held),
        settings: held.map(|(_, settings)| settings),
        not_on: not_on.unwrap_or_default(),
        mostly_start_up: false,
        lengths: Vec::new(),
    }
}

/// The change from `base_ns`, in thousandths of it, cut off to a whole number.
fn permille(own_ns: u64, base_ns: u64) -> i64 {
    let (own, base) = (i128::from(own_ns), i128::from(base_ns));
    let permille = ((own - base) * 1_000).checked_div(base).unwrap_or(0);
    i64::try_from(permille).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cost::CostModel;
    use crate::probe::MachineCounters;
    use crate::ranking::{Measurement, Variation};
    use crate::report::tests::report;
    use tidegate_workload::model::Submission;

    pub(crate) fn run(submission: &'static str, makespan_ns: u64) -> Report {
        let machine = MachineCounters { interrupts: 52, ..MachineCounters::default() };
        Report { submission, makespan_ns, kernel_calls: 141, machine, ..report() }
    }

    fn measured(name: &str, packet: u64, user: u64) -> Measurement {
        let variation = Variation { name: name.into(), costs: CostModel::nominal() };
        Measurement::new(&variation, &[(Submission::Packet, packet), (Submission::User, user)])
    }

    #[test]
    fn every_model_is_compared_with_the_first_one() {
        let (packet, user) = (run("packet", 1_000), run("user", 750));
        let ranking = ranking::judge(vec![
            measured("nominal", 1_000, 750),
            measured("low", 1_000, 998),
            measured("high", 1_000, 700),
        ]);
        let verdict = judge(&[&packet, &user], &[None, None], ranking.as_ref(), None).unwrap();
        assert_eq!((verdict.baseline, verdict.models.len()), ("packet", 2));
        assert_eq!(verdict.models[0].against, None);
        let against = verdict.models[1].against.clone().unwrap();
        assert_eq!((against.relation, against.change_permille), (Relation::Faster, -250));
        assert_eq!((against.held_on, against.settings), (Some(2), Some(3)));
        assert_eq!(against.not_on, ["low"]);
        assert_eq!(judge(&[], &[], None, None), None);
    }

    #[test]
    fn a_verdict_without_a_ranking_says_nothing_of_cost_settings() {
        let (packet, user) = (run("packet", 0), run("user", 750));
        let verdict = judge(&[&packet, &user], &[], None, None).unwrap();
        let against = verdict.models[1].against.clone().unwrap();
        assert_eq!((against.relation, against.change_permille), (Relation::Slower, 0));
        assert_eq!((against.held_on, against.settings), (None, None));
    }

    #[test]
    fn a_replay_that_is_too_far_off_is_not_compared() {
        let (packet, user) = (run("packet", 1_000), run("user", 750));
        let trust = Trust {
            recorded_as: "user",
            grade: Grade::Poor,
            makespan_error_permille: 300,
            start_error_permille: 0,
            explained: 1,
            unexplained: 0,
            missing: 0,
            unresolved_permille: 0,
        };
        let poor = judge(&[&packet, &user], &[], None, Some(trust.clone())).unwrap();
        assert!(poor.models.iter().all(|model| model.against.is_none()));
        assert!(
            poor.sentences().iter().all(|sentence| !sentence.contains("faster")),
            "{:?}",
            poor.sentences()
        );
        let fair = Trust { grade: Grade::Fair, ..trust };
        let fair = judge(&[&packet, &user], &[], None, Some(fair)).unwrap();
        assert!(fair.sentences()[1].contains("25 % faster than packet"), "{:?}", fair.sentences());
    }

    #[test]
    fn a_near_tie_has_the_name_of_the_baseline() {
        let (packet, user) = (run("packet", 100), run("user", 100));
        let of = |gpu_ns, host_ns| Some(Account { gpu_ns, host_ns, ..Account::default() });
        let bounds = |accounts: [Option<Account>; 2]| {
            let verdict = judge(&[&packet, &user], &accounts, None, None).unwrap();
            verdict.models.iter().map(|model| model.bound.unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(bounds([of(47, 53), of(51, 49)]), [Part::Host, Part::Host]);
        assert_eq!(bounds([of(30, 70), of(70, 30)]), [Part::Host, Part::Gpu]);
    }

    #[test]
    fn ring_space_counts_from_a_hundredth_of_the_makespan_on() {
        let rests = |ring_wait_ns| {
            let user = Report { ring_wait_ns, ..run("user", 1_000) };
            judge(&[&user], &[], None, None).unwrap().models[0].rests_on_ring_space()
        };
        assert_eq!([0, 9, 10].map(rests), [false, false, true]);
    }
}
