//! The wait of a ring against a pulse: the gate goes to 5 and at once to 1. The wait for 5 stands
//! behind a blocked head, or holds its queue already, or its queue comes to it when the gate has
//! fallen again: it passes each time, since it was called before. By an engine, with the head freed
//! by the CPU; or by the CPU, with the head freed by an engine.

use crate::prelude::*;

const FELL_FIRST: &str = "the gate had fallen before the queue came to its wait";
const PARKED: &str = "the queue was held by the wait for the gate";

const PLANS: Plans = Plans::samples(50_000, 1_000_000, 50_000);
const NO_HISTORY: Bug = Bug {
    name: "no-history",
    about: "the hardware keeps no history: the wait sees the value that fell",
    fault: Fault::Scenario,
};

pub(crate) const BY_ENGINE: Race = Race {
    name: "gpu-pulse",
    about: "an engine pulses a fence that a ring's wait behind a blocked head is for: the queue goes on",
    marks: &[FELL_FIRST, PARKED],
    planted: &[
        NO_HISTORY,
        Bug {
            name: "no-gpu-barrier",
            about: "the hardware leaves out the barrier of a signal, and the history with it",
            fault: Fault::Product("no signal barrier"),
        },
    ],
    plans: PLANS,
    prepare: |run| prepare(run, true),
};

pub(crate) const BY_CPU: Race = Race {
    name: "gpu-pulse-by-cpu",
    about: "a CPU thread pulses a fence that a ring's wait behind a blocked head is for: the queue goes on",
    marks: &[FELL_FIRST, PARKED],
    planted: &[NO_HISTORY],
    plans: PLANS,
    prepare: |run| prepare(run, false),
};

fn prepare(run: &Run<'_>, by_engine: bool) -> Prepared {
    let world = run.world(|config| {
        engines(config, 2);
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
            ends_well(head.signal(1));
        } else {
            ends_well(pulsed.signal(5));
            ends_well(pulsed.signal(1));
        }
    };
    world.race(main, move |world, end| {
        let stats = world.machine.gpu().stats();
        end.eventually("the waiting queue goes on", done.completed_value() == 1);
        end.always("the last value stays", gate.completed_value() == 1);
        // Both waits are checked at once: what did not hold the queue was reached, or had been.
        end.sometimes(FELL_FIRST, stats.gpu_waits_stalled == 0);
        end.sometimes(PARKED, stats.gpu_waits_stalled == 2);
    })
}
