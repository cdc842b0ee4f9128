//! `cargo xtask fuzz`: the fuzz targets of `fuzz/`, built with coverage counters and run for a
//! while, some at a time.
//!
//! The order: 1. the fuzzer is built, in a folder of its own, by the stable compiler: its counters
//! are the compiler's own passes; 2. each target begins with its corpus of the repository and with
//! what earlier runs of this machine found, and keeps new inputs below the build folder; 3. an
//! input that does harm ends its target, and its place is printed. With its mend the input is
//! copied into `fuzz/corpus/TARGET`, where an ordinary test replays it. If it does harm only after
//! others on the same machine, the file `series` has all of them.
//!
//! A target's name is the name of its folder in the corpus.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use crate::{cargo, tree};

/// What `cargo xtask test` gives each target at most: enough to find easy failures again.
const SHORT_SECONDS: u32 = 5;
/// Inputs of the bounded form that a slow machine runs in that time, so that a fast one stops where
/// it does.
const fn short_inputs(name: &str) -> u32 {
    match name.as_bytes() {
        b"packets" => 50_000,
        b"files" => 10_000,
        _ => 2_500,
    }
}
/// What `cargo xtask full` gives each target.
const LONG_SECONDS: u32 = 600;
/// What `cargo xtask fuzz` gives each target by default.
const DEFAULT_SECONDS: u32 = 60;
/// An input that takes longer hangs. Far more than any takes on a busy machine.
const HANG_SECONDS: u32 = 60;
/// More memory than any input should need, in MiB.
const MEMORY_MIB: u32 = 2048;
const LONGEST_INPUT: u32 = 4096;

/// Counters at each edge; checks of arithmetic are the profile's.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 \
                        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table";
/// Reports the operands of each comparison, so that inputs come to hold the constants of a format.
const COMPARISONS: &str = "-Cllvm-args=-sanitizer-coverage-trace-compares";

/// Set while xtask is the wrapper of the compiler ([`compile`]).
pub const WRAPPER_VARIABLE: &str = "TIDEGATE_FUZZ_WRAPPER";

/// Crates without counters. Their loops run in each input and depend on no byte of it.
const NOT_COUNTED: &[&str] = &[
    "corosensei",
    "tidegate_fuzz",
    "tidegate_hazard",
    "tidegate_machines",
    "tidegate_platform",
    "tidegate_check",
    "tidegate_testbed",
    "tidegate_trace",
];
/// Crates of the product that decode formats. Their comparisons are reported, and those of the
/// libraries that they use.
const DECODERS: &[&str] = &[
    "tidegate_d3dukmdt",
    "tidegate_gpu_abi",
    "tidegate_service",
    "tidegate_wddm_abi",
    "tidegate_workload",
];

/// The arguments of the command line.
pub struct Request<'a> {
    target: Option<&'a str>,
    seconds: u32,
    /// What the draws begin with; another one each time where there is none.
    seed: Option<u32>,
    /// The build profile of the fuzzer.
    profile: &'static str,
}

/// Optimised: more inputs a second.
const OPTIMISED: &str = "fuzz";
/// Cheap to build.
const CHEAP: &str = "fuzz-short";

/// Reads `--target NAME` and `--seconds N`, in any order; `None` for anything else.
pub fn request<'a>(words: &[&'a str]) -> Option<Request<'a>> {
    let mut request =
        Request { target: None, seconds: DEFAULT_SECONDS, seed: None, profile: OPTIMISED };
    for pair in words.chunks(2) {
        match pair {
            ["--target", name] => request.target = Some(name),
            ["--seconds", seconds] => request.seconds = seconds.parse().ok()?,
            _ => return None,
        }
    }
    Some(request)
}

/// The bounded form, for every change. It begins with the corpus only, and its draws and their
/// number are the same on each machine, so that a change is not refused by chance.
pub fn short(root: &Path) -> Result<(), String> {
    let (seconds, seed) = (SHORT_SECONDS, Some(1));
    run(root, &Request { target: None, seconds, seed, profile: CHEAP })
}

/// The long form.
pub fn long(root: &Path) -> Result<(), String> {
    let seconds = LONG_SECONDS;
    run(root, &Request { target: None, seconds, seed: None, profile: OPTIMISED })
}

/// Builds the fuzzer and runs the targets.
pub fn run(root: &Path, request: &Request<'_>) -> Result<(), String> {
    let names = targets(root)?;
    let wanted: Vec<String> = match request.target {
        None => names,
        Some(name) if names.iter().any(|known| known == name) => vec![name.to_owned()],
        Some(name) => {
            return Err(format!(
                "no fuzz target is called '{name}'; use one of {}",
                names.join(", ")
            ));
        }
    };
    let folder = tree::build_folder(root);
    let fuzzer = build(root, &folder, request.profile)?;
    let at_once = thread::available_parallelism().map_or(1, usize::from).min(wanted.len());
    println!("{} targets for {} s each, {at_once} at a time", wanted.len(), request.seconds);
    let runs: Vec<Run> = wanted.iter().map(|name| Run::new(root, &folder, name)).collect();
    let mut failures = Vec::new();
    // Each worker takes every so-manieth target: they all take the same time.
    thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once)
            .map(|first| {
                let (mine, fuzzer) = (runs.iter().skip(first).step_by(at_once), &fuzzer);
                scope.spawn(move || {
                    mine.filter_map(|run| run.go(fuzzer, request).err()).collect::<Vec<_>>()
                })
            })
            .collect();
        for worker in workers {
            failures.extend(worker.join().unwrap_or_else(|_| vec!["a worker panicked".to_owned()]));
        }
    });
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

/// The folders of the corpus.
fn targets(root: &Path) -> Result<Vec<String>, String> {
    let corpus = root.join("fuzz/corpus");
    let entries =
        fs::read_dir(&corpus).map_err(|e| format!("{}: cannot list: {e}", corpus.display()))?;
    let folders = entries.flatten().filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> =
        folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// The command line of a build, and its environment. It is for a target that is named, so that
/// build scripts and macros, which run while it is built, go without counters.
struct Build {
    machine: String,
    environment: [(&'static str, OsString); 3],
}

impl Build {
    fn new() -> Result<Build, String> {
        let own = std::env::current_exe().map_err(|e| format!("xtask has no path: {e}"))?;
        let environment = [
            ("RUSTFLAGS", COVERAGE.into()),
            ("RUSTC_WRAPPER", own.into()),
            (WRAPPER_VARIABLE, "1".into()),
        ];
        Ok(Build { machine: machine()?, environment })
    }

    fn arguments<'a>(&'a self, profile: &'a str) -> [&'a str; 12] {
        [
            "build",
            "--quiet",
            "--profile",
            profile,
            "--package",
            "tidegate-fuzz",
            "--features",
            "libfuzzer",
            "--bin",
            "tidegate-fuzz",
            "--target",
            &self.machine,
        ]
    }
}

fn build(root: &Path, folder: &Path, profile: &str) -> Result<PathBuf, String> {
    let build = Build::new()?;
    cargo::cargo(root, &build.arguments(profile), &build.environment)?;
    Ok(folder.join(&build.machine).join(profile).join("tidegate-fuzz"))
}

/// A build of the fuzzer of [`short`] beside other stages. It ends with this value.
pub struct Beside(Option<Child>);

/// Begins the build at the lowest priority: it takes the time in which other builds leave a
/// processor idle. The stage builds what is left, and says what is wrong.
pub fn build_beside(root: &Path) -> Beside {
    let begun = Build::new().ok().and_then(|build| {
        cargo::cargo_at_lowest_priority(root, &build.arguments(CHEAP), &build.environment)
    });
    Beside(begun)
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Compiles one crate of the fuzzer, as cargo's wrapper: `words` are the compiler and its
/// arguments.
pub fn compile(words: &[&str]) -> Result<(), String> {
    let (compiler, arguments) = words.split_first().ok_or("the wrapper wraps no compiler")?;
    let mut command = Command::new(compiler);
    command.args(instrumented(arguments));
    let status = command.status().map_err(|e| format!("cannot run {compiler}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{compiler}: {status}")) }
}

/// The arguments of the compiler with the coverage that its crate is to have.
fn instrumented<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let name = arguments.iter().skip_while(|word| **word != "--crate-name").nth(1).copied();
    let name = name.unwrap_or_default();
    let is_coverage = |word: &str| COVERAGE.split_whitespace().any(|flag| flag == word);
    let mut arguments = arguments.to_vec();
    // Build scripts and macros have none.
    if !arguments.iter().any(|word| is_coverage(word)) {
        return arguments;
    }
    if NOT_COUNTED.contains(&name) {
        arguments.retain(|word| !is_coverage(word));
    } else if DECODERS.contains(&name) || !name.starts_with("tidegate_") {
        arguments.push(COMPARISONS);
    }
    arguments
}

/// The compiler's name for the machine that it runs on.
fn machine() -> Result<String, String> {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output =
        Command::new(compiler).arg("-vV").output().map_err(|e| format!("cannot run rustc: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc -vV names no host".to_owned())
}

/// One target, and the folders that it reads and writes.
struct Run {
    name: String,
    /// Inputs that this machine found.
    grown: PathBuf,
    /// Inputs that did harm.
    harmful: PathBuf,
    /// The last harmful input with those before it on its machine.
    series: PathBuf,
    log: PathBuf,
    seeds: Vec<PathBuf>,
}

impl Run {
    fn new(root: &Path, folder: &Path, name: &str) -> Run {
        let own = folder.join("fuzz-found").join(name);
        let mut seeds = vec![root.join("fuzz/corpus").join(name)];
        if name == "files" {
            seeds.push(root.join("workloads"));
        }
        let (grown, harmful, log) = (own.join("corpus"), own.join("harmful"), own.join("log.txt"));
        let series = own.join("series");
        Run { name: name.to_owned(), grown, harmful, series, log, seeds }
    }

    fn go(&self, fuzzer: &Path, request: &Request<'_>) -> Result<(), String> {
        let grown = match request.seed {
            None => self.grown.clone(),
            Some(_) => {
                let own = self.grown.with_file_name("short");
                let _none_yet = fs::remove_dir_all(&own);
                own
            }
        };
        for folder in [&grown, &self.harmful] {
            fs::create_dir_all(folder)
                .map_err(|e| format!("{}: cannot make: {e}", folder.display()))?;
        }
        let cannot_write = |e| format!("{}: cannot write: {e}", self.log.display());
        let file = fs::File::create(&self.log).map_err(cannot_write)?;
        let mut command = Command::new(fuzzer);
        command.env("TIDEGATE_FUZZ_TARGET", &self.name).env("TIDEGATE_FUZZ_SERIES", &self.series);
        command.arg(&grown).args(&self.seeds);
        if let Some(seed) = request.seed {
            command.arg(format!("-seed={seed}")).arg(format!("-runs={}", short_inputs(&self.name)));
        }
        command
            .arg(format!("-max_total_time={}", request.seconds))
            .arg(format!("-timeout={HANG_SECONDS}"));
        command.arg(format!("-rss_limit_mb={MEMORY_MIB}")).arg(format!("-max_len={LONGEST_INPUT}"));
        // Its power schedule takes longer than an input where an input has thousands of features.
        command.arg("-entropic=0").arg("-len_control=0").arg("-print_final_stats=1");
        command.arg(format!("-artifact_prefix={}/", self.harmful.display()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let status =
            command.status().map_err(|e| format!("cannot run {}: {e}", fuzzer.display()))?;
        let log = String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned();
        if status.success() {
            println!("  {}: {}", self.name, summary(&log));
            return Ok(());
        }
        Err(format!(
            "fuzz target {} found an input that does harm ({status}).\n{}\nthe input: {}\nwith those before it: {}\nthe log: {}\nmend it, and \
             copy the input into fuzz/corpus/{name}, or the series as series-NAME if the input alone does no harm",
            self.name,
            complaint(&log),
            saved(&log),
            self.series.display(),
            self.log.display(),
            name = self.name
        ))
    }
}

/// How many inputs were run, and how many a second.
fn summary(log: &str) -> String {
    let figure = |key: &str| {
        let line = log.lines().find_map(|line| line.strip_prefix(key));
        line.map_or("?", str::trim).to_owned()
    };
    format!(
        "{} inputs, {} a second",
        figure("stat::number_of_executed_units:"),
        figure("stat::average_exec_per_sec:")
    )
}

/// What the target said when it panicked, or what the fuzzer said for it.
fn complaint(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let start = lines
        .iter()
        .position(|line| line.contains("panicked at") || line.contains("ERROR: libFuzzer"));
    start.map_or_else(String::new, |start| lines[start..lines.len().min(start + 4)].join("\n"))
}

fn saved(log: &str) -> &str {
    log.lines()
        .find_map(|line| line.split_once("Test unit written to "))
        .map_or("none was kept", |(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_in_any_order() {
        let read = request(&["--seconds", "7", "--target", "calls"]).unwrap();
        assert_eq!((read.target, read.seconds), (Some("calls"), 7));
        assert_eq!(request(&[]).unwrap().seconds, DEFAULT_SECONDS);
        for wrong in [&["--seconds"][..], &["--seconds", "x"], &["calls"]] {
            assert!(request(wrong).is_none());
        }
    }

    #[test]
    fn coverage_is_that_of_the_crate() {
        let flags: Vec<&str> = COVERAGE.split_whitespace().collect();
        let of = |name: &'static str| {
            let own = ["--crate-name", name, "lib.rs"];
            instrumented(&[&own[..], &flags].concat()).len() - own.len()
        };
        assert_eq!(of("tidegate_softgpu"), flags.len());
        assert_eq!(of("tidegate_platform"), 0);
        assert_eq!((of("tidegate_workload"), of("toml")), (flags.len() + 1, flags.len() + 1));
        assert_eq!(instrumented(&["--crate-name", "build_script_build"]).len(), 2);
    }

    #[test]
    fn a_log_is_summed_up() {
        let log =
            "#9 DONE\nstat::number_of_executed_units: 12\nstat::average_exec_per_sec:     6\n";
        assert_eq!(summary(log), "12 inputs, 6 a second");
        let log = "x\nthread panicked at a.rs:1:\nwhy\nstack\nTest unit written to /f/crash-1\n";
        assert_eq!((complaint(log).lines().nth(1), saved(log)), (Some("why"), "/f/crash-1"));
        assert_eq!((complaint(""), saved("")), (String::new(), "none was kept"));
    }
}
