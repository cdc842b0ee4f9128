//! Ranks submission models by their steady work, and checks whether the ranking holds over the
//! ranges of the cost model.
//!
//! Invariant: [`relation`] is the only definition of a tie. Order, changes, printed claims and
//! verdicts use it. Entry points: [`plan`] or [`short_plan`] lists the machines, the caller
//! measures every model on each, and [`judge`] compares their steady work.

use serde::Serialize;
use tidegate_platform::Step;

use crate::cost::{COSTS, CostModel};
use tidegate_workload::model::Submission;

/// Times that differ by at most the longer one divided by this are tied. 200 is 0.5 %.
pub const TIE_PARTS: u64 = 200;

/// Relation of two times of steady work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// Shorter by more than the tie.
    Faster,
    /// A tie.
    NoDifference,
    /// Longer by more than the tie.
    Slower,
}

/// Compares `first_ns` with `second_ns`.
pub fn relation(first_ns: u64, second_ns: u64) -> Relation {
    let longer = first_ns.max(second_ns);
    if u128::from(first_ns.abs_diff(second_ns)) * u128::from(TIE_PARTS) <= u128::from(longer) {
        Relation::NoDifference
    } else if first_ns < second_ns {
        Relation::Faster
    } else {
        Relation::Slower
    }
}

/// The steps on which the models differ most: submissions, waits and wakes.
pub const DECISIVE: [Step; 5] = [
    Step::KernelCall,
    Step::VidSchDispatch,
    Step::InterruptDelivery,
    Step::ThreadWake,
    Step::DoorbellToFetch,
];

/// A machine of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variation {
    /// The difference from the first machine of the plan.
    pub name: String,
    /// Its costs.
    pub costs: CostModel,
}

/// The machine `base`, both ends of all ranges, and `base` with both ends of the range of each of
/// these steps alone.
pub fn plan(base: &CostModel, steps: &[Step]) -> Vec<Variation> {
    let whole = [base.clone(), CostModel::low(), CostModel::high()];
    let mut variations: Vec<Variation> =
        whole.into_iter().map(|costs| Variation { name: costs.name.to_owned(), costs }).collect();
    for cost in COSTS.iter().filter(|cost| steps.contains(&cost.step)) {
        for (end, ns) in [("low", cost.low_ns), ("high", cost.high_ns)] {
            let name = format!("{} {end}", cost.step.name());
            variations.push(Variation { name, costs: base.but(cost.step, ns) });
        }
    }
    variations
}

/// The plan for long workloads: the machine `base` and both ends of all ranges.
pub fn short_plan(base: &CostModel) -> Vec<Variation> {
    plan(base, &[])
}

/// The steady work of all models on one machine, in nanoseconds: their makespans without start-up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Measurement {
    /// Name of the machine in the plan.
    pub variation: String,
    /// By model.
    pub steady_ns: Vec<(&'static str, u64)>,
}

impl Measurement {
    /// A measurement of one variation of a plan.
    pub fn new(variation: &Variation, steady_ns: &[(Submission, u64)]) -> Self {
        let named = steady_ns.iter().map(|(model, ns)| (model.name(), *ns)).collect();
        Self { variation: variation.name.clone(), steady_ns: named }
    }

    /// Models from the shortest steady work to the longest; equal ones stay in the order of the
    /// measurement.
    fn order(&self) -> Vec<&'static str> {
        let mut order = self.steady_ns.clone();
        order.sort_by_key(|(_, ns)| *ns);
        order.into_iter().map(|(model, _)| model).collect()
    }

    /// The steady work of a model, in nanoseconds.
    pub fn steady_ns(&self, model: &str) -> Option<u64> {
        self.steady_ns.iter().find(|(name, _)| *name == model).map(|(_, ns)| *ns)
    }

    /// Relation of `first` and `second` on this machine; `None` if either was not measured.
    pub fn relation(&self, first: &str, second: &str) -> Option<Relation> {
        Some(relation(self.steady_ns(first)?, self.steady_ns(second)?))
    }
}

/// Two models whose relation on a machine differs from that on the nominal machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The machine.
    pub variation: String,
    /// A model.
    pub first: &'static str,
    /// A model that is not before `first` in [`Ranking::order`].
    pub second: &'static str,
    /// Relation of `first` and `second` on the nominal machine.
    pub nominal: Relation,
    /// Their relation on this machine.
    pub here: Relation,
}

/// The models by steady work, and the changes of their order on other machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ranking {
    /// Models on the nominal machine by steady work, shortest first. Neighbours may be tied: see
    /// `ties`.
    pub order: Vec<&'static str>,
    /// Pairs of models without a difference on the nominal machine.
    pub ties: Vec<[&'static str; 2]>,
    /// A difference of at most one part in this many of the longer time is a tie.
    pub tie_parts: u64,
    /// Whether every pair of models has one relation on all machines.
    pub survives: bool,
    /// Pairs whose relation differs on another machine.
    pub changes: Vec<Change>,
    /// All measurements, the nominal machine first.
    pub measurements: Vec<Measurement>,
    /// Runs whose rings were full for a noticeable share of their makespan; the caller adds them.
    pub ring_space: Vec<RingSpace>,
}

/// A run whose makespan may depend on the size of its rings. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RingSpace {
    /// The machine.
    pub variation: String,
    /// The model.
    pub model: &'static str,
    /// Time of submissions in the backlogs of full rings, summed over the queues.
    pub ring_wait_ns: u64,
}

/// Compares every machine with the first one; `None` without a measurement.
pub fn judge(measurements: Vec<Measurement>) -> Option<Ranking> {
    let nominal = measurements.first()?;
    let order = nominal.order();
    let (mut ties, mut changes) = (Vec::new(), Vec::new());
    for (place, first) in order.iter().copied().enumerate() {
        for second in order[place + 1..].iter().copied() {
            let Some(on_nominal) = nominal.relation(first, second) else { continue };
            if on_nominal == Relation::NoDifference {
                ties.push([first, second]);
            }
            for other in &measurements[1..] {
                let Some(here) = other.relation(first, second).filter(|here| *here != on_nominal)
                else {
                    continue;
                };
                let variation = other.variation.clone();
                changes.push(Change { variation, first, second, nominal: on_nominal, here });
            }
        }
    }
    let survives = changes.is_empty();
    Some(Ranking {
        order,
        ties,
        tie_parts: TIE_PARTS,
        survives,
        changes,
        measurements,
        ring_space: Vec::new(),
    })
}

impl Ranking {
    /// Whether two models have no difference on the nominal machine.
    fn tied(&self, first: &str, second: &str) -> bool {
        self.ties.iter().any(|pair| pair.contains(&first) && pair.contains(&second))
    }

    /// The number of machines on which `model` and `other` have the same relation as on the nominal
    /// one, and the number of all machines.
    pub fn held(&self, model: &str, other: &str) -> (usize, usize) {
        let nominal = self.measurements.first().and_then(|first| first.relation(model, other));
        let same =
            self.measurements.iter().filter(|machine| machine.relation(model, other) == nominal);
        (same.count(), self.measurements.len())
    }

    /// The order in words: `user, then packet and hardware (no difference)`.
    fn order_in_words(&self) -> String {
        let mut places: Vec<Vec<&str>> = Vec::new();
        for model in &self.order {
            match places.last_mut() {
                // A model shares a place only where it is tied with every model there.
                Some(place) if place.iter().all(|other| self.tied(model, other)) => {
                    place.push(model)
                }
                _ => places.push(vec![model]),
            }
        }
        let place = |models: &Vec<&str>| match models.as_slice() {
            [model] => (*model).to_owned(),
            models => format!("{} (no difference)", models.join(" and ")),
        };
        let mut words = places.iter().map(place).collect::<Vec<_>>().join(", then ");
        let apart =
            |pair: &&[&str; 2]| !places.iter().any(|place| pair.iter().all(|m| place.contains(m)));
        for [first, second] in self.ties.iter().filter(apart) {
            words += &format!("; {first} and {second}: no difference");
        }
        words
    }

    /// Report lines: the order, and each machine on which the relation of a pair differs.
    pub fn lines(&self) -> Vec<String> {
        let (order, machines) = (self.order_in_words(), self.measurements.len());
        let mut lines = vec![match self.survives {
            true => format!("fastest first: {order}; the same on all {machines} cost settings"),
            false => {
                format!("fastest first: {order}; not the same on all {machines} cost settings:")
            }
        }];
        for machine in &self.measurements {
            let here = self.changes.iter().filter(|change| change.variation == machine.variation);
            let pair = |change: &Change| match change.here {
                Relation::Faster => format!("{} is before {}", change.first, change.second),
                Relation::Slower => format!("{} is before {}", change.second, change.first),
                Relation::NoDifference => {
                    format!("{} and {} have no difference", change.first, change.second)
                }
            };
            let pairs: Vec<String> = here.map(pair).collect();
            if !pairs.is_empty() {
                lines.push(format!("  with {}: {}", machine.variation, pairs.join("; ")));
            }
        }
        for RingSpace { variation, model, ring_wait_ns } in &self.ring_space {
            lines.push(format!(
                "  with {variation} rings under {model} were full for {} us: the place of {model} may depend on --ring-slots",
                ring_wait_ns / 1_000
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(name: &str, packet: u64, hardware: u64, user: u64) -> Measurement {
        let variation = Variation { name: name.into(), costs: CostModel::nominal() };
        Measurement::new(
            &variation,
            &[
                (Submission::Packet, packet),
                (Submission::Hardware, hardware),
                (Submission::User, user),
            ],
        )
    }

    #[test]
    fn plans_begin_with_the_ordinary_machine_and_vary_one_step_at_a_time() {
        let nominal = CostModel::nominal();
        assert_eq!(short_plan(&nominal).len(), 3);
        let variations = plan(&nominal, &DECISIVE);
        assert_eq!(variations.len(), 3 + 2 * DECISIVE.len());
        assert_eq!(variations[0].costs, CostModel::nominal());
        let changed = |variation: &Variation| {
            Step::ALL
                .iter()
                .filter(|s| variation.costs.ns(**s) != CostModel::nominal().ns(**s))
                .count()
        };
        assert!(variations[3..].iter().all(|variation| changed(variation) == 1));
        assert_eq!(plan(&nominal, Step::ALL).len(), 3 + 2 * Step::COUNT);
    }

    #[test]
    fn a_ranking_survives_or_the_change_is_named() {
        let same = judge(vec![measured("nominal", 300, 200, 100), measured("high", 900, 500, 400)])
            .unwrap();
        assert!(same.survives);
        assert_eq!(same.order, ["user", "hardware", "packet"]);
        assert_eq!(same.held("user", "packet"), (2, 2));
        let other =
            judge(vec![measured("nominal", 300, 200, 100), measured("low", 90, 100, 50)]).unwrap();
        assert!(!other.survives);
        let change = Change {
            variation: "low".into(),
            first: "hardware",
            second: "packet",
            nominal: Relation::Faster,
            here: Relation::Slower,
        };
        assert_eq!(other.changes, [change]);
        assert_eq!(other.held("hardware", "packet"), (1, 2));
        assert_eq!(other.lines()[1], "  with low: packet is before hardware");
        assert_eq!(judge(Vec::new()), None);
    }

    #[test]
    fn a_tie_is_half_a_percent_of_the_longer_makespan() {
        assert_eq!(relation(199, 200), Relation::NoDifference);
        assert_eq!(relation(198, 200), Relation::Faster);
        assert_eq!(relation(200, 198), Relation::Slower);
        assert_eq!(relation(0, 0), Relation::NoDifference);
        assert_eq!(relation(u64::MAX, 0), Relation::Slower);
    }

    #[test]
    fn models_that_are_tied_have_no_order_and_are_reported_so() {
        let equal = judge(vec![
            measured("nominal", 10_000, 10_001, 9_000),
            measured("low", 10_001, 9_999, 9_000),
        ]);
        let equal = equal.unwrap();
        assert!(equal.survives);
        assert_eq!(equal.ties, [["packet", "hardware"]]);
        let line = "fastest first: user, then packet and hardware (no difference); the same on all 2 cost settings";
        assert_eq!(equal.lines(), [line]);
    }

    /// The claim "the same on all machines" and the order use one tie: a pair that is ordered on
    /// the nominal machine and tied on another one, or the other way round, is a change.
    #[test]
    fn an_order_that_becomes_a_tie_elsewhere_is_not_the_same_everywhere() {
        let drawn_near =
            judge(vec![measured("nominal", 300, 200, 100), measured("low", 1000, 1001, 900)])
                .unwrap();
        assert!(!drawn_near.survives);
        assert_eq!(drawn_near.lines()[1], "  with low: hardware and packet have no difference");
        let drawn_apart =
            judge(vec![measured("nominal", 1000, 1001, 900), measured("low", 300, 200, 100)])
                .unwrap();
        assert!(!drawn_apart.survives);
        assert_eq!(drawn_apart.held("packet", "hardware"), (1, 2));
        assert_eq!(drawn_apart.lines()[1], "  with low: hardware is before packet");
    }

    #[test]
    fn a_place_that_rests_on_ring_space_is_named() {
        let mut ranking = judge(vec![measured("nominal", 300, 200, 100)]).unwrap();
        let (variation, ring_wait_ns) = ("high".to_owned(), 32_900_000);
        ranking.ring_space.push(RingSpace { variation, model: "user", ring_wait_ns });
        let line = "  with high rings under user were full for 32900 us: the place of user may depend on --ring-slots";
        assert_eq!(ranking.lines()[1], line);
    }

    #[test]
    fn ties_between_neighbours_do_not_tie_the_ends() {
        let ranking = judge(vec![measured("nominal", 1_000, 1_004, 1_008)]).unwrap();
        assert_eq!(ranking.ties, [["packet", "hardware"], ["hardware", "user"]]);
        let words = "fastest first: packet and hardware (no difference), then user; hardware and user: no difference; \
                     the same on all 1 cost settings";
        assert_eq!(ranking.lines(), [words]);
    }

    #[test]
    fn a_change_is_named_wherever_it_is() {
        let ranking = judge(vec![
            measured("nominal", 300, 200, 100),
            measured("low", 30, 20, 10),
            measured("high", 900, 800, 700),
            measured("doorbell high", 300, 200, 250),
        ]);
        let ranking = ranking.unwrap();
        assert!(!ranking.survives);
        let changed: Vec<_> =
            ranking.changes.iter().map(|c| (c.variation.as_str(), c.first, c.second)).collect();
        assert_eq!(changed, [("doorbell high", "user", "hardware")]);
        assert_eq!(ranking.held("user", "hardware"), (3, 4));
    }
}
