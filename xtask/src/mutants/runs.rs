//! Runs tagged tests under switches, and remembers what came of each run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
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

/// The test programs that were built.
pub struct Built {
    pub programs: Vec<Program>,
    /// Whether the time was used before the last one.
    pub cut: bool,
}

/// The test programs, and the runs that were made.
pub struct Runs<'p> {
    built: &'p Built,
    /// The tests of each program.
    listed: Vec<Vec<String>>,
    made: Mutex<Made>,
    logs: PathBuf,
    until: Option<Instant>,
}

/// What came of the runs by test and switch, and how long the tests took without one and which
/// switches they reached.
#[derive(Default)]
struct Made {
    outcomes: BTreeMap<(Test, u32), Outcome>,
    times: BTreeMap<Test, Duration>,
    reached: BTreeMap<Test, BTreeSet<u32>>,
}

impl<'p> Runs<'p> {
    /// No run begins after `until`.
    pub fn new(built: &'p Built, copy: &Path, until: Option<Instant>) -> Result<Self, String> {
        Ok(Runs {
            built,
            listed: built.programs.iter().map(Program::tests).collect(),
            made: Mutex::default(),
            logs: copy.join("logs"),
            until,
        })
    }

    /// Whether test programs are missing that were not built in time.
    pub fn is_cut(&self) -> bool {
        self.built.cut
    }

    /// Every test of every program.
    pub fn all(&self) -> impl Iterator<Item = Test> {
        let listed = self.listed.iter().enumerate();
        listed.flat_map(|(program, names)| {
            names.iter().map(move |name| Test { program, name: name.clone() })
        })
    }

    /// The program and the name of a test, for people.
    pub fn in_words(&self, test: &Test) -> String {
        format!("{} {}", self.built.programs[test.program].name, test.name)
    }

    /// Whether the test belongs to the package in this folder.
    pub fn is_of(&self, test: &Test, folder: &str) -> bool {
        self.built.programs[test.program].name.split('/').next() == Some(folder)
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tagged test in the program that holds it.
    pub fn find(&self, tag: &TestTag) -> Option<Test> {
        let ProgramName { folder, file } = ProgramName::of(tag)?;
        let held = |p: &Program| match &file {
            Some(file) => p.name == format!("{folder}/{file}"),
            None => p.of_source && p.name.split('/').next() == Some(folder.as_str()),
        };
        let programs = self.built.programs.iter().zip(&self.listed).enumerate();
        let mut candidates = programs.filter(|(_, (program, _))| held(program));
        candidates.find_map(|(program, (_, listed))| {
            let module = tag.file.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
            let of_file = format!("{module}::{}", tag.name);
            let inside = format!("::{}", tag.name);
            let name = (listed.iter().find(|name| name.ends_with(&of_file)))
                .or_else(|| listed.iter().find(|n| **n == tag.name || n.ends_with(&inside)))?;
            Some(Test { program, name: name.clone() })
        })
    }

    /// Runs the test with the switch of this number on; 0 is none. A test that did not reach the
    /// switch without it is not run again. Runs that go on at once have folders of their own for
    /// their output.
    pub fn outcome(&self, test: &Test, switch: u32, folder: usize) -> Result<Outcome, String> {
        let key = (test.clone(), switch);
        if let Some(known) = self.made().outcomes.get(&key) {
            return Ok(*known);
        }
        if self.until.is_some_and(|until| Instant::now() >= until) {
            return Ok(Outcome::OutOfTime);
        }
        if self.made().reached.get(test).is_some_and(|r| switch != 0 && !r.contains(&switch)) {
            return Ok(Outcome::Passed);
        }
        let limit = match self.made().times.get(test) {
            Some(time) if switch != 0 => LIMIT_UNDER_SWITCH.max(*time * SLOWER),
            _ => LIMIT,
        };
        let logs = self.logs.join(folder.to_string());
        fs::create_dir_all(&logs).map_err(|e| format!("{}: cannot make: {e}", logs.display()))?;
        let reached = logs.join("reached");
        // What is left there is of the run before.
        let _ = fs::remove_file(&reached);
        let environment = [
            ("TIDEGATE_MUTANT", switch.to_string().into()),
            ("TIDEGATE_REACHED", reached.clone().into_os_string()),
        ];
        let program = &self.built.programs[test.program];
        let ended = program.run_one(&test.name, &logs, limit, &environment)?;
        let outcome = match (ended.failure, ended.passed) {
            (Some(_), _) => Outcome::Failed,
            (None, false) => Outcome::NotRun,
            (None, true) => Outcome::Passed,
        };
        let mut made = self.made();
        if switch == 0 {
            let numbers = fs::read_to_string(&reached).unwrap_or_default();
            let numbers = numbers.lines().filter_map(|line| line.parse().ok()).collect();
            made.reached.insert(test.clone(), numbers);
            made.times.insert(test.clone(), ended.took);
        }
        made.outcomes.insert(key, outcome);
        Ok(outcome)
    }

    /// Whether the test reached the switch in its run without one.
    pub fn reaches(&self, test: &Test, switch: u32) -> bool {
        self.made().reached.get(test).is_some_and(|reached| reached.contains(&switch))
    }

    /// How long the test took without a switch; the longest time if it has not run.
    pub fn time_without_switch(&self, test: &Test) -> Duration {
        self.made().times.get(test).copied().unwrap_or(Duration::MAX)
    }
}

/// The test program that holds a test.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramName {
    /// The folder of the package.
    pub folder: String,
    /// The file or folder below `tests`; none for the tests inside a library.
    pub file: Option<String>,
}

impl ProgramName {
    /// The program of a tagged test; none for a file that is in no package.
    pub fn of(tag: &TestTag) -> Option<Self> {
        let name = |part: Component<'_>| match part {
            Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            _ => None,
        };
        let parts: Vec<String> = tag.file.components().filter_map(name).collect();
        let (folder, file) = match parts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["crates", folder, "tests", file, ..] | [folder, "tests", file] => (folder, Some(file)),
            ["crates", folder, "src", ..] => (folder, None),
            _ => return None,
        };
        let file = file.map(|file| file.trim_end_matches(".rs").to_owned());
        Some(ProgramName { folder: folder.to_owned(), file })
    }

    /// The package of the program.
    pub fn package(&self) -> String {
        if self.folder == "tidegate" {
            self.folder.clone()
        } else {
            format!("tidegate-{}", self.folder)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_file_names_its_program() {
        let of = |path: &str| ProgramName::of(&TestTag { file: path.into(), name: String::new() });
        let name = |folder: &str, file: Option<&str>| {
            Some(ProgramName { folder: folder.into(), file: file.map(str::to_owned) })
        };
        assert_eq!(of("crates/cli/tests/command_line.rs"), name("cli", Some("command_line")));
        assert_eq!(of("crates/kmd/tests/reference/life.rs"), name("kmd", Some("reference")));
        assert_eq!(of("crates/dxgkrnl/src/sched/vidsch/tests.rs"), name("dxgkrnl", None));
        assert_eq!(of("README.md"), None);
        assert_eq!(of("crates/kmd/tests/a.rs").unwrap().package(), "tidegate-kmd");
        assert_eq!(of("crates/tidegate/tests/a.rs").unwrap().package(), "tidegate");
    }
}
