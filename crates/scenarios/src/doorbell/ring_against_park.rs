//! A ring against an engine that goes to sleep. A doorbell's store wakes no engine, so the ringer
//! loads the wake word after it. The engine sets the wake word and then reads its doorbells again.
//! While it keeps the queue, it loads the doorbell and leaves its bit in the summary, which the
//! ringer only loads if it is set.
//!
//! A first submission connects the doorbell before the run begins. In the run a second one is made
//! while the engine runs the first and goes to sleep.

use crate::prelude::*;

const ONE_READ: &str = "one read of the doorbell found both submissions";
const TWO_READS: &str = "a separate read found the second submission";

pub(crate) const RACE: Race = Race {
    name: "ring-against-park",
    about: "a doorbell is rung while its engine goes to sleep: the work runs",
    marks: &[ONE_READ, TWO_READS],
    planted: bugs! {
        "no-hint" => Driver(LeftOut::RingHint),
            "the ringer stores to the doorbell and does not check whether the engine sleeps";
        "no-summary-barrier" => Product(PlantedFault::NoSummaryBarrier),
            "the ringer loads its bit of the summary before its doorbell's store is visible";
        "forgets-its-bit" => Product(PlantedFault::ForgetsItsBit),
            "the engine clears the bit of the queue that it kept, after its last load of the doorbell";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::all(exhaustive(1_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let (queue, fence) = (world.queue("copy", Submission::User), world.fence("done"));
    queue.signal(&fence, 1).expect("a submission");
    let signalled = fence.clone();
    let main = move |_: &Platform| assert_ok(queue.signal(&signalled, 2));
    world.race(main, move |world, end| {
        let stats = world.machine.gpu().stats();
        end.eventually("both submissions run", fence.completed_value() == 2);
        end.always("each submission runs once", stats.signals == 2);
        end.sometimes(ONE_READ, stats.doorbell_reads == 1);
        end.sometimes(TWO_READS, stats.doorbell_reads > 1);
    })
}
