//! `cargo xtask test` and `cargo xtask full`: everything that has to pass, in order, cheap things
//! first.
//!
//! The first stage that fails ends the run, and the last line names it. Times are printed as
//! information; no stage passes or fails by them. The fuzzer is built beside all stages.

use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;

use crate::cargo::cargo;
use crate::{
    coverage, facade, fuzz, instructions, mutants, setup, spec, swarm, tables, test_programs, tidy,
};

/// One stage: what it is called, and what it runs.
struct Stage {
    name: &'static str,
    task: Task,
}

enum Task {
    /// A check of this program.
    Own(fn(&Path) -> Result<(), String>),
    /// The test programs, which take the environment that the machine was prepared with.
    TestPrograms,
    /// A cargo command line.
    Cargo(&'static str),
}

const fn own(name: &'static str, check: fn(&Path) -> Result<(), String>) -> Stage {
    Stage { name, task: Task::Own(check) }
}

const fn cargo_line(name: &'static str, line: &'static str) -> Stage {
    Stage { name, task: Task::Cargo(line) }
}

/// The test programs search every scenario, and find every planted bug, in the bounded form.
const TEST: &[Stage] = &[
    cargo_line("format", "fmt --all --check"),
    own("tidy", tidy::check),
    own("spec", spec::check),
    cargo_line("clippy", "clippy --workspace --all-targets --quiet -- -D warnings"),
    own("documentation", facade::documentation),
    own("packaging", facade::packaging),
    Stage { name: "tests", task: Task::TestPrograms },
    own("mutants --touched", mutants::run_touched_bounded),
    own("fuzz", fuzz::short),
];

const LONG: &[Stage] = &[
    cargo_line(
        "exploration, full",
        "run --release --quiet --package tidegate-cli -- explore --full",
    ),
    cargo_line("long tests", "test --workspace --profile quick --quiet -- --ignored"),
    own("swarm", swarm::long),
    own("mutants", |root| mutants::run(root, &[])),
    own("mutants --random", mutants::random::long),
    own("mistakes", |root| mutants::mistakes::run(root, &[])),
    own("planted", |root| mutants::planted::run(root, mutants::planted::Form::Hunts, &[])),
    own("coverage", |root| coverage::run(root, &[])),
    own("fuzz, long", fuzz::long),
    own("tables", tables::check),
    own("instructions", instructions::check),
    cargo_line(
        "library without features",
        "clippy --package tidegate --no-default-features --quiet -- -D warnings",
    ),
    cargo_line(
        "peers",
        "clippy --package tidegate-peers --features all --all-targets --quiet -- -D warnings",
    ),
    cargo_line("bench", "run --release --quiet --package tidegate-bench"),
];

/// Everything that has to pass before a change is merged.
pub fn test(root: &Path) -> Result<(), String> {
    let stages: Vec<&Stage> = TEST.iter().collect();
    run(root, "test", &stages)
}

/// Only the test programs.
pub fn tests(root: &Path) -> Result<(), String> {
    test_programs::run(root, &setup::prepare(root))
}

/// All of `test`, and the long forms.
pub fn full(root: &Path) -> Result<(), String> {
    let stages: Vec<&Stage> = TEST.iter().chain(LONG).collect();
    run(root, "full", &stages)
}

fn run(root: &Path, task: &str, stages: &[&Stage]) -> Result<(), String> {
    let environment = setup::prepare(root);
    let _fuzzer = fuzz::build_beside(root);
    run_stages(root, task, stages, &environment)
}

fn run_stages(
    root: &Path,
    task: &str,
    stages: &[&Stage],
    environment: &[(&str, OsString)],
) -> Result<(), String> {
    let start = Instant::now();
    let mut times = Vec::new();
    for (index, stage) in stages.iter().enumerate() {
        println!("\n== {}/{} {}: {}", index + 1, stages.len(), stage.name, command_line(stage));
        let begin = Instant::now();
        let outcome = match stage.task {
            Task::Own(check) => check(root),
            Task::TestPrograms => test_programs::run(root, environment),
            Task::Cargo(line) => cargo(root, &line.split(' ').collect::<Vec<_>>(), environment),
        };
        let seconds = begin.elapsed().as_secs_f64();
        if let Err(message) = outcome {
            return Err(format!("{message}\n{task} failed: {} (after {seconds:.1} s)", stage.name));
        }
        println!("-- {} passed in {seconds:.1} s", stage.name);
        times.push(format!("{} {seconds:.0} s", stage.name));
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("\n{task} passed: {} stages in {seconds:.1} s: {}", stages.len(), times.join("; "));
    Ok(())
}

/// What a person would type to run only this stage.
fn command_line(stage: &Stage) -> String {
    match stage.task {
        Task::Own(_) | Task::TestPrograms => format!("cargo xtask {}", stage.name),
        Task::Cargo(line) => format!("cargo {line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_stages_are_named_as_their_tasks() {
        for stage in TEST.iter().filter(|s| matches!(s.task, Task::Own(_))) {
            assert!(
                matches!(
                    stage.name,
                    "tidy" | "spec" | "documentation" | "packaging" | "fuzz" | "mutants --touched"
                ),
                "{}",
                command_line(stage)
            );
        }
    }

    #[test]
    fn the_first_failing_stage_ends_the_run() {
        let good = own("good", |_| Ok(()));
        let bad = own("bad", |_| Err("broken".to_owned()));
        let never = own("never", |_| panic!("ran behind a failed stage"));
        let root = Path::new(".");
        assert!(run_stages(root, "test", &[&good, &good], &[]).is_ok());
        let message = run_stages(root, "test", &[&good, &bad, &never], &[]).unwrap_err();
        assert!(message.starts_with("broken\ntest failed: bad (after "), "{message}");
    }
}
