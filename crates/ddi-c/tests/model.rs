//! Drivers on a device model, compiled with cc: `drivers/model`, and `models.c` with one change. A
//! machine without cc prints a line.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate::runner::report::Report;
use tidegate::workload::expect::Clock;
use tidegate::workload::model::Submission;
use tidegate::workload::{self, LoadOptions};
use tidegate::{MakeDriver, RunRequest, run_workload};
use tidegate_ddi::Driver;
use tidegate_ddi_c::{CDriver, CodeTest, DeviceModel, Findings};
use tidegate_platform::Platform;
use tidegate_testbed::{compile_driver, compile_model};

/// A workload of copies and fences.
const SHORT: &str = "wait-before-signal.toml";

/// A driver, and the library of its device.
struct Pair {
    driver: PathBuf,
    model: PathBuf,
}

/// Compiles a driver of `mistakes.c` and a model of `models.c`; `None` without a compiler.
fn pair(folder: &Path, driver_mistake: u32, model_mistake: u32) -> Option<Pair> {
    let pair = Pair { driver: folder.join("driver.so"), model: folder.join("model.so") };
    let option = |mistake| format!("-DMISTAKE={mistake}");
    let (of_driver, of_model) = (option(driver_mistake), option(model_mistake));
    let defs = "-Wl,-z,defs";
    let driver = "crates/ddi-c/tests/mistakes.c";
    let model = "crates/ddi-c/tests/models.c";
    let has_compiler = compile_driver(&[driver], &[defs, &of_driver], &pair.driver)
        && compile_model(&[model], &[defs, &of_model], &pair.model);
    has_compiler.then_some(pair)
}

/// What a run came to.
struct Ran {
    report: Result<Report, String>,
    /// Of the driver.
    findings: Vec<String>,
    /// Of the model.
    problems: Vec<String>,
    /// What the kernel worked around, as an interrupt that did not come.
    faults: Vec<String>,
}

fn run(pair: &Pair, name: &str, clock: Clock) -> Ran {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads").join(name);
    let workload = workload::load(&path, &LoadOptions::default()).unwrap().0;
    let made: (Option<Arc<DeviceModel>>, Option<Findings>) = (None, None);
    let made = Arc::new(Platform::host().mutex("made by the test", made));
    let kept = Arc::clone(&made);
    let (driver, model) = (pair.driver.clone(), pair.model.clone());
    let make: MakeDriver = Arc::new(move |bus, gpu| {
        let (platform, memory) = (bus.platform, bus.system_memory);
        let model = DeviceModel::open(platform, &model, gpu).map_err(|error| error.to_string())?;
        kept.lock().0 = Some(Arc::clone(&model));
        let driver = CDriver::load_on_model(platform, memory, &driver, model, CodeTest::default())
            .map_err(|error| error.to_string())?;
        kept.lock().1 = Some(driver.findings());
        Ok(Arc::new(driver) as Arc<dyn Driver>)
    });
    let request = RunRequest {
        submission: Some(Submission::Packet),
        driver: Some(make),
        ..RunRequest::new(Arc::new(workload), clock)
    };
    let result = run_workload(&request);
    let faults = result.iter().flat_map(|result| &result.driver_faults);
    let faults = faults.map(ToString::to_string).collect();
    let report = result.map(|result| result.outcome.report);
    let (model, findings) = std::mem::take(&mut *made.lock());
    Ran {
        report: report.map_err(|error| error.to_string()),
        findings: findings.map_or(Vec::new(), |findings| findings.lines()),
        problems: model.map_or(Vec::new(), |model| model.problems()),
        faults,
    }
}

fn check(pair: &Pair, name: &str, clock: Clock) {
    let ran = run(pair, name, clock);
    let report = ran.report.unwrap();
    assert!(report.are_right(), "{name}: {:?}", report.problem_lines());
    let Ran { findings, problems, faults, .. } = ran;
    assert_eq!((findings, problems, faults), (vec![], vec![], vec![]), "{name}");
}

/// Memory of both kinds, copies, patterns, preemption; on threads, too.
// spec: PRE-180
#[test]
fn workloads_run_on_a_device_model() {
    let folder = tempfile::tempdir().unwrap();
    let Some(pair) = pair(folder.path(), 0, 0) else { return };
    for name in [SHORT, "high-priority-compute.toml", "larger-than-memory.toml"] {
        check(&pair, name, Clock::Virtual);
    }
    check(&pair, SHORT, Clock::Wall);
}

#[test]
fn a_device_model_need_not_say_what_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let Some(pair) = pair(folder.path(), 0, 31) else { return };
    check(&pair, SHORT, Clock::Virtual);
}

/// A second range of registers, messages with their numbers, and steps before the machine runs.
// spec: PRE-181
#[test]
fn a_device_model_has_messages_and_two_ranges() {
    let folder = tempfile::tempdir().unwrap();
    let Some(pair) = pair(folder.path(), 35, 30) else { return };
    check(&pair, SHORT, Clock::Virtual);
    check(&pair, SHORT, Clock::Wall);
}

/// The mistakes of the clauses `code-dma` and `code-line`.
// spec: PRE-180
#[test]
fn mistakes_of_a_driver_with_its_device_are_findings() {
    let folder = tempfile::tempdir().unwrap();
    for (mistake, expected) in [
        (33, "a read of 8 bytes at 0x7000 by the device: 0x7000: no memory is there"),
        (34, "the interrupt line is high after 100 calls of DxgkDdiInterruptRoutine"),
    ] {
        let Some(pair) = pair(folder.path(), mistake, 0) else { return };
        let ran = run(&pair, "hello.toml", Clock::Virtual);
        let found = ran.findings.iter().any(|finding| finding.contains(expected));
        assert!(found, "mistake {mistake}: {:?}", ran.findings);
        assert_eq!(ran.problems, [""; 0]);
    }
}

// spec: PRE-182
#[test]
fn a_device_that_cannot_be_is_refused_with_its_value() {
    let folder = tempfile::tempdir().unwrap();
    let expected = [
        "is refused: tidegate_device_open returned 7",
        "its table is of version 2 with ",
        "bar_bytes[0] is 5000: it must be a power of two from 4096 to 2147483648",
        "bar_bytes[1] is 4294967296: it must be a power of two",
        "messages is 3: it must be 0 for a line, or 1, 2, 4, 8, 16 or 32",
        "node_count is 49: 1 to 48 are possible",
        "nodes[2].kind is 5: 0 to 4 are possible",
        "its table lacks read, step",
        "refresh_period_ns is 999: at least 1000, or 0 without a display",
        "revision is 0x100: at most 0xff",
        "class_code is 0x1000000: at most 0xffffff",
    ];
    for (mistake, expected) in (1..).zip(expected) {
        let Some(pair) = pair(folder.path(), 0, mistake) else { return };
        let refused = run(&pair, "hello.toml", Clock::Virtual).report.err().unwrap();
        assert!(refused.contains(expected), "{mistake}: {refused}");
    }
    let (driver, model) = (folder.path().join("driver.so"), folder.path().join("model.so"));
    let refusal = |model: PathBuf| {
        let pair = Pair { driver: driver.clone(), model };
        run(&pair, "hello.toml", Clock::Virtual).report.err().unwrap()
    };
    assert!(refusal(folder.path().join("none.so")).starts_with("cannot read the device model"));
    // A driver is not a model, and a model is not a driver.
    let text = refusal(driver.clone());
    assert!(text.contains("has no symbol tidegate_device_open: export"), "{text}");
    let swapped = Pair { driver: model, ..pair(folder.path(), 0, 0).unwrap() };
    let text = run(&swapped, "hello.toml", Clock::Virtual).report.err().unwrap();
    assert!(text.contains("has no symbol TidegateBind: compile"), "{text}");
}

#[test]
fn misuses_of_the_host_by_a_device_model_are_problems() {
    let folder = tempfile::tempdir().unwrap();
    for (mistake, expected) in [
        (20, vec!["send_message of 0: the device declares 0"]),
        (
            21,
            vec![
                "send_message of 2: the device declares 2",
                "set_line of a device with 2 messages: it has no line",
            ],
        ),
        (23, vec!["step asks for 65536 steps at once: return the time that the work takes"]),
        (
            22,
            vec![
                "set_line before tidegate_device_open has returned",
                "send_message before tidegate_device_open has returned",
            ],
        ),
    ] {
        let Some(pair) = pair(folder.path(), 0, mistake) else { return };
        let ran = run(&pair, "hello.toml", Clock::Virtual);
        for expected in expected {
            let found = ran.problems.iter().any(|problem| problem.contains(expected));
            assert!(found, "{mistake}: {:?}", ran.problems);
        }
        assert_eq!(ran.findings, [""; 0]);
    }
}
