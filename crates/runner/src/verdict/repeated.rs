//! What the runs of several rounds in real time say: other work of the host disturbs each run, so a
//! difference counts only if it is larger than what runs of one model differ by.

use super::Verdict;
use crate::ranking::{Relation, relation};

/// Returns the shortest run of the even rounds and the shortest of the odd ones, the shorter one
/// first. Both are the same run if there is only one.
fn shortest_of_halves(runs_ns: &[u64]) -> Option<[u64; 2]> {
    let half = |first: usize| runs_ns.iter().skip(first).step_by(2).min().copied();
    let (even, odd) = (half(0)?, half(1));
    let odd = odd.unwrap_or(even);
    Some([even.min(odd), even.max(odd)])
}

/// Compares two models by the shortest runs of the halves: a difference is one of each half of the
/// first model to each half of the second, so the halves that are nearest to each other decide.
fn relation_of_halves(own: [u64; 2], base: [u64; 2]) -> Relation {
    if relation(own[1], base[0]) == Relation::Faster {
        Relation::Faster
    } else if relation(own[0], base[1]) == Relation::Slower {
        Relation::Slower
    } else {
        Relation::NoDifference
    }
}

impl Verdict {
    /// Takes the steady work of all right runs of each model, in nanoseconds and in the order of
    /// the rounds. A difference counts only if both halves of them show it.
    #[must_use]
    pub fn repeated(mut self, runs_ns: &[Vec<u64>]) -> Verdict {
        for (model, runs_ns) in self.models.iter_mut().zip(runs_ns) {
            model.halves_ns = shortest_of_halves(runs_ns);
        }
        let baseline = self.models.first().and_then(|model| model.halves_ns);
        for model in &mut self.models {
            if let (Some(against), Some(own), Some(base)) =
                (&mut model.against, model.halves_ns, baseline)
            {
                against.relation = relation_of_halves(own, base);
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge;
    use super::super::tests::run;
    use super::*;

    fn judged(packet: &[u64], user: &[u64]) -> (Relation, Option<[u64; 2]>, String) {
        let (one, other) = (run("packet", packet[0]), run("user", user[0]));
        let verdict = judge(&[&one, &other], &[], None, None).unwrap();
        let verdict = verdict.repeated(&[packet.to_vec(), user.to_vec()]);
        let (model, said) = (&verdict.models[1], verdict.sentences().remove(1));
        (model.against.clone().unwrap().relation, model.halves_ns, said)
    }

    #[test]
    fn a_difference_that_both_halves_show_counts() {
        let (relation, halves, said) = judged(&[1_000, 1_100, 1_300], &[800, 950, 900]);
        assert_eq!((relation, halves), (Relation::Faster, Some([800, 950])));
        assert!(said.contains("20 % faster than packet"), "{said}");
        assert_eq!(judged(&[800, 950], &[1_000, 1_100]).0, Relation::Slower);
    }

    #[test]
    fn a_difference_within_that_of_the_halves_is_none() {
        let (relation, halves, said) = judged(&[1_000, 1_100], &[900, 1_050]);
        assert_eq!((relation, halves), (Relation::NoDifference, Some([900, 1_050])));
        assert!(said.contains("no difference from packet"), "{said}");
        assert_eq!(judged(&[1_000, 1_000], &[999, 900]).0, Relation::NoDifference, "one half ties");
    }

    #[test]
    fn one_run_of_each_is_compared_as_it_is() {
        assert_eq!(judged(&[1_000], &[900]).0, Relation::Faster);
        assert_eq!(shortest_of_halves(&[]), None);
    }
}
