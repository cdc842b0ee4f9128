//! The race of a ring with an engine that goes to sleep: a doorbell's store wakes nobody, so the
//! ringer looks at the wake word after it, and the engine looks at its doorbells once more after it
//! has said that it sleeps.
//!
//! The doorbell is connected, by a first submission, before the run begins; in the run a second one
//! is made while the engine takes the first and goes to sleep.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::LeftOut;
use crate::world::{Setting, World, ends_well, until_quiet};
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const ONE_LOOK: &str = "one look at the doorbell found both submissions";
const TWO_LOOKS: &str = "the second submission was found by a look of its own";

const PLANTED: &[PlantedBug] = &[PlantedBug {
    name: "no-hint",
    about: "the ringer stores to the doorbell and does not look whether the engine sleeps",
}];

pub(crate) const RACE: Race = Race {
    name: "ring-against-park",
    about: "a doorbell is rung while its engine goes to sleep: the work runs",
    marks: &[ONE_LOOK, TWO_LOOKS],
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
    let left_out = if bug.is_some() { LeftOut::RingHint } else { LeftOut::Nothing };
    let world = World::new(platform, Setting { left_out, ..Setting::default() });
    let queue = world.queue("copy", Submission::User, 0);
    let fence = world.fence("done");
    queue.signal(&fence, 1).expect("a submission");
    let (clock, ringer, signalled) = (platform.clone(), queue.clone(), fence.clone());
    let main = move || {
        ends_well(ringer.signal(&signalled, 2));
        until_quiet(&clock);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let stats = world.machine.gpu().stats();
        end.eventually("both submissions run", fence.completed_value() == 2);
        end.always("each submission runs once", stats.signals == 2);
        end.sometimes(ONE_LOOK, stats.doorbell_looks == 1);
        end.sometimes(TWO_LOOKS, stats.doorbell_looks > 1);
        world.must_be_sound(end);
        drop(queue);
    })
}
