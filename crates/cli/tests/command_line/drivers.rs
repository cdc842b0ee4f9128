//! `run --driver` and `conform`: kernel-mode drivers in C, and the clauses of the contract.

use crate::{ended, holds, json, place, ran, refused, root, text};
use std::path::Path;
use tidegate_testbed::{compile_driver, compile_model};

/// Compiles the packet driver into `driver.so` of a place; `false` without a compiler. With a
/// mistake it is a driver of the tests of `ddi-c`.
fn compiled(place: &Path, mistake: Option<u32>) -> bool {
    let library = place.join("driver.so");
    match mistake {
        None => compile_driver(&["drivers/packet/packet.c"], &[], &library),
        Some(number) => {
            let option = format!("-DMISTAKE={number}");
            compile_driver(&["crates/ddi-c/tests/mistakes.c"], &[&option], &library)
        }
    }
}

/// Compiles the packet driver with one line replaced; `false` without a compiler.
fn compiled_with(place: &Path, line: &str, other: &str) -> bool {
    let folder = root().join("drivers/packet");
    let source = std::fs::read_to_string(folder.join("packet.c")).unwrap();
    assert_eq!(source.matches(line).count(), 1, "{line}");
    let edited = place.join("edited.c");
    std::fs::write(&edited, source.replace(line, other)).unwrap();
    let include = format!("-I{}", folder.display());
    compile_driver(&[edited.to_str().unwrap()], &[&include], &place.join("driver.so"))
}

const NOTIFIES_DPC: &str = "adapter->Kernel.DxgkCbNotifyDpc(adapter->Kernel.DeviceHandle);";

#[test]
fn a_verified_run_names_the_clause_that_the_driver_breaks() {
    let place = place("verified-driver");
    if !compiled(&place, None) {
        return;
    }
    for clock in ["virtual", "wall"] {
        let options = format!("--driver driver.so --clock {clock} --verify-driver");
        ran(&place, &format!("run workloads/ring-buffer.toml {options}"));
    }
    ran(&place, "run workloads/hello.toml --clock virtual --verify-driver");
    assert!(compiled_with(&place, NOTIFIES_DPC, "(void)adapter;"));
    let run = "run workloads/hello.toml --driver driver.so --clock virtual";
    // The kernel works around it.
    ran(&place, run);
    let output = text(&ended(&place, 1, &format!("{run} --verify-driver")));
    let expected = [
        "packets-notify-dpc: the DPC after a report calls DxgkCbNotifyDpc",
        "source: page DXGKCB_NOTIFY_DPC",
        " ns (event ",
        "again: tidegate run ",
        "--verify-driver",
    ];
    holds(&output, &expected);
    let line = "run workloads/hello.toml --driver driver.so --clock wall --verify-driver";
    holds(&text(&ended(&place, 1, line)), &["packets-notify-dpc: "]);
}

#[test]
fn a_verified_driver_that_does_not_start_has_a_clause() {
    let place = place("verified-start");
    let aware = "caps->SchedulingCaps.MultiEngineAware = 1;";
    if !compiled_with(&place, aware, "") {
        return;
    }
    let line = "run workloads/hello.toml --driver driver.so --clock virtual --verify-driver";
    holds(&text(&ended(&place, 2, line)), &["capabilities-multi-engine: "]);
}

#[test]
fn a_paging_buffer_that_is_not_moved_breaks_its_clause() {
    let place = place("paging-buffer");
    let moves = "args->pDmaBuffer = words + COMMAND_BYTES / sizeof(ULONG64);";
    if !compiled_with(&place, moves, "args->pDmaBuffer = words;") {
        return;
    }
    let output = text(&ended(&place, 1, "conform driver.so --family code --situation memory"));
    holds(&output, &["code-paging-buffer: ", "moved pDmaBuffer by 0 bytes"]);
}

/// A request for preemption goes to the device when the driver cannot answer it.
#[test]
fn a_failed_call_of_the_kernel_loses_no_request() {
    let place = place("unsynchronized");
    if !compiled(&place, None) {
        return;
    }
    let line = "conform driver.so --situation preemption-unsynchronized";
    ran(&place, line);
    let answered = "if (NT_SUCCESS(status) && answered) {";
    assert!(compiled_with(&place, answered, "if (!NT_SUCCESS(status) || answered) {"));
    holds(&text(&ended(&place, 1, line)), &["preemption-answered: "]);
}

#[test]
fn a_workload_runs_on_a_driver_in_c() {
    let place = place("driver-in-c");
    if !compiled(&place, None) {
        return;
    }
    for clock in ["virtual", "wall"] {
        let line = format!("run workloads/ring-buffer.toml --driver driver.so --clock {clock}");
        holds(&text(&ran(&place, &line)), &["packet"]);
    }
}

#[test]
fn a_broken_rule_of_a_driver_is_a_problem_of_the_run() {
    let place = place("driver-with-mistake");
    if !compiled(&place, Some(11)) {
        return;
    }
    let output = ended(&place, 1, "run workloads/hello.toml --driver driver.so --clock virtual");
    holds(&text(&output), &["driver.so: KeDelayExecutionThread at level 2: the highest is 1"]);
}

#[test]
fn a_file_that_is_no_driver_is_refused() {
    let workload = root().join("workloads/hello.toml");
    let workload = workload.to_str().unwrap();
    refused(&["run", workload, "--driver", "missing.so"], &["cannot read the driver missing.so"]);
    refused(&["run", workload, "--driver", workload], &["cannot link the driver"]);
}

#[test]
fn the_packet_driver_conforms() {
    let place = place("driver-conforms");
    if !compiled(&place, None) {
        return;
    }
    let output = text(&ran(&place, "conform driver.so --junit driver.xml --json driver.json"));
    holds(&output, &["driver.so conforms", "0 broken", "not run: 'user-queues'"]);
    holds(
        &std::fs::read_to_string(place.join("driver.xml")).unwrap(),
        &["preemption-answered", "<skipped"],
    );
    holds(
        &std::fs::read_to_string(place.join("driver.json")).unwrap(),
        &["\"verdict\": \"kept\"", "\"conforms\": true"],
    );
}

/// The first program of the guide's chapter compiles, and is refused as the chapter says.
#[test]
fn the_guides_empty_driver_is_told_its_entries() {
    let place = place("driver-of-the-guide");
    let chapter = root().join("docs/guide/src/a-driver-in-c.md");
    let chapter = std::fs::read_to_string(chapter).unwrap();
    let program = chapter.split("```c\n").nth(1).unwrap().split("```").next().unwrap();
    let source = place.join("driver.c");
    std::fs::write(&source, program).unwrap();
    if !compile_driver(&[source.to_str().unwrap()], &[], &place.join("driver.so")) {
        return;
    }
    refused(
        &["conform", place.join("driver.so").to_str().unwrap()],
        &["lacks DxgkDdiAddDevice", "DxgkDdiSubmitCommandVirtual"],
    );
}

#[test]
fn a_mistake_of_a_driver_breaks_its_clause() {
    let place = place("driver-does-not-conform");
    let line = "conform reference --faulty packets-known --situation packets";
    let output = text(&ended(&place, 1, line));
    let expected = [
        "packets-known: DMA_COMPLETED names a packet that was submitted to the engine",
        "in 'packets' at",
        "was not submitted",
        "again: --family packets --situation packets",
        "does not conform",
    ];
    holds(&output, &expected);
    // Mistakes of `crates/ddi-c/tests/mistakes.c`.
    for (mistake, clause) in [
        (1, "code-leak:"),
        (3, "code-pool:"),
        (5, "code-level-kept:"),
        (6, "code-lock:"),
        (7, "code-register:"),
        (9, "code-assertion:"),
        (10, "code-bus-address:"),
        (11, "code-level:"),
        (15, "code-must-not-fail:"),
    ] {
        if !compiled(&place, Some(mistake)) {
            return;
        }
        let line = "conform driver.so --family code --situation packets";
        let output = text(&ended(&place, 1, line));
        holds(&output, &[clause, "39 clauses: "]);
    }
}

#[test]
fn clauses_are_listed_and_unknown_ones_refused() {
    let place = place("clauses");
    holds(&text(&ran(&place, "conform --list")), &["statuses-PreemptCommand", "hang-adapter"]);
    refused(
        &["conform", "reference", "--faulty", "packets-x"],
        &["no clause with a planted mistake is called 'packets-x'"],
    );
    refused(&["conform", "reference", "--family", "x"], &["the families are capabilities"]);
    refused(&["conform", "x.so", "--adapter", "standard"], &["is for the reference driver"]);
    refused(&["conform", "missing.so"], &["cannot read the driver missing.so"]);
}

/// Compiles the packet driver and the model of `drivers/model` in a place; `false` without a
/// compiler.
fn compiled_with_model(place: &Path) -> bool {
    compiled(place, None) && compile_model(&["drivers/model/model.c"], &[], &place.join("model.so"))
}

#[test]
fn a_driver_conforms_on_a_device_model() {
    let place = place("driver-on-model");
    if !compiled_with_model(&place) {
        return;
    }
    let output = text(&ran(&place, "conform driver.so --device model.so --json driver.json"));
    holds(&output, &["driver.so conforms", "0 broken", "not run: 'flips'"]);
    let report = json(&place, "driver.json");
    let verdict = |id: &str| {
        let mut clauses = report["clauses"].as_array().unwrap().iter();
        clauses
            .find(|clause| clause["id"] == id)
            .map_or("", |found| found["verdict"].as_str().unwrap())
    };
    for situation in ["packets", "preemption", "hang", "hang-adapter", "memory", "packets-fault"] {
        let ran = report["situations"].as_array().unwrap().iter().any(|ran| ran == situation);
        assert!(ran, "{situation}: {output}");
    }
    for id in ["packets-finished", "preemption-finished", "code-dma", "code-line"] {
        assert_eq!(verdict(id), "kept", "{id}: {output}");
    }
    let explored = "conform driver.so --device model.so --explore --schedules 5 --switches 1";
    holds(
        &text(&ran(&place, &format!("{explored} --situation packets"))),
        &["194 clauses", "0 broken", "2 situations ran"],
    );
    for clock in ["virtual", "wall"] {
        let options = format!("--driver driver.so --device model.so --clock {clock}");
        ran(&place, &format!("run workloads/wait-before-signal.toml {options} --verify-driver"));
    }
}

#[test]
fn a_device_model_that_cannot_be_used_is_refused() {
    let place = place("refused-model");
    refused(&["conform", "reference", "--device", "model.so"], &["--device needs a driver in C"]);
    let workload = root().join("workloads/hello.toml");
    let workload = workload.to_str().unwrap();
    refused(&["run", workload, "--device", "model.so"], &["--driver"]);
    if !compiled_with_model(&place) {
        return;
    }
    let driver = place.join("driver.so");
    let driver = driver.to_str().unwrap();
    refused(
        &["conform", driver, "--device", "missing.so"],
        &["cannot read the device model missing.so"],
    );
    refused(
        &["run", workload, "--driver", driver, "--device", driver],
        &["has no symbol tidegate_device_open"],
    );
}

/// The device of the guide's chapter is one, although no driver of the repository drives it.
#[test]
fn the_guides_device_model_is_a_device() {
    let place = place("model-of-the-guide");
    let chapter = root().join("docs/guide/src/a-device-model.md");
    let chapter = std::fs::read_to_string(chapter).unwrap();
    let program = chapter.split("```c\n").nth(1).unwrap().split("```").next().unwrap();
    let source = place.join("smallest.c");
    std::fs::write(&source, program).unwrap();
    if !compiled(&place, None)
        || !compile_model(&[source.to_str().unwrap()], &[], &place.join("smallest.so"))
    {
        return;
    }
    let output = text(&ended(&place, 1, "conform driver.so --device smallest.so"));
    holds(&output, &["DxgkDdiStartDevice"]);
}
