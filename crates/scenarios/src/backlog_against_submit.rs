//! The race of a backlog's worker with callers. The ring of a user-mode queue is full behind a wait
//! for a gate. A thread queues two more signals and opens the gate, and another thread queues one.
//! Each signal may find the ring full, the backlog drained or half drained.
//!
//! Everything runs once, and what one thread queued runs in its order.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::LeftOut;
use crate::world::{Setting, World, ends_well, until_quiet};
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const TWO_STOOD: &str = "the second thread came when there was room again";
const ALL_STOOD: &str = "the second thread queued behind the backlog";

/// Signals that fill the ring of 16 slots: the wait for the gate stands before them, and each
/// quarter has a checkpoint.
const FILL: u64 = 11;

const PLANTED: &[PlantedBug] = &[PlantedBug {
    name: "report-lost",
    about: "the interrupt of the queue's progress reports no fence: the worker of the backlog sleeps on",
}];

pub(crate) const RACE: Race = Race {
    name: "backlog-against-submit",
    about: "two threads queue signals behind a full ring while its gate opens: each signal runs once, and in order",
    marks: &[TWO_STOOD, ALL_STOOD],
    agents: &["engine", "timer", "main", "second", "worker of the backlog"],
    planted: PLANTED,
    plans: Plans {
        short: Plan::sampled(20_000),
        full: Plan::sampled(1_000_000),
        bugs: Plan::sampled(20_000),
    },
    prepare,
    bug: None,
};

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let left_out = if bug.is_some() { LeftOut::SignalReport } else { LeftOut::Nothing };
    let world = World::new(platform, Setting { left_out, ..Setting::default() });
    let queue = world.queue("queue", Submission::User, 0);
    let (gate, first, second) = (world.fence("gate"), world.fence("first"), world.fence("second"));
    queue.wait(&gate, 1).expect("a submission");
    (1..=FILL).for_each(|value| queue.signal(&first, value).expect("a submission"));
    let (spawner, own, other) = (platform.clone(), queue.clone(), queue.clone());
    let (opened, of_main, of_second) = (gate.clone(), first.clone(), second.clone());
    let main = move || {
        spawner.spawn("second", move || ends_well(other.signal(&of_second, 1)));
        ends_well(own.signal(&of_main, FILL + 2));
        // Below the one before: whichever runs last stays.
        ends_well(own.signal(&of_main, FILL + 1));
        ends_well(opened.signal(1));
        until_quiet(&spawner);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
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
        world.must_be_sound(end);
        drop(gate);
    })
}
