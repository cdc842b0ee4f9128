//! A ring against the loss of its doorbell: two user-mode queues of one engine share one physical
//! doorbell, so each submission may find that the other queue has taken it.
//!
//! The first queue is connected before the run begins; in the run both submit. Each submission runs
//! exactly once, the last one too, though no ring follows it.

use crate::prelude::*;

const VICTIMISED: &str = "a doorbell was taken away";
const RETRIED: &str = "a ring met no hardware, and was repeated";
const LAST_LOOK: &str = "a ring met the doorbell before it was taken away";

pub(crate) const RACE: Race = Race {
    name: "ring-against-victimise",
    about: "two queues with one physical doorbell between them submit at once: each submission runs exactly once",
    marks: &[VICTIMISED, RETRIED, LAST_LOOK],
    planted: &[Bug {
        name: "victim-not-told",
        about: "the driver takes a doorbell away without DxgkCbDisconnectDoorbell: its process still reads CONNECTED",
        fault: Fault::Driver(LeftOut::VictimNotice),
    }],
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world(one_doorbell);
    let [first, second] = ["first", "second"].map(|name| world.queue(name, Submission::User));
    let (one, two) = (world.fence("one"), world.fence("two"));
    first.signal(&one, 1).expect("a submission");
    let (ringer, other) = (first.clone(), second.clone());
    let (of_first, of_second) = (one.clone(), two.clone());
    let main = move |platform: &Platform| {
        platform.spawn("second", move || ends_well(other.signal(&of_second, 1)));
        ends_well(ringer.signal(&of_first, 2));
    };
    world.race(main, move |world, end| {
        let values = (one.completed_value(), two.completed_value());
        end.eventually("every submission runs", values == (2, 1));
        end.always("each submission runs once", world.machine.gpu().stats().signals == 3);
        let retries = (first.stats().retries, second.stats().retries);
        end.sometimes(VICTIMISED, world.noted(notes::VICTIMISED));
        end.sometimes(RETRIED, retries.0 > 0);
        end.sometimes(LAST_LOOK, retries == (0, 0));
    })
}
