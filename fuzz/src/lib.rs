//! Hostile clients: what an untrusted process can write or call, each surface with a target that
//! takes it from bytes.
//!
//! | target | surface |
//! |---|---|
//! | `packets` | ring slots, commands and log words as they are decoded |
//! | `queue` | ring, control area, doorbell and last-queued cell of a live user-mode queue |
//! | `commands` | command buffers, on every engine and by every submission model |
//! | `logs` | log payloads, which commands of the process overwrite and the kernel reads |
//! | `calls` | handles and arguments of the kernel's calls |
//! | `unsteady` | all that the hardware reads of a process, changing between two looks, under any schedule |
//! | `files` | workload files and recorded traces |
//!
//! A target panics unless all of this holds: no thread panics or hangs, the neighbour's work gets
//! its results, its device and its memory stay as they are, the adapter sees no broken contract,
//! and a process that faults loses its device with a reason. Targets run in virtual time on one
//! thread, so an input that fails once fails always.
//!
//! Rooms: `input` (bytes into choices) · `neighbour` (the machine, and the process that must notice
//! nothing) · `client` (the hostile process) · `targets`. Called by the fuzzer (`bin/libfuzzer.rs`)
//! and, with every input of the corpus, by an ordinary test.

mod client;
mod input;
mod neighbour;
mod targets;

/// The environment variable that names the target to the fuzzer.
pub const TARGET_VARIABLE: &str = "TIDEGATE_FUZZ_TARGET";

/// A surface, and what is done with bytes that a process may have put there.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// In lower case: it names the folder of its corpus, too.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// Does it. Panics when the input does harm.
    pub run: fn(&[u8]),
}

/// All of them, in the order of the table above.
pub const TARGETS: [Target; 7] = [
    Target {
        name: "packets",
        about: "ring slots, commands and log words as they are decoded",
        run: targets::packets::run,
    },
    Target {
        name: "queue",
        about: "ring, control area, doorbell and last-queued cell of a live user-mode queue",
        run: targets::queue::run,
    },
    Target {
        name: "commands",
        about: "command buffers, on every engine and by every submission model",
        run: targets::commands::run,
    },
    Target {
        name: "logs",
        about: "log payloads, which commands of the process overwrite and the kernel reads",
        run: targets::logs::run,
    },
    Target {
        name: "calls",
        about: "handles and arguments of the kernel's calls",
        run: targets::calls::run,
    },
    Target {
        name: "unsteady",
        about: "all that the hardware reads of a process, changing between two looks, under any schedule",
        run: targets::unsteady::run,
    },
    Target { name: "files", about: "workload files and recorded traces", run: targets::files::run },
];

/// The target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
