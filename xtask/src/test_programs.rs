//! The stage `tests`: builds the test programs of the workspace, runs them under a limit, and
//! prints each as it ends.
//!
//! A program that finishes no test for [`QUIET_LIMIT`] is killed, and the tests that it was running
//! are named. As many programs run at once as there are processors, because many of them end with
//! one long test on one processor. What a program printed stays in `test-logs` below the build
//! folder.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the explorer never runs this program"
)]

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::{cargo, tree};

/// The longest time without a finished test before a program is killed. The longest test takes a
/// tenth of it on an idle machine.
const QUIET_LIMIT: Duration = Duration::from_secs(300);
/// How often the running programs are looked at.
const POLL_EVERY: Duration = Duration::from_millis(50);
/// How often a program that runs one test is looked at.
const POLL_ONE_EVERY: Duration = Duration::from_millis(2);
/// How many of the slowest programs the stage lists.
const SLOWEST: usize = 5;

/// A line that cargo prints for each thing that it has built; only the fields that are needed here.
#[derive(Deserialize)]
struct Artifact {
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// A test program that cargo built.
#[derive(Debug)]
pub struct Program {
    /// Package folder and target, as `tidegate/display`.
    pub name: String,
    /// Whether it holds the tests inside a library or binary, and not those of a file below
    /// `tests`.
    pub of_source: bool,
    executable: PathBuf,
    package: PathBuf,
    /// The longest time without a finished test.
    quiet_limit: Duration,
}

impl Program {
    /// The tests that the program lists, with their modules.
    pub fn tests(&self) -> Vec<String> {
        let listed = Command::new(&self.executable).args(["--list", "--format", "terse"]).output();
        let listed = listed
            .map_or_else(|_| String::new(), |o| String::from_utf8_lossy(&o.stdout).into_owned());
        listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
    }

    /// Runs one test to its end, killed after `quiet_limit`.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn run_one(
        &self,
        test: &str,
        logs: &Path,
        quiet_limit: Duration,
        environment: &[(&str, OsString)],
    ) -> Result<Ended, String> {
        let mut running = Running::start(self, &["--exact", test], logs, environment)?;
        running.quiet_limit = quiet_limit;
        loop {
            if let Some(ended) = running.poll()? {
                return Ok(ended);
            }
            thread::sleep(POLL_ONE_EVERY);
        }
    }
}

/// How a program ended.
pub struct Ended {
    name: String,
    pub took: Duration,
    pub counts: Counts,
    /// Why it failed, with what it printed; `None` when it passed.
    pub failure: Option<String>,
}

/// What the result lines of a program say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    pub ignored: u64,
}

/// Builds and runs all test programs, then the examples in the documentation.
///
/// # Errors
/// The names of the programs that failed or were killed, with what they printed.
pub fn run(root: &Path, environment: &[(&str, OsString)]) -> Result<(), String> {
    let programs = build(root, environment)?;
    let logs = tree::build_folder(root).join("test-logs");
    fs::create_dir_all(&logs).map_err(|e| format!("{}: cannot make: {e}", logs.display()))?;
    let mut ended = run_all(&programs, &logs, environment)?;
    cargo::cargo(root, &["test", "--workspace", "--doc", "--quiet"], environment)?;
    ended.sort_by_key(|e| std::cmp::Reverse(e.took));
    let slowest: Vec<String> = ended
        .iter()
        .take(SLOWEST)
        .map(|e| format!("{} {:.1} s", e.name, e.took.as_secs_f64()))
        .collect();
    println!("slowest test programs: {}", slowest.join(", "));
    let sum = |of: fn(&Counts) -> u64| ended.iter().map(|e| of(&e.counts)).sum::<u64>();
    println!(
        "{} passed, {} failed, {} skipped",
        sum(|c| c.passed),
        sum(|c| c.failed),
        sum(|c| c.ignored)
    );
    let failures: Vec<&str> = ended.iter().filter_map(|e| e.failure.as_deref()).collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n\n")) }
}

fn build(root: &Path, environment: &[(&str, OsString)]) -> Result<Vec<Program>, String> {
    let arguments = [
        "test",
        "--workspace",
        "--no-run",
        "--quiet",
        "--message-format",
        "json-render-diagnostics",
    ];
    let (built, output) = cargo::cargo_output(root, &arguments, environment, Stdio::inherit())?;
    if !built {
        return Err("the test programs do not build".to_owned());
    }
    let programs = programs(&output);
    if programs.is_empty() { Err("cargo built no test program".to_owned()) } else { Ok(programs) }
}

/// The test programs among the lines that cargo printed.
pub fn programs(output: &str) -> Vec<Program> {
    let program = |line: &str| {
        let artifact: Artifact = serde_json::from_str(line).ok()?;
        let package = artifact.manifest_path?.parent()?.to_path_buf();
        let folder = package.file_name()?.to_string_lossy().into_owned();
        let (test, target) = (artifact.profile?.test, artifact.target?);
        let of_source = !target.kind.iter().any(|kind| kind == "test");
        let name = format!("{folder}/{}", target.name);
        let made =
            |executable| Program { name, of_source, executable, package, quiet_limit: QUIET_LIMIT };
        artifact.executable.filter(|_| test).map(made)
    };
    output.lines().filter_map(program).collect()
}

/// Runs the programs, as many at once as there are processors.
fn run_all(
    programs: &[Program],
    logs: &Path,
    environment: &[(&str, OsString)],
) -> Result<Vec<Ended>, String> {
    let at_once = thread::available_parallelism().map_or(1, usize::from);
    println!(
        "{} test programs, {at_once} at a time; each is killed after {QUIET_LIMIT:?} without a finished test",
        programs.len()
    );
    let mut waiting = programs.iter();
    let mut running: Vec<Running> = Vec::new();
    let mut ended = Vec::new();
    loop {
        while running.len() < at_once
            && let Some(program) = waiting.next()
        {
            running.push(Running::start(program, &[], logs, environment)?);
        }
        if running.is_empty() {
            return Ok(ended);
        }
        let mut still = Vec::new();
        for mut run in running {
            match run.poll()? {
                Some(end) => {
                    println!("{}", line_of(&end, ended.len() + 1, programs.len()));
                    ended.push(end);
                }
                None => still.push(run),
            }
        }
        running = still;
        thread::sleep(POLL_EVERY);
    }
}

fn line_of(end: &Ended, number: usize, of: usize) -> String {
    let Ended { name, took, counts, failure } = end;
    let how = if failure.is_some() { "FAILED" } else { "ok" };
    format!("[{number}/{of}] {name}: {how}, {} passed, {:.1} s", counts.passed, took.as_secs_f64())
}

/// A program that runs.
struct Running<'p> {
    program: &'p Program,
    child: Child,
    log: PathBuf,
    begun: Instant,
    /// Tests finished when the log was last read, and when that number last grew.
    finished: (usize, Instant),
    quiet_limit: Duration,
}

impl<'p> Running<'p> {
    fn start(
        program: &'p Program,
        arguments: &[&str],
        logs: &Path,
        environment: &[(&str, OsString)],
    ) -> Result<Running<'p>, String> {
        let log = logs.join(format!("{}.txt", program.name.replace('/', "-")));
        let cannot_write = |e| format!("{}: cannot write: {e}", log.display());
        let file = fs::File::create(&log).map_err(cannot_write)?;
        let both = file.try_clone().map_err(cannot_write)?;
        let mut command = Command::new(&program.executable);
        command
            .args(arguments)
            .current_dir(&program.package)
            .env("CARGO_MANIFEST_DIR", &program.package);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(file).stderr(both);
        let child = command
            .spawn()
            .map_err(|e| format!("cannot run {}: {e}", program.executable.display()))?;
        let now = Instant::now();
        Ok(Running {
            program,
            child,
            log,
            begun: now,
            finished: (0, now),
            quiet_limit: program.quiet_limit,
        })
    }

    /// The end of the program, if it has ended or has to be killed.
    fn poll(&mut self) -> Result<Option<Ended>, String> {
        let status = self.child.try_wait().map_err(|e| format!("{}: {e}", self.program.name))?;
        if let Some(status) = status {
            let said = self.said();
            let failure = (!status.success())
                .then(|| format!("{} failed ({status}):\n{said}", self.program.name));
            return Ok(Some(self.ended(&said, failure)));
        }
        let finished = finished(&self.said());
        let now = Instant::now();
        if finished > self.finished.0 {
            self.finished = (finished, now);
        }
        if now - self.finished.1 < self.quiet_limit {
            return Ok(None);
        }
        let names = self.unfinished();
        self.child.kill().map_err(|e| format!("{}: cannot be killed: {e}", self.program.name))?;
        self.child.wait().map_err(|e| format!("{}: {e}", self.program.name))?;
        let hung = format!(
            "{} was killed: no test finished within {:?}; still running: {}",
            self.program.name,
            self.quiet_limit,
            names.join(", ")
        );
        let said = self.said();
        Ok(Some(self.ended(&said, Some(format!("{hung}\n{said}")))))
    }

    fn ended(&self, said: &str, failure: Option<String>) -> Ended {
        let took = self.begun.elapsed();
        Ended { name: self.program.name.clone(), took, counts: counts(said), failure }
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Tests that have not finished: those that libtest reports as slow, or else all that it lists
    /// and has not reported.
    fn unfinished(&self) -> Vec<String> {
        let said = self.said();
        let slow = slow(&said);
        if !slow.is_empty() {
            return slow;
        }
        let listed = self.program.tests().into_iter();
        listed.filter(|name| !said.contains(&format!("test {name} ... "))).collect()
    }
}

/// Tests that libtest has reported as finished.
fn finished(said: &str) -> usize {
    said.lines().filter(|line| line.starts_with("test ") && line.contains(" ... ")).count()
}

/// Tests that libtest reports as running for long and that have not finished since.
fn slow(said: &str) -> Vec<String> {
    let name = |line: &str| {
        let (name, _) = line.strip_prefix("test ")?.split_once(" has been running for over")?;
        (!said.contains(&format!("test {name} ... "))).then(|| name.to_owned())
    };
    said.lines().filter_map(name).collect()
}

/// The sum of the result lines.
fn counts(said: &str) -> Counts {
    let mut sum = Counts::default();
    for line in said.lines().filter(|line| line.starts_with("test result: ")) {
        let number = |what: &str| {
            let before = line.split(what).next().filter(|before| before.len() < line.len())?;
            before.trim_end().rsplit(' ').next()?.parse::<u64>().ok()
        };
        sum.passed += number("passed").unwrap_or(0);
        sum.failed += number("failed;").unwrap_or(0);
        sum.ignored += number("ignored").unwrap_or(0);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn test_programs_are_read_from_what_cargo_prints() {
        let output = concat!(
            r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/kmd/Cargo.toml","target":{"name":"reference","kind":["test"]},"profile":{"test":true},"executable":"/t/reference-1"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/cli/Cargo.toml","target":{"name":"tidegate","kind":["bin"]},"profile":{"test":false},"executable":"/t/tidegate"}"#,
            "\nno JSON\n"
        );
        let found = programs(output);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].name.as_str(), found[0].package.as_path()),
            ("kmd/reference", Path::new("/w/crates/kmd"))
        );
    }

    #[test]
    fn what_libtest_prints_is_counted() {
        let said = "running 3 tests\ntest a ... ok\ntest c has been running for over 60 seconds\n\
                    test b has been running for over 60 seconds\ntest b ... ok\n\
                    test result: FAILED. 2 passed; 1 failed; 4 ignored; 0 measured; 0 filtered out; finished in 0.1s\n";
        assert_eq!(finished(said), 2);
        assert_eq!(slow(said), ["c"]);
        assert_eq!(counts(said), Counts { passed: 2, failed: 1, ignored: 4 });
        assert_eq!(counts(""), Counts::default());
    }

    #[test]
    fn a_program_that_hangs_is_killed_and_its_tests_are_named() {
        let folder = std::env::temp_dir().join(format!("tidegate-xtask-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let executable = folder.join("hangs");
        let script = "#!/bin/sh\nif [ \"$1\" = --list ]; then printf 'quick: test\\nhangs: test\\n'; exit; fi\n\
                      echo 'test quick ... ok'\nexec sleep 1000\n";
        fs::write(&executable, script).unwrap();
        fs::set_permissions(&executable, fs::Permissions::from_mode(0o755)).unwrap();
        let program = Program {
            name: "x/hangs".into(),
            of_source: false,
            executable,
            package: folder.clone(),
            quiet_limit: Duration::ZERO,
        };
        let ended = run_all(&[program], &folder, &[]).unwrap();
        let failure = ended[0].failure.as_deref().unwrap();
        assert!(failure.contains("still running: ") && failure.contains("hangs\n"), "{failure}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
