//! `cargo xtask test` and `cargo xtask full`: everything that has to pass, in order, cheap things
//! first.
//!
//! The first stage that fails ends the run, and the last line names it. Times are printed as
//! information; no stage passes or fails by them.
#![allow(
    clippy::disallowed_types,
    reason = "the explorer never runs this: it times what a person waits for"
)]

use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;

use crate::cargo::cargo;
use crate::{fuzz, mutants, setup, spec, tables, test_programs, tidy};

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
    Cargo(&'static [&'static str]),
}

const TEST: &[Stage] = &[
    Stage { name: "format", task: Task::Cargo(&["fmt", "--all", "--check"]) },
    Stage { name: "tidy", task: Task::Own(tidy::check) },
    Stage { name: "spec", task: Task::Own(spec::check) },
    Stage {
        name: "clippy",
        task: Task::Cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ]),
    },
    Stage { name: "tests", task: Task::TestPrograms },
    Stage { name: "mutants --touched", task: Task::Own(mutants::run_touched_bounded) },
    Stage {
        name: "exploration, bounded",
        task: Task::Cargo(&[
            "run",
            "--release",
            "--quiet",
            "--package",
            "tidegate-cli",
            "--",
            "explore",
        ]),
    },
    Stage { name: "fuzz", task: Task::Own(fuzz::short) },
];

const LONG: &[Stage] = &[
    Stage {
        name: "exploration, full",
        task: Task::Cargo(&[
            "run",
            "--release",
            "--quiet",
            "--package",
            "tidegate-cli",
            "--",
            "explore",
            "--full",
        ]),
    },
    Stage {
        name: "long tests",
        task: Task::Cargo(&["test", "--workspace", "--release", "--quiet", "--", "--ignored"]),
    },
    Stage { name: "mutants", task: Task::Own(|root| mutants::run(root, &[])) },
    Stage { name: "fuzz, long", task: Task::Own(fuzz::long) },
    Stage { name: "tables", task: Task::Own(tables::check) },
    Stage {
        name: "bench",
        task: Task::Cargo(&[
            "run",
            "--release",
            "--quiet",
            "--package",
            "tidegate-cli",
            "--",
            "bench",
        ]),
    },
];

/// Everything that has to pass before a change is merged.
pub fn test(root: &Path) -> Result<(), String> {
    let stages: Vec<&Stage> = TEST.iter().collect();
    run(root, "test", &stages)
}

/// The test programs alone.
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
    run_stages(root, task, stages, &environment)
}

fn run_stages(
    root: &Path,
    task: &str,
    stages: &[&Stage],
    environment: &[(&str, OsString)],
) -> Result<(), String> {
    let start = Instant::now();
    for (index, stage) in stages.iter().enumerate() {
        println!("\n== {}/{} {}: {}", index + 1, stages.len(), stage.name, command_line(stage));
        let begin = Instant::now();
        let outcome = match stage.task {
            Task::Own(check) => check(root),
            Task::TestPrograms => test_programs::run(root, environment),
            Task::Cargo(arguments) => cargo(root, arguments, environment),
        };
        let seconds = begin.elapsed().as_secs_f64();
        if let Err(message) = outcome {
            return Err(format!("{message}\n{task} failed: {} (after {seconds:.1} s)", stage.name));
        }
        println!("-- {} passed in {seconds:.1} s", stage.name);
    }
    println!("\n{task} passed: {} stages in {:.1} s", stages.len(), start.elapsed().as_secs_f64());
    Ok(())
}

/// What a person would type to run the stage alone.
fn command_line(stage: &Stage) -> String {
    match stage.task {
        Task::Own(_) | Task::TestPrograms => format!("cargo xtask {}", stage.name),
        Task::Cargo(arguments) => format!("cargo {}", arguments.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_stages_are_named_as_their_tasks() {
        for stage in TEST.iter().filter(|s| matches!(s.task, Task::Own(_))) {
            assert!(
                matches!(stage.name, "tidy" | "spec" | "fuzz" | "mutants --touched"),
                "{}",
                command_line(stage)
            );
        }
    }

    #[test]
    fn the_first_failing_stage_ends_the_run() {
        let good = Stage { name: "good", task: Task::Own(|_| Ok(())) };
        let bad = Stage { name: "bad", task: Task::Own(|_| Err("broken".to_owned())) };
        let never =
            Stage { name: "never", task: Task::Own(|_| panic!("ran behind a failed stage")) };
        let root = Path::new(".");
        assert!(run_stages(root, "test", &[&good, &good], &[]).is_ok());
        let message = run_stages(root, "test", &[&good, &bad, &never], &[]).unwrap_err();
        assert!(message.starts_with("broken\ntest failed: bad (after "), "{message}");
    }
}
