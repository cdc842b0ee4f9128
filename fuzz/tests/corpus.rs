//! Runs every input of the corpus through its target without the fuzzer, as a regression test. Then
//! runs short random programs, so that targets without a corpus are covered too.

use std::fs;
use std::path::{Path, PathBuf};
use tidegate_fuzz::{TARGETS, Target, find};

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

fn replay(name: &str) {
    let target = find(name).unwrap_or_else(|| panic!("no target {name}"));
    for (path, bytes) in inputs(target) {
        println!("{}", path.display());
        (target.run)(&bytes);
    }
    for seed in 0..RANDOM_PROGRAMS {
        println!("random program {seed} of {name}");
        (target.run)(&random_bytes(seed, 32 + seed as usize * 8));
    }
}

#[test]
fn packets_are_decoded_or_refused() {
    replay("packets");
}

#[test]
fn a_hostile_queue_harms_its_own_process_only() {
    replay("queue");
}

#[test]
fn hostile_commands_harm_their_own_process_only() {
    replay("commands");
}

#[test]
fn hostile_logs_harm_their_own_process_only() {
    replay("logs");
}

#[test]
fn hostile_calls_harm_their_own_process_only() {
    replay("calls");
}

#[test]
fn memory_that_changes_between_two_reads_harms_its_own_process_only() {
    replay("unsteady");
}

#[test]
fn files_are_parsed_or_refused() {
    replay("files");
}

#[test]
fn every_target_has_a_test() {
    let source = include_str!("corpus.rs");
    for target in TARGETS {
        assert!(
            source.contains(&format!("replay(\"{}\")", target.name)),
            "{} has no test",
            target.name
        );
    }
}
