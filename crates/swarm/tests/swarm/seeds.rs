//! The programs of fixed seeds hold on every ground.
//!
//! A seed that fails is shrunk. The test prints the program, its line for `tidegate replay`, and a
//! test. A program that stands still on threads ends the process with the stacks of its threads.

use std::fmt::Write;
use std::sync::Arc;
use tidegate_swarm::hunt::{Bounds, Caught, Ground, hunt};
use tidegate_swarm::line::Where;
use tidegate_swarm::{Failure, Program, threads};

/// The most runs of the shrinker for one failure.
const SHRINK_RUNS: u32 = 300;

/// Runs the programs of `seeds`.
fn hold(ground: Ground, seeds: std::ops::Range<u64>) {
    hold_with(ground, seeds, false);
}

/// The same; the drivers are judged by the clauses of `tidegate conform` if `is_verified`.
fn hold_with(ground: Ground, seeds: std::ops::Range<u64>, is_verified: bool) {
    let wanted = seeds.end - seeds.start;
    let mut failures = String::new();
    let mut report = |caught: &Caught| failures.push_str(&in_words(ground, caught));
    let hunted = hunt(
        ground,
        Bounds {
            is_verified,
            faulty: None,
            seeds: &mut { seeds },
            steps: None,
            keep_going: &|| true,
            keep_shrinking: &|runs| runs < SHRINK_RUNS,
            on_host: &on_threads,
            report: &mut report,
        },
    );
    assert!(hunted.failed == 0, "{} of {wanted} programs failed\n{failures}", hunted.failed);
    assert_eq!(hunted.programs, wanted);
    assert!(hunted.steps > wanted, "programs have operations");
}

pub(crate) fn in_words(ground: Ground, caught: &Caught) -> String {
    let Caught { seed, failure, shrunk, line, .. } = caught;
    let mut text = format!("seed {seed}, {}: {failure}\n{}", ground.name(), shrunk.program);
    let test = line.test(&format!("seed_{seed}"));
    let written = write!(text, "replay: tidegate replay '{line}'\nas a test:\n{test}");
    written.expect("a text takes every line");
    text
}

pub(crate) fn on_threads(_: Where, program: &Program) -> Option<Failure> {
    let program = Arc::new(program.clone());
    threads::run_watched(&threads::platform(&program), &program).failure
}

const EXPLORED: Ground = Ground::Explored { schedules: 20 };

#[test]
fn first_programs_in_virtual_time() {
    hold(Ground::Virtual, 1..751);
}

#[test]
fn drivers_of_programs_keep_the_clauses() {
    hold_with(Ground::Virtual, 1..201, true);
    hold_with(EXPLORED, 1..9, true);
    hold_with(Ground::Threads, 1..21, true);
}

#[test]
fn second_programs_in_virtual_time() {
    hold(Ground::Virtual, 751..1_501);
}

#[test]
fn programs_on_explored_machines() {
    hold(EXPLORED, 1..201);
}

#[test]
fn mixed_work_on_threads() {
    hold(Ground::Threads, 1..41);
}
