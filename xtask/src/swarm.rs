//! `cargo xtask swarm`: new seeds on every ground of `tidegate swarm`, all grounds at the same
//! time.
//!
//! Each ground has a process for each fourth of the processors, and four where programs mostly
//! wait. Each process runs a shard of the seeds. The first seed is printed; it comes from the date,
//! so each day has seeds of its own.
//!
//! Entry points: [`long`], [`run`].

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::cargo::cargo;
use crate::tree;

/// Time on each ground in `cargo xtask full`.
const LONG_SECONDS: u64 = 3600;
/// Time on each ground in `cargo xtask swarm`.
const DEFAULT_SECONDS: u64 = 60;
/// Seeds of a day: more than an hour runs.
const SEEDS_OF_A_DAY: u64 = 1_000_000_000;
const DAY_SECONDS: u64 = 86_400;

const GROUNDS: &[&str] = &["virtual", "explored", "threads", "processes"];
/// The grounds whose programs wait for real time: a process of one uses a tenth of a processor.
const WAITING: &[&str] = &["threads", "processes"];
/// Processes of such a ground for each of another.
const WAITING_SHARDS: usize = 4;
/// The grounds whose runs are counted.
const WITH_COVERAGE: &[&str] = &["virtual", "explored"];

/// The arguments of the command line.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    seconds: u64,
    seed: Option<u64>,
}

/// Reads the arguments, or returns `None` if they are wrong.
pub fn request(mut words: &[&str]) -> Option<Request> {
    let mut request = Request { seconds: DEFAULT_SECONDS, seed: None };
    while let [name, value, rest @ ..] = words {
        match *name {
            "--seconds" => request.seconds = value.parse().ok().filter(|seconds| *seconds > 0)?,
            "--seed" => request.seed = Some(value.parse().ok()?),
            _ => return None,
        }
        words = rest;
    }
    words.is_empty().then_some(request)
}

/// New seeds for an hour.
///
/// # Errors
/// A program that fails.
pub fn long(root: &Path) -> Result<(), String> {
    run(root, &Request { seconds: LONG_SECONDS, seed: None })
}

/// Runs the swarm on every ground.
///
/// # Errors
/// A build, or a program that fails.
pub fn run(root: &Path, request: &Request) -> Result<(), String> {
    cargo(root, &["build", "--release", "--quiet", "--package", "tidegate-cli"], &[])?;
    let program = tree::build_folder(root).join("release/tidegate");
    run_program(&program, &tree::build_folder(root).join("swarm"), request)
}

fn run_program(program: &Path, folder: &Path, request: &Request) -> Result<(), String> {
    let seed = request.seed.unwrap_or_else(|| seed_of(SystemTime::now()));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let busy_shards = (processors / GROUNDS.len()).max(1);
    let again = format!("cargo xtask swarm --seed {seed} --seconds {}", request.seconds);
    println!("first seed {seed}: {again}");
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut children = Vec::new();
    for ground in GROUNDS {
        let shards = busy_shards * if WAITING.contains(ground) { WAITING_SHARDS } else { 1 };
        for shard in 0..shards {
            let path = folder.join(format!("{ground}-{shard}.txt"));
            let out = fs::File::create(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            let mut command = Command::new(program);
            command.args(["swarm", "--on", ground, "--seed", &seed.to_string()]);
            command.args(["--seconds", &request.seconds.to_string()]);
            command.args(["--shard", &format!("{shard}/{shards}")]);
            if WITH_COVERAGE.contains(ground) {
                command.arg("--coverage");
            }
            let child = command.stdin(Stdio::null()).stdout(out).spawn();
            let child = child.map_err(|e| format!("cannot run {}: {e}", program.display()))?;
            children.push((path, child));
        }
    }
    let mut failed = Vec::new();
    for (path, mut child) in children {
        let status = child.wait().map_err(|e| format!("{}: {e}", program.display()))?;
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        print!("{text}");
        if !status.success() {
            failed.push(format!("{}: {status}", path.display()));
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("programs of the swarm failed: {}\nagain: {again}", failed.join(", ")))
}

/// The first seed of a day.
fn seed_of(time: SystemTime) -> u64 {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    seconds / DAY_SECONDS * SEEDS_OF_A_DAY
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    #[test]
    fn a_request_has_seconds_and_a_seed() {
        let plain = Request { seconds: DEFAULT_SECONDS, seed: None };
        assert_eq!(request(&[]), Some(plain));
        let both = Request { seconds: 5, seed: Some(7) };
        assert_eq!(request(&["--seed", "7", "--seconds", "5"]), Some(both));
        for words in [&["--seed"][..], &["--seconds", "0"], &["--seed", "x"], &["--often", "3"]] {
            assert_eq!(request(words), None, "{words:?}");
        }
    }

    #[test]
    fn each_day_has_its_seeds() {
        let day = |days: u64| seed_of(UNIX_EPOCH + Duration::from_secs(days * DAY_SECONDS + 5));
        assert_eq!(day(3), 3 * SEEDS_OF_A_DAY);
        assert_eq!(day(4) - day(3), SEEDS_OF_A_DAY);
    }

    #[test]
    fn a_ground_with_a_failure_fails_the_stage() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("swarm.sh");
        let write = |text: &str| {
            fs::write(&program, text).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        };
        let request = Request { seconds: 5, seed: Some(7) };
        write("#!/bin/sh\ntest \"$5\" = 7 -a \"$7\" = 5\n");
        assert_eq!(run_program(&program, &folder.path().join("out"), &request), Ok(()));
        let shards = |ground: &str| {
            let files = fs::read_dir(folder.path().join("out")).unwrap().flatten();
            files.filter(|file| file.file_name().to_string_lossy().starts_with(ground)).count()
        };
        assert_eq!(shards("threads"), WAITING_SHARDS * shards("virtual"));
        write("#!/bin/sh\ntest \"$3\" != threads\n");
        let message = run_program(&program, &folder.path().join("out"), &request).unwrap_err();
        assert!(
            message.contains("threads-0.txt") && !message.contains("virtual-0.txt"),
            "{message}"
        );
        assert!(message.ends_with("again: cargo xtask swarm --seed 7 --seconds 5"), "{message}");
    }
}
