//! `cargo xtask instructions`: instructions of single operations, counted by valgrind, against the
//! counts in `xtask/instructions.toml`. A count that rises by more than 10 % fails.
//!
//! An operation runs few and many times in processes of their own (`tidegate-bench --operation`).
//! The difference of the two counts over the difference of the times is the operation's, so the
//! start of the process and of the machine cancel out (`decisions/0101`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::cargo::cargo;
use crate::{setup, tree};

const BASELINE: &str = "xtask/instructions.toml";
const HEADER: &str = "# Instructions of one operation, as valgrind counts them in a release build.\n\
                      # Written by `cargo xtask instructions --update`.\n\n";
const FEW: u64 = 1_000;
const MANY: u64 = 31_000;
/// By how much a count may rise.
const MOST_GROWTH: f64 = 1.1;
/// A count that has fallen below this part of its baseline is worth a new one.
const WORTH_UPDATING: f64 = 0.9;

/// What is counted.
struct Counted {
    name: &'static str,
    operation: &'static str,
    /// An operation whose count is subtracted, because the other one contains it.
    contained: Option<&'static str>,
    /// Runs a hundredth of the times, because it is long.
    is_long: bool,
}

const fn counted(
    name: &'static str,
    operation: &'static str,
    contained: Option<&'static str>,
) -> Counted {
    Counted { name, operation, contained, is_long: false }
}

const fn long(name: &'static str, operation: &'static str) -> Counted {
    Counted { name, operation, contained: None, is_long: true }
}

const COUNTED: &[Counted] = &[
    counted("signal", "run-signal", Some("queue-signal")),
    counted("logged signal", "run-signal-logged", Some("queue-signal-logged")),
    counted("wait armed and satisfied", "run-link", Some("queue-link")),
    counted("packet encoded", "encode-packet", None),
    counted("packet decoded", "decode-packet", None),
    counted("signal into the ring", "queue-signal", None),
    counted("submission", "run-list", Some("queue-list")),
    counted("submission into the ring", "queue-list", None),
    counted("CPU signal", "signal-of-cpu", None),
    counted("fence created and destroyed", "create-fence", None),
    counted("waiter inserted", "register-waiter", Some("create-event")),
    counted("waiter released", "release-waiter", Some("register-waiter")),
    counted("copy recorded", "record-copy", None),
    counted("submission in virtual time", "submit-in-virtual-time", None),
    counted("schedule of the litmus pair", "explore-litmus", None),
    long("schedule of seven stations", "explore-seven-stations"),
];

#[derive(Debug, Default, Deserialize, PartialEq, Serialize)]
struct Counts {
    /// The compiler of the baseline: another one makes other code.
    compiler: String,
    instructions: BTreeMap<String, u64>,
}

/// Counts, and compares with the baseline. Without valgrind it prints a line and passes.
///
/// # Errors
/// A count is too high, has no baseline, or cannot be taken.
pub fn check(root: &Path) -> Result<(), String> {
    if !valgrind() {
        return Ok(());
    }
    let counts = count(root)?;
    let text = fs::read_to_string(root.join(BASELINE)).map_err(|e| format!("{BASELINE}: {e}"))?;
    let baseline: Counts = toml::from_str(&text).map_err(|e| format!("{BASELINE}: {e}"))?;
    let (lines, worse) = compared(&baseline, &counts);
    lines.iter().for_each(|line| println!("{line}"));
    if worse.is_empty() {
        return Ok(());
    }
    Err(format!(
        "more than 10 % more instructions: {}; where that is meant: cargo xtask instructions --update",
        worse.join(", ")
    ))
}

/// Counts, and writes the baseline.
///
/// # Errors
/// Valgrind is missing, or a count cannot be taken.
pub fn update(root: &Path) -> Result<(), String> {
    if !valgrind() {
        return Err("no counts without valgrind".to_owned());
    }
    let counts = count(root)?;
    let text = toml::to_string(&counts).map_err(|e| format!("{BASELINE}: {e}"))?;
    fs::write(root.join(BASELINE), format!("{HEADER}{text}"))
        .map_err(|e| format!("{BASELINE}: {e}"))?;
    print!("{text}");
    Ok(())
}

fn valgrind() -> bool {
    let installed = setup::install_program("valgrind", "valgrind");
    if !installed {
        println!("no valgrind on PATH, and it cannot be installed: instructions are not counted");
    }
    installed
}

fn count(root: &Path) -> Result<Counts, String> {
    cargo(root, &["build", "--release", "--quiet", "--package", "tidegate-bench"], &[])?;
    let program = tree::build_folder(root).join("release/tidegate-bench");
    let mut taken: BTreeMap<&str, f64> = BTreeMap::new();
    let mut each = |operation: &'static str, is_long: bool| -> Result<f64, String> {
        if let Some(count) = taken.get(operation) {
            return Ok(*count);
        }
        let part = if is_long { 100 } else { 1 };
        let (few, many) = (FEW / part, MANY / part);
        let least = run(&program, operation, few)?;
        let most = run(&program, operation, many)?;
        let count = most.saturating_sub(least) as f64 / (many - few) as f64;
        taken.insert(operation, count);
        Ok(count)
    };
    let mut counts = Counts { compiler: compiler(), ..Counts::default() };
    for Counted { name, operation, contained, is_long } in COUNTED {
        let contained = contained.map_or(Ok(0.0), |contained| each(contained, false))?;
        let count = (each(operation, *is_long)? - contained).max(0.0).round() as u64;
        counts.instructions.insert((*name).to_owned(), count);
    }
    Ok(counts)
}

fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output();
    output.map_or_else(|_| String::new(), |o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
}

/// Instructions of a process that does the operation so many times.
fn run(program: &Path, operation: &str, times: u64) -> Result<u64, String> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]);
    command.arg(program).args(["--operation", operation, "--times", &times.to_string()]);
    let output = command.output().map_err(|e| format!("cannot run valgrind: {e}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{operation}: {}\n{said}", output.status));
    }
    instructions(&said).ok_or_else(|| format!("{operation}: no count of instructions in\n{said}"))
}

/// The count in what cachegrind prints.
fn instructions(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.contains("I ") && line.contains("refs:"))?;
    let (_, count) = line.split_once("refs:")?;
    count.trim().replace(',', "").parse().ok()
}

/// A line for each count, and what is worse than the baseline.
fn compared(baseline: &Counts, counts: &Counts) -> (Vec<String>, Vec<String>) {
    let (mut lines, mut worse) = (Vec::new(), Vec::new());
    if baseline.compiler != counts.compiler {
        lines
            .push(format!("the baseline is of {}, this is {}", baseline.compiler, counts.compiler));
    }
    for (name, count) in &counts.instructions {
        let Some(before) = baseline.instructions.get(name) else {
            worse.push(format!("{name} (no baseline)"));
            continue;
        };
        let growth = *count as f64 / (*before).max(1) as f64;
        let remark = match growth {
            growth if growth > MOST_GROWTH => {
                worse.push(format!("{name} ({before} to {count})"));
                ": too many"
            }
            growth if growth < WORTH_UPDATING => ": fewer; update the baseline",
            _ => "",
        };
        lines.push(format!("{name}: {count}, baseline {before}{remark}"));
    }
    let gone = baseline.instructions.keys().filter(|name| !counts.instructions.contains_key(*name));
    worse.extend(gone.map(|name| format!("{name} (no longer counted)")));
    (lines, worse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_what_cachegrind_prints() {
        let said = "==7== Cachegrind, a cache profiler\n==7== \n==7== I   refs:      1,234,567\n";
        assert_eq!(instructions(said), Some(1_234_567));
        assert_eq!(instructions("==7== I refs:        89\n"), Some(89));
        assert_eq!(instructions("no count"), None);
    }

    #[test]
    fn a_tenth_more_instructions_is_too_many() {
        let counts = |pairs: &[(&str, u64)]| Counts {
            compiler: "rustc 1".to_owned(),
            instructions: pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        };
        let baseline = counts(&[("a", 100), ("b", 100), ("c", 100), ("d", 1)]);
        let now = counts(&[("a", 110), ("b", 111), ("c", 80), ("e", 5)]);
        let (lines, worse) = compared(&baseline, &now);
        assert_eq!(
            worse,
            ["b (100 to 111)", "e (no baseline)", "d (no longer counted)"],
            "{lines:?}"
        );
        assert_eq!(
            lines,
            [
                "a: 110, baseline 100",
                "b: 111, baseline 100: too many",
                "c: 80, baseline 100: fewer; update the baseline"
            ]
        );
        let other = Counts { compiler: "rustc 2".to_owned(), ..counts(&[]) };
        assert!(compared(&counts(&[]), &other).0[0].contains("rustc 2"));
    }

    #[test]
    fn the_baseline_has_every_count() {
        let text = fs::read_to_string(tree::root().join(BASELINE)).unwrap();
        let baseline: Counts = toml::from_str(&text).unwrap();
        let names: Vec<&str> = baseline.instructions.keys().map(String::as_str).collect();
        let mut counted: Vec<&str> = COUNTED.iter().map(|counted| counted.name).collect();
        counted.sort_unstable();
        assert_eq!(names, counted);
    }
}
