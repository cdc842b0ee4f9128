//! Hostile clients: one fuzz target per surface that an untrusted process can write or call.
//!
//! | target | surface |
//! |---|---|
//! | `packets` | decoders of ring slots, commands and log words |
//! | `queue` | ring, control area, doorbell and last-queued cell of a live user-mode queue |
//! | `commands` | command buffers, on every engine and in every submission model |
//! | `logs` | log payloads, overwritten by commands of the process and read by the kernel |
//! | `calls` | handles and arguments of kernel calls |
//! | `unsteady` | process memory that changes between two reads by the hardware, in any schedule |
//! | `files` | workload files and recorded traces |
//!
//! After a run no thread has panicked or hangs, the neighbour's work is complete, its device and
//! memory are unaffected, the adapter has detected no broken contract, and a process that faulted
//! has lost its device with a reason. Otherwise the target panics. Targets run in virtual time on
//! one thread, so failures are reproducible.
//!
//! Rooms: `input` (bytes to choices) · `neighbour` (the machine and the process that must not be
//! affected) · `client` (the hostile process) · `targets`. Callers: the fuzzer (`bin/libfuzzer.rs`)
//! and a test that runs the corpus.

mod client;
mod input;
mod neighbour;
mod targets;

/// The environment variable that selects the target.
pub const TARGET_VARIABLE: &str = "TIDEGATE_FUZZ_TARGET";

/// A fuzz target: a surface, and the function that feeds it hostile bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Lower-case name, which is also that of the corpus folder.
    pub name: &'static str,
    /// One-line description.
    pub about: &'static str,
    /// Runs one input. Panics if the input does harm.
    pub run: fn(&[u8]),
}

/// All targets, in the order of the table above.
pub const TARGETS: [Target; 7] = [
    Target {
        name: "packets",
        about: "decoders of ring slots, commands and log words",
        run: targets::packets::run,
    },
    Target {
        name: "queue",
        about: "ring, control area, doorbell and last-queued cell of a live user-mode queue",
        run: targets::queue::run,
    },
    Target {
        name: "commands",
        about: "command buffers, on every engine and in every submission model",
        run: targets::commands::run,
    },
    Target {
        name: "logs",
        about: "log payloads, overwritten by commands of the process and read by the kernel",
        run: targets::logs::run,
    },
    Target {
        name: "calls",
        about: "handles and arguments of kernel calls",
        run: targets::calls::run,
    },
    Target {
        name: "unsteady",
        about: "process memory that changes between two reads by the hardware, in any schedule",
        run: targets::unsteady::run,
    },
    Target { name: "files", about: "workload files and recorded traces", run: targets::files::run },
];

/// Returns the target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
