//! Whether a verdict depends on the length of the run: the models over longer runs of the same
//! workload, and over the halves of a run.
//!
//! Invariant: a difference is a property of a model only if no other length turns it round, and the
//! longest run still has it. Entry points: [`halves`], [`Verdict::at_lengths`].

use serde::Serialize;

use super::{Account, Verdict, permille, steady_ns};
use crate::ranking::{self, Measurement, Relation};
use crate::report::Report;

/// A model against the baseline over another length. The comparison is of steady work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AtLength {
    /// The length: `2x`, `10x`, `first half` or `second half`.
    pub length: String,
    /// Faster, slower, or no difference.
    pub relation: Relation,
    /// As [`super::Against::change_permille`].
    pub change_permille: i64,
}

/// The steady work of each half of the runs, by model. The first half ends when half of the command
/// buffers have ended. Empty if a run is too short to have halves.
pub fn halves(runs: &[&Report], accounts: &[Option<Account>]) -> Vec<Measurement> {
    let of = |(run, account): (&&Report, &Option<Account>)| {
        let start_up_ns = run.makespan_ns - steady_ns(run, account.as_ref());
        let halfway_ns = run.halfway_ns?.max(start_up_ns);
        Some((run.submission, [halfway_ns - start_up_ns, run.makespan_ns - halfway_ns]))
    };
    let Some(all) = runs.iter().zip(accounts).map(of).collect::<Option<Vec<_>>>() else {
        return Vec::new();
    };
    let half = |half: usize, name: &str| Measurement {
        variation: name.to_owned(),
        steady_ns: all.iter().map(|(model, halves)| (*model, halves[half])).collect(),
    };
    vec![half(0, "first half"), half(1, "second half")]
}

/// Whether one length has the opposite of the difference of another.
fn turns(here: Relation, there: Relation) -> bool {
    matches!(
        (here, there),
        (Relation::Faster, Relation::Slower) | (Relation::Slower, Relation::Faster)
    )
}

impl AtLength {
    /// `at 2x the length`, `in the first half`.
    pub(super) fn place(&self) -> String {
        match is_multiple(&self.length) {
            true => format!("at {} the length", self.length),
            false => format!("in the {}", self.length),
        }
    }
}

/// Whether a length is a longer run, and not a half.
fn is_multiple(length: &str) -> bool {
    length.ends_with('x')
}

impl super::Against {
    /// Whether the difference is of this length and no property of the model: another length turns
    /// it round, or the longest run does not have it.
    pub fn depends_on_length(&self) -> bool {
        let longest = self.lengths.iter().rfind(|at| is_multiple(&at.length));
        self.lengths.iter().any(|at| turns(self.relation, at.relation))
            || longest.is_some_and(|at| at.relation != self.relation)
    }
}

impl Verdict {
    /// Takes what the models measured over other lengths, shortest first.
    #[must_use]
    pub fn at_lengths(mut self, lengths: &[Measurement]) -> Verdict {
        for model in &mut self.models {
            let Some(against) = &mut model.against else { continue };
            let at = |measured: &Measurement| {
                let (own, base) =
                    (measured.steady_ns(model.model)?, measured.steady_ns(self.baseline)?);
                Some(AtLength {
                    length: measured.variation.clone(),
                    relation: ranking::relation(own, base),
                    change_permille: permille(own, base),
                })
            };
            against.lengths = lengths.iter().filter_map(at).collect();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge;
    use super::super::tests::run;
    use super::*;

    fn measured(length: &str, packet: u64, user: u64) -> Measurement {
        let steady_ns = vec![("packet", packet), ("user", user)];
        Measurement { variation: length.to_owned(), steady_ns }
    }

    fn judged(user: u64, lengths: &[Measurement]) -> (bool, String) {
        let (packet, user) = (run("packet", 1_000), run("user", user));
        let verdict = judge(&[&packet, &user], &[], None, None).unwrap().at_lengths(lengths);
        let against = verdict.models[1].against.as_ref().unwrap();
        (against.depends_on_length(), verdict.sentences().remove(1))
    }

    #[test]
    fn a_difference_that_turns_round_with_length_is_no_property() {
        let (depends, said) =
            judged(927, &[measured("2x", 2_000, 2_022), measured("10x", 10_000, 10_210)]);
        assert!(depends);
        let wanted = "7.3 % faster than packet at this length, which is not a property of the model: 1.1 % slower at 2x the length, \
                      2.1 % slower at 10x the length;";
        assert!(said.contains(wanted), "{said}");
        let (depends, said) =
            judged(927, &[measured("2x", 2_000, 1_900), measured("10x", 10_000, 9_999)]);
        assert!(depends);
        assert!(
            said.contains("not a property of the model: 5.0 % faster at 2x the length, no difference at 10x the length"),
            "{said}"
        );
    }

    #[test]
    fn a_difference_of_each_length_holds() {
        let lengths = [measured("2x", 2_000, 1_800), measured("10x", 10_000, 8_800)];
        let (depends, said) = judged(927, &lengths);
        assert!(!depends);
        assert!(
            said.contains("7.3 % faster than packet;")
                && said.ends_with("holds at 2x the length and at 10x the length"),
            "{said}"
        );
        let halves = [measured("first half", 400, 380), measured("second half", 600, 599)];
        let (depends, said) = judged(927, &halves);
        assert!(!depends, "a half may tie");
        assert!(said.ends_with("holds in the first half, not in the second half"), "{said}");
        let halves = [measured("first half", 400, 300), measured("second half", 600, 627)];
        assert!(judged(927, &halves).0, "the halves contradict each other");
    }

    #[test]
    fn no_difference_at_this_length_can_be_one_of_a_longer_run() {
        let (depends, said) =
            judged(999, &[measured("2x", 2_000, 2_000), measured("10x", 10_000, 10_300)]);
        assert!(depends);
        assert!(
            said.contains(
                "no difference from packet at this length; no difference at 2x the length, 3.0 % slower at 10x the length"
            ),
            "{said}"
        );
    }

    #[test]
    fn halves_are_of_steady_work() {
        let of = |submission, makespan_ns, halfway_ns| Report {
            halfway_ns,
            ..run(submission, makespan_ns)
        };
        let account =
            |gpu_ns, start_up_ns| Some(Account { gpu_ns, start_up_ns, ..Account::default() });
        let accounts = [account(900, 100), account(690, 10)];
        let (packet, user) = (of("packet", 1_000, Some(500)), of("user", 700, Some(400)));
        let wanted = [measured("first half", 400, 390), measured("second half", 500, 300)];
        assert_eq!(halves(&[&packet, &user], &accounts), wanted);
        let few = of("user", 700, None);
        assert_eq!(halves(&[&packet, &few], &accounts), [], "too few command buffers");
    }

    #[test]
    fn a_run_that_is_mostly_start_up_is_not_compared() {
        let account =
            |gpu_ns, start_up_ns| Some(Account { gpu_ns, start_up_ns, ..Account::default() });
        let (packet, user) = (run("packet", 1_000), run("user", 700));
        let judged = |accounts: &[Option<Account>]| {
            judge(&[&packet, &user], accounts, None, None).unwrap().sentences().remove(1)
        };
        let said = judged(&[account(400, 600), account(600, 100)]);
        assert!(said.contains("mostly start-up, so too short to compare steady work"), "{said}");
        let said = judged(&[account(500, 500), account(400, 300)]);
        assert!(said.contains("20 % shorter than packet in steady work"), "{said}");
    }
}
