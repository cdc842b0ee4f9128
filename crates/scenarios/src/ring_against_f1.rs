//! The race of a ring with an engine that loses its power: the driver has found the engine idle,
//! and work is rung before the kernel has taken the doorbell away. The process reads CONNECTED and
//! goes; nobody would ring for it again.
//!
//! The doorbell is connected, by a first submission, before the run begins; in the run a second one
//! is made while another agent takes the power of idle engines. The driver's own look at its queues
//! is switched off, so that the kernel's is alone.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::notes;
use crate::world::{Setting, World, ends_well, plant, until_quiet};
use tidegate::dxgkrnl::PowerManagement;
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const STAYED: &str = "the engine stayed because of the ring";
const BROUGHT_BACK: &str = "the ring met no hardware, and its connect brought the engine back";
const AFTER: &str = "the work was done, and then the power went";

const PLANTED: &[PlantedBug] = &[PlantedBug {
    name: "no-look",
    about: "the kernel takes the engine's power without a look for work that was rung before the doorbells went",
}];

pub(crate) const RACE: Race = Race {
    name: "ring-against-f1",
    about: "a doorbell is rung while its idle engine loses its power: the work runs",
    marks: &[STAYED, BROUGHT_BACK, AFTER],
    agents: &["engine", "timer", "main", "power"],
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
    plant(platform, bug, &[(PLANTED[0].name, "announced work unseen")]);
    let power = PowerManagement::Managed;
    let world = World::new(platform, Setting { power, ..Setting::default() });
    let queue = world.queue("copy", Submission::User, 0);
    let list = world.empty_list();
    queue.execute(&[&list]).expect("a submission");
    let (spawner, submitter, adapter) =
        (platform.clone(), queue.clone(), world.machine.adapter().clone());
    let main = move || {
        spawner.spawn("power", move || adapter.power_down_idle_engines());
        ends_well(submitter.execute(&[&list]));
        until_quiet(&spawner);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let packets = world.machine.gpu().stats().nodes[0].packets;
        end.eventually("both submissions run", packets == 2);
        end.always("each submission runs once", packets <= 2);
        let (asked, taken) =
            (world.probe.seen(notes::DISCONNECTED), world.probe.seen(notes::UNPOWERED));
        end.sometimes(STAYED, asked.is_some() && taken.is_none());
        let given = world.probe.seen(notes::POWERED).is_some();
        end.sometimes(BROUGHT_BACK, given);
        end.sometimes(AFTER, taken.is_some() && !given);
        world.must_be_sound(end);
        drop(queue);
    })
}
