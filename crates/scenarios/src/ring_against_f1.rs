//! A ring against an engine that loses its power: the driver has found the engine idle, and work is
//! rung before the kernel has taken the doorbell away. The process reads CONNECTED and returns; no
//! later ring would make up for it.
//!
//! The doorbell is connected, by a first submission, before the run begins; in the run a second one
//! is made while another agent takes the power of idle engines.

use crate::prelude::*;

const STAYED: &str = "the engine stayed because of the ring";
const BROUGHT_BACK: &str = "the ring met no hardware, and its connect brought the engine back";
const AFTER: &str = "the work was done, and then the power went";

pub(crate) const RACE: Race = Race {
    name: "ring-against-f1",
    about: "a doorbell is rung while its idle engine loses its power: the work runs",
    marks: &[STAYED, BROUGHT_BACK, AFTER],
    planted: &[Bug {
        name: "no-look",
        about: "the kernel takes the engine's power without a check for work that was rung before the doorbells went",
        fault: Fault::Product("announced work unseen"),
    }],
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world(managed_power);
    let (queue, list) = (world.queue("copy", Submission::User), world.empty_list());
    queue.execute(&[&list]).expect("a submission");
    let adapter = world.machine.adapter().clone();
    let main = move |platform: &Platform| {
        platform.spawn("power", move || adapter.power_down_idle_engines());
        ends_well(queue.execute(&[&list]));
    };
    world.race(main, move |world, end| {
        let packets = world.machine.gpu().stats().nodes[0].packets;
        end.eventually("both submissions run", packets == 2);
        end.always("each submission runs once", packets <= 2);
        let (taken, given) = (world.noted(notes::UNPOWERED), world.noted(notes::POWERED));
        end.sometimes(STAYED, world.noted(notes::DISCONNECTED) && !taken);
        end.sometimes(BROUGHT_BACK, given);
        end.sometimes(AFTER, taken && !given);
    })
}
