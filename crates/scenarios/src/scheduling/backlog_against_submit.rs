//! A backlog's worker against submitters. The ring of a user-mode queue is full behind a wait for a
//! gate. One thread queues two signals and opens the gate, and another thread queues one signal.
//! Each signal may find the ring full, or the backlog drained or half drained.
//!
//! Every signal runs once, and the signals of one thread run in order.

use crate::prelude::*;

const ROOM_FOR_SECOND: &str = "the second thread found room in the ring";
const SECOND_BEHIND_BACKLOG: &str = "the second thread queued behind the backlog";

/// Number of signals that fill the ring of 16 slots, after the wait for the gate and with one
/// checkpoint per quarter.
const FILL: u64 = 11;

pub(crate) const RACE: Race = Race {
    name: "backlog-against-submit",
    about: "two threads queue signals behind a full ring while its gate opens: each signal runs once, and in order",
    marks: &[ROOM_FOR_SECOND, SECOND_BEHIND_BACKLOG],
    planted: bugs! {
        "report-lost" => Driver(LeftOut::SignalReport),
            "the progress interrupt reports no fence: the worker of the backlog is not woken";
    },
    shape: Shape::Machine(&[setting::SMALL_RING]),
    plans: Plans::samples(20_000, 1_000_000, 20_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let queue = world.queue("queue", Submission::User);
    let [gate, first, second] = ["gate", "first", "second"].map(|name| world.fence(name));
    queue.wait(&gate, 1).expect("a submission");
    (1..=FILL).for_each(|value| queue.signal(&first, value).expect("a submission"));
    let (own, other) = (queue.clone(), queue.clone());
    let (of_main, of_second) = (first.clone(), second.clone());
    let main = move |platform: &Platform| {
        platform.spawn("second", move || assert_ok(other.signal(&of_second, 1)));
        assert_ok(own.signal(&of_main, FILL + 2));
        // Lower than the previous value, so the final value is the last signal's.
        assert_ok(own.signal(&of_main, FILL + 1));
        assert_ok(gate.signal(1));
    };
    world.race(main, move |world, end| {
        let (stats, signals) = (queue.stats(), world.machine.gpu().stats().signals);
        let done = (first.completed_value(), second.completed_value());
        end.eventually("every signal runs, those of one thread in order", done == (FILL + 1, 1));
        // The progress signals of the checkpoints: one per quarter, and one of the next quarter.
        end.always("each signal runs once", signals <= FILL + 3 + 4);
        end.always("each is counted once", stats.signals == FILL + 3);
        end.sometimes(ROOM_FOR_SECOND, stats.ring_waits == 2);
        end.sometimes(SECOND_BEHIND_BACKLOG, stats.ring_waits == 3);
    })
}
