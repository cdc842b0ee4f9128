//! A resume against powering down an engine. A context is suspended when the run begins. Its
//! process rings a signal, which announces no progress value, so only the hardware knows of the
//! work. Then the context is resumed, and another agent powers down idle engines at any time.
//!
//! The doorbell was connected before the run begins. A suspended queue's doorbell is not read, so
//! the disconnect finds the ring.

use crate::prelude::*;

const REFUSED: &str = "the ring of the suspended context kept the engine powered";
const BROUGHT_BACK: &str = "the ring missed the hardware, and its connect powered up the engine";
const RESUMED: &str = "the signal executed before the power-down";

pub(crate) const RACE: Race = Race {
    name: "resume-against-f1",
    about: "a suspended context's doorbell is rung and the context resumed while its engine is powered down: the work runs",
    marks: &[REFUSED, BROUGHT_BACK, RESUMED],
    planted: bugs! {
        "suspended-is-idle" => Product(PlantedFault::SuspendedWorkUnseen),
            "the hardware does not count work of suspended queues when it removes an engine's power";
    },
    shape: Shape::Machine(&[setting::MANAGED_POWER]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let (queue, fence) = (world.queue("copy", Submission::User), world.fence("done"));
    queue.signal(&fence, 1).expect("a submission");
    let adapter = world.machine.adapter().clone();
    let signalled = fence.clone();
    let main = move |platform: &Platform| {
        // The first signal has executed: no power is needed for it.
        sleep_until_idle(platform);
        let suspended = adapter.suspend_contexts().expect("the adapter works");
        platform.spawn("power", move || adapter.power_down_idle_engines());
        assert_ok(queue.signal(&signalled, 2));
        suspended.resume();
    };
    world.race(main, move |world, end| {
        end.eventually("both signals execute", fence.completed_value() == 2);
        end.always("each signal executes once", world.machine.gpu().stats().signals == 2);
        let stats = world.machine.adapter().stats();
        // The driver was asked for F1 of the queue's engine and refused. The other engines have no
        // work.
        let refused = stats.power_downs_given_up > 0;
        let (gone, powered_up) =
            (world.noted(notes::UNPOWERED) && !refused, world.noted(notes::POWERED));
        end.sometimes(REFUSED, refused);
        end.sometimes(BROUGHT_BACK, gone && powered_up);
        end.sometimes(RESUMED, gone && !powered_up);
    })
}
