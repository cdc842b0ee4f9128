//! A ring against an adapter that loses its power: contexts are suspended, doorbells disconnected,
//! and then the power goes, while a process rings. Its ring may meet the hardware before the
//! doorbell is taken away, so that it reads CONNECTED.
//!
//! The doorbell is connected, by a first submission, before the run begins; in the run a second one
//! is made while another agent takes the power of an idle adapter.

use crate::prelude::*;

const STAYED: &str = "the adapter stayed because of the ring";
const WOKEN: &str = "the ring met no hardware, and its connect woke the adapter";

pub(crate) const RACE: Race = Race {
    name: "ring-against-d3",
    about: "a doorbell is rung while an idle adapter loses its power: the work runs",
    marks: &[STAYED, WOKEN],
    planted: &[
        Bug {
            name: "no-look",
            about: "the kernel takes the power without a check for work that was rung before the doorbells went",
            fault: Fault::Product("announced work unseen"),
        },
        Bug {
            name: "not-resumed",
            about: "contexts stay suspended when the power is back",
            fault: Fault::Driver(LeftOut::Resume),
        },
    ],
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world(managed_power);
    let (queue, list) = (world.queue("copy", Submission::User), world.empty_list());
    queue.execute(&[&list]).expect("a submission");
    let adapter = world.machine.adapter().clone();
    let main = move |platform: &Platform| {
        platform.spawn("power", move || {
            adapter.power_down_if_idle().expect("power is managed");
        });
        ends_well(queue.execute(&[&list]));
    };
    world.race(main, move |world, end| {
        let packets = world.machine.gpu().stats().nodes[0].packets;
        end.eventually("both submissions run", packets == 2);
        end.always("each submission runs once", packets <= 2);
        let taken = world.noted(notes::UNPOWERED);
        end.sometimes(STAYED, world.noted(notes::DISCONNECTED) && !taken);
        end.sometimes(WOKEN, world.noted(notes::POWERED));
    })
}
