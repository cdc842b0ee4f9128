//! Runs tagged tests under switches, and remembers what came of each run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use crate::spec::TestTag;
use crate::test_programs::Program;

/// The longest time of a test without a switch.
const LIMIT: Duration = Duration::from_secs(300);
/// A test that takes longer than this under a switch, and longer than `SLOWER` times its time
/// without one, counts as failed: it was not seen to pass.
const LIMIT_UNDER_SWITCH: Duration = Duration::from_secs(30);
const SLOWER: u32 = 4;

/// A tagged test, as its program names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Test {
    program: usize,
    pub name: String,
}

/// What came of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed,
    /// The test is ignored in this form of the run.
    NotRun,
    /// The time of all runs was used before.
    OutOfTime,
}

/// The test programs, and the runs that were made.
pub struct Runs<'p> {
    programs: &'p [Program],
    listed: Vec<Option<Vec<String>>>,
    done: BTreeMap<(Test, u32), Outcome>,
    times: BTreeMap<Test, Duration>,
    logs: PathBuf,
    until: Option<Instant>,
}

impl<'p> Runs<'p> {
    /// No run begins after `until`.
    pub fn new(
        programs: &'p [Program],
        copy: &Path,
        until: Option<Instant>,
    ) -> Result<Runs<'p>, String> {
        let logs = copy.join("logs");
        fs::create_dir_all(&logs).map_err(|e| format!("{}: cannot make: {e}", logs.display()))?;
        Ok(Runs {
            programs,
            listed: vec![None; programs.len()],
            done: BTreeMap::new(),
            times: BTreeMap::new(),
            logs,
            until,
        })
    }

    /// The tagged test in the program that holds it.
    pub fn find(&mut self, tag: &TestTag) -> Option<Test> {
        let (package, file) = place(&tag.file)?;
        let held = |p: &Program| match &file {
            Some(file) => p.name == format!("{package}/{file}"),
            None => p.of_source && p.name.split('/').next() == Some(package.as_str()),
        };
        let candidates: Vec<usize> =
            (0..self.programs.len()).filter(|n| held(&self.programs[*n])).collect();
        candidates.into_iter().find_map(|program| {
            let listed = self.listed[program].get_or_insert_with(|| self.programs[program].tests());
            let module = tag.file.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
            let of_file = format!("{module}::{}", tag.name);
            let inside = format!("::{}", tag.name);
            let name = (listed.iter().find(|name| name.ends_with(&of_file)))
                .or_else(|| listed.iter().find(|n| **n == tag.name || n.ends_with(&inside)))?;
            Some(Test { program, name: name.clone() })
        })
    }

    /// Runs the test with the switch of this number on; 0 is none.
    pub fn outcome(&mut self, test: &Test, switch: u32) -> Result<Outcome, String> {
        let key = (test.clone(), switch);
        if let Some(known) = self.done.get(&key) {
            return Ok(*known);
        }
        if self.until.is_some_and(|until| Instant::now() >= until) {
            return Ok(Outcome::OutOfTime);
        }
        let environment = [("TIDEGATE_MUTANT", switch.to_string().into())];
        let limit = match self.times.get(test) {
            Some(time) if switch != 0 => LIMIT_UNDER_SWITCH.max(*time * SLOWER),
            _ => LIMIT,
        };
        let ended =
            self.programs[test.program].run_one(&test.name, &self.logs, limit, &environment)?;
        let outcome = match (ended.failure, ended.passed) {
            (Some(_), _) => Outcome::Failed,
            (None, false) => Outcome::NotRun,
            (None, true) => Outcome::Passed,
        };
        if switch == 0 {
            self.times.insert(test.clone(), ended.took);
        }
        self.done.insert(key, outcome);
        Ok(outcome)
    }

    /// How long the test took without a switch; the longest time if it has not run.
    pub fn time_without_switch(&self, test: &Test) -> Duration {
        self.times.get(test).copied().unwrap_or(Duration::MAX)
    }
}

/// The package that holds a test.
pub fn package(tag: &TestTag) -> Option<String> {
    let (folder, _) = place(&tag.file)?;
    Some(if folder == "tidegate" { folder } else { format!("tidegate-{folder}") })
}

/// Package folder of a test file, and its test program; `None` for the tests inside a library.
fn place(file: &Path) -> Option<(String, Option<String>)> {
    let parts: Vec<String> = file
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            _ => None,
        })
        .collect();
    match parts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["crates", package, "tests", file] => {
            Some((package.to_owned(), Some(file.trim_end_matches(".rs").to_owned())))
        }
        ["crates", package, "tests", folder, ..] => {
            Some((package.to_owned(), Some(folder.to_owned())))
        }
        ["crates", package, "src", ..] => Some((package.to_owned(), None)),
        [package, "tests", file] => {
            Some((package.to_owned(), Some(file.trim_end_matches(".rs").to_owned())))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_file_names_its_program() {
        let of = |path: &str| place(Path::new(path));
        assert_eq!(
            of("crates/cli/tests/command_line.rs"),
            Some(("cli".into(), Some("command_line".into())))
        );
        assert_eq!(
            of("crates/kmd/tests/reference/life.rs"),
            Some(("kmd".into(), Some("reference".into())))
        );
        assert_eq!(of("crates/dxgkrnl/src/sched/vidsch/tests.rs"), Some(("dxgkrnl".into(), None)));
        assert_eq!(of("README.md"), None);
    }
}
