//! The stage `tests`: builds the test programs of the workspace, runs each test in a process of its
//! own, prints each program when its tests have ended, and lists the slowest tests.
//!
//! A test that runs longer than [`LIMIT`] is killed and named. One more test runs at once than
//! there are processors, because some wait for a browser or for other processes. Output of a test
//! stays in
//! `test-logs` below the build folder.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::{cargo, tree};

/// The longest time that a test may take. The longest test takes a tenth of it on an idle machine.
const LIMIT: Duration = Duration::from_secs(300);
/// Interval at which running tests are polled.
const POLL_EVERY: Duration = Duration::from_millis(2);
/// Length of the list of slowest tests.
const SLOWEST: usize = 10;

/// A line that cargo prints for each thing that it has built; only the fields that are needed here.
#[derive(Deserialize)]
struct Artifact {
    package_id: String,
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
    /// Whether it holds the tests inside a library or binary, and not the tests of a file below
    /// `tests`.
    pub of_source: bool,
    executable: PathBuf,
    package: PathBuf,
    package_name: String,
}

impl Program {
    /// The tests that the program lists, with their modules.
    pub fn tests(&self) -> Vec<String> {
        self.list(&[])
    }

    fn list(&self, only: &[&str]) -> Vec<String> {
        let mut command = Command::new(&self.executable);
        let listed = command.args(["--list", "--format", "terse"]).args(only).output();
        let listed = listed
            .map_or_else(|_| String::new(), |o| String::from_utf8_lossy(&o.stdout).into_owned());
        listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
    }

    /// Runs one test to its end, killed after `limit`.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn run_one(
        &self,
        test: &str,
        logs: &Path,
        limit: Duration,
        environment: &[(&str, OsString)],
    ) -> Result<Ended, String> {
        let mut running = Running::start(self, test, logs, limit, environment)?;
        loop {
            if let Some(ended) = running.poll()? {
                return Ok(ended);
            }
            thread::sleep(POLL_EVERY);
        }
    }
}

/// The result of a test.
pub struct Ended {
    program: String,
    test: String,
    pub took: Duration,
    /// Whether the test passed. A test that is ignored neither passes nor fails.
    pub passed: bool,
    /// Why it failed, with its output.
    pub failure: Option<String>,
    /// What it left out, a line for each: `skipped: WHY`.
    skipped: Vec<String>,
}

/// Builds and runs all test programs, then the examples in the documentation.
///
/// # Errors
/// The tests that failed or were killed, with their output.
pub fn run(root: &Path, environment: &[(&str, OsString)]) -> Result<(), String> {
    let programs = build(root, environment)?;
    let logs = tree::build_folder(root).join("test-logs");
    fs::create_dir_all(&logs).map_err(|e| format!("{}: cannot make: {e}", logs.display()))?;
    let mut ended = run_all(&programs, &logs, LIMIT, environment)?;
    cargo::cargo(root, &["test", "--workspace", "--doc", "--quiet"], environment)?;
    ended.sort_by_key(|e| std::cmp::Reverse(e.took));
    println!("slowest tests:");
    for Ended { program, test, took, .. } in ended.iter().take(SLOWEST) {
        println!("{:8.1} s  {program} {test}", took.as_secs_f64());
    }
    let failures: Vec<&str> = ended.iter().filter_map(|e| e.failure.as_deref()).collect();
    skip_lines(&ended).iter().for_each(|line| println!("{line}"));
    println!("{} passed, {} failed", ended.len() - failures.len(), failures.len());
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n\n")) }
}

/// Returns what tests have left out, each reason once with the number of its tests.
fn skip_lines(ended: &[Ended]) -> Vec<String> {
    let mut tests = BTreeMap::<&str, usize>::new();
    for end in ended {
        let reasons: BTreeSet<&str> = end.skipped.iter().map(String::as_str).collect();
        reasons.into_iter().for_each(|reason| *tests.entry(reason).or_default() += 1);
    }
    tests.into_iter().map(|(reason, count)| format!("{reason} (tests: {count})")).collect()
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
        // `path+file:///folder#name@version`, or `…/name#version`.
        let id = artifact.package_id.rsplit_once('#')?.1.rsplit_once('@');
        let package_name = id.map_or(folder, |(name, _)| name.to_owned());
        let made = |executable| Program { name, of_source, executable, package, package_name };
        artifact.executable.filter(|_| test).map(made)
    };
    output.lines().filter_map(program).collect()
}

/// The programs among the lines that cargo printed: test programs, and those that tests start.
pub fn executables(output: &str) -> Vec<PathBuf> {
    let executable = |line: &str| serde_json::from_str::<Artifact>(line).ok()?.executable;
    output.lines().filter_map(executable).collect()
}

/// Runs the tests that are not ignored, one more at once than there are processors, in the order of
/// the programs. Prints each failure at once, and each program when its tests have ended.
fn run_all(
    programs: &[Program],
    logs: &Path,
    limit: Duration,
    environment: &[(&str, OsString)],
) -> Result<Vec<Ended>, String> {
    let at_once = thread::available_parallelism().map_or(1, usize::from) + 1;
    let mut tests: Vec<(&Program, String)> = Vec::new();
    for program in programs {
        let ignored = program.list(&["--ignored"]);
        let run = program.tests().into_iter().filter(|test| !ignored.contains(test));
        tests.extend(run.map(|test| (program, test)));
    }
    println!(
        "{} tests in {} programs, {at_once} at a time; each is killed after {limit:?}",
        tests.len(),
        programs.len()
    );
    let left = |program: &str, tests: &[(&Program, String)], running: &[Running<'_>]| {
        tests.iter().any(|(of, _)| of.name == program)
            || running.iter().any(|run| run.program.name == program)
    };
    tests.reverse();
    let (mut running, mut ended): (Vec<Running>, Vec<Ended>) = (Vec::new(), Vec::new());
    let all = tests.len();
    while !tests.is_empty() || !running.is_empty() {
        while running.len() < at_once
            && let Some((program, test)) = tests.pop()
        {
            running.push(Running::start(program, &test, logs, limit, environment)?);
        }
        let mut at = 0;
        while at < running.len() {
            let Some(end) = running[at].poll()? else {
                at += 1;
                continue;
            };
            running.swap_remove(at);
            if end.failure.is_some() {
                println!("FAILED: {} {}", end.program, end.test);
            }
            let program = end.program.clone();
            ended.push(end);
            if !left(&program, &tests, &running) {
                println!("[{}/{all}] {}", ended.len(), line_of(&program, &ended));
            }
        }
        thread::sleep(POLL_EVERY);
    }
    Ok(ended)
}

fn line_of(program: &str, ended: &[Ended]) -> String {
    let of_program = || ended.iter().filter(|end| end.program == program);
    let failed = of_program().filter(|end| end.failure.is_some()).count();
    let seconds: f64 = of_program().map(|end| end.took.as_secs_f64()).sum();
    let passed = of_program().count() - failed;
    format!("{program}: {passed} passed, {failed} failed, {seconds:.1} s in all")
}

/// A test that runs.
struct Running<'p> {
    program: &'p Program,
    test: String,
    child: Child,
    log: PathBuf,
    begun: Instant,
    limit: Duration,
}

impl<'p> Running<'p> {
    fn start(
        program: &'p Program,
        test: &str,
        logs: &Path,
        limit: Duration,
        environment: &[(&str, OsString)],
    ) -> Result<Running<'p>, String> {
        let name = format!("{}-{test}.txt", program.name).replace('/', "-").replace("::", "-");
        let log = logs.join(name);
        let cannot_write = |e| format!("{}: cannot write: {e}", log.display());
        let file = fs::File::create(&log).map_err(cannot_write)?;
        let both = file.try_clone().map_err(cannot_write)?;
        let mut command = Command::new(&program.executable);
        command
            .args(["--show-output", "--exact", test])
            .current_dir(&program.package)
            .env("CARGO_MANIFEST_DIR", &program.package)
            .env("CARGO_PKG_NAME", &program.package_name)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(both);
        let child = command
            .spawn()
            .map_err(|e| format!("cannot run {}: {e}", program.executable.display()))?;
        Ok(Running { program, test: test.to_owned(), child, log, begun: Instant::now(), limit })
    }

    /// The result of the test, if it has ended or had to be killed.
    fn poll(&mut self) -> Result<Option<Ended>, String> {
        let name = format!("{} {}", self.program.name, self.test);
        let status = self.child.try_wait().map_err(|e| format!("{name}: {e}"))?;
        let what = match status {
            Some(status) if status.success() => None,
            Some(status) => Some(format!("{name} failed ({status})")),
            None if self.begun.elapsed() < self.limit => return Ok(None),
            None => {
                let started = descendants(self.child.id());
                self.child.kill().map_err(|e| format!("{name}: cannot be killed: {e}"))?;
                self.child.wait().map_err(|e| format!("{name}: {e}"))?;
                // A program that a test started and did not end would go on for ever.
                for process in started {
                    let id = process.to_string();
                    let _ =
                        Command::new("kill").args(["-KILL", &id]).stderr(Stdio::null()).status();
                }
                Some(format!("{name} was killed: it ran longer than {:?}", self.limit))
            }
        };
        let output = String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned();
        Ok(Some(Ended {
            program: self.program.name.clone(),
            test: self.test.clone(),
            took: self.begun.elapsed(),
            passed: what.is_none() && output.contains("test result: ok. 1 passed"),
            skipped: output
                .lines()
                .filter(|line| line.starts_with("skipped: "))
                .map(str::to_owned)
                .collect(),
            failure: what.map(|what| format!("{what}:\n{output}")),
        }))
    }
}

/// The processes that a process started and those that they started, as far as they still run.
fn descendants(process: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let parents: Vec<(u32, u32)> = processes
        .filter_map(|entry| {
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            // The name in parentheses may hold spaces. Behind it are a state and the parent.
            let (_, fields) = stat.rsplit_once(')')?;
            let parent = fields.split_whitespace().nth(1)?.parse().ok()?;
            Some((entry.file_name().to_str()?.parse().ok()?, parent))
        })
        .collect();
    let mut found = vec![process];
    let mut at = 0;
    while let Some(&of) = found.get(at) {
        found.extend(parents.iter().filter(|(_, parent)| *parent == of).map(|(id, _)| *id));
        at += 1;
    }
    found.split_off(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn test_programs_are_read_from_what_cargo_prints() {
        let output = concat!(
            r#"{"reason":"compiler-artifact","package_id":"path+file:///w/crates/kmd#tidegate-kmd@0.1.0","manifest_path":"/w/crates/kmd/Cargo.toml","target":{"name":"reference","kind":["test"]},"profile":{"test":true},"executable":"/t/reference-1"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","package_id":"path+file:///w/crates/cli#tidegate-cli@0.1.0","manifest_path":"/w/crates/cli/Cargo.toml","target":{"name":"tidegate","kind":["bin"]},"profile":{"test":false},"executable":"/t/tidegate"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","package_id":"path+file:///w/xtask#0.1.0","manifest_path":"/w/xtask/Cargo.toml","target":{"name":"xtask","kind":["bin"]},"profile":{"test":true},"executable":"/t/xtask-1"}"#,
            "\nno JSON\n"
        );
        let found = programs(output);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].name.as_str(), found[0].package.as_path()),
            ("kmd/reference", Path::new("/w/crates/kmd"))
        );
        assert_eq!([&*found[0].package_name, &*found[1].package_name], ["tidegate-kmd", "xtask"]);
    }

    #[test]
    fn a_test_that_hangs_is_killed_and_named_and_ignored_tests_are_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let executable = folder.path().join("program");
        let script = "#!/bin/sh\n\
            case \"$*\" in\n\
            *--ignored) echo 'later: test' ;;\n\
            --list*) printf 'quick: test\\nlater: test\\nfails: test\\n' ;;\n\
            *quick) printf 'skipped: no cc\nskipped: no cc\ntest result: ok. 1 passed\n' ;;\n\
            *hangs) exec sleep 1000 ;;\n\
            *fails) echo why; exit 101 ;;\n\
            esac\n";
        fs::write(&executable, script).unwrap();
        fs::set_permissions(&executable, fs::Permissions::from_mode(0o755)).unwrap();
        let package = folder.path().to_owned();
        let (name, package_name) = ("x/program".to_owned(), "x".to_owned());
        let program = Program { name, of_source: false, executable, package, package_name };
        let hung = program.run_one("hangs", folder.path(), Duration::ZERO, &[]).unwrap();
        let failure = hung.failure.unwrap();
        assert!(failure.starts_with("x/program hangs was killed"), "{failure}");
        let mut ended = run_all(&[program], folder.path(), LIMIT, &[]).unwrap();
        ended.sort_by(|a, b| a.test.cmp(&b.test));
        assert_eq!(ended.iter().map(|e| e.passed).collect::<Vec<_>>(), [false, true]);
        let failure = ended[0].failure.as_deref().unwrap();
        assert!(failure.starts_with("x/program fails failed (") && failure.contains("why"));
        assert_eq!(line_of("x/program", &ended).split(',').next(), Some("x/program: 1 passed"));
        assert_eq!(skip_lines(&ended), ["skipped: no cc (tests: 1)"]);
    }

    #[test]
    fn what_a_test_started_is_found_with_what_that_started() {
        let script = "sh -c 'sleep 1000 & echo $!; wait' & wait";
        let mut test = Command::new("sh");
        let mut test = test.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(test.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let found = descendants(test.id());
        let ids: Vec<String> = found.iter().map(u32::to_string).collect();
        Command::new("kill").arg("-KILL").args(&ids).status().unwrap();
        test.wait().unwrap();
        assert_eq!(ids.len(), 2);
        assert_eq!(ids.last().map(String::as_str), Some(line.trim()));
    }
}
