//! The race of the end of doorbells with the loss of one: a queue connects and takes the only
//! physical doorbell from another, while somebody destroys a queue that was never connected, and
//! then the one that loses it. The callback by which the driver takes a doorbell away runs inside
//! the connect's transition; whatever it is about may be given up by everybody else meanwhile, and
//! the end of a doorbell needs that transition. This driver also says, each time, that the one
//! which was never connected is lost.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::notes;
use crate::world::{Setting, World, ends_well, until_quiet};
use tidegate::explorer::{Prepared, Verdict};
use tidegate::platform::WaitEnd;
use tidegate::{Platform, Submission};

const VICTIMISED: &str = "the doorbell was taken away";
const FREE: &str = "the doorbell was free by then";

/// The note that both ends are over.
const ENDED: usize = notes::OWN;

pub(crate) const RACE: Race = Race {
    name: "destroy-against-victimise",
    about: "a queue takes the only physical doorbell while its owner, and another queue, are destroyed: all of them end",
    marks: &[VICTIMISED, FREE],
    agents: &["engine", "timer", "main", "other"],
    planted: &[],
    plans: Plans {
        short: Plan::sampled(30_000),
        full: Plan::sampled(3_000_000),
        bugs: Plan::sampled(100_000),
    },
    prepare,
    bug: None,
};

fn prepare(platform: &Platform, _bug: Option<&'static str>) -> Prepared {
    let world = World::new(
        platform,
        Setting { doorbells: 1, first_doorbell_lost: true, ..Setting::default() },
    );
    let [idle, victim, second] =
        ["idle", "victim", "second"].map(|name| world.queue(name, Submission::User, 0));
    let (before, done) = (world.fence("before"), world.fence("done"));
    victim.signal(&before, 1).expect("a submission");
    let (spawner, probe) = (platform.clone(), world.probe.clone());
    let (queue, fence) = (second.clone(), done.clone());
    let main = move || {
        let other = spawner.spawn("other", move || {
            drop(idle);
            drop(victim);
        });
        ends_well(queue.signal(&fence, 1));
        if other.join() == WaitEnd::Woken {
            probe.note(ENDED, 1);
        }
        until_quiet(&spawner);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let victimised = world.probe.seen(notes::VICTIMISED).is_some();
        end.eventually("the queues end", world.probe.seen(ENDED).is_some());
        end.eventually("the one that is left works", done.completed_value() == 1);
        end.sometimes(VICTIMISED, victimised);
        end.sometimes(FREE, !victimised);
        world.must_be_sound(end);
        drop((second, before));
    })
}
