//! Two CPU waiters for one value against its signal. The second finds MonitoredValue armed for it
//! and publishes nothing. If the first is released between the second's read of the fence and its
//! registration, only the second's own check finds the value.

use crate::prelude::*;

const INTERRUPTED: &str = "the engine's signal interrupted";
const AT_ONCE: &str = "no waiter armed the fence";

pub(crate) const RACE: Race = Race {
    name: "two-waiters",
    about: "two CPU threads begin to wait for one value while an engine signals it: both are released",
    marks: &[INTERRUPTED, AT_ONCE],
    planted: &[],
    // Losing a waiter takes two forced switches.
    shape: Shape::Machine(&[setting::WORKER_INTERRUPTS]),
    plans: Plans::of(sampled(30_000), bounded(2, 20_000_000), sampled(100_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let (queue, fence) = (world.queue("copy", Submission::User), world.fence("shared"));
    queue.signal(&fence, 1).expect("a submission");
    let (first, second) = (fence.clone(), fence);
    let main = move |platform: &Platform| {
        platform.spawn("second waiter", move || assert_ok(second.wait(1)));
        assert_ok(first.wait(1));
    };
    world.race(main, move |world, end| {
        end.always("no MonitoredValue is armed", world.monitored.all_disarmed());
        end.sometimes(INTERRUPTED, world.noted(notes::INTERRUPTED));
        end.sometimes(AT_ONCE, !world.noted(notes::ARMED));
    })
}
