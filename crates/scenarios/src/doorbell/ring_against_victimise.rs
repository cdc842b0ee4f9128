//! A ring against victimisation. Two user-mode queues of one engine share one physical doorbell, so
//! each submission may find that the other queue has taken it.
//!
//! The first queue is connected before the run begins; in the run both submit. Each submission runs
//! exactly once, including the last one, which no later ring follows.

use crate::prelude::*;

const VICTIMISED: &str = "a doorbell was victimised";
const RETRIED: &str = "a ring missed the hardware and was repeated";
const LAST_READ: &str = "a ring reached the doorbell before it was victimised";

pub(crate) const RACE: Race = Race {
    name: "ring-against-victimise",
    about: "two queues that share one physical doorbell submit concurrently: each submission runs exactly once",
    marks: &[VICTIMISED, RETRIED, LAST_READ],
    planted: bugs! {
        "victim-not-notified" => Driver(LeftOut::VictimNotice),
            "the driver victimises a doorbell without DxgkCbDisconnectDoorbell: its process still reads CONNECTED";
    },
    shape: Shape::Machine(&[setting::ONE_DOORBELL]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let [first, second] = ["first", "second"].map(|name| world.queue(name, Submission::User));
    let (one, two) = (world.fence("one"), world.fence("two"));
    first.signal(&one, 1).expect("a submission");
    let (ringer, other) = (first.clone(), second.clone());
    let (of_first, of_second) = (one.clone(), two.clone());
    let main = move |platform: &Platform| {
        platform.spawn("second", move || assert_ok(other.signal(&of_second, 1)));
        assert_ok(ringer.signal(&of_first, 2));
    };
    world.race(main, move |world, end| {
        let values = (one.completed_value(), two.completed_value());
        end.eventually("every submission runs", values == (2, 1));
        end.always("each submission runs once", world.machine.gpu().stats().signals == 3);
        let retries = (first.stats().retries, second.stats().retries);
        end.sometimes(VICTIMISED, world.noted(notes::VICTIMISED));
        end.sometimes(RETRIED, retries.0 > 0);
        end.sometimes(LAST_READ, retries == (0, 0));
    })
}
