//! The race of a ring with the loss of its doorbell: two user-mode queues of one engine share one
//! physical doorbell, so each submission may find that the other queue has taken it.
//!
//! The first queue is connected before the run begins; in the run both submit. Each submission runs
//! exactly once, the last one too, though nobody rings after it.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::{LeftOut, notes};
use crate::world::{Setting, World, ends_well, until_quiet};
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const VICTIMISED: &str = "a doorbell was taken away";
const RETRIED: &str = "a ring met no hardware, and was repeated";
const LAST_LOOK: &str = "a ring met the doorbell before it was taken away";

const PLANTED: &[PlantedBug] = &[PlantedBug {
    name: "victim-not-told",
    about: "the driver takes a doorbell away without DxgkCbDisconnectDoorbell: its process still reads CONNECTED",
}];

pub(crate) const RACE: Race = Race {
    name: "ring-against-victimise",
    about: "two queues with one physical doorbell between them submit at once: each submission runs exactly once",
    marks: &[VICTIMISED, RETRIED, LAST_LOOK],
    agents: &["engine", "timer", "main", "second"],
    planted: PLANTED,
    plans: Plans {
        short: Plan::sampled(30_000),
        full: Plan::sampled(3_000_000),
        bugs: Plan::sampled(100_000),
    },
    prepare,
    bug: None,
};

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let left_out = if bug.is_some() { LeftOut::VictimNotice } else { LeftOut::Nothing };
    let world = World::new(platform, Setting { doorbells: 1, left_out, ..Setting::default() });
    let (first, second) =
        (world.queue("first", Submission::User, 0), world.queue("second", Submission::User, 0));
    let (one, two) = (world.fence("one"), world.fence("two"));
    first.signal(&one, 1).expect("a submission");
    let (spawner, ringer, other) = (platform.clone(), first.clone(), second.clone());
    let (of_first, of_second) = (one.clone(), two.clone());
    let main = move || {
        spawner.spawn("second", move || ends_well(other.signal(&of_second, 1)));
        ends_well(ringer.signal(&of_first, 2));
        until_quiet(&spawner);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let signals = world.machine.gpu().stats().signals;
        end.eventually(
            "every submission runs",
            (one.completed_value(), two.completed_value()) == (2, 1),
        );
        end.always("each submission runs once", signals == 3);
        end.sometimes(VICTIMISED, world.probe.seen(notes::VICTIMISED).is_some());
        end.sometimes(RETRIED, first.stats().retries > 0);
        end.sometimes(LAST_LOOK, first.stats().retries == 0 && second.stats().retries == 0);
        world.must_be_sound(end);
    })
}
