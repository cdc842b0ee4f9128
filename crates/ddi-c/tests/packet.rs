//! `drivers/packet`, compiled with cc, runs workloads on the software GPU. A machine without cc
//! prints a line.

mod made;

use made::{make, subject};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate::runner::HangAt;
use tidegate::runner::report::Report;
use tidegate::workload::expect::Clock;
use tidegate::workload::model::Submission;
use tidegate::workload::{self, LoadOptions};
use tidegate::{MakeLayer, RunRequest, run_workload};
use tidegate_conform::{Selection, Subject, examine};
use tidegate_ddi::{ComponentState, Driver, EngineId, Overrides, Passive, Status};
use tidegate_platform::Platform;
use tidegate_testbed::compile_driver;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiles sources of the repository into a driver, with more options; `None` without a compiler.
fn compile(folder: &Path, sources: &[&str], options: &[&str]) -> Option<PathBuf> {
    let library = folder.join("driver.so");
    let options = [&["-Wl,-z,defs"], options].concat();
    compile_driver(sources, &options, &library).then_some(library)
}

/// The packet driver.
fn packet_driver(folder: &Path) -> Option<PathBuf> {
    compile(folder, &["drivers/packet/packet.c"], &[])
}

/// Runs a workload with packets on a driver. Returns its report and the driver's findings, or why
/// it did not run.
fn try_run(library: &Path, name: &str, clock: Clock) -> Result<(Report, Vec<String>), String> {
    try_run_with(library, name, clock, &[])
}

/// As [`try_run`], with submissions that hang.
fn try_run_with(
    library: &Path,
    name: &str,
    clock: Clock,
    hangs: &[HangAt],
) -> Result<(Report, Vec<String>), String> {
    let path = root().join("workloads").join(name);
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

fn check(library: &Path, name: &str, clock: Clock) {
    let (report, findings) = try_run(library, name, clock).unwrap();
    assert!(report.are_right(), "{name}: {:?}", report.problem_lines());
    assert!(report.queues.iter().any(|queue| queue.packets > 0), "{name} ran without packets");
    assert_eq!(findings, [""; 0], "{name}");
}

#[test]
fn workloads_run_on_a_driver_in_c() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = packet_driver(folder.path()) else { return };
    for name in ["ring-buffer.toml", "frame-graph.toml", "high-priority-compute.toml"] {
        check(&library, name, Clock::Virtual);
    }
    check(&library, "ring-buffer.toml", Clock::Wall);
    let (report, _) = try_run(&library, "high-priority-compute.toml", Clock::Virtual).unwrap();
    let requested: u64 = report.engines.iter().map(|engine| engine.preemptions_requested).sum();
    assert!(requested > 0, "no packet was preempted");
}

/// A hang ends with a reset of the engine, or of the adapter if the driver cannot reset the engine.
#[test]
fn a_hang_on_a_driver_in_c_is_recovered() {
    let folder = tempfile::tempdir().unwrap();
    for (mistake, code, outcome) in
        [(0, 0x141, "the engine was reset"), (20, 0x117, "the adapter was reset")]
    {
        let Some(library) = with_mistake(folder.path(), mistake) else { return };
        let hangs = [HangAt { queue: "frames".to_owned(), submission: 3 }];
        let (report, findings) =
            try_run_with(&library, "priorities.toml", Clock::Virtual, &hangs).unwrap();
        let [recovery] = &report.recoveries[..] else { panic!("{:?}", report.recoveries) };
        assert_eq!((recovery.code, recovery.outcome.as_str()), (code, outcome));
        assert!(recovery.lost.iter().any(|lost| lost.queue == "frames" && lost.guilty));
        assert_eq!(findings, [""; 0]);
    }
}

/// The packet driver with a mistake of `mistakes.c`.
fn with_mistake(folder: &Path, mistake: u32) -> Option<PathBuf> {
    let option = format!("-DMISTAKE={mistake}");
    compile(folder, &["crates/ddi-c/tests/mistakes.c"], &[&option])
}

#[test]
fn each_mistake_of_a_driver_is_a_finding() {
    let expected = [
        "1 blocks of pool memory with tag 'leak', 40 bytes",
        "pool memory of 24 bytes was written after its end",
        "it is not allocated pool memory",
        "with tag 'pckt' was freed with tag 'leak'",
        "DxgkDdiCreateDevice returned at level 2: it was called at 0",
        "was released but not held",
        "an access of 4 bytes at 0x7d6e000000000000",
        "KeAcquireSpinLockAtDpcLevel at level 0",
        "the assertion block[3] == 0 failed",
        "has no bus address",
        "KeDelayExecutionThread at level 2: the highest is 1",
        "PAGED_CODE at level 2",
        "ExAllocatePoolWithTag at level 2: the highest is 1",
        "DxgkCbNotifyDpc at level 5: the level must be DISPATCH",
        "DxgkDdiDestroyDevice must not fail",
    ];
    let others = [
        (29, "KeStallExecutionProcessor for 51 microseconds"),
        (30, "it is not contiguous memory"),
        (31, "DxgkCbNotifyInterrupt without data"),
        (32, "DxgkCbNotifyInterrupt without DxgkCbQueueDpc"),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (mistake, expected) in (1..).zip(expected).chain(others) {
        let Some(library) = with_mistake(folder.path(), mistake) else { return };
        let (report, findings) = try_run(&library, "hello.toml", Clock::Virtual).unwrap();
        assert!(report.are_right(), "mistake {mistake}: {:?}", report.problem_lines());
        let found = findings.iter().any(|finding| finding.contains(expected));
        assert!(found, "mistake {mistake}: {findings:?}");
    }
    for allowed in [0, 21] {
        let library = with_mistake(folder.path(), allowed).unwrap();
        let (_, findings) = try_run(&library, "hello.toml", Clock::Virtual).unwrap();
        assert_eq!(findings, [""; 0], "{allowed}");
    }
}

#[test]
fn a_refused_kick_leaves_no_packet_and_preempted_packets_keep_their_private_data() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = with_mistake(folder.path(), 27) else { return };
    check(&library, "ring-buffer.toml", Clock::Virtual);
    let library = with_mistake(folder.path(), 28).unwrap();
    check(&library, "priorities.toml", Clock::Virtual);
}

/// A transfer of more than one command goes on in the next buffer where the driver left it.
#[test]
fn transfers_go_on_in_the_next_paging_buffer() {
    let folder = tempfile::tempdir().unwrap();
    for (mistake, broken, found) in [
        (0, &[][..], &[][..]),
        (33, &["paging-progress"], &[]),
        (34, &["statuses-BuildPagingBuffer"], &["moved pDmaBuffer by 32 bytes"]),
    ] {
        let options = [&format!("-DMISTAKE={mistake}"), "-DCOPY_BYTES=4096u"];
        let sources = ["crates/ddi-c/tests/mistakes.c"];
        let Some(library) = compile(folder.path(), &sources, &options) else { return };
        let (make, seen) = make(&library);
        let selection =
            Selection { situations: vec!["memory-parts".to_owned()], ..Selection::default() };
        let report = examine(&Subject::new("packet", make), &selection).unwrap();
        let ids: Vec<_> = report.broken().map(|row| row.clause.id).collect();
        assert_eq!(ids, broken, "mistake {mistake}: {}", report.text());
        let lines = seen.lock().take().unwrap().lines();
        let all = found.iter().all(|text| lines.iter().any(|line| line.contains(text)));
        assert!(all && lines.is_empty() == found.is_empty(), "mistake {mistake}: {lines:?}");
    }
}

/// Examines the packet driver with a mistake in one situation.
fn examined(folder: &Path, mistake: u32, situation: &str) -> Option<tidegate_conform::Report> {
    let library = with_mistake(folder, mistake)?;
    let selection = Selection { situations: vec![situation.to_owned()], ..Selection::default() };
    Some(examine(&subject("packet", &library), &selection).unwrap())
}

/// Memory is not there when the device starts, objects are created or work comes.
#[test]
fn a_driver_that_gets_no_memory_fails_cleanly() {
    let folder = tempfile::tempdir().unwrap();
    for (mistake, situation, broken) in [
        (0, "no-memory-start", &[][..]),
        (0, "no-memory-objects", &[]),
        (0, "no-memory-work", &[]),
        (36, "no-memory-objects", &["code-memory-status"]),
        (37, "no-memory-objects", &["code-leak", "code-memory-left"]),
        (38, "no-memory-objects", &["code-memory-again"]),
        (39, "no-memory-work", &["statuses-SubmitCommandVirtual", "code-memory-work"]),
        (40, "no-memory-start", &["code-leak", "code-memory-left"]),
    ] {
        let Some(report) = examined(folder.path(), mistake, situation) else { return };
        let ids: Vec<_> = report.broken().map(|row| row.clause.id).collect();
        assert_eq!(ids, broken, "mistake {mistake}: {}", report.text());
        assert_eq!(report.ran, [situation], "mistake {mistake}");
    }
}

/// Each engine is a component with F-states.
#[test]
fn engines_lose_and_regain_power() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = packet_driver(folder.path()) else { return };
    let statuses = Arc::new(Platform::host().mutex("statuses of F-states", Vec::new()));
    let kept = Arc::clone(&statuses);
    let layer: MakeLayer = Arc::new(move |_, driver| {
        let kept = Arc::clone(&kept);
        let asks = move |inner: &dyn Driver, level: &Passive| {
            let states =
                [(0, ComponentState::F1), (0, ComponentState::F0), (99, ComponentState::F1)];
            let set = |(node, state)| {
                inner.set_power_component_f_state(level.into(), EngineId::of_node(node), state)
            };
            *kept.lock() = states.map(set).to_vec();
            inner.query_adapter_caps(level)
        };
        Overrides::default().query_adapter_caps(asks).before(driver)
    });
    let path = root().join("workloads/hello.toml");
    let workload = workload::load(&path, &LoadOptions::default()).unwrap().0;
    let (make, _) = make(&library);
    let request = RunRequest {
        submission: Some(Submission::Packet),
        driver: Some(make),
        layer: Some(layer),
        ..RunRequest::new(Arc::new(workload), Clock::Virtual)
    };
    let report = run_workload(&request).unwrap().outcome.report;
    assert!(report.are_right(), "{:?}", report.problem_lines());
    assert_eq!(*statuses.lock(), [Ok(()), Ok(()), Err(Status::INVALID_PARAMETER)]);
}

/// Each driver shows pictures: a flip is latched at a vertical sync, while packets are preempted.
// spec: PRE-018
#[test]
fn pictures_are_shown_by_each_driver() {
    let folder = tempfile::tempdir().unwrap();
    for source in ["packet/packet.c", "patched/patched.c", "native/native.c"] {
        let source = format!("drivers/{source}");
        let Some(library) = compile(folder.path(), &[&source], &[]) else { return };
        let (report, findings) = try_run(&library, "presenting.toml", Clock::Virtual).unwrap();
        assert!(report.are_right(), "{source}: {:?}", report.problem_lines());
        assert_eq!(findings, [""; 0], "{source}");
        let display = report.display.unwrap();
        let counted = (display.presents, display.frames_shown, display.frames_discarded);
        assert_eq!(counted, (24, 24, 0), "{source}");
    }
}

/// A timer, its DPC and a thread run beside packets, on both clocks.
#[test]
fn timers_dpcs_and_threads_of_a_driver_run() {
    let folder = tempfile::tempdir().unwrap();
    let sources = ["crates/ddi-c/tests/agents.c"];
    let made = |mistake| compile(folder.path(), &sources, &[mistake]);
    let Some(library) = made("-DMISTAKE=0") else { return };
    check(&library, "ring-buffer.toml", Clock::Virtual);
    check(&library, "ring-buffer.toml", Clock::Wall);
    // Linked to stay in memory: it is not taken for the code of the next driver either.
    let stays = ["-Wl,-z,nodelete", "-DMISTAKE=1"];
    let library = compile(folder.path(), &sources, &stays).unwrap();
    let (_, findings) = try_run(&library, "ring-buffer.toml", Clock::Virtual).unwrap();
    assert_eq!(findings, ["1 timers of the driver are set after its end"]);
    let library = made("-DMISTAKE=5").unwrap();
    let (_, findings) = try_run(&library, "ring-buffer.toml", Clock::Virtual).unwrap();
    let late = "DxgkCbNotifyInterrupt while the device is stopped: the report is lost";
    assert_eq!(findings, [late]);
    // Nothing moves while the start waits.
    let library = made("-DMISTAKE=3").unwrap();
    let refused = try_run(&library, "ring-buffer.toml", Clock::Virtual).err().unwrap();
    assert!(refused.contains("DxgkDdiStartDevice waits for what nothing sets"), "{refused}");
    // The code that a thread runs stays in memory. It is not taken for the code of another driver.
    let library = made("-DMISTAKE=2").unwrap();
    for clock in [Clock::Virtual, Clock::Wall] {
        let refused = try_run(&library, "ring-buffer.toml", clock).err().unwrap();
        assert!(refused.contains("DxgkDdiAddDevice"), "{refused}");
    }
    let library = made("-DMISTAKE=4").unwrap();
    let refused = try_run(&library, "ring-buffer.toml", Clock::Virtual).err().unwrap();
    assert!(refused.contains("waits for what nothing sets"), "{refused}");
    check(&packet_driver(folder.path()).unwrap(), "ring-buffer.toml", Clock::Virtual);
}

#[test]
fn a_library_that_is_no_driver_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = |library: &Path| try_run(library, "hello.toml", Clock::Virtual).err().unwrap();
    for (mistake, expected) in [
        (16, "DxgkInitialize with the version 0x2005"),
        (17, "lacks DxgkDdiStopDevice, DxgkDdiSubmitCommandVirtual"),
        (18, "lacks DxgkDdiPatch, DxgkDdiSubmitCommand, DxgkDdiRender"),
        (19, "did not call DxgkInitialize"),
        (22, "PageTableIndexBitCount is 64"),
        (23, "PageTableSizeInBytes is 2048"),
        (24, "PageTableLevelCount is 0"),
        (25, "DxgkDdiQueryAdapterInfo of the type 1 failed"),
        (26, "declares SupportPerEngineTDR and lacks"),
    ] {
        let Some(library) = with_mistake(folder.path(), mistake) else { return };
        let refused = refusal(&library);
        assert!(refused.contains(expected), "{mistake}: {refused}");
    }
    let source = folder.path().join("lacking.c");
    let text = "#include <ntddk.h>\nNTSTATUS KeNoSuchFunction(VOID);\n\
                NTSTATUS DriverEntry(PDRIVER_OBJECT o, PUNICODE_STRING p) {\n\
                (void)o; (void)p; return KeNoSuchFunction();\n}\n";
    std::fs::write(&source, text).unwrap();
    // Linked without a check for undefined symbols.
    let library = folder.path().join("lacking.so");
    assert!(compile_driver(&[source.to_str().unwrap()], &[], &library));
    let refused = refusal(&library);
    assert!(refused.contains("undefined symbol: KeNoSuchFunction"), "{refused}");
    let missing = refusal(&folder.path().join("missing.so"));
    assert!(missing.starts_with("cannot read the driver"), "{missing}");
}
