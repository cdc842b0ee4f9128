//! The eight rows that a user runs: `submit` (a submission of each model, a doorbell that is
//! connected) · `wake` (a thread that waits) · `virtual_time` · `import`.

mod import;
pub mod submit;
pub mod virtual_time;
pub mod wake;

use crate::floors;
use crate::row::{Row, floor, row};
use tidegate::Submission;

/// The latency of one submission, and of a GPU signal that the CPU waits for.
pub const DOORBELL: Row = row(
    "doorbell_to_fence_seen",
    "user-mode queue: one packet, doorbell, engine, the fence seen by a spinning client",
    floor("doorbell_round_trip", floors::doorbell_round_trip),
    |_| submit::doorbells(),
);

/// Submissions in a second, of each model: what an engine's author asks first.
pub const STREAM: Row = row(
    "submissions_streamed",
    "one of many command buffers through a user-mode queue: queued value, packet, doorbell, progress fence",
    floor("streamed_packet", floors::streamed_packet),
    |scale| submit::stream(Submission::User, scale),
);

/// The same by a kernel call for each.
pub const STREAM_HARDWARE: Row = row(
    "submissions_hardware",
    "the same through a hardware queue: a call of the kernel for each",
    floor("streamed_packet", floors::streamed_packet),
    |scale| submit::stream(Submission::Hardware, scale),
);

/// The same by the kernel's scheduler.
pub const STREAM_PACKET: Row = row(
    "submissions_packet",
    "the same through the kernel's software queue, which the scheduler feeds to the engine",
    floor("streamed_packet", floors::streamed_packet),
    |scale| submit::stream(Submission::Packet, scale),
);

/// What a thread pays that blocks on a native fence: interrupt, deferred routine, wake-up.
pub const WAKE: Row = row(
    "wake_parked_thread",
    "from an engine's signal to the thread that was parked on the fence, on the other processor",
    floor("wake_to_run", floors::wake_to_run),
    wake::parked,
);

/// What a program pays that has more queues than the GPU has doorbells.
pub const RECONNECT: Row = row(
    "reconnect_victim",
    "a signal call of a queue whose doorbell was victimised: the call connects it again",
    floor("message_there_and_back", floors::message_there_and_back),
    submit::reconnect,
);

/// How fast a workload is simulated.
pub const EVENTS: Row = row(
    "virtual_time_events",
    "one agent turn of a machine of 48 engines in virtual time: submit, work, signal, interrupt, wait",
    floor("heap_of_48", || floors::heap_of(u64::from(virtual_time::NODES))),
    |scale| virtual_time::events(virtual_time::NODES, 150, scale),
)
.as_rate();

/// How fast a recording is read.
pub const IMPORT: Row = row(
    "import_kineto",
    "one event of a PyTorch profile that becomes a workload",
    floor("json_skipped", import::json_skipped),
    import::kineto,
)
.as_rate();

/// What a user's own program pays, in the order of a first look.
pub const ROWS: &[Row] =
    &[DOORBELL, STREAM, STREAM_HARDWARE, STREAM_PACKET, WAKE, RECONNECT, EVENTS, IMPORT];
