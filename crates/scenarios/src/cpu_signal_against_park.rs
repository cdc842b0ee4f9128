//! The race of a CPU signal with a queue that comes to its wait: UpdateCurrentValuesFromCpu stores
//! the value and lets the hardware look at its waiting queues; a queue enters the table and looks
//! again.
//!
//! The wait stands in the ring before the run begins; in the run the CPU signals, then waits until
//! nothing moves any more.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::LeftOut;
use crate::world::{Setting, World, ends_well, until_quiet};
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const STALLED: &str = "the queue waited for the signal";
const PASSED: &str = "the signal came first";

const PLANTED: &[PlantedBug] = &[PlantedBug {
    name: "no-notification",
    about: "the driver stores CurrentValue and does not make the hardware look at its waiting queues",
}];

pub(crate) const RACE: Race = Race {
    name: "cpu-signal-against-park",
    about: "a queue comes to a wait while the CPU signals the fence: it goes on",
    marks: &[STALLED, PASSED],
    agents: &["engine", "timer", "main"],
    planted: PLANTED,
    plans: Plans {
        short: Plan::exhaustive(1_000_000),
        full: Plan::exhaustive(1_000_000),
        bugs: Plan::exhaustive(1_000_000),
    },
    prepare,
    bug: None,
};

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let left_out = if bug.is_some() { LeftOut::Notification } else { LeftOut::Nothing };
    let world = World::new(platform, Setting { left_out, ..Setting::default() });
    let queue = world.queue("consumer", Submission::User, 0);
    let (ready, done) = (world.fence("ready"), world.fence("done"));
    queue.wait(&ready, 1).expect("a submission");
    queue.signal(&done, 1).expect("a submission");
    let (clock, signalled) = (platform.clone(), ready.clone());
    let main = move || {
        ends_well(signalled.signal(1));
        until_quiet(&clock);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let stalled = world.machine.gpu().stats().gpu_waits_stalled > 0;
        end.eventually("the waiting queue goes on", done.completed_value() == 1);
        end.sometimes(STALLED, stalled);
        end.sometimes(PASSED, !stalled);
        world.must_be_sound(end);
        drop((queue, ready));
    })
}
