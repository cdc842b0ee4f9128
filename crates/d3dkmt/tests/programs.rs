//! C and C++ programs that are compiled against the header, linked with the shared library, and
//! run: as they are, and with AddressSanitizer where the compiler has it; on a kernel in their own
//! process, on the kernel of a service, and on that kernel from a container.

mod compiler;
#[path = "programs/guest.rs"]
mod guest;
mod restart;
mod service;

use compiler::{Compiler, library, root};
use service::{patient_socket, socket, variants_socket};
use std::path::{Path, PathBuf};
use std::process::Command;
use tidegate_testbed::{Container, ServiceProcess};

/// A program of `tests/c`.
struct Program {
    language: &'static str,
    source: &'static str,
}

impl Program {
    /// `source`: from `tests/c`.
    const fn new(language: &'static str, source: &'static str) -> Program {
        Program { language, source }
    }

    /// Compiles the program into a folder: as it is and, if the compiler has it, with
    /// AddressSanitizer; not at all without a compiler.
    fn make(&self, folder: &Path) -> Vec<PathBuf> {
        let Some(compiler) = Compiler::find(self.language) else { return Vec::new() };
        // The program finds the library by its soname.
        let real = library();
        std::os::unix::fs::symlink(&real, folder.join("libtidegate_d3dkmt.so.0")).unwrap();
        let source = root().join("tests/c").join(self.source);
        let path = format!("-Wl,-rpath,{}", folder.display());
        let compile = |name: &str, more: &[&str]| {
            let program = folder.join(name);
            let options = ["-o", program.to_str().unwrap(), real.to_str().unwrap(), &path];
            compiler.compile(&source, &[&options[..], more].concat());
            program
        };
        let mut made = vec![compile("plain", &[])];
        if compiler.has_address_sanitizer(folder) {
            made.push(compile("sanitized", &["-fsanitize=address"]));
        } else {
            println!("skipped: {} has no AddressSanitizer", self.language);
        }
        made
    }

    /// Runs a part of the program, which is compiled only for this test: other tests run beside
    /// it, also in other processes, and a file that one of them writes cannot be executed.
    fn check(&self, part: &str) {
        let folder = tempfile::tempdir().unwrap();
        for program in self.make(folder.path()) {
            self.run(&program, part, Path::new(""));
            // Timeouts are simulated only by the owner of a machine, not by a client of a service.
            if part != "faults" {
                self.run_served(&program, part);
            }
        }
    }

    /// As [`Program::check`], only on the service: the part starts a second process.
    fn check_served(&self, part: &str) {
        let folder = tempfile::tempdir().unwrap();
        self.make(folder.path()).iter().for_each(|program| self.run_served(program, part));
    }

    /// Runs a part on the service, from here and from a container.
    fn run_served(&self, program: &Path, part: &str) {
        self.run(program, part, socket());
        if let Some(container) = container(program, socket()) {
            let name = format!("{} in a container", program.display());
            self.judge(command(&container).arg(part), &name);
        }
    }

    /// Runs a part on the kernel of the service at `socket`, or without one on its own.
    fn run(&self, program: &Path, part: &str, socket: &Path) {
        let mut command = Command::new(program);
        let name = format!("{} on '{}'", program.display(), socket.display());
        self.judge(command.arg(part).env("TIDEGATE_SOCKET", socket), &name);
    }

    /// Runs a command and checks that it has passed.
    fn judge(&self, command: &mut Command, name: &str) {
        let output = command.output().unwrap();
        let (out, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let name = format!("{} {name}", self.source);
        assert!(output.status.success(), "{name}: {}\n{out}{errors}", output.status);
        assert!(out.contains("all checks hold"), "{out}");
    }
}

/// Returns a container that has a program, the library and the socket of a service; `None` if this
/// machine makes none.
fn container(program: &Path, socket: &Path) -> Option<Container> {
    let library = library();
    let container = Container::new()?.with(program, "program").with(socket, "socket");
    Some(container.with(&library, "libtidegate_d3dkmt.so.0"))
}

/// Returns the command that runs the program of a container.
fn command(container: &Container) -> Command {
    let mut command = container.command("/client/program");
    command.env("LD_LIBRARY_PATH", "/client").env("TIDEGATE_SOCKET", "/client/socket");
    command
}

static ARGUMENTS: Program = Program::new("cc", "arguments.c");
static FENCES: Program = Program::new("cc", "fences.c");
static QUEUES: Program = Program::new("cc", "queues.c");
static LEGACY: Program = Program::new("cc", "legacy.c");
static PROCESSES: Program = Program::new("cc", "processes.c");
static RESTART: Program = Program::new("cc", "restart.c");
static RESOURCES: Program = Program::new("cc", "resources.c");
static CLIENTS: Program = Program::new("cc", "clients.c");
static SAMPLE: Program = Program::new("cc", "sample.c");
static FORKS: Program = Program::new("cc", "forks.c");
static WINDOWS: Program = Program::new("cc", "windows.c");
static STREAM: Program = Program::new("cc", "stream.c");
static CLIENT: Program = Program::new("c++", "client.cpp");

// spec: UMS-022
#[test]
fn the_example_submits_without_a_call() {
    let example = Program::new("cc", "../../examples/store.c");
    let folder = tempfile::tempdir().unwrap();
    for program in example.make(folder.path()) {
        let on = |socket| {
            let mut command = Command::new(&program);
            command.env("TIDEGATE_SOCKET", socket);
            command
        };
        let contained = container(&program, socket());
        let contained = contained.as_ref().map(command);
        for mut command in [on(Path::new("")), on(socket())].into_iter().chain(contained) {
            let output = command.output().unwrap();
            let printed = String::from_utf8_lossy(&output.stdout);
            assert_eq!(printed, "the GPU wrote 42\n", "{output:?}");
        }
    }
}

#[test]
fn the_header_marks_its_extensions() {
    let folder = tempfile::tempdir().unwrap();
    for (compiler, file, languages) in [
        ("cc", "header.c", ["-std=c99", "-std=c11"]),
        ("c++", "header.cpp", ["-std=c++11", "-std=c++17"]),
    ] {
        let Some(compiler) = Compiler::find(compiler) else { continue };
        let source = folder.path().join(file);
        std::fs::write(&source, "#include <tidegate_d3dkmt.h>\n").unwrap();
        languages.iter().for_each(|language| compiler.check_pedantic(&source, language));
    }
}

#[test]
fn calls_without_arguments_are_refused() {
    ARGUMENTS.check("nothing");
}

#[test]
fn adapters_are_enumerated_and_opened() {
    ARGUMENTS.check("enumeration");
}

// spec: NF-073, NF-291, PRE-070, RES-013
#[test]
fn adapters_answer_queries() {
    ARGUMENTS.check("queries");
}

// spec: PRE-070
#[test]
fn adapters_of_other_kinds_answer_what_they_have() {
    let folder = tempfile::tempdir().unwrap();
    let programs = ARGUMENTS.make(folder.path());
    programs.iter().for_each(|program| ARGUMENTS.run(program, "variants", variants_socket()));
}

// spec: MF-002, MF-015
#[test]
fn fences_refuse_wrong_arguments() {
    ARGUMENTS.check("fences");
}

// spec: MF-092
#[test]
fn a_lost_device_says_so() {
    ARGUMENTS.check("loss");
}

// spec: MF-003, MF-082, MF-084, MF-090, MF-093
#[test]
fn monitored_fences_wait_and_signal() {
    FENCES.check("monitored");
}

#[test]
fn waits_for_any_and_all_fences() {
    FENCES.check("any-and-all");
}

// spec: NF-094, NF-095, NF-096, NF-097
#[test]
fn native_fences_are_made_and_opened() {
    FENCES.check("native");
}

// spec: MF-081, MF-087
#[test]
fn a_descriptor_names_a_shared_fence() {
    FENCES.check("sharing");
}

#[test]
fn a_name_finds_a_shared_fence() {
    FENCES.check("names");
}

#[test]
fn an_event_whose_counter_is_full_blocks_no_thread() {
    FENCES.check("full-event");
}

// spec: UMS-130, UMS-131, UMS-132, UMS-133, MF-091
#[test]
fn a_kernel_mode_queue_runs_commands() {
    QUEUES.check("kernel-mode");
}

// spec: UMS-022, UMS-023, UMS-024, NF-290
#[test]
fn a_user_mode_queue_runs_its_ring() {
    QUEUES.check("user-mode");
}

// spec: HS-010
#[test]
fn contexts_have_priorities() {
    QUEUES.check("priorities");
}

// spec: MF-083, MF-085, MF-086, MF-088, MF-089
#[test]
fn contexts_run_packets_between_waits_and_signals() {
    QUEUES.check("packets");
}

// spec: RES-011, RES-012
#[test]
fn allocations_become_resident() {
    QUEUES.check("residency");
}

#[test]
fn reserved_addresses_are_mapped_and_updated() {
    QUEUES.check("addresses");
}

#[test]
fn lost_devices_report_the_fault_and_the_reset() {
    QUEUES.check("faults");
}

#[test]
fn an_allocation_is_described_by_its_private_data() {
    QUEUES.check("descriptions");
}

#[test]
fn a_resource_ends_with_its_allocations() {
    QUEUES.check("resources");
}

#[test]
fn semaphores_count() {
    LEGACY.check("semaphores");
}

#[test]
fn mutexes_exclude() {
    LEGACY.check("mutexes");
}

#[test]
fn older_fences_and_events_are_signalled() {
    LEGACY.check("fences-and-events");
}

#[test]
fn older_objects_are_shared() {
    LEGACY.check("sharing");
}

#[test]
fn a_global_handle_names_a_mutex_in_another_process() {
    PROCESSES.check_served("mutex");
}

#[test]
fn a_mutex_of_a_killed_process_passes_on() {
    PROCESSES.check_served("killed-holder");
}

/// Also of one that has forked a child, which has exited before.
#[test]
fn the_work_of_a_program_that_returns_from_main_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let programs = PROCESSES.make(folder.path());
    programs.iter().for_each(|program| PROCESSES.run(program, "returns", patient_socket()));
}

#[test]
fn objects_outlive_their_killed_creator() {
    PROCESSES.check_served("killed-creator");
}

#[test]
fn a_global_handle_keeps_nothing_alive() {
    PROCESSES.check_served("last-instance");
}

#[test]
fn a_name_of_another_process_finds_its_fence() {
    PROCESSES.check_served("names");
}

#[test]
fn shared_resources_refuse_wrong_arguments() {
    RESOURCES.check("arguments");
}

#[test]
fn a_global_handle_names_a_shared_resource() {
    RESOURCES.check("global");
}

#[test]
fn a_descriptor_names_a_shared_resource() {
    RESOURCES.check("nt-handle");
}

#[test]
fn allocations_and_resources_have_priorities() {
    RESOURCES.check("priorities");
}

#[test]
fn a_query_says_where_allocations_are() {
    RESOURCES.check("residency");
}

#[test]
fn two_processes_see_the_contents_of_a_resource() {
    RESOURCES.check_served("between");
}

#[test]
fn a_resource_outlives_its_killed_creator() {
    RESOURCES.check_served("killed-creator");
}

// Source: microsoft/libdxgtest, src/main.cpp.
#[test]
fn the_tests_of_libdxgtest_pass() {
    CLIENTS.check("libdxgtest");
}

// Source: intel/compute-runtime, shared/source/os_interface/windows/wddm.
#[test]
fn a_context_of_the_packet_call_has_hardware_queues() {
    CLIENTS.check("compute-runtime");
}

#[test]
fn a_privileged_process_has_queues_without_a_timeout() {
    let folder = tempfile::tempdir().unwrap();
    for program in CLIENTS.make(folder.path()) {
        let mut command = Command::new(&program);
        command.arg("privileged").env_remove("TIDEGATE_SOCKET");
        for (setting, is_refused) in [("1", false), ("0", true)] {
            let output = command.env("TIDEGATE_MAY_RAISE_PRIORITY", setting).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.success(), !is_refused, "{setting}: {errors}");
            assert_eq!(errors.contains("0xc0000022"), is_refused, "{setting}: {errors}");
        }
    }
}

// Source: MicrosoftDocs/windows-driver-docs, display/user-mode-work-submission.
// spec: UMS-023, UMS-024
#[test]
fn the_loop_of_the_document_submits() {
    SAMPLE.check("submission");
}

// spec: NF-290
#[test]
fn a_driver_in_c_fills_and_reads_the_logs_of_its_queue() {
    SAMPLE.check("logs");
}

/// A new queue begins with an empty ring.
#[test]
fn one_process_runs_both_parts_of_the_sample() {
    let folder = tempfile::tempdir().unwrap();
    for program in SAMPLE.make(folder.path()) {
        SAMPLE.judge(Command::new(&program).env("TIDEGATE_SOCKET", ""), "all parts");
    }
}

#[test]
fn a_forked_child_is_refused() {
    FORKS.check("all");
}

/// Without AddressSanitizer, whose allocator keeps a lock that a thread had at the fork.
#[test]
fn a_child_that_is_forked_in_a_first_call_waits_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for program in FORKS.make(folder.path()).iter().take(1) {
        FORKS.run(program, "starting", Path::new(""));
        FORKS.run(program, "starting", socket());
    }
}

// Source: wine-mirror/wine, dlls/win32u/tests/d3dkmt.c, test_D3DKMTCreateSynchronizationObject.
#[test]
fn synchronisation_objects_are_created_as_on_windows() {
    WINDOWS.check("objects");
}

// Source: wine-mirror/wine, dlls/win32u/tests/d3dkmt.c, test_D3DKMTQueryVideoMemoryInfo.
#[test]
fn memory_is_queried_for_a_process() {
    WINDOWS.check("memory-info");
}

// Source: microsoft/libdxg, src/d3dkmt-wsl.cpp.
#[test]
fn closing_the_device_of_libdxg_ends_all_objects() {
    WINDOWS.check("close");
}

// Source: wine-mirror/wine, dlls/win32u/tests/d3dkmt.c, test_D3DKMTShareObjects.
#[test]
fn names_and_rights_are_those_of_windows() {
    WINDOWS.check("names");
}

// Source: wine-mirror/wine, dlls/win32u/tests/d3dkmt.c, test_D3DKMTCreateAllocation.
#[test]
fn memory_of_the_program_becomes_an_allocation() {
    WINDOWS.check("allocations");
}

// Source: wine-mirror/wine, dlls/win32u/tests/d3dkmt.c, test_D3DKMTCreateKeyedMutex.
#[test]
fn keyed_mutexes_are_made_and_opened_as_on_windows() {
    WINDOWS.check("keyed-mutexes");
}

#[test]
fn a_key_admits_the_next_owner_of_a_mutex() {
    WINDOWS.check("keys");
}

// Source: wine-mirror/wine, dlls/win32u/tests/d3dkmt.c, test_D3DKMTShareObjects.
#[test]
fn one_handle_names_a_resource_with_its_mutexes() {
    WINDOWS.check("combined");
}

#[test]
fn two_processes_pass_a_keyed_mutex_between_them() {
    PROCESSES.check_served("keyed-mutex");
}

#[test]
fn a_killed_owner_abandons_its_keyed_mutex() {
    PROCESSES.check_served("killed-owner");
}

#[test]
fn each_lock_has_one_unlock() {
    WINDOWS.check("locks");
}

/// A program in a container knows the socket only. Its submissions are stores: 2,000 of them make
/// as many calls as one. An engine that sleeps is woken by a message, which is counted apart.
// spec: UMS-191
#[test]
fn a_container_submits_without_a_message() {
    let folder = tempfile::tempdir().unwrap();
    for program in STREAM.make(folder.path()) {
        let serve = |folder: &Path| restart::service_command(&folder.join("socket"));
        let service = ServiceProcess::start(serve);
        let Some(container) = container(&program, &service.socket()) else { return };
        let calls = |submissions: &str| {
            let before = service.counter("calls_total");
            STREAM.judge(command(&container).arg(submissions), "in a container");
            service.until_left(usize::MAX);
            service.counter("calls_total") - before
        };
        let (once, often) = (calls("1"), calls("2000"));
        assert!(once > 0 && once == often, "{once} calls, and {often} for 2,000 submissions");
    }
}

/// An event is a descriptor, which is recognised without `/proc`.
#[test]
fn a_container_needs_no_proc() {
    let folder = tempfile::tempdir().unwrap();
    let programs = FENCES.make(folder.path());
    // AddressSanitizer reads `/proc`.
    let Some(plain) = programs.first() else { return };
    let Some(container) = container(plain, socket()) else { return };
    let container = container.without_proc();
    for part in ["monitored", "any-and-all", "full-event"] {
        FENCES.judge(command(&container).arg(part), "without /proc");
    }
}

#[test]
fn each_program_of_the_folder_is_a_test() {
    let programs = [
        &ARGUMENTS, &FENCES, &QUEUES, &LEGACY, &PROCESSES, &RESTART, &RESOURCES, &CLIENTS, &SAMPLE,
        &FORKS, &WINDOWS, &STREAM, &CLIENT,
    ];
    let sources = std::fs::read_dir(root().join("tests/c")).unwrap();
    for source in sources.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        let is_known = programs.iter().any(|program| program.source == source);
        assert!(source.ends_with(".h") || is_known, "{source} is in no test");
    }
}

#[test]
fn a_client_outlives_its_service() {
    let folder = tempfile::tempdir().unwrap();
    RESTART.make(folder.path()).iter().for_each(|client| restart::check(client, folder.path()));
}

#[test]
fn threads_of_a_cpp_client_pass_a_turn() {
    CLIENT.check("all");
}
