//! A CPU wait that is used again against the signal that ended its last use. The first wait is for
//! any of two values of one fence, and one signal reaches both. It releases the waiter with the
//! first registration, calls the same wait for the second one, and removes what is left. Meanwhile
//! the waiter waits for another fence, with the same wait and the same event.
//!
//! The second wait ends with its own signal: neither earlier, nor never.

use crate::prelude::*;

const BLOCKED: &str = "the second wait was entered before its signal";
const AT_ONCE: &str = "the second wait found its fence signalled";

/// The value of the second fence when the second wait was entered, and when it was over.
const ENTERED: usize = notes::OWN;
const OVER: usize = notes::OWN + 1;

pub(crate) const RACE: Race = Race {
    name: "reused-wait-against-signal",
    about: "a CPU wait is used again while the signal that ended its last use goes on: it ends with its own signal",
    marks: &[BLOCKED, AT_ONCE],
    planted: bugs! {
        "late-signal" => Product(PlantedFault::LateSignalEndsTheNextWait),
            "a signal of an earlier use ends the wait: the caller returns before its value is reached";
        "late-removal" => Product(PlantedFault::RegistrationsTakenAfterTheNotice),
            "the signal takes the registrations after its notice: it removes those of the next use, which nothing ends";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::of(bounded(1, 1_000_000), exhaustive(20_000_000), bounded(2, 1_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let (first, second) = (world.fence("first"), world.fence("second"));
    let (device, probe) = (world.device.clone(), world.probe.clone());
    let of_main = (first.clone(), second.clone());
    let main = move |platform: &Platform| {
        platform.spawn("signaller", move || {
            assert_ok(first.signal(2));
            assert_ok(second.signal(1));
        });
        let (first, second) = of_main;
        assert_ok(device.wait_multiple(&[(&first, 1), (&first, 2)], WaitMode::Any));
        probe.note(ENTERED, second.completed_value());
        assert_ok(second.wait(1));
        probe.note(OVER, second.completed_value());
    };
    world.race(main, move |world, end| {
        end.always("the second wait ends with its own signal", world.probe.seen(OVER) == Some(1));
        end.always("no wait is registered", world.machine.adapter().census().fence_waits == 0);
        end.always("no MonitoredValue is armed", world.monitored.all_disarmed());
        let was_reached = world.probe.seen(ENTERED) == Some(1);
        end.sometimes(BLOCKED, !was_reached);
        end.sometimes(AT_ONCE, was_reached);
    })
}
