//! `drivers/patched`, compiled with cc: a driver of WDDM 1.2 without GPU virtual addresses runs
//! workloads. A machine without cc prints a line.

mod made;

use made::{make, subject};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate::runner::HangAt;
use tidegate::runner::report::Report;
use tidegate::workload::expect::Clock;
use tidegate::workload::model::Submission;
use tidegate::workload::{self, LoadOptions};
use tidegate::{RunRequest, run_workload};
use tidegate_conform::{Family, Row, Selection, examine};
use tidegate_testbed::compile_driver;

/// Compiles `drivers/patched` with more options; `None` without a compiler.
fn patched_driver(folder: &Path, options: &[&str]) -> Option<PathBuf> {
    let library = folder.join("patched.so");
    let options = [&["-Wl,-z,defs", "-Wall", "-Werror"], options].concat();
    compile_driver(&["drivers/patched/patched.c"], &options, &library).then_some(library)
}

fn try_run(
    library: &Path,
    name: &str,
    clock: Clock,
    hangs: &[HangAt],
) -> Result<(Report, Vec<String>), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads").join(name);
    let workload = workload::load(&path, &LoadOptions::default()).unwrap().0;
    let (make, seen) = make(library);
    let request = RunRequest {
        submission: Some(Submission::Packet),
        driver: Some(make),
        hangs: hangs.to_vec(),
        ..RunRequest::new(Arc::new(workload), clock)
    };
    let result = run_workload(&request);
    let findings = seen.lock().take().map_or(Vec::new(), |findings| findings.lines());
    let result = result.map_err(|error| format!("{error}; {}", findings.join("; ")))?;
    Ok((result.outcome.report, findings))
}

/// Runs a workload and returns the number of requests for preemption.
fn check(library: &Path, name: &str, clock: Clock) -> u64 {
    let (report, findings) = try_run(library, name, clock, &[]).unwrap();
    assert!(report.are_right(), "{name}: {:?}", report.problem_lines());
    assert!(report.queues.iter().any(|queue| queue.packets > 0), "{name} ran without packets");
    assert_eq!(findings, [""; 0], "{name}");
    report.engines.iter().map(|engine| engine.preemptions_requested).sum()
}

#[test]
fn workloads_run_with_patched_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = patched_driver(folder.path(), &[]) else { return };
    for name in ["hello.toml", "ring-buffer.toml", "frame-graph.toml", "larger-than-memory.toml"] {
        check(&library, name, Clock::Virtual);
    }
    check(&library, "ring-buffer.toml", Clock::Wall);
    let requested = check(&library, "high-priority-compute.toml", Clock::Virtual);
    assert!(requested > 0, "no packet was preempted");
}

/// The interface of WDDM 1.3 adds DxgkDdiGetNodeMetadata, and that of WDDM 2.0 other segments. A
/// driver of each version may patch addresses.
#[test]
fn a_driver_of_a_later_version_runs_too() {
    let folder = tempfile::tempdir().unwrap();
    for version in ["WDDM1_3", "WDDM2_0", "WDDM2_6", "WDDM3_2"] {
        let version = format!("-DDXGKDDI_INTERFACE_VERSION=DXGKDDI_INTERFACE_VERSION_{version}");
        let Some(library) = patched_driver(folder.path(), &[&version]) else { return };
        check(&library, "ring-buffer.toml", Clock::Virtual);
    }
}

// spec: PRE-006
#[test]
fn a_driver_with_the_model_of_windows_7_is_never_preempted() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = patched_driver(folder.path(), &["-DWINDOWS_7_MODEL"]) else { return };
    for name in ["ring-buffer.toml", "high-priority-compute.toml"] {
        assert_eq!(check(&library, name, Clock::Virtual), 0, "{name}");
    }
}

/// Commands that do not fit the driver's DMA buffer, or its patch list, take several passes.
#[test]
fn commands_that_do_not_fit_a_buffer_are_rendered_in_passes() {
    let folder = tempfile::tempdir().unwrap();
    for option in ["-DBUFFER_BYTES=512u", "-DLIST_ENTRIES=16u"] {
        let Some(library) = patched_driver(folder.path(), &[option]) else { return };
        check(&library, "frame-graph.toml", Clock::Virtual);
    }
}

#[test]
fn a_hang_with_patched_addresses_is_recovered() {
    let folder = tempfile::tempdir().unwrap();
    for options in [&[][..], &["-DWINDOWS_7_MODEL"][..]] {
        let Some(library) = patched_driver(folder.path(), options) else { return };
        let hangs = [HangAt { queue: "frames".to_owned(), submission: 3 }];
        let (report, findings) =
            try_run(&library, "priorities.toml", Clock::Virtual, &hangs).unwrap();
        let [recovery] = &report.recoveries[..] else { panic!("{:?}", report.recoveries) };
        assert_eq!((recovery.code, recovery.outcome.as_str()), (0x141, "the engine was reset"));
        assert_eq!(findings, [""; 0]);
    }
}

/// A buffer or a list that cannot be is refused, and a device of a process is lost at most. An
/// allocation that is too small is reported, and one without a handle is of no use.
#[test]
fn mistakes_in_buffers_lists_and_allocations_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("mistake.so");
    let moved = "DxgkDdiRender moved pDmaBuffer by";
    for (mistake, found) in [
        (1, moved),
        (2, moved),
        (3, ""),
        (4, ""),
        (5, ""),
        (6, "no segment has PopulatedFromSystemMemory"),
        (7, "lacks DxgkDdiPatch"),
        (8, "DxgkDdiCreateAllocation gave Size "),
        (9, ""),
    ] {
        let (source, option) =
            ("crates/ddi-c/tests/patched_mistakes.c", format!("-DMISTAKE={mistake}"));
        if !compile_driver(&[source], &["-Wl,-z,defs", &option], &library) {
            return;
        }
        let text = match try_run(&library, "ring-buffer.toml", Clock::Virtual, &[]) {
            Ok((report, findings)) => {
                let is_seen = !report.are_right() || !findings.is_empty();
                assert!(is_seen, "mistake {mistake} has no effect");
                findings.join("; ")
            }
            Err(error) => error,
        };
        assert!(text.contains(found), "mistake {mistake}: {text}");
    }
}

/// Examines the driver: it keeps each clause that the driver can break.
fn check_conformance(options: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = patched_driver(folder.path(), options) else { return };
    let report = examine(&subject("patched", &library), &Selection::default()).unwrap();
    assert!(report.conforms(), "{}", report.text());
    // The clauses of a display are judged, too.
    let is_reached = |row: &&Row| row.clause.family == Family::Display && row.checks > 0;
    assert_eq!(report.rows.iter().filter(is_reached).count(), 6, "{}", report.text());
    for situation in ["packets", "hang", "flips"] {
        let ran = report.ran.iter().any(|ran| ran == situation);
        assert!(ran, "{situation} was left out: {:?}", report.left_out);
    }
}

#[test]
fn the_driver_conforms() {
    check_conformance(&[]);
}

#[test]
fn the_driver_conforms_with_the_model_of_windows_7() {
    check_conformance(&["-DWINDOWS_7_MODEL"]);
}
