//! A queue that waits for 7 against the fall of a gate whose history is full. The gate was at 9
//! before the wait was called. The next fall drops a value. From then on nothing tells whether the
//! gate was at 7 meanwhile: the queue faults at once, and the device learns its fence and its
//! queue. The queue never hangs.
//!
//! - `lost-history`: the gate was at 7 after the call. The queue passes if it reaches its wait
//!   before the fall.
//! - `lost-history-parked`: the gate was at 5 and at 3 after the call. The queue parks before the
//!   fall, or after it, or the fall comes between its last look at the gate and its park.

use crate::prelude::*;

const PASSED: &str = "the queue reached its wait before the value was dropped";
const LOST: &str = "the queue reached its wait after the value was dropped";

const PARKED: &str = "the queue stalled before the value was dropped";
const LATE: &str = "the queue reached its wait after the value was dropped, and did not stall";

pub(crate) const RACE: Race = Race {
    name: "lost-history",
    about: "a value that a queued wait needs is dropped from a full history: the wait passes or its device is lost",
    marks: &[PASSED, LOST],
    planted: bugs! {
        "silent" => Product(PlantedFault::LostWaitsAreParked),
            "an engine parks a queue whose wait the history has lost";
    },
    shape: Shape::Machine(&[setting::OWN_THREADS, setting::SMALL_HISTORY]),
    plans: Plans::samples(20_000, 500_000, 50_000),
    prepare,
};

pub(crate) const OF_PARKED: Race = Race {
    name: "lost-history-parked",
    about: "a full history drops a value while a queue parks at its wait: the queue's device is lost",
    marks: &[PARKED, LATE],
    planted: bugs! {
        "left-parked" => Product(PlantedFault::LossLeavesTheQueueParked),
            "a fall that makes the wait of a parked queue undecided leaves the queue parked";
        "parked-late" => Product(PlantedFault::LossBeforeTheParkIsMissed),
            "a queue parks although its wait became undecided since the last look";
    },
    shape: Shape::Machine(&[setting::SMALL_HISTORY]),
    plans: Plans::samples(5_000, 500_000, 50_000),
    prepare: prepare_parked,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let (producer, consumer) = (world.queue_at(0, "producer"), world.queue_at(1, "consumer"));
    let [head, gate, done] = ["head", "gate", "done"].map(|name| world.fence(name));
    consumer.wait(&head, 1).expect("a submission");
    let pulse = |value| [value, 0].iter().try_for_each(|value| gate.signal(*value));
    pulse(9).expect("a signal");
    consumer.wait(&gate, 7).expect("a submission");
    consumer.signal(&done, 1).expect("a submission");
    pulse(7).expect("a signal");
    producer.signal(&head, 1).expect("a submission");
    let falling = gate.clone();
    let main = move |_: &Platform| {
        assert_ok(falling.signal(5));
        assert_ok(falling.signal(0));
    };
    world.race(main, move |world, end| {
        let reason = world.device.removed_reason();
        end.always("a lost device names the queue and the fence", is_named(reason.as_ref()));
        end.eventually(
            "the queue goes on or its device is lost",
            reason.is_some() || done.completed_value() == 1,
        );
        end.sometimes(PASSED, reason.is_none());
        end.sometimes(LOST, reason.is_some());
    })
}

/// Whether a reason, if there is any, names the queue and the fence.
fn is_named(reason: Option<&RemovedReason>) -> bool {
    reason.is_none_or(|reason| match reason {
        RemovedReason::Faulted(fault) => {
            let is_queue = fault.queue.as_deref() == Some("consumer");
            is_queue && fault.report.what.contains("fence 'gate'")
        }
        _ => false,
    })
}

fn prepare_parked(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let consumer = world.queue("consumer", Submission::User);
    let (gate, done) = (world.fence("gate"), world.fence("done"));
    let signal = |value| gate.signal(value).expect("a signal");
    [9, 0].into_iter().for_each(signal);
    consumer.wait(&gate, 7).expect("a submission");
    consumer.signal(&done, 1).expect("a submission");
    [5, 0, 3].into_iter().for_each(signal);
    let falling = gate.clone();
    let main = move |_: &Platform| assert_ok(falling.signal(0));
    world.race(main, move |world, end| {
        let reason = world.device.removed_reason();
        let stalled = world.machine.gpu().stats().gpu_waits_stalled > 0;
        end.always("a lost device names the queue and the fence", is_named(reason.as_ref()));
        end.always("the queue does not go on", done.completed_value() != 1);
        end.eventually("the device of the queue is lost", reason.is_some());
        end.sometimes(PARKED, stalled);
        end.sometimes(LATE, !stalled);
    })
}
