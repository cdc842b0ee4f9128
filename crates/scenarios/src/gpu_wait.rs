//! The race of a GPU wait with the signal that it waits for, between two engines and without the
//! kernel: the waiting queue enters the table, counts up the armed word and looks again; the
//! signaller stores CurrentValue, executes its barrier and looks at the armed word.
//!
//! Both submissions stand in their rings before the run begins. The CPU only waits until nothing
//! moves any more.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::notes;
use crate::world::{Setting, World, plant, until_quiet};
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const STALLED: &str = "the queue waited for the signal";
const PASSED: &str = "the signal came first";

const PLANTED: &[PlantedBug] = &[PlantedBug {
    name: "no-gpu-barrier",
    about: "the signaller looks for waiting queues while its CurrentValue is still in its store buffer",
}];

pub(crate) const RACE: Race = Race {
    name: "gpu-wait",
    about: "a queue comes to a wait on one engine while another engine signals: it goes on, and nobody interrupts",
    marks: &[STALLED, PASSED],
    agents: &["engine of the producer", "engine of the consumer", "timer", "main"],
    planted: PLANTED,
    plans: Plans {
        short: Plan::exhaustive(1_000_000),
        full: Plan::exhaustive(20_000_000),
        bugs: Plan::exhaustive(1_000_000),
    },
    prepare,
    bug: None,
};

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    plant(platform, bug, &[("no-gpu-barrier", "no signal barrier")]);
    let world = World::new(platform, Setting { engines: 2, ..Setting::default() });
    let producer = world.queue("producer", Submission::User, 0);
    let consumer = world.queue("consumer", Submission::User, 1);
    let (ready, done) = (world.fence("ready"), world.fence("done"));
    consumer.wait(&ready, 1).expect("a submission");
    consumer.signal(&done, 1).expect("a submission");
    producer.signal(&ready, 1).expect("a submission");
    let clock = platform.clone();
    Prepared::new(
        move || until_quiet(&clock),
        move |end: &mut Verdict<'_>| {
            let stalled = world.machine.gpu().stats().gpu_waits_stalled > 0;
            end.eventually("the waiting queue goes on", done.completed_value() == 1);
            end.always("nobody is interrupted", world.probe.seen(notes::INTERRUPTED).is_none());
            end.sometimes(STALLED, stalled);
            end.sometimes(PASSED, !stalled);
            world.must_be_sound(end);
            drop((producer, consumer, ready));
        },
    )
}
