//! The race of a ring's wait with a pulse: the gate goes to 5 and at once to 1. The wait for 5
//! stands behind a blocked head, or holds its queue already, or its queue comes to it when the gate
//! has fallen again: it passes each time, since it was called before. By an engine, with the head
//! freed by the CPU; or by the CPU, with the head freed by an engine.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::world::{Setting, World, ends_well, plant, until_quiet};
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const FELL_FIRST: &str = "the gate had fallen before the queue came to its wait";
const PARKED: &str = "the queue was held by the wait for the gate";

const NO_HISTORY: &str = "no-history";
const NO_BARRIER: &str = "no-gpu-barrier";

const PLANS: Plans = Plans {
    short: Plan::sampled(50_000),
    full: Plan::sampled(1_000_000),
    bugs: Plan::sampled(50_000),
};

const AGENTS: &[&str] = &["engine of the producer", "engine of the consumer", "timer", "main"];

pub(crate) const BY_ENGINE: Race = Race {
    name: "gpu-pulse",
    about: "an engine pulses a fence that a ring's wait behind a blocked head is for: the queue goes on",
    marks: &[FELL_FIRST, PARKED],
    agents: AGENTS,
    planted: &[
        PlantedBug {
            name: NO_HISTORY,
            about: "the hardware keeps no history: the wait sees the value that fell",
        },
        PlantedBug {
            name: NO_BARRIER,
            about: "the hardware leaves out the barrier of a signal, and the history with it",
        },
    ],
    plans: PLANS,
    prepare: |platform, bug| prepare(platform, bug, true),
    bug: None,
};

pub(crate) const BY_CPU: Race = Race {
    name: "gpu-pulse-by-cpu",
    about: "a CPU thread pulses a fence that a ring's wait behind a blocked head is for: the queue goes on",
    marks: &[FELL_FIRST, PARKED],
    agents: AGENTS,
    planted: &[PlantedBug {
        name: NO_HISTORY,
        about: "the hardware keeps no history: the wait sees the value that fell",
    }],
    plans: PLANS,
    prepare: |platform, bug| prepare(platform, bug, false),
    bug: None,
};

fn prepare(platform: &Platform, bug: Option<&'static str>, by_engine: bool) -> Prepared {
    plant(platform, bug, &[(NO_BARRIER, "no signal barrier")]);
    let fence_history = bug != Some(NO_HISTORY);
    let world = World::new(platform, Setting { engines: 2, fence_history, ..Setting::default() });
    let producer = world.queue("producer", Submission::User, 0);
    let consumer = world.queue("consumer", Submission::User, 1);
    let (head, gate, done) = (world.fence("head"), world.fence("gate"), world.fence("done"));
    consumer.wait(&head, 1).expect("a submission");
    consumer.wait(&gate, 5).expect("a submission");
    consumer.signal(&done, 1).expect("a submission");
    if by_engine {
        producer.signal(&gate, 5).expect("a submission");
        producer.signal(&gate, 1).expect("a submission");
    } else {
        producer.signal(&head, 1).expect("a submission");
    }
    let (clock, freed, pulsed) = (platform.clone(), head.clone(), gate.clone());
    let main = move || {
        if by_engine {
            ends_well(freed.signal(1));
        } else {
            ends_well(pulsed.signal(5));
            ends_well(pulsed.signal(1));
        }
        until_quiet(&clock);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let stats = world.machine.gpu().stats();
        end.eventually("the waiting queue goes on", done.completed_value() == 1);
        end.always("the last value stays", gate.completed_value() == 1);
        // Both waits are looked at once: what did not hold the queue was reached, or had been.
        end.sometimes(FELL_FIRST, stats.gpu_waits_stalled == 0);
        end.sometimes(PARKED, stats.gpu_waits_stalled == 2);
        world.must_be_sound(end);
        drop((producer, consumer, head));
    })
}
