//! C and C++ programs that are compiled against the header, linked with the shared library, and
//! run: as they are, and with AddressSanitizer where the compiler has it.

mod compiler;

use compiler::{Compiler, library, root};
use std::path::Path;
use std::process::Command;

fn run(program: &Path, part: &str) {
    let output = Command::new(program).arg(part).output().unwrap();
    let (out, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let name = program.display();
    assert!(output.status.success(), "{name} {part}: {}\n{out}{errors}", output.status);
    assert!(out.contains("all checks hold"), "{out}");
}

/// Compiles a program of `tests/c`, and runs a part of it.
fn check(language: &'static str, name: &str, part: &str) {
    let Some(compiler) = Compiler::find(language) else { return };
    let folder = tempfile::tempdir().unwrap();
    // The program finds the library by its soname.
    let (soname, real) = (folder.path().join("libtidegate_d3dkmt.so.0"), library());
    std::os::unix::fs::symlink(&real, soname).unwrap();
    let source = root().join("tests/c").join(name);
    let program = folder.path().join("program");
    let linked = |more: &[&str]| {
        let (program, real) = (program.to_str().unwrap(), real.to_str().unwrap());
        let path = format!("-Wl,-rpath,{}", folder.path().display());
        let options = [&["-o", program, real, &path][..], more].concat();
        compiler.compile(&source, &options);
    };
    linked(&[]);
    run(&program, part);
    if compiler.has_address_sanitizer(folder.path()) {
        linked(&["-fsanitize=address"]);
        run(&program, part);
    } else {
        println!("skipped: {language} has no AddressSanitizer");
    }
}

#[test]
fn calls_without_arguments_are_refused() {
    check("cc", "arguments.c", "nothing");
}

#[test]
fn adapters_are_enumerated_and_opened() {
    check("cc", "arguments.c", "enumeration");
}

// spec: NF-073, NF-291, RES-013
#[test]
fn adapters_answer_queries() {
    check("cc", "arguments.c", "queries");
}

// spec: MF-002, MF-015
#[test]
fn fences_refuse_wrong_arguments() {
    check("cc", "arguments.c", "fences");
}

// spec: MF-092
#[test]
fn a_lost_device_says_so() {
    check("cc", "arguments.c", "loss");
}

// spec: MF-003, MF-082, MF-084, MF-090, MF-093
#[test]
fn monitored_fences_wait_and_signal() {
    check("cc", "fences.c", "monitored");
}

#[test]
fn waits_for_any_and_all_fences() {
    check("cc", "fences.c", "any-and-all");
}

// spec: NF-094, NF-095, NF-096, NF-097
#[test]
fn native_fences_are_made_and_opened() {
    check("cc", "fences.c", "native");
}

// spec: MF-081, MF-087
#[test]
fn a_descriptor_names_a_shared_fence() {
    check("cc", "fences.c", "sharing");
}

#[test]
fn a_name_finds_a_shared_fence() {
    check("cc", "fences.c", "names");
}

// spec: UMS-130, UMS-131, UMS-132, UMS-133, MF-091
#[test]
fn a_kernel_mode_queue_runs_commands() {
    check("cc", "queues.c", "kernel-mode");
}

// spec: UMS-023, UMS-024, NF-290
#[test]
fn a_user_mode_queue_runs_its_ring() {
    check("cc", "queues.c", "user-mode");
}

// spec: HS-010
#[test]
fn contexts_have_priorities() {
    check("cc", "queues.c", "priorities");
}

// spec: MF-083, MF-085, MF-086, MF-088, MF-089
#[test]
fn contexts_run_packets_between_waits_and_signals() {
    check("cc", "queues.c", "packets");
}

// spec: RES-011, RES-012
#[test]
fn allocations_become_resident() {
    check("cc", "queues.c", "residency");
}

#[test]
fn reserved_addresses_are_mapped_and_updated() {
    check("cc", "queues.c", "addresses");
}

#[test]
fn lost_devices_report_the_fault_and_the_reset() {
    check("cc", "queues.c", "faults");
}

#[test]
fn a_resource_ends_with_its_allocations() {
    check("cc", "queues.c", "resources");
}

#[test]
fn semaphores_count() {
    check("cc", "legacy.c", "semaphores");
}

#[test]
fn mutexes_exclude() {
    check("cc", "legacy.c", "mutexes");
}

#[test]
fn older_fences_and_events_are_signalled() {
    check("cc", "legacy.c", "fences-and-events");
}

#[test]
fn older_objects_are_shared() {
    check("cc", "legacy.c", "sharing");
}

#[test]
fn threads_of_a_cpp_client_pass_a_turn() {
    check("c++", "client.cpp", "all");
}
