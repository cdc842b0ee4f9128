//! Random programs on machines whose driver makes the mistake of a clause of `tidegate conform`.
//! Results may be wrong and adapters may stop, but each wait ends, and nothing panics.

use crate::seeds::{in_words, on_threads};
use tidegate_swarm::hunt::{Bounds, Caught, Ground, hunt};

/// The most runs of the shrinker for one failure.
const SHRINK_RUNS: u32 = 300;

/// Runs the programs of `seeds` with the mistake of each clause.
fn hold(ground: Ground, seeds: std::ops::Range<u64>) {
    let mut failures = String::new();
    let mut programs = 0;
    for clause in tidegate_conform::clauses() {
        let mut report = |caught: &Caught| {
            failures.push_str(&format!("{}: {}", clause.id, in_words(ground, caught)))
        };
        let hunted = hunt(
            ground,
            Bounds {
                is_verified: false,
                faulty: Some(clause),
                seeds: &mut { seeds.clone() },
                steps: None,
                keep_going: &|| true,
                keep_shrinking: &|runs| runs < SHRINK_RUNS,
                on_host: &on_threads,
                report: &mut report,
            },
        );
        programs += hunted.programs;
    }
    assert!(failures.is_empty(), "{failures}");
    assert!(programs > 100 * (seeds.end - seeds.start));
}

#[test]
fn programs_on_wrong_drivers_end() {
    hold(Ground::Virtual, 1..9);
}

#[test]
fn schedules_of_programs_on_wrong_drivers_end() {
    hold(Ground::Explored { schedules: 10 }, 1..3);
}
