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
//! | `messages` | the socket of a service: messages, files and shared memory |
//! | `guests` | the memory that a virtual machine has as a BAR |
//! | `library` | the C library: names, structures, addresses, descriptors |
//!
//! After an input no thread has panicked or hangs, the neighbour's work is complete, its device and
//! memory are unaffected, the adapter has detected no broken contract, a process that faulted has
//! lost its device with a reason, and nothing of the process is left. Otherwise the target panics.
//! Inputs run in virtual time on one thread, several on one machine ([`Series`]), so failures are
//! reproducible ([`recorded_inputs`], [`replay`]). Those of `messages` and `guests` run beside the
//! threads of a service, those of `library` beside the engines of the library's machine.
//!
//! Rooms: `input` (bytes to choices) · `neighbour` (the process that must not be affected) ·
//! `client` (the hostile process) · `census` (what is left) · `served` (a machine behind a socket)
//! · `series` (the machines) · `targets`. Callers: the fuzzer (`bin/libfuzzer.rs`) and a test that
//! runs the corpus.

mod any;
mod c_library;
mod census;
mod client;
mod input;
mod neighbour;
mod series;
mod served;
mod targets;

pub use series::Series;

use series::Doorbells;

/// The environment variable that selects the target.
pub const TARGET_VARIABLE: &str = "TIDEGATE_FUZZ_TARGET";

/// The environment variable that names the file to which a harmful input is written with those
/// before it on its machine.
pub const SERIES_VARIABLE: &str = "TIDEGATE_FUZZ_SERIES";

/// A fuzz target: a surface, and the function that feeds it hostile bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Lower-case name, also of the corpus folder.
    pub name: &'static str,
    /// One-line description.
    pub about: &'static str,
    /// Number of different machines on which an input can run, at least 1.
    pub machines: usize,
    act: fn(&mut Series, &[u8]),
}

impl Target {
    /// Runs one input of `series`. Panics if the input does harm.
    pub fn run(&self, series: &mut Series, data: &[u8]) {
        series.begin_input(data);
        (self.act)(series, data);
    }
}

/// All targets, in the order of the table above.
pub const TARGETS: [Target; 10] = [
    Target {
        name: "packets",
        about: "decoders of ring slots, commands and log words",
        machines: 1,
        act: |_, data| targets::packets::run(data),
    },
    Target {
        name: "queue",
        about: "ring, control area, doorbell and last-queued cell of a live user-mode queue",
        machines: Doorbells::Any.machines(),
        act: targets::queue::run,
    },
    Target {
        name: "commands",
        about: "command buffers, on every engine and in every submission model",
        machines: Doorbells::Enough.machines(),
        act: targets::commands::run,
    },
    Target {
        name: "logs",
        about: "log payloads, overwritten by commands of the process and read by the kernel",
        machines: Doorbells::Enough.machines(),
        act: targets::logs::run,
    },
    Target {
        name: "calls",
        about: "handles and arguments of kernel calls",
        machines: Doorbells::Any.machines(),
        act: targets::calls::run,
    },
    Target {
        name: "unsteady",
        about: "process memory that changes between two reads by the hardware, in any schedule",
        machines: 1,
        act: |_, data| targets::unsteady::run(data),
    },
    Target {
        name: "files",
        about: "workload files and recorded traces",
        machines: 1,
        act: |_, data| targets::files::run(data),
    },
    Target {
        name: "messages",
        about: "the socket of a service: messages, files and shared memory",
        machines: 1,
        act: targets::messages::run,
    },
    Target {
        name: "guests",
        about: "the memory that a virtual machine has as a BAR",
        machines: 1,
        act: targets::guests::run,
    },
    Target {
        name: "library",
        about: "the C library: names, structures, addresses, descriptors",
        machines: 1,
        act: targets::library::run,
    },
];

/// Returns the target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Returns the inputs of `target` that the thread has run since its present machine was built, for
/// [`replay`].
pub fn recorded_inputs(target: &Target) -> Vec<u8> {
    let (machine, inputs) = series::inputs_of_machine();
    let mut bytes = format!("{} {machine}\n", target.name).into_bytes();
    for input in inputs {
        bytes.extend_from_slice(&(input.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&input);
    }
    bytes
}

/// Runs the inputs of [`recorded_inputs`] again. Returns their number; `None` if they are damaged.
/// Panics if one does harm.
pub fn replay(recorded: &[u8]) -> Option<usize> {
    let line = recorded.iter().position(|byte| *byte == b'\n')?;
    let (name, machine) = std::str::from_utf8(&recorded[..line]).ok()?.split_once(' ')?;
    let (target, mut series) = (find(name)?, Series::new(machine.parse().ok()?));
    let (mut rest, mut count) = (&recorded[line + 1..], 0);
    while let Some((len, after)) = rest.split_first_chunk() {
        let (input, after) = after.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        target.run(&mut series, input);
        (rest, count) = (after, count + 1);
    }
    rest.is_empty().then_some(count)
}
