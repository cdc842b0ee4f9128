//! A queue's wait for 5 against a pulse: the gate is signalled to 5 and immediately rewound to 1.
//! The wait is behind a blocked head, or already parked, or is reached after the rewind. It passes
//! in each case, because it was submitted before the pulse. Either an engine pulses and the CPU
//! unblocks the head, or vice versa.

use crate::prelude::*;

const FELL_FIRST: &str = "the gate was rewound before the queue reached its wait";
const PARKED: &str = "the queue parked at the wait for the gate";

const PLANS: Plans = Plans::samples(50_000, 1_000_000, 50_000);
const NO_HISTORY: Bug = Bug {
    name: "no-history",
    about: "the hardware keeps no history: the wait sees the rewound value",
    fault: Fault::Scenario,
};

pub(crate) const BY_ENGINE: Race = Race {
    name: "gpu-pulse",
    about: "an engine pulses the fence of a queued wait behind a blocked head: the queue is unblocked",
    marks: &[FELL_FIRST, PARKED],
    planted: &[
        NO_HISTORY,
        Bug {
            name: "no-gpu-barrier",
            about: "the hardware omits the barrier of a signal and thereby the history",
            fault: Fault::Product(PlantedFault::NoSignalBarrier),
        },
    ],
    shape: Shape::Machine(&[setting::OWN_THREADS]),
    plans: PLANS,
    prepare: |run| prepare(run, true),
};

pub(crate) const BY_CPU: Race = Race {
    name: "gpu-pulse-by-cpu",
    about: "a CPU thread pulses the fence of a queued wait behind a blocked head: the queue is unblocked",
    marks: &[FELL_FIRST, PARKED],
    planted: &[NO_HISTORY],
    shape: Shape::Machine(&[setting::OWN_THREADS]),
    plans: PLANS,
    prepare: |run| prepare(run, false),
};

fn prepare(run: &Run<'_>, by_engine: bool) -> Prepared {
    let world = run.world_with_bug(|config| {
        config.driver.fence_history = !run.has(NO_HISTORY.name);
    });
    let (producer, consumer) = (world.queue_at(0, "producer"), world.queue_at(1, "consumer"));
    let [head, gate, done] = ["head", "gate", "done"].map(|name| world.fence(name));
    consumer.wait(&head, 1).expect("a submission");
    consumer.wait(&gate, 5).expect("a submission");
    consumer.signal(&done, 1).expect("a submission");
    if by_engine {
        producer.signal(&gate, 5).expect("a submission");
        producer.signal(&gate, 1).expect("a submission");
    } else {
        producer.signal(&head, 1).expect("a submission");
    }
    let pulsed = gate.clone();
    let main = move |_: &Platform| {
        if by_engine {
            assert_ok(head.signal(1));
        } else {
            assert_ok(pulsed.signal(5));
            assert_ok(pulsed.signal(1));
        }
    };
    world.race(main, move |world, end| {
        let stats = world.machine.gpu().stats();
        end.eventually("the waiting queue is unblocked", done.completed_value() == 1);
        end.always("the fence keeps the last value", gate.completed_value() == 1);
        // A wait that did not park the queue was satisfied when the queue reached it.
        end.sometimes(FELL_FIRST, stats.gpu_waits_stalled == 0);
        end.sometimes(PARKED, stats.gpu_waits_stalled == 2);
    })
}
