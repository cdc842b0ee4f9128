//! The rows of the laboratory, and the users' rows with their goals.
//!
//! Rooms: `signal` (signals without a waiter) · `wake_costs` (interrupts) · `chain` (engine to
//! engine) · `engines` (queues of several engines) · `preemption` · `cross_adapter` · `release`
//! (one of many events) · `waiters` (one of many tasks or threads) · `idle` (idle queues) ·
//! `processes` (clients of a `service` in another process) · `memory` (copies and programs) ·
//! `explore` · `seam` · `swarm` · `api` (single calls, many objects).

pub(crate) mod api;
pub(crate) mod chain;
mod cross_adapter;
mod engines;
pub(crate) mod explore;
pub(crate) mod idle;
mod memory;
pub(crate) mod preemption;
pub(crate) mod processes;
mod release;
mod seam;
pub(crate) mod service;
pub(crate) mod signal;
mod swarm;
pub(crate) mod waiters;
pub(crate) mod wake_costs;

use crate::aim::{Aimed, Counterpart, lavapipe, of, peer, pure, row};
use crate::sizes::{Calls, LONG_STREAM, STREAM, TRIPS};
use tidegate::Submission;
use tidegate_measure::rows::{self, submit, virtual_time};
use tidegate_measure::{Scale, floor, floors};

/// The rows by group. Within a pass they are measured in this order.
const GROUPS: &[&[Aimed]] = &[
    SUBMISSIONS,
    signal::ROWS,
    wake_costs::ROWS,
    chain::ROWS,
    cross_adapter::ROWS,
    engines::ROWS,
    preemption::ROWS,
    release::ROWS,
    waiters::ROWS,
    idle::ROWS,
    processes::ROWS,
    memory::ROWS,
    explore::ROWS,
    seam::ROWS,
    VIRTUAL_TIME,
    swarm::ROWS,
    api::ROWS,
];

/// All rows, in the order in which they are measured and shown.
pub(crate) fn all_rows() -> impl Iterator<Item = &'static Aimed> + Clone {
    GROUPS.iter().flat_map(|rows| rows.iter())
}

/// Rows of submissions, and of an import.
const SUBMISSIONS: &[Aimed] = &[
    of(rows::DOORBELL).within(1.5).beside(&[
        lavapipe("submit_wait", "vkQueueSubmit without a list, vkWaitSemaphores", TRIPS),
        lavapipe("submit_wait_list", "the same with an empty command buffer", TRIPS),
        lavapipe(
            "submit_wait_list_other_cpu",
            "the same with the driver's threads on the other processor",
            TRIPS,
        ),
        peer(
            "pocl",
            "ndrange_wait",
            "clEnqueueNDRangeKernel of one item, clWaitForEvents",
            "less: no value of a fence, no log; more: a kernel of one item",
            TRIPS,
        ),
        pure("parking_lot", "fence_round_trip", "Condvar there and back", TRIPS),
        pure("rtrb", "round_trip", "64 bytes there and back, both ends poll", TRIPS),
        pure("crossbeam", "round_trip", "64 bytes there and back, try_recv", TRIPS),
    ]),
    of(rows::STREAM).within(5.0).beside(&[
        lavapipe("submit_stream", "vkQueueSubmit without a list, one wait at the end", STREAM),
        pure("rtrb", "stream", "64 bytes through a ring", LONG_STREAM),
        pure("crossbeam", "crossbeam_stream", "64 bytes through a bounded channel", LONG_STREAM),
    ]),
    row(
        "submissions_streamed_on_one_processor",
        "the same with client and engines on one processor: neither may keep it from the other",
        floor("on_two_processors", || {
            submit::stream(Submission::User, Scale(1)).map(|m| m.samples)
        }),
        submit::stream_on_one_processor,
    )
    .within(4.0),
    of(rows::STREAM_HARDWARE),
    of(rows::STREAM_PACKET),
    of(rows::IMPORT),
];

/// Rows of machines in virtual time.
const VIRTUAL_TIME: &[Aimed] = &[
    of(rows::EVENTS).within(6.0),
    row(
        "virtual_time_100",
        "one agent turn of a machine of 100 engines on three adapters in virtual time",
        floor("heap_of_100", || floors::heap_of(100)),
        |scale| virtual_time::events(100, 60, scale),
    )
    .with_rate()
    .within(6.0)
    .beside(&[
        timers("simcore", "simcore_timers", "self timers of 100 components", 100),
        timers("nexosim", "nexosim_timers", "self timers of 100 models", 100),
        timers("simpy", "simpy_timers", "self timers of 100 processes", 100),
    ]),
    row(
        "virtual_time_10000",
        "the same of 10,000 engines on 209 adapters",
        floor("heap_of_10000", || floors::heap_of(10_000)),
        |scale| virtual_time::events(scale.of(10_000, 2) as u32, 3, scale),
    )
    .with_rate()
    .within(6.0)
    .beside(&[
        timers("simcore", "simcore_timers", "self timers of 10,000 components", 10_000),
        timers("nexosim", "nexosim_timers", "self timers of 10,000 models", 10_000),
        timers("simpy", "simpy_timers", "self timers of 10,000 processes", 10_000),
    ]),
];

const fn timers(
    name: &'static str,
    key: &'static str,
    calls: &'static str,
    pending: u64,
) -> Counterpart {
    let does = "less: no queue, no fence, no interrupt, one handler for each event";
    peer(name, key, calls, does, Calls::new(pending, 3))
}

#[cfg(test)]
mod tests {
    use super::{Aimed, all_rows};
    use tidegate_measure::ROWS;

    #[test]
    fn names_are_unique_and_rows_say_what_they_are() {
        for (index, Aimed { row, .. }) in all_rows().enumerate() {
            assert!(all_rows().take(index).all(|other| other.row.name != row.name), "{}", row.name);
            assert!(!row.about.is_empty() && !row.floor.name.is_empty());
        }
    }

    #[test]
    fn every_row_of_the_users_is_measured_here_too() {
        for row in ROWS {
            assert!(all_rows().any(|aimed| aimed.row.name == row.name), "{}", row.name);
        }
    }
}
