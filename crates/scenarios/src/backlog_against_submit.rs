//! The worker of a backlog against callers. The ring of a user-mode queue is full behind a wait for
//! a gate. A thread queues two more signals and opens the gate, and another thread queues one. Each
//! signal may find the ring full, the backlog drained or half drained.
//!
//! Everything runs once, and what one thread queued runs in its order.

use crate::prelude::*;

const TWO_STOOD: &str = "the second thread came when there was room again";
const ALL_STOOD: &str = "the second thread queued behind the backlog";

/// Signals that fill the ring of 16 slots: the wait for the gate stands before them, and each
/// quarter has a checkpoint.
const FILL: u64 = 11;

pub(crate) const RACE: Race = Race {
    name: "backlog-against-submit",
    about: "two threads queue signals behind a full ring while its gate opens: each signal runs once, and in order",
    marks: &[TWO_STOOD, ALL_STOOD],
    planted: &[Bug {
        name: "report-lost",
        about: "the interrupt of the queue's progress reports no fence: the worker of the backlog sleeps on",
        fault: Fault::Driver(LeftOut::SignalReport),
    }],
    plans: Plans::samples(20_000, 1_000_000, 20_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world(|_| ());
    let queue = world.queue("queue", Submission::User);
    let [gate, first, second] = ["gate", "first", "second"].map(|name| world.fence(name));
    queue.wait(&gate, 1).expect("a submission");
    (1..=FILL).for_each(|value| queue.signal(&first, value).expect("a submission"));
    let (own, other) = (queue.clone(), queue.clone());
    let (of_main, of_second) = (first.clone(), second.clone());
    let main = move |platform: &Platform| {
        platform.spawn("second", move || ends_well(other.signal(&of_second, 1)));
        ends_well(own.signal(&of_main, FILL + 2));
        // Below the one before: the signal that runs last stays.
        ends_well(own.signal(&of_main, FILL + 1));
        ends_well(gate.signal(1));
    };
    world.race(main, move |world, end| {
        let (stats, signals) = (queue.stats(), world.machine.gpu().stats().signals);
        let done = (first.completed_value(), second.completed_value());
        end.eventually(
            "every signal runs, those of one thread in its order",
            done == (FILL + 1, 1),
        );
        // The checkpoints signal the queue's progress: one for each quarter, and that of the
        // quarter after.
        end.always("each signal runs once", signals <= FILL + 3 + 4);
        end.always("each is counted once", stats.signals == FILL + 3);
        end.sometimes(TWO_STOOD, stats.ring_waits == 2);
        end.sometimes(ALL_STOOD, stats.ring_waits == 3);
    })
}
