//! `drivers/native`, compiled with cc, runs workloads in all submission models on the software GPU.
//! A machine without cc prints a line.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate::runner::HangAt;
use tidegate::runner::report::Report;
use tidegate::workload::expect::Clock;
use tidegate::workload::model::Submission;
use tidegate::workload::{self, LoadOptions};
use tidegate::{MakeDriver, RunRequest, run_workload};
use tidegate_ddi::Driver;
use tidegate_ddi_c::{CDriver, Findings};
use tidegate_platform::{Mutex, Platform};
use tidegate_testbed::compile_driver;

/// The native driver; `None` without a compiler.
fn native_driver(folder: &Path) -> Option<PathBuf> {
    let library = folder.join("driver.so");
    compile_driver(&["drivers/native/native.c"], &["-Wl,-z,defs"], &library).then_some(library)
}

/// Runs a workload. Returns its report, after a check that the driver broke no rule.
fn run(
    library: &Path,
    name: &str,
    clock: Clock,
    submission: Submission,
    hangs: &[HangAt],
) -> Report {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads").join(name);
    let workload = workload::load(&path, &LoadOptions::default()).unwrap().0;
    let seen: Arc<Mutex<Option<Findings>>> =
        Arc::new(Platform::host().mutex("findings of the test", None));
    let (library, kept) = (library.to_owned(), Arc::clone(&seen));
    let make: MakeDriver = Arc::new(move |platform, gpu| {
        let driver = CDriver::load(platform, &library, gpu).map_err(|error| error.to_string())?;
        *kept.lock() = Some(driver.findings());
        Ok(Arc::new(driver) as Arc<dyn Driver>)
    });
    let request = RunRequest {
        submission: Some(submission),
        driver: Some(make),
        hangs: hangs.to_vec(),
        ..RunRequest::new(Arc::new(workload), clock)
    };
    let result = run_workload(&request);
    let findings = seen.lock().take().map_or(Vec::new(), |findings| findings.lines());
    let report = result.unwrap_or_else(|error| panic!("{name}: {error}; {findings:?}"));
    assert_eq!(findings, [""; 0], "{name}");
    report.outcome.report
}

const ALL: [Submission; 3] = [Submission::Packet, Submission::Hardware, Submission::User];

#[test]
fn workloads_run_in_all_submission_models() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = native_driver(folder.path()) else { return };
    for name in ["hello.toml", "ring-buffer.toml", "frame-graph.toml", "high-priority-compute.toml"]
    {
        for submission in ALL {
            let report = run(&library, name, Clock::Virtual, submission, &[]);
            assert!(report.are_right(), "{name} {submission:?}: {:?}", report.problem_lines());
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
