//! The cancellation of a wait against the signal that would satisfy it. A CPU thread waits for any
//! of two fences. One is signalled; the other is signalled while its registration is cancelled.
//!
//! Both signals are in one ring before the run begins. Afterwards no wait is registered and both
//! MonitoredValues are disarmed.

use crate::prelude::*;

const INTERRUPTED: &str = "a signal interrupted for the wait";
const AT_ONCE: &str = "the wait was satisfied without arming a fence";

pub(crate) const RACE: Race = Race {
    name: "cancel-against-signal",
    about: "a wait for any of two fences is satisfied by one while the other is signalled: no fence stays armed",
    marks: &[INTERRUPTED, AT_ONCE],
    planted: bugs! {
        "no-disarm" => Driver(LeftOut::Disarm),
            "the driver omits the update that disarms MonitoredValue: every later signal interrupts without a waiter";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::of(bounded(2, 1_000_000), exhaustive(20_000_000), bounded(1, 1_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let queue = world.queue("copy", Submission::User);
    let (first, second) = (world.fence("first"), world.fence("second"));
    queue.signal(&first, 1).expect("a submission");
    queue.signal(&second, 1).expect("a submission");
    let (device, waited) = (world.device.clone(), (first.clone(), second.clone()));
    let main = move |_: &Platform| {
        let both = [(&waited.0, 1), (&waited.1, 1)];
        assert_ok(device.wait_multiple(&both, WaitMode::Any));
    };
    world.race(main, move |world, end| {
        let values = (first.completed_value(), second.completed_value());
        end.always("both fences have the signalled value", values == (1, 1));
        end.always("no MonitoredValue is armed", world.monitored.all_disarmed());
        end.sometimes(INTERRUPTED, world.noted(notes::INTERRUPTED));
        end.sometimes(AT_ONCE, !world.noted(notes::ARMED));
    })
}
