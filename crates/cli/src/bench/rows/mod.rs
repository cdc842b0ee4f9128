//! The table of rows: measurement, floor and goal of each.
//!
//! Rooms: `submit` (doorbells and streams) · `signal` (signals without a waiter) · `wake` (a parked
//! thread) · `wake_costs` (interrupts) · `link` (engine to engine) · `chain` (many links) ·
//! `engines` (queues of several engines) · `preemption` · `cross_adapter` · `release` (one of many
//! events) · `waiters` (one of many tasks or threads) · `idle` (idle queues) · `processes` (clients
//! of a `service` in another process) · `memory` (copies and programs) · `explore` · `seam` ·
//! `swarm` · `virtual_time` · `api` (single calls, many objects) · `growth` (for curves) · `setup`
//! (the machine under measurement).

mod api;
mod chain;
mod cross_adapter;
mod engines;
pub(super) mod explore;
pub(super) mod growth;
mod idle;
mod link;
mod memory;
pub(super) mod preemption;
pub(super) mod processes;
mod release;
mod seam;
pub(super) mod service;
pub(super) mod setup;
pub(super) mod signal;
pub(super) mod submit;
mod swarm;
pub(super) mod virtual_time;
pub(super) mod waiters;
mod wake;
pub(super) mod wake_costs;

use super::floors;
use super::measure::{Measured, Trouble};
use super::row::{Counterpart, Goal, Row, Unit, floor, lavapipe, own, pocl, pure};
use super::sizes::{
    CALLS, COPIES_IN_A_LIST, COPY_COMMAND_BYTES, FENCES, FEW_FENCES, LISTS, LONG_LISTS,
    LONG_STREAM, NODES, QUEUES, SCHEDULES, STREAM, TRIPS, VERDICTS, WAKES,
};
use cross_adapter::Form;
use engines::Queues;
use tidegate::d3d12::EnginePolicy;

/// The machine of single operations, with rings for tens of thousands of them.
pub(super) fn operation_setup(fence_logs: bool) -> Result<setup::Setup, Trouble> {
    const SLOTS: u64 = 1 << 17;
    setup::Setup::new(setup::Shape { ring_slots: SLOTS, fence_logs, ..setup::Shape::default() })
}

fn chain(form: Form) -> Result<Measured, Trouble> {
    own(move || cross_adapter::measure(form))
}

fn engines_of(queues: Queues, policy: EnginePolicy) -> Result<Measured, Trouble> {
    own(move || engines::measure(queues, policy))
}

/// Of the rows of several engines: with both met, `EnginePolicy::ByCommands` could be the default
/// (`decisions/0082`).
const NO_WORSE: Goal = Goal::TimesFloor(1.0);

/// Of every row that starts beside long packets, however long they are.
const PREEMPTION: Goal = Goal::TimesFloorOr(4.0, 2_000.0);

/// The rows by group. Within a pass they are measured in this order.
const GROUPS: &[&[Row]] = &[
    ROWS,
    signal::ROWS,
    chain::ROWS,
    wake_costs::ROWS,
    waiters::ROWS,
    idle::ROWS,
    processes::ROWS,
    virtual_time::ROWS,
    explore::ROWS,
    swarm::ROWS,
];

/// All rows, in the order in which they are measured and shown.
pub(super) fn all_rows() -> impl Iterator<Item = &'static Row> {
    GROUPS.iter().flat_map(|rows| rows.iter())
}

/// Rows of single steps, and of the queue API.
const ROWS: &[Row] = &[
    Row {
        name: "doorbell_to_fence_seen",
        about: "user-mode queue: one packet, doorbell, engine, the fence seen by a spinning client",
        unit: Unit::Time,
        floor: floor("doorbell_round_trip", floors::doorbell_round_trip),
        goal: Goal::TimesFloor(1.5),
        measure: |_| own(submit::measure_doorbell),
        peers: &[
            lavapipe("submit_wait", "vkQueueSubmit without a list, vkWaitSemaphores", TRIPS),
            lavapipe("submit_wait_list", "the same with an empty command buffer", TRIPS),
            lavapipe(
                "submit_wait_list_other_cpu",
                "the same with the driver's threads on the other processor",
                TRIPS,
            ),
            pocl("ndrange_wait", "clEnqueueNDRangeKernel of one item, clWaitForEvents", TRIPS),
            pure("parking_lot", "fence_round_trip", "Condvar there and back", TRIPS),
            pure("rtrb", "round_trip", "64 bytes there and back, both ends poll", TRIPS),
            pure("crossbeam", "round_trip", "64 bytes there and back, try_recv", TRIPS),
        ],
    },
    Row {
        name: "submissions_streamed",
        about: "one of many command buffers through a user-mode queue: queued value, packet, doorbell, progress fence",
        unit: Unit::Time,
        floor: floor("streamed_packet", floors::streamed_packet),
        goal: Goal::TimesFloor(5.0),
        measure: |_| own(submit::measure_stream),
        peers: &[
            lavapipe("submit_stream", "vkQueueSubmit without a list, one wait at the end", STREAM),
            pure("rtrb", "stream", "64 bytes through a ring", LONG_STREAM),
            pure(
                "crossbeam",
                "crossbeam_stream",
                "64 bytes through a bounded channel",
                LONG_STREAM,
            ),
        ],
    },
    Row {
        name: "submissions_streamed_on_one_processor",
        about: "the same with client and engines on one processor: neither may keep it from the other",
        unit: Unit::Time,
        floor: floor("on_two_processors", || own(submit::measure_stream).map(|m| m.samples)),
        goal: Goal::TimesFloor(4.0),
        measure: |_| own(submit::measure_stream_on_one_processor),
        peers: &[],
    },
    Row {
        name: "signal_unwaited",
        about: "an engine's signal packet without a waiter, fetch and decode included, no log",
        unit: Unit::Time,
        floor: floor("unlogged_signal", floors::unlogged_signal),
        goal: Goal::TimesFloor(1.5),
        measure: |_| own(|| signal::measure(false)),
        peers: &[
            lavapipe("host_signal", "vkSignalSemaphore", CALLS),
            pure("parking_lot", "condvar_unwaited", "a value behind a Mutex, notify_all", CALLS),
            pure("std", "std_condvar_unwaited", "a value behind a Mutex, notify_all", CALLS),
            pure("event-listener", "listener_unwaited", "a value, Event::notify", CALLS),
            pure("tokio", "watch_unwaited", "watch::Sender::send", CALLS),
        ],
    },
    Row {
        name: "signal_unwaited_logged",
        about: "the same with a fence log entry",
        unit: Unit::Time,
        floor: floor("logged_signal", floors::logged_signal),
        goal: Goal::TimesFloor(1.5),
        measure: |_| own(|| signal::measure(true)),
        peers: &[],
    },
    Row {
        name: "wake_parked_thread",
        about: "from an engine's signal to the thread that was parked on the fence, on the other processor",
        unit: Unit::Time,
        floor: floor("wake_to_run", floors::wake_to_run),
        goal: Goal::TimesFloor(1.15),
        measure: |scale| own(move || wake::measure(scale)),
        peers: &[],
    },
    Row {
        name: "link_one_thread",
        about: "one wait and signal of a chain that alternates between two engines of one service thread, logged",
        unit: Unit::Time,
        floor: floor("logged_signal", floors::logged_signal),
        goal: Goal::TimesFloor(6.0),
        measure: |_| own(|| link::measure(1)),
        peers: &[],
    },
    Row {
        name: "link_two_threads",
        about: "the same with the two engines on two processors",
        unit: Unit::Time,
        floor: floor("line_one_way", floors::line_one_way),
        goal: Goal::TimesFloor(3.0),
        measure: |_| own(|| link::measure(2)),
        peers: &[],
    },
    Row {
        name: "cross_adapter_gpu_to_gpu",
        about: "one wait and signal of a chain that alternates between two adapters whose GPUs signal each other",
        unit: Unit::Time,
        floor: floor("same_adapter_link", || chain(Form::SameAdapter).map(|m| m.samples)),
        goal: Goal::TimesFloor(1.5),
        measure: |_| chain(Form::GpuToGpu),
        peers: &[],
    },
    Row {
        name: "cross_adapter_by_cpu",
        about: "the same where the kernel propagates: interrupt, deferred routine, relay to the other adapter",
        unit: Unit::Time,
        floor: floor("gpu_to_gpu_link", || chain(Form::GpuToGpu).map(|m| m.samples)),
        goal: Goal::TimesFloor(10.0),
        measure: |_| chain(Form::ByCpu),
        peers: &[],
    },
    Row {
        name: "engines_of_one_queue",
        about: "a dispatch and a copy of 32 KiB in turn on one queue that gives them to two engines",
        unit: Unit::Time,
        floor: floor("on_its_own_engine", || {
            engines_of(Queues::One, EnginePolicy::Own).map(|m| m.samples)
        }),
        goal: NO_WORSE,
        measure: |_| engines_of(Queues::One, EnginePolicy::ByCommands),
        peers: &[],
    },
    Row {
        name: "engines_of_two_queues",
        about: "the same with a queue for the dispatches and one for the copies",
        unit: Unit::Time,
        floor: floor("on_one_engine", || {
            engines_of(Queues::Two, EnginePolicy::Own).map(|m| m.samples)
        }),
        goal: NO_WORSE,
        measure: |_| engines_of(Queues::Two, EnginePolicy::ByCommands),
        peers: &[],
    },
    Row {
        name: "preempt_10us",
        about: "doorbell of a high-priority queue to its packet's fence, on an engine that is busy with packets of 10 µs",
        unit: Unit::Time,
        floor: floor("idle_doorbell_to_start", preemption::idle_doorbell_to_start),
        goal: PREEMPTION,
        measure: |_| own(|| preemption::start_beside(10_000)),
        peers: &[],
    },
    Row {
        name: "preempt_100us",
        about: "the same beside packets of 100 µs",
        unit: Unit::Time,
        floor: floor("idle_doorbell_to_start", preemption::idle_doorbell_to_start),
        goal: PREEMPTION,
        measure: |_| own(|| preemption::start_beside(100_000)),
        peers: &[],
    },
    Row {
        name: "preempt_1ms",
        about: "the same beside packets of 1 ms",
        unit: Unit::Time,
        floor: floor("idle_doorbell_to_start", preemption::idle_doorbell_to_start),
        goal: PREEMPTION,
        measure: |_| own(|| preemption::start_beside(1_000_000)),
        peers: &[],
    },
    Row {
        name: "preempt_1s",
        about: "the same beside packets of 1 s",
        unit: Unit::Time,
        floor: floor("idle_doorbell_to_start", preemption::idle_doorbell_to_start),
        goal: PREEMPTION,
        measure: |_| own(|| preemption::start_beside(1_000_000_000)),
        peers: &[],
    },
    Row {
        name: "preempted_1000_times_a_second",
        about: "one low-priority packet of 1,600 thread groups, with the engine taken away from it once a millisecond",
        unit: Unit::Time,
        floor: floor("undisturbed_packet", preemption::undisturbed),
        goal: Goal::TimesFloor(1.05),
        measure: |_| preemption::loss(),
        peers: &[],
    },
    Row {
        name: "release_1_of_10",
        about: "a CPU signal that releases one of 10 waiting events",
        unit: Unit::Time,
        floor: floor("ordered_release_of_10", || floors::ordered_release(10)),
        goal: Goal::TimesFloor(1.5),
        measure: |_| own(|| release::by_cpu(10)),
        peers: &[],
    },
    Row {
        name: "release_1_of_100000",
        about: "a CPU signal that releases one of 100,000 waiting events",
        unit: Unit::Time,
        floor: floor("ordered_release_of_100000", || floors::ordered_release(100_000)),
        goal: Goal::TimesFloor(1.5),
        measure: |_| own(|| release::by_cpu(100_000)),
        peers: &[],
    },
    Row {
        name: "interrupt_release_1_of_10",
        about: "doorbell, GPU signal, interrupt, one of 10 waiting events set and seen",
        unit: Unit::Time,
        floor: floor("doorbell_and_release_of_10", || floors::round_trip_with_release(10)),
        goal: Goal::TimesFloor(1.5),
        measure: |_| own(|| release::by_interrupt(10)),
        peers: &[],
    },
    Row {
        name: "interrupt_release_1_of_100000",
        about: "doorbell, GPU signal, interrupt, one of 100,000 waiting events set and seen",
        unit: Unit::Time,
        floor: floor("doorbell_and_release_of_100000", || floors::round_trip_with_release(100_000)),
        goal: Goal::TimesFloor(1.5),
        measure: |_| own(|| release::by_interrupt(100_000)),
        peers: &[],
    },
    Row {
        name: "litmus_schedules",
        about: "one random schedule of the litmus pair, store buffers on",
        unit: Unit::Rate,
        floor: floor("empty_schedule", explore::empty_schedules),
        goal: Goal::PerSecond(2_000_000.0),
        measure: |_| explore::litmus_schedules(),
        peers: &[
            pure("shuttle", "schedules", "random schedules, no store buffers", SCHEDULES),
            pure("loom", "executions", "executions of the pair with C11 atomics", SCHEDULES),
        ],
    },
    Row {
        name: "seven_stations_schedules",
        about: "one random schedule of the whole stack: submission, signal, interrupt, wait",
        unit: Unit::Rate,
        floor: floor("empty_schedule", explore::empty_schedules),
        goal: Goal::PerSecond(50_000.0),
        measure: |_| explore::seven_stations_schedules(),
        peers: &[],
    },
    Row {
        name: "litmus_verdict",
        about: "the litmus protocol with two fences of seven values each, every state, to the verdict",
        unit: Unit::Time,
        floor: floor("packed_search", floors::packed_search),
        goal: Goal::TimesFloor(0.4),
        measure: |_| explore::litmus_verdict(),
        peers: &[
            pure("stateright", "verdict", "depth-first search of a model of it", VERDICTS),
            pure(
                "spin",
                "spin_verdict",
                "depth-first search with partial-order reduction",
                VERDICTS,
            ),
        ],
    },
    Row {
        name: "seam_word",
        about: "store, full barrier and load through the seam",
        unit: Unit::Time,
        floor: floor("store_fence_load", floors::store_fence_load),
        goal: Goal::TimesFloor(1.1),
        measure: |_| seam::word(),
        peers: &[],
    },
    Row {
        name: "virtual_time_events",
        about: "one agent turn of a machine of 48 engines in virtual time: submit, work, signal, interrupt, wait",
        unit: Unit::Rate,
        floor: floor("heap_of_48", || floors::heap_of(u64::from(NODES))),
        goal: Goal::TimesFloor(6.0),
        measure: |scale| virtual_time::events(NODES, virtual_time::ROUNDS, scale),
        peers: &[],
    },
    Row {
        name: "copy_engine_1mib",
        about: "a copy of 1 MiB by the copy engine, submitted and waited for",
        unit: Unit::Time,
        floor: floor("memcpy_1mib", memory::memcpy),
        goal: Goal::TimesFloor(2.0),
        measure: |_| own(memory::copies),
        peers: &[],
    },
    Row {
        name: "program_saxpy_1mi",
        about: "a dispatch of saxpy over 1,048,576 numbers, which memory bounds",
        unit: Unit::Time,
        floor: floor("saxpy_of_slices", memory::saxpy_of_slices),
        goal: Goal::TimesFloor(2.0),
        measure: |_| own(memory::saxpy),
        peers: &[],
    },
    Row {
        name: "program_convolution_512",
        about: "a dispatch of a 5x5 filter over 512x512 pixels, which arithmetic bounds",
        unit: Unit::Time,
        floor: floor("convolution_of_slices", memory::convolution_of_slices),
        goal: Goal::TimesFloor(2.0),
        measure: |_| own(memory::convolution),
        peers: &[],
    },
    Row {
        name: "api_list_empty",
        about: "one call each: record, close and execute an empty list on a user-mode queue",
        unit: Unit::Time,
        floor: floor("published_8_bytes", || floors::published_commands(8)),
        goal: Goal::TimesFloor(10.0),
        measure: |scale| own(move || api::empty_list(LISTS.scaled(scale))),
        peers: &[lavapipe(
            "api_list_empty",
            "vkBeginCommandBuffer, vkEndCommandBuffer, vkQueueSubmit",
            LISTS,
        )],
    },
    Row {
        name: "api_list_100_copies",
        about: "the same with 100 copies in the list",
        unit: Unit::Time,
        floor: floor("published_3200_bytes", || {
            floors::published_commands(COPIES_IN_A_LIST as usize * COPY_COMMAND_BYTES)
        }),
        goal: Goal::TimesFloor(10.0),
        measure: |scale| own(move || api::list_of_copies(LONG_LISTS.scaled(scale))),
        peers: &[lavapipe("api_list_100_copies", "the same with 100 vkCmdCopyBuffer", LONG_LISTS)],
    },
    Row {
        name: "api_queue_signal",
        about: "a signal of a user-mode queue, until the call returns",
        unit: Unit::Time,
        floor: floor("published_packet", floors::published_packet),
        goal: Goal::TimesFloor(5.0),
        measure: |scale| own(move || api::queue_signal(CALLS.scaled(scale))),
        peers: &[lavapipe(
            "api_queue_signal",
            "vkQueueSubmit that signals a timeline semaphore",
            CALLS,
        )],
    },
    Row {
        name: "api_queue_wait",
        about: "a wait of a user-mode queue, for a value that is reached, until the call returns",
        unit: Unit::Time,
        floor: floor("published_packet", floors::published_packet),
        goal: Goal::TimesFloor(5.0),
        measure: |scale| own(move || api::queue_wait(CALLS.scaled(scale))),
        peers: &[lavapipe(
            "api_queue_wait",
            "vkQueueSubmit that waits for a timeline semaphore",
            CALLS,
        )],
    },
    Row {
        name: "api_cpu_signal",
        about: "a signal of a fence by the CPU, for which nothing waits",
        unit: Unit::Time,
        floor: floor("unlogged_signal", floors::unlogged_signal),
        goal: Goal::TimesFloor(50.0),
        measure: |scale| own(move || api::cpu_signal(CALLS.scaled(scale))),
        peers: &[lavapipe("api_cpu_signal", "vkSignalSemaphore", CALLS)],
    },
    Row {
        name: "api_cpu_wait_reached",
        about: "a wait of a thread for a value that is reached",
        unit: Unit::Time,
        floor: floor("loaded_word", floors::loaded_word),
        goal: Goal::TimesFloor(20.0),
        measure: |scale| own(move || api::cpu_wait(CALLS.scaled(scale))),
        peers: &[lavapipe("api_cpu_wait_reached", "vkWaitSemaphores", CALLS)],
    },
    Row {
        name: "api_completed_value",
        about: "a read of a fence's value",
        unit: Unit::Time,
        floor: floor("loaded_word", floors::loaded_word),
        goal: Goal::TimesFloor(10.0),
        measure: |scale| own(move || api::completed_value(CALLS.scaled(scale))),
        peers: &[lavapipe("api_completed_value", "vkGetSemaphoreCounterValue", CALLS)],
    },
    Row {
        name: "api_event_registration",
        about: "an event that a fence is to set at a value, until the call returns",
        unit: Unit::Time,
        floor: floor("ordered_insert", floors::ordered_insert),
        goal: Goal::TimesFloor(10.0),
        measure: |scale| own(move || api::event_registration(CALLS.scaled(scale))),
        peers: &[Counterpart::None("a wait of Vulkan blocks its thread")],
    },
    Row {
        name: "api_future_poll",
        about: "a poll of a registered future whose value is not reached",
        unit: Unit::Time,
        floor: floor("loaded_word", floors::loaded_word),
        goal: Goal::TimesFloor(50.0),
        measure: |scale| own(move || api::future_poll(CALLS.scaled(scale))),
        peers: &[Counterpart::None("Vulkan has no futures")],
    },
    Row {
        name: "api_future_wake",
        about: "from a CPU signal to the thread that slept until the future's waker was called",
        unit: Unit::Time,
        floor: floor("unpark_there_and_back", floors::unpark_there_and_back),
        goal: Goal::TimesFloor(2.0),
        measure: |scale| own(move || api::future_wake(WAKES.scaled(scale))),
        peers: &[Counterpart::None("Vulkan has no futures")],
    },
    Row {
        name: "api_fence_created",
        about: "creation and destruction of a fence, of 6,400 that exist at the same time",
        unit: Unit::Time,
        floor: floor("listed_256_bytes", || floors::listed_memory(256)),
        goal: Goal::TimesFloor(20.0),
        measure: |scale| own(move || api::fences(FEW_FENCES.scaled(scale))),
        peers: &[lavapipe(
            "api_fence_created",
            "vkCreateSemaphore, vkDestroySemaphore",
            FEW_FENCES,
        )],
    },
    Row {
        name: "api_fences_1000000",
        about: "the same of 1,000,000 fences",
        unit: Unit::Time,
        floor: floor("listed_256_bytes", || floors::listed_memory(256)),
        goal: Goal::TimesFloor(20.0),
        measure: |scale| own(move || api::fences(FENCES.scaled(scale))),
        peers: &[lavapipe("api_fences_1000000", "vkCreateSemaphore, vkDestroySemaphore", FENCES)],
    },
    Row {
        name: "api_queues_65536",
        about: "creation and destruction of a user-mode queue, of 65,536 that exist at the same time",
        unit: Unit::Time,
        floor: floor("listed_4096_bytes", || floors::listed_memory(4_096)),
        goal: Goal::TimesFloor(50.0),
        measure: |scale| own(move || api::queues(QUEUES.scaled(scale))),
        peers: &[Counterpart::None("lavapipe has one queue")],
    },
];

#[cfg(test)]
mod tests {
    use super::all_rows;

    #[test]
    fn names_are_unique_and_rows_say_what_they_are() {
        for (index, row) in all_rows().enumerate() {
            assert!(all_rows().take(index).all(|other| other.name != row.name), "{}", row.name);
            assert!(!row.about.is_empty() && !row.floor.name.is_empty());
        }
    }
}
