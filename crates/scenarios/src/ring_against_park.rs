//! A ring against an engine that goes to sleep: a doorbell's store wakes no engine, so the ringer
//! loads the wake word after it, and the engine reads its doorbells once more after it has announced
//! that it sleeps.
//!
//! The doorbell is connected, by a first submission, before the run begins; in the run a second one
//! is made while the engine takes the first and goes to sleep.

use crate::prelude::*;

const ONE_LOOK: &str = "one read of the doorbell found both submissions";
const TWO_LOOKS: &str = "the second submission was found by a read of its own";

pub(crate) const RACE: Race = Race {
    name: "ring-against-park",
    about: "a doorbell is rung while its engine goes to sleep: the work runs",
    marks: &[ONE_LOOK, TWO_LOOKS],
    planted: &[Bug {
        name: "no-hint",
        about: "the ringer stores to the doorbell and does not check whether the engine sleeps",
        fault: Fault::Driver(LeftOut::RingHint),
    }],
    plans: Plans::all(exhaustive(1_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world(|_| ());
    let (queue, fence) = (world.queue("copy", Submission::User), world.fence("done"));
    queue.signal(&fence, 1).expect("a submission");
    let signalled = fence.clone();
    let main = move |_: &Platform| ends_well(queue.signal(&signalled, 2));
    world.race(main, move |world, end| {
        let stats = world.machine.gpu().stats();
        end.eventually("both submissions run", fence.completed_value() == 2);
        end.always("each submission runs once", stats.signals == 2);
        end.sometimes(ONE_LOOK, stats.doorbell_looks == 1);
        end.sometimes(TWO_LOOKS, stats.doorbell_looks > 1);
    })
}
