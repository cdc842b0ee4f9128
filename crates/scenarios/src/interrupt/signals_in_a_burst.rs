//! An engine signals two values of a fence in a row, for each of which a thread waits. The second
//! signal comes soon after the interrupt for the first, so the engine holds it back
//! (decisions/0107). It must interrupt for it before it leaves the ring.

use crate::prelude::*;

const NONE: &str = "both waits found the value";
const ONE: &str = "one interrupt";
const TWO: &str = "two interrupts";

pub(crate) const RACE: Race = Race {
    name: "signals-in-a-burst",
    about: "an engine signals two values in a row, each of which a thread awaits: both waits end",
    marks: &[NONE, ONE, TWO],
    planted: bugs! {
        "forgotten" => Product(PlantedFault::HeldSignalsForgotten),
            "the engine leaves the ring without an interrupt for the signals that it holds back";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::of(sampled(5_000), bounded(2, 20_000_000), sampled(20_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let fence = world.fence("done");
    let queue = world.queue("queue", Submission::User);
    for value in 1..=2 {
        queue.signal(&fence, value).expect("a submission");
    }
    let (first, second) = (fence.clone(), fence.clone());
    let main = move |platform: &Platform| {
        platform.spawn("first", move || assert_ok(first.wait(1)));
        assert_ok(second.wait(2));
    };
    world.race(main, move |world, end| {
        let interrupts = world.machine.gpu().stats().interrupts_raised;
        end.always("the fence has its last value", fence.completed_value() == 2);
        end.always("no MonitoredValue is armed", world.monitored.all_disarmed());
        end.always("no signal interrupts twice", interrupts <= 2);
        end.sometimes(NONE, interrupts == 0);
        end.sometimes(ONE, interrupts == 1);
        end.sometimes(TWO, interrupts == 2);
    })
}
