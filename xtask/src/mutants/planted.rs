//! `cargo xtask planted`: the swarm must find each planted bug of `xtask/planted.toml`.
//!
//! A planted bug is a mistake that needs several protocols at once: no scenario of
//! `crates/scenarios` finds it. All are built at once, each behind a switch, as those of
//! `mistakes`.
//!
//! For each bug: 1. its program, a line of the swarm, holds without the bug; 2. it fails with the
//! bug, by the named oracle; 3. in the full form, the swarm's seeds find the bug within the stated
//! number of programs. The line is what the swarm has shrunk, so step 2 does not depend on the
//! generator.
//!
//! Entry points: [`check`] (without a build), [`run`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::build::{Numbered, build};
use super::mistakes::{Change, number};
use crate::tree;

/// Where the bugs are written, relative to the repository.
pub const FILE: &str = "xtask/planted.toml";
/// The longest run of one program, and the longest hunt, in seconds.
const LONGEST_RUN: u32 = 60;
const LONGEST_HUNT: u32 = 600;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    planted: Vec<Planted>,
}

#[derive(Deserialize)]
struct Planted {
    #[serde(flatten)]
    change: Change,
    /// The operations that have to come together.
    mix: String,
    /// The ground of the hunt.
    on: String,
    /// The first seed of the hunt.
    seed: u64,
    /// Programs from that seed on, of which one must fail; 0 without a hunt, if the generator has
    /// changed since it was found.
    programs: u64,
    /// The oracle that finds it.
    oracle: String,
    /// The shrunk program.
    line: String,
}

/// How much is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The lines.
    Lines,
    /// The lines, and hunts.
    Hunts,
}

fn read(root: &Path) -> Result<Vec<Planted>, String> {
    let text = fs::read_to_string(root.join(FILE)).map_err(|e| format!("{FILE}: {e}"))?;
    let list: List = toml::from_str(&text).map_err(|e| format!("{FILE}: {e}"))?;
    Ok(list.planted)
}

/// Checks that each bug fits its file, without building anything.
///
/// # Errors
/// The bugs that do not.
pub fn check(root: &Path) -> Result<(), String> {
    let all = read(root)?;
    number(root, all.iter().map(|planted| &planted.change), FILE)?;
    for Planted { change, mix, line, .. } in &all {
        if mix.is_empty() || !line.starts_with("swarm/") {
            return Err(format!("{FILE}: '{}' has no mix, or no line of the swarm", change.what));
        }
    }
    println!("{} planted bugs fit the code", all.len());
    Ok(())
}

/// Judges the bugs of which `what` or the file contains one of `wanted`, or all.
///
/// # Errors
/// The bugs that the swarm does not find, and those that do not compile.
pub fn run(root: &Path, form: Form, wanted: &[&str]) -> Result<(), String> {
    let all: Vec<Planted> =
        read(root)?.into_iter().filter(|planted| planted.change.is_wanted(wanted)).collect();
    if all.is_empty() {
        return Err(format!("no bug in {FILE} names {}", wanted.join(" or ")));
    }
    let mut switches = number(root, all.iter().map(|planted| &planted.change), FILE)?;
    let copy = tree::build_folder(root).join("planted");
    let begun = Instant::now();
    let program = build_program(root, &copy, &mut switches)?;
    println!("{} planted bugs built in {:.0} s", all.len(), begun.elapsed().as_secs_f64());
    let mut wrong = Vec::new();
    for (switch, planted) in (1..).zip(&all) {
        let is_built = switches.iter().any(|n| n.number == switch);
        let judge = || judge(&Runner { program: &program, switch }, form, planted);
        let verdict = if is_built { judge() } else { Err("does not compile".to_owned()) };
        let what = &planted.change.what;
        match verdict {
            Ok(text) => println!("[{switch}/{}] {what}: {text}", all.len()),
            Err(text) => {
                println!("[{switch}/{}] {what}: WRONG: {text}", all.len());
                wrong.push(format!("{what}: {text}"));
            }
        }
    }
    match wrong.len() {
        0 => Ok(()),
        count => Err(format!("{}\nplanted: {count} of {}", wrong.join("\n"), all.len())),
    }
}

/// Builds the command line with the switches. Returns the program.
fn build_program(
    root: &Path,
    copy: &Path,
    switches: &mut Vec<Numbered>,
) -> Result<PathBuf, String> {
    let line = |command: &str| {
        let words = [command, "--message-format", "json", "--package", "tidegate-cli", "--bins"];
        words.map(str::to_owned).to_vec()
    };
    let _no_tests = build(root, copy, &[line("check"), line("build")], switches, None)?;
    Ok(copy.join("target").join("debug").join("tidegate"))
}

/// The program with a switch on.
struct Runner<'p> {
    program: &'p Path,
    switch: u32,
}

impl Runner<'_> {
    fn run(&self, on: bool, seconds: u32, arguments: &[&str]) -> Result<Output, String> {
        let switch = if on { self.switch } else { 0 };
        let mut command = Command::new("timeout");
        command.arg(seconds.to_string()).arg(self.program).args(arguments);
        command.env("TIDEGATE_MUTANT", switch.to_string()).stdin(Stdio::null());
        command.output().map_err(|e| format!("cannot run {}: {e}", self.program.display()))
    }

    /// Runs a line. Returns what the replay says at its end.
    fn replay(&self, on: bool, line: &str) -> Result<String, String> {
        let output = self.run(on, LONGEST_RUN, &["replay", line])?;
        let text = String::from_utf8_lossy(&output.stdout);
        let said = text.lines().find(|l| l.starts_with("fails: ") || *l == "does not fail");
        Ok(said.map_or_else(|| format!("the replay ended with {}", output.status), str::to_owned))
    }
}

fn judge(runner: &Runner<'_>, form: Form, planted: &Planted) -> Result<String, String> {
    let without = runner.replay(false, &planted.line)?;
    if without != "does not fail" {
        return Err(format!("without the bug its program {without}"));
    }
    let with = runner.replay(true, &planted.line)?;
    if !is_by(&planted.oracle, &with) {
        return Err(format!("with the bug its program {with}, and not by '{}'", planted.oracle));
    }
    if form == Form::Lines || planted.programs == 0 {
        return Ok(format!("its program {with}"));
    }
    let begun = Instant::now();
    let found = hunt(runner, planted)?;
    Ok(found.in_words(begun.elapsed()))
}

/// Returns whether a replay failed by an oracle. A refused call is named by its step.
fn is_by(oracle: &str, said: &str) -> bool {
    match said.strip_prefix("fails: ") {
        Some(failure) if oracle == "status" => failure.starts_with('\''),
        Some(failure) => failure.starts_with(oracle),
        None => false,
    }
}

#[derive(Deserialize)]
struct Results {
    grounds: Vec<Ground>,
}

#[derive(Deserialize)]
struct Ground {
    programs: u64,
    failures: Vec<Found>,
}

/// The first failure of a hunt.
#[derive(Deserialize)]
struct Found {
    seed: u64,
    oracle: String,
    operations: usize,
    shrunk_operations: usize,
}

impl Found {
    fn in_words(&self, took: Duration) -> String {
        let Found { seed, oracle, operations, shrunk_operations } = self;
        let seconds = took.as_secs_f64();
        format!(
            "found by seed {seed} ({oracle}) in {seconds:.0} s, shrunk from {operations} to {shrunk_operations} operations"
        )
    }
}

fn hunt(runner: &Runner<'_>, planted: &Planted) -> Result<Found, String> {
    let (seed, programs) = (planted.seed.to_string(), planted.programs.to_string());
    let arguments = ["swarm", "--on", &planted.on, "--seed", &seed, "--programs", &programs];
    let arguments = [&arguments[..], &["--first-failure", "--json", "-"]].concat();
    let output = runner.run(true, LONGEST_HUNT, &arguments)?;
    let results: Results = serde_json::from_slice(&output.stdout)
        .map_err(|e| format!("the hunt ended with {}: {e}", output.status))?;
    let ground = results.grounds.into_iter().next().ok_or("the hunt has no results")?;
    let none = format!("none of {} programs found it", ground.programs);
    ground.failures.into_iter().next().ok_or(none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_planted_bugs_of_the_repository_fit_the_code() {
        check(&tree::root()).unwrap();
    }

    #[test]
    fn a_failure_names_its_oracle() {
        assert!(is_by("standstill", "fails: standstill: 'main' waits"));
        assert!(is_by("status", "fails: 't0 execute q0 1' failed: DEVICE_REMOVED"));
        assert!(!is_by("leak", "fails: blame: a device") && !is_by("leak", "does not fail"));
    }
}
