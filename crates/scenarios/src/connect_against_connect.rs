//! The race of two connects: two user-mode queues of one engine share one physical doorbell, both
//! have lost it to a third, and both connect at once. Each victimises the other from inside its own
//! connect, so the kernel's lock of transitions must let the driver's callback in on the stack of
//! the connect that owns it, and nobody else.
//!
//! Two connects that each held the lock of its own doorbell and asked for the other's would never
//! end. The planted bug has the same shape with one lock: the driver hands the callback to a
//! worker, which is not the owner, and waits for it.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::{LeftOut, notes};
use crate::world::{Setting, World, ends_well, until_quiet};
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const EACH_OTHER: &str = "each of the two took the doorbell from the other";
const ONE_WAY: &str = "one of the two connected once, after the other was done";
const REPEATED: &str = "one of the two connected twice";

const PLANTED: &[PlantedBug] = &[PlantedBug {
    name: "callback-on-another-agent",
    about: "the driver makes DxgkCbDisconnectDoorbell on a worker and waits for it: the worker waits for the transition",
}];

pub(crate) const RACE: Race = Race {
    name: "connect-against-connect",
    about: "two queues that have lost the one doorbell connect at once: both go on, and each submission runs exactly once",
    marks: &[EACH_OTHER, ONE_WAY, REPEATED],
    agents: &["engine", "timer", "main", "second", "callback"],
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
    let left_out = if bug.is_some() { LeftOut::CallbackOwner } else { LeftOut::Nothing };
    let world = World::new(
        platform,
        Setting { doorbells: 1, left_out: LeftOut::Nothing, ..Setting::default() },
    );
    let queues = ["first", "second", "third"].map(|name| world.queue(name, Submission::User, 0));
    let fences = ["one", "two", "three"].map(|name| world.fence(name));
    for (queue, fence) in queues.iter().zip(&fences) {
        queue.signal(fence, 1).expect("a submission");
    }
    world.leave_out(left_out);
    let before = [0, 1].map(|n: usize| queues[n].stats().connects);
    let (spawner, [first, second, _]) = (platform.clone(), queues.clone());
    let [one, two, _] = fences.clone();
    let main = move || {
        spawner.spawn("second", move || ends_well(second.signal(&two, 2)));
        ends_well(first.signal(&one, 2));
        until_quiet(&spawner);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let values = fences.each_ref().map(|fence| fence.completed_value());
        end.eventually("every submission runs", values == [2, 2, 1]);
        end.always("each submission runs once", world.machine.gpu().stats().signals == 5);
        let connects = [0, 1].map(|n: usize| queues[n].stats().connects - before[n]);
        end.sometimes(
            EACH_OTHER,
            connects.iter().all(|n| *n > 0) && world.probe.seen(notes::VICTIMISED).is_some(),
        );
        end.sometimes(ONE_WAY, connects == [1, 1]);
        end.sometimes(REPEATED, connects.iter().any(|n| *n > 1));
        world.must_be_sound(end);
    })
}
