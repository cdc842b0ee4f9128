//! The race of a ring with an adapter that loses its power: contexts are suspended, doorbells
//! disconnected, and then the power goes, while a process rings. Its ring may meet the hardware
//! before the doorbell is taken away, so that it reads CONNECTED.
//!
//! The doorbell is connected, by a first submission, before the run begins; in the run a second one
//! is made while another agent takes the power of an idle adapter. The driver's own look at its
//! queues is switched off.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::{LeftOut, notes};
use crate::world::{Setting, World, ends_well, plant, until_quiet};
use tidegate::dxgkrnl::PowerManagement;
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const STAYED: &str = "the adapter stayed because of the ring";
const WOKEN: &str = "the ring met no hardware, and its connect woke the adapter";

const NO_LOOK: &str = "no-look";
const PLANTED: &[PlantedBug] = &[
    PlantedBug {
        name: NO_LOOK,
        about: "the kernel takes the power without a look for work that was rung before the doorbells went",
    },
    PlantedBug { name: "not-resumed", about: "contexts stay suspended when the power is back" },
];

pub(crate) const RACE: Race = Race {
    name: "ring-against-d3",
    about: "a doorbell is rung while an idle adapter loses its power: the work runs",
    marks: &[STAYED, WOKEN],
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
    plant(platform, bug, &[(NO_LOOK, "announced work unseen")]);
    let power = PowerManagement::Managed;
    let left_out = if bug == Some("not-resumed") { LeftOut::Resume } else { LeftOut::Nothing };
    let world = World::new(platform, Setting { power, left_out, ..Setting::default() });
    let queue = world.queue("copy", Submission::User, 0);
    let list = world.empty_list();
    queue.execute(&[&list]).expect("a submission");
    let (spawner, submitter, adapter) =
        (platform.clone(), queue.clone(), world.machine.adapter().clone());
    let main = move || {
        spawner.spawn("power", move || {
            adapter.power_down_if_idle().expect("power is managed");
        });
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
        end.sometimes(WOKEN, world.probe.seen(notes::POWERED).is_some());
        world.must_be_sound(end);
        drop(queue);
    })
}
