//! Where level tokens are made.
//!
//! Purpose: a token of `ddi::level` proves its level because the kernel's entry points alone make
//! it, and every function below passes it on. [`ENTRY_POINTS`] has the files that make one.

use crate::finding::Finding;
use crate::source::Source;
use std::path::Path;

/// The files that may make a token, outside of tests, and in how many places.
const ENTRY_POINTS: &[(&str, usize)] = &[
    // A call of a process.
    ("dxgkrnl/src/object/process/calls.rs", 1),
    // A call of the system on an adapter: start, stop, power.
    ("dxgkrnl/src/adapter/mod.rs", 1),
    // The agents of the kernel: the timer's, and the pager.
    ("dxgkrnl/src/supervisor.rs", 1),
    ("dxgkrnl/src/memory/pager.rs", 1),
    // The task of a tile update.
    ("dxgkrnl/src/object/tile_update.rs", 1),
    // The interrupt routine, and the DPC.
    ("dxgkrnl/src/interrupt/isr.rs", 1),
    ("dxgkrnl/src/interrupt/dpc.rs", 2),
    // Where the level is known at run time: a callback that DPCs and work items make, and the drop
    // of an object that ends at PASSIVE level.
    ("dxgkrnl/src/timer.rs", 1),
    // Callbacks of a driver in C, whose code has no tokens: their levels are checked.
    ("ddi-c/src/host.rs", 2),
    ("ddi-c/src/kernel_calls.rs", 1),
    // The kernel that tests of drivers play.
    ("testbed/src/bare_driver/kernel.rs", 3),
    // Threads of a driver.
    ("scenarios/src/seam.rs", 2),
    ("scenarios/src/doorbell/ring_against_disconnect.rs", 1),
];

const TOKENS: [&str; 4] =
    ["Passive::enter(", "Passive::enter_if_current(", "Dispatch::enter(", "Dirql::enter("];

/// Counts the places of one file and compares with what is allowed.
pub fn check(path: &Path, source: &Source) -> Option<Finding> {
    let inside = path.strip_prefix("crates").ok()?.to_str()?;
    let mut parts = inside.split('/').skip(1);
    if parts.next() != Some("src") || parts.next() == Some("tests") {
        return None;
    }
    let code = source.lines.iter().enumerate().filter(|(index, _)| !source.is_test(*index));
    let places: usize =
        code.map(|(_, l)| TOKENS.iter().map(|t| l.code.matches(t).count()).sum::<usize>()).sum();
    let allowed = ENTRY_POINTS.iter().find(|of| of.0 == inside).map_or(0, |of| of.1);
    (places > allowed).then(|| {
        let what = format!(
            "level tokens are made in {places} places, {allowed} are allowed: take the token of \
             the entry point as an argument"
        );
        Finding::of_file(path, what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(path: &str, text: &str) -> Option<String> {
        check(Path::new(path), &Source::of(text)).map(|finding| finding.to_string())
    }

    #[test]
    fn a_further_place_is_a_finding_and_tests_and_comments_are_none() {
        let one =
            "f(Passive::enter()); // not Passive::enter()\n#[test]\nfn a() { Passive::enter() }";
        let entry = "crates/dxgkrnl/src/supervisor.rs";
        assert_eq!(finding(entry, one), None);
        assert_eq!(finding("crates/kmd/tests/a.rs", one), None);
        assert_eq!(finding("crates/kmd/src/tests/a.rs", one), None);
        let found = finding("crates/kmd/src/a.rs", one).unwrap();
        assert!(found.contains("made in 1 places, 0 are allowed"), "{found}");
        let found = finding(entry, "f(&Dirql::enter(&held), &Passive::enter_if_current())");
        assert!(found.unwrap().contains("made in 2 places, 1 are allowed"));
    }
}
