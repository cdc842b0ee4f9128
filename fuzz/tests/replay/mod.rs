//! Runs every input of a corpus through its target without the fuzzer: each alone on every machine
//! of the target, then all of them as a series. Then runs short random programs, so that targets
//! without a corpus are covered too.
//!
//! A file of the corpus that is called `series-…` has the inputs of one machine, and is run as
//! such.

use std::fs;
use std::path::{Path, PathBuf};
use tidegate_fuzz::{Series, Target, find, replay};

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

/// Returns bytes of SplitMix64.
pub fn random_bytes(seed: u64, len: usize) -> Vec<u8> {
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

/// Runs the corpus of a target, and random programs behind it.
pub fn run_corpus(name: &str) {
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
