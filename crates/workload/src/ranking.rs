//! Whether the ranking of the submission models survives the ranges of the cost model.
//!
//! This room owns the plan (which machines to try) and the verdict; it runs nothing. The order: [`plan`] or [`short_plan`]
//! → the caller measures every model on every machine → [`judge`]. A comparison is worth something where the verdict is the
//! same on all of them.

use serde::Serialize;
use tidegate_platform::Step;

use crate::cost::{COSTS, CostModel};
use crate::model::Submission;

/// Makespans closer than one part in so many count as equal: then neither model is before the other.
const EQUAL_WITHIN: u64 = 200;

/// The steps on which the models differ most: what a submission, a wait and a wake cost.
pub const DECISIVE: [Step; 5] = [
    Step::KernelCall,
    Step::VidSchDispatch,
    Step::InterruptDelivery,
    Step::ThreadWake,
    Step::DoorbellToFetch,
];

/// One machine to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variation {
    /// What differs from the ordinary machine.
    pub name: String,
    /// Its prices.
    pub costs: CostModel,
}

/// The ordinary machine, both ends of everything, and both ends of each of these steps alone.
pub fn plan(steps: &[Step]) -> Vec<Variation> {
    let whole = [CostModel::nominal(), CostModel::low(), CostModel::high()];
    let mut variations: Vec<Variation> =
        whole.into_iter().map(|costs| Variation { name: costs.name.to_owned(), costs }).collect();
    for cost in COSTS.iter().filter(|cost| steps.contains(&cost.step)) {
        for (end, ns) in [("low", cost.low_ns), ("high", cost.high_ns)] {
            let name = format!("{} {end}", cost.step.name());
            variations.push(Variation { name, costs: CostModel::nominal_but(cost.step, ns) });
        }
    }
    variations
}

/// For workloads that take long: the ordinary machine and both ends of everything.
pub fn short_plan() -> Vec<Variation> {
    plan(&[])
}

/// Makespans in nanoseconds of all models on one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Measurement {
    /// The machine, as the plan calls it.
    pub variation: String,
    /// By model.
    pub makespans_ns: Vec<(&'static str, u64)>,
}

impl Measurement {
    /// A measurement of one variation of a plan.
    pub fn new(variation: &Variation, makespans_ns: &[(Submission, u64)]) -> Self {
        let named = makespans_ns.iter().map(|(model, ns)| (model.name(), *ns)).collect();
        Self { variation: variation.name.clone(), makespans_ns: named }
    }

    /// Models from the fastest to the slowest.
    fn order(&self) -> Vec<&'static str> {
        let mut order = self.makespans_ns.clone();
        order.sort_by_key(|(_, ns)| *ns);
        order.into_iter().map(|(model, _)| model).collect()
    }

    fn ns(&self, model: &str) -> Option<u64> {
        self.makespans_ns.iter().find(|(name, _)| *name == model).map(|(_, ns)| *ns)
    }

    /// Whether `first` is slower than `second` by more than what counts as equal.
    fn slower(&self, first: &str, second: &str) -> bool {
        match (self.ns(first), self.ns(second)) {
            (Some(first), Some(second)) => first > second && first - second > first / EQUAL_WITHIN,
            _ => false,
        }
    }
}

/// A machine on which two models change places.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Flip {
    /// The machine.
    pub variation: String,
    /// On the ordinary machine before the other.
    pub faster: &'static str,
    /// The other, which is before it here.
    pub slower: &'static str,
}

/// The verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ranking {
    /// Models on the ordinary machine, from the fastest to the slowest.
    pub order: Vec<&'static str>,
    /// Whether the order is the same on every machine that was tried.
    pub survives: bool,
    /// Where it is not.
    pub flips: Vec<Flip>,
    /// Everything that was measured.
    pub measurements: Vec<Measurement>,
}

/// Compares every machine with the first one; `None` when nothing was measured.
pub fn judge(measurements: Vec<Measurement>) -> Option<Ranking> {
    let ordinary = measurements.first()?;
    let order = ordinary.order();
    let mut flips = Vec::new();
    for other in &measurements[1..] {
        for (place, faster) in order.iter().enumerate() {
            for slower in &order[place + 1..] {
                // What is equal on the ordinary machine has no order that could be lost.
                if ordinary.slower(slower, faster) && other.slower(faster, slower) {
                    flips.push(Flip { variation: other.variation.clone(), faster, slower });
                }
            }
        }
    }
    Some(Ranking { order, survives: flips.is_empty(), flips, measurements })
}

impl Ranking {
    /// For a person, one line and one for each change.
    pub fn lines(&self) -> Vec<String> {
        let order = self.order.join(", ");
        let machines = self.measurements.len();
        let mut lines = vec![match self.survives {
            true => format!(
                "fastest first: {order}; the same on all {machines} machines of the cost model's ranges"
            ),
            false => format!("fastest first: {order}; not the same everywhere in the cost model's ranges:"),
        }];
        let flip =
            |flip: &Flip| format!("  with {}, {} is before {}", flip.variation, flip.slower, flip.faster);
        lines.extend(self.flips.iter().map(flip));
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
            &[(Submission::Packet, packet), (Submission::Hardware, hardware), (Submission::User, user)],
        )
    }

    #[test]
    fn plans_begin_with_the_ordinary_machine_and_vary_one_step_at_a_time() {
        assert_eq!(short_plan().len(), 3);
        let variations = plan(&DECISIVE);
        assert_eq!(variations.len(), 3 + 2 * DECISIVE.len());
        assert_eq!(variations[0].costs, CostModel::nominal());
        let changed = |variation: &Variation| {
            Step::ALL.iter().filter(|s| variation.costs.ns(**s) != CostModel::nominal().ns(**s)).count()
        };
        assert!(variations[3..].iter().all(|variation| changed(variation) == 1));
        assert_eq!(plan(Step::ALL).len(), 3 + 2 * Step::COUNT);
    }

    #[test]
    fn a_ranking_survives_or_the_change_is_named() {
        let same = judge(vec![measured("nominal", 300, 200, 100), measured("high", 900, 500, 400)]).unwrap();
        assert!(same.survives);
        assert_eq!(same.order, ["user", "hardware", "packet"]);
        let other = judge(vec![measured("nominal", 300, 200, 100), measured("low", 90, 100, 50)]).unwrap();
        assert!(!other.survives);
        assert_eq!(other.flips, [Flip { variation: "low".into(), faster: "hardware", slower: "packet" }]);
        assert_eq!(other.lines()[1], "  with low, packet is before hardware");
        assert_eq!(judge(Vec::new()), None);
    }

    #[test]
    fn what_is_nearly_equal_has_no_order() {
        let equal =
            judge(vec![measured("nominal", 10_000, 10_001, 9_000), measured("low", 10_001, 9_999, 9_000)]);
        assert!(equal.unwrap().survives);
        let drawn_near = judge(vec![measured("nominal", 300, 200, 100), measured("low", 1000, 1001, 900)]);
        assert!(drawn_near.unwrap().survives);
    }
}
