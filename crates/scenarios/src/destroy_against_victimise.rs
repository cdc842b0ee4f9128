//! The end of doorbells against the loss of one: a queue connects and takes the only physical
//! doorbell from another, while another agent destroys a queue that was never connected, and then
//! the one that loses it. The callback by which the driver takes a doorbell away runs inside the
//! connect's transition. Other agents may give up the doorbell meanwhile, and its end needs that
//! transition. This driver also reports, each time, that the doorbell which was never connected is
//! lost.

use crate::prelude::*;
use tidegate::platform::WaitEnd;

const VICTIMISED: &str = "the doorbell was taken away";
const FREE: &str = "the doorbell was free by then";

/// The note that both ends are over.
const ENDED: usize = notes::OWN;

pub(crate) const RACE: Race = Race {
    name: "destroy-against-victimise",
    about: "a queue takes the only physical doorbell while its owner, and another queue, are destroyed: all of them end",
    marks: &[VICTIMISED, FREE],
    planted: &[],
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = Run { first_doorbell_lost: true, ..*run }.world(one_doorbell);
    // Not kept: their last handles are dropped in the run.
    let [idle, victim] =
        ["idle", "victim"].map(|name| queue_on(&world.device, name, Submission::User));
    let second = world.queue("second", Submission::User);
    let (before, done) = (world.fence("before"), world.fence("done"));
    victim.signal(&before, 1).expect("a submission");
    let (probe, fence) = (world.probe.clone(), done.clone());
    let main = move |platform: &Platform| {
        let other = platform.spawn("other", move || {
            drop(idle);
            drop(victim);
        });
        ends_well(second.signal(&fence, 1));
        if other.join() == WaitEnd::Woken {
            probe.note(ENDED, 1);
        }
    };
    world.race(main, move |world, end| {
        let victimised = world.noted(notes::VICTIMISED);
        end.eventually("the queues end", world.noted(ENDED));
        end.eventually("the one that is left works", done.completed_value() == 1);
        end.sometimes(VICTIMISED, victimised);
        end.sometimes(FREE, !victimised);
    })
}
