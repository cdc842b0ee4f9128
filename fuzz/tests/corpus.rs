//! Runs every input of the corpus through its target without the fuzzer, as a regression test: each
//! alone on every machine of the target, then all of them as a series. Then runs short random
//! programs, so that targets without a corpus are covered too.
//!
//! A file of the corpus that is called `series-…` has the inputs of one machine, and is run as such.

use std::fs;
use std::path::{Path, PathBuf};
use tidegate_fuzz::{Series, TARGETS, Target, find, recorded_inputs, replay};

/// Number of random programs per target.
const RANDOM_PROGRAMS: u64 = 40;

fn inputs(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let Ok(entries) = fs::read_dir(&folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path, bytes)
    };
    paths.into_iter().map(read).collect()
}

/// SplitMix64.
fn random_bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut next = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    (0..len.div_ceil(8)).flat_map(|_| next().to_le_bytes()).take(len).collect()
}

fn is_series(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("series-"))
}

fn run_corpus(name: &str) {
    let target = find(name).unwrap_or_else(|| panic!("no target {name}"));
    let mut series = Series::default();
    for (path, bytes) in inputs(target) {
        println!("{}", path.display());
        if is_series(&path) {
            assert!(replay(&bytes).is_some(), "the series is damaged");
            continue;
        }
        (0..target.machines).for_each(|machine| target.run(&mut Series::new(machine), &bytes));
    }
    for (path, bytes) in inputs(target).into_iter().filter(|(path, _)| !is_series(path)) {
        println!("{} in a series", path.display());
        target.run(&mut series, &bytes);
    }
    for seed in 0..RANDOM_PROGRAMS {
        println!("random program {seed} of {name}");
        target.run(&mut series, &random_bytes(seed, 32 + seed as usize * 8));
    }
}

#[test]
fn inputs_of_a_machine_are_replayed_from_their_record() {
    let target = find("calls").expect("the target exists");
    let mut series = Series::new(2);
    for seed in 0..3 {
        target.run(&mut series, &random_bytes(seed, 40));
    }
    let recorded = recorded_inputs(target);
    drop(series);
    assert!(recorded.starts_with(b"calls 2\n"));
    assert_eq!(replay(&recorded), Some(3));
    assert_eq!(recorded_inputs(target), recorded, "the replay runs the same inputs");
    assert_eq!(replay(&recorded[..recorded.len() - 1]), None);
}

#[test]
fn packets_are_decoded_or_refused() {
    run_corpus("packets");
}

#[test]
fn a_hostile_queue_harms_its_own_process_only() {
    run_corpus("queue");
}

#[test]
fn hostile_commands_harm_their_own_process_only() {
    run_corpus("commands");
}

#[test]
fn hostile_logs_harm_their_own_process_only() {
    run_corpus("logs");
}

#[test]
fn hostile_calls_harm_their_own_process_only() {
    run_corpus("calls");
}

#[test]
fn memory_that_changes_between_two_reads_harms_its_own_process_only() {
    run_corpus("unsteady");
}

#[test]
fn files_are_parsed_or_refused() {
    run_corpus("files");
}

#[test]
fn hostile_messages_harm_their_own_process_only() {
    run_corpus("messages");
}

#[test]
fn every_target_has_a_test() {
    let source = include_str!("corpus.rs");
    for target in TARGETS {
        assert!(
            source.contains(&format!("run_corpus(\"{}\")", target.name)),
            "{} has no test",
            target.name
        );
    }
}
