//! A queue that reaches a wait for 7 against the fall of a gate whose history is full. The gate
//! was at 9 before the wait was called and at 7 after. The next fall drops the 7. The queue passes
//! if it reaches the wait before that. Otherwise nothing tells whether the gate was at 7: the queue
//! faults at once, and the device learns its fence and its queue. The queue never hangs.

use crate::prelude::*;
use tidegate::d3d12::RemovedReason;

const PASSED: &str = "the queue reached its wait before the value was dropped";
const LOST: &str = "the queue reached its wait after the value was dropped";

pub(crate) const RACE: Race = Race {
    name: "lost-history",
    about: "a value that a queued wait needs is dropped from a full history: the wait passes or its device is lost",
    marks: &[PASSED, LOST],
    planted: &[Bug {
        name: "silent",
        about: "an engine parks a queue whose wait the history has lost",
        fault: Fault::Product("lost waits are parked"),
    }],
    shape: Shape::Machine(&[setting::OWN_THREADS, setting::SMALL_HISTORY]),
    plans: Plans::samples(20_000, 500_000, 50_000),
    prepare,
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
        let named = reason.as_ref().is_none_or(|reason| match reason {
            RemovedReason::Faulted(fault) => {
                let is_queue = fault.queue.as_deref() == Some("consumer");
                is_queue && fault.report.what.contains("fence 'gate'")
            }
            _ => false,
        });
        end.always("a lost device names the queue and the fence", named);
        end.eventually(
            "the queue goes on or its device is lost",
            reason.is_some() || done.completed_value() == 1,
        );
        end.sometimes(PASSED, reason.is_none());
        end.sometimes(LOST, reason.is_some());
    })
}
