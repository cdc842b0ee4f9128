//! `drivers/native`, compiled with cc, runs workloads in all submission models on the software GPU.
//! A machine without cc prints a line.

mod made;

use made::{make, subject};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate::ddi::{Overrides, VidSchCaps};
use tidegate::runner::HangAt;
use tidegate::runner::report::Report;
use tidegate::workload::expect::Clock;
use tidegate::workload::model::Submission;
use tidegate::workload::{self, LoadOptions};
use tidegate::{MakeLayer, Platform, RunRequest, run_workload};
use tidegate_conform::{Selection, examine};
use tidegate_testbed::compile_driver;

/// The native driver, compiled with more options; `None` without a compiler.
fn compile(folder: &Path, options: &[&str]) -> Option<PathBuf> {
    let library = folder.join("driver.so");
    let options = [&["-Wl,-z,defs"], options].concat();
    compile_driver(&["drivers/native/native.c"], &options, &library).then_some(library)
}

fn native_driver(folder: &Path) -> Option<PathBuf> {
    compile(folder, &[])
}

/// Compiles the native driver with its checks, and one of their mistakes.
fn compile_checks(mistake: &str, library: &Path) -> bool {
    let source = "crates/ddi-c/tests/native_checks.c";
    compile_driver(&[source], &["-Wl,-z,defs", mistake], library)
}

fn connects(report: &Report) -> u64 {
    report.queues.iter().map(|queue| queue.doorbell_connects).sum()
}

fn request(name: &str, clock: Clock) -> RunRequest {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads").join(name);
    let workload = workload::load(&path, &LoadOptions::default()).unwrap().0;
    RunRequest::new(Arc::new(workload), clock)
}

/// Runs a workload. Returns its report, after a check that the driver broke no rule.
fn run(
    library: &Path,
    name: &str,
    clock: Clock,
    submission: Submission,
    hangs: &[HangAt],
) -> Report {
    let (report, findings) = try_run(library, name, clock, submission, hangs);
    let report = report.unwrap_or_else(|error| panic!("{name}: {error}; {findings:?}"));
    assert_eq!(findings, [""; 0], "{name}");
    report
}

/// Runs a workload. Returns its report, or why it did not run, and the driver's findings.
fn try_run(
    library: &Path,
    name: &str,
    clock: Clock,
    submission: Submission,
    hangs: &[HangAt],
) -> (Result<Report, String>, Vec<String>) {
    let (make, seen) = make(library);
    let request = RunRequest {
        submission: Some(submission),
        driver: Some(make),
        hangs: hangs.to_vec(),
        ..request(name, clock)
    };
    let result = run_workload(&request);
    let findings = seen.lock().take().map_or(Vec::new(), |findings| findings.lines());
    (result.map(|result| result.outcome.report).map_err(|error| error.to_string()), findings)
}

const ALL: [Submission; 3] = [Submission::Packet, Submission::Hardware, Submission::User];

// spec: NF-119, NF-134, UMS-134, UMS-135, UMS-136
#[test]
fn workloads_run_in_all_submission_models() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = native_driver(folder.path()) else { return };
    for name in ["hello.toml", "ring-buffer.toml", "frame-graph.toml", "high-priority-compute.toml"]
    {
        for submission in ALL {
            let report = run(&library, name, Clock::Virtual, submission, &[]);
            assert!(report.are_right(), "{name} {submission:?}: {:?}", report.problem_lines());
            assert_eq!(connects(&report) > 0, submission == Submission::User, "{submission:?}");
        }
    }
    for submission in ALL {
        let report = run(&library, "ring-buffer.toml", Clock::Wall, submission, &[]);
        assert!(report.are_right(), "{submission:?}: {:?}", report.problem_lines());
    }
}

/// A hang in a queue of each kind ends with a reset of the engine, and other queues go on.
#[test]
fn a_hang_of_a_hardware_queue_is_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = native_driver(folder.path()) else { return };
    let hangs = [HangAt { queue: "frames".to_owned(), submission: 3 }];
    for submission in ALL {
        let report = run(&library, "priorities.toml", Clock::Virtual, submission, &hangs);
        let [recovery] = &report.recoveries[..] else { panic!("{:?}", report.recoveries) };
        assert_eq!((recovery.code, recovery.outcome.as_str()), (0x141, "the engine was reset"));
        let guilty = recovery.lost.iter().filter(|lost| lost.guilty).map(|lost| &lost.queue);
        assert_eq!(guilty.collect::<Vec<_>>(), ["frames"], "{submission:?}");
    }
}

/// The driver asks for features, and connects a doorbell, in ways that its own code does not.
// spec: NF-072, NF-080, NF-081, NF-082, UMS-013
#[test]
fn the_kernels_functions_of_features_answer_as_their_pages_say() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("driver.so");
    let checks = |mistake: &str| compile_checks(mistake, &library);
    if !checks("-DMISTAKE=0") {
        return;
    }
    let report = run(&library, "hello.toml", Clock::Virtual, Submission::User, &[]);
    assert!(report.are_right(), "{:?}", report.problem_lines());
    checks("-DMISTAKE=1");
    let (_, findings) = try_run(&library, "hello.toml", Clock::Virtual, Submission::User, &[]);
    let found = findings.iter().any(|finding| finding.contains("no doorbell is connected there"));
    assert!(found, "{findings:?}");
    // A stride between fences that is impossible, and a doorbell larger than the device's.
    for (mistake, what) in [("-DMISTAKE=2", "stride"), ("-DMISTAKE=3", "doorbell")] {
        checks(mistake);
        let (ran, _) = try_run(&library, "hello.toml", Clock::Virtual, Submission::User, &[]);
        assert!(!ran.is_ok_and(|report| report.are_right()), "{what}");
    }
}

/// The handles of allocations are found while they are open, and are acquired and released.
#[test]
fn handles_of_allocations_have_the_drivers_data() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("driver.so");
    for (mistake, found) in [
        ("-DMISTAKE=0", ""),
        ("-DMISTAKE=4", "handles of DxgkCbAcquireHandleData"),
        ("-DMISTAKE=5", "which is not acquired"),
    ] {
        if !compile_checks(mistake, &library) {
            return;
        }
        for submission in ALL {
            let (ran, findings) = try_run(&library, "hello.toml", Clock::Virtual, submission, &[]);
            assert!(ran.is_ok_and(|report| report.are_right()), "{submission:?}");
            assert_eq!(findings.is_empty(), found.is_empty(), "{findings:?}");
            assert!(findings.iter().all(|finding| finding.contains(found)), "{findings:?}");
        }
    }
}

/// The driver declares room for 5 packets beside its other scheduling capabilities.
// spec: NF-177, NF-292
#[test]
fn scheduling_capabilities_are_one_word_and_logs_have_their_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("driver.so");
    if !compile_checks("-DMISTAKE=0", &library) {
        return;
    }
    let seen = Arc::new(Platform::host().mutex("declared capabilities", None));
    let note = Arc::clone(&seen);
    let layer: MakeLayer = Arc::new(move |_, driver| {
        let note = Arc::clone(&note);
        let caps = Overrides::default().query_adapter_caps(move |inner, level| {
            let caps = inner.query_adapter_caps(level);
            *note.lock() = Some((caps.hw_queue_packet_cap, caps.scheduling));
            caps
        });
        caps.before(driver)
    });
    let (make, findings) = make(&library);
    let (driver, layer) = (Some(make), Some(layer));
    let request = RunRequest { driver, layer, ..request("hello.toml", Clock::Virtual) };
    assert!(run_workload(&request).unwrap().outcome.report.are_right());
    assert_eq!(findings.lock().take().unwrap().lines(), [""; 0]);
    let (packets, others) = seen.lock().take().unwrap();
    assert_eq!(packets, 5);
    assert!(others.contains(VidSchCaps::NATIVE_GPU_FENCE), "{others:?}");
}

/// With one doorbell, each queue takes it away from the queue before.
// spec: UMS-067
#[test]
fn queues_share_a_doorbell() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = compile(folder.path(), &["-DMOST_DOORBELLS=1"]) else { return };
    let report = run(&library, "frame-graph.toml", Clock::Virtual, Submission::User, &[]);
    assert!(report.are_right(), "{:?}", report.problem_lines());
    let queues = report.queues.len() as u64;
    assert!(connects(&report) > queues, "{} of {queues}", connects(&report));
}

/// The driver keeps each clause that a driver without a display can break.
// spec: HS-014
#[test]
fn the_driver_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = native_driver(folder.path()) else { return };
    let report = examine(&subject("native", &library), &Selection::default()).unwrap();
    assert!(report.conforms(), "{}", report.text());
    let ran = |name: &str| report.ran.iter().any(|ran| ran == name);
    for situation in ["hw-queues", "hw-hang", "hw-fault", "user-queues", "user-hang"] {
        assert!(ran(situation), "{situation} was left out: {:?}", report.left_out);
    }
    for id in ["power-d0", "power-d3", "power-f0", "power-foreign"] {
        let row = report.rows.iter().find(|row| row.clause.id == id).unwrap();
        assert!(row.checks > 0, "{id}");
    }
}
