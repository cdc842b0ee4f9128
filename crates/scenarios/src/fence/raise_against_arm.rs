//! A CPU signal releases a waiter and raises MonitoredValue, while a thread begins to wait for a
//! value that an engine signals next. The kernel raises the value by a store under the lock of the
//! waiters (decisions/0094), and the driver lowers it for the new waiter.

use crate::prelude::*;

const INTERRUPT: &str = "the engine interrupted";
const NONE: &str = "the engine did not interrupt";

pub(crate) const RACE: Race = Race {
    name: "raise-against-arm",
    about: "a CPU signal raises MonitoredValue while a wait lowers it: the wait is released",
    marks: &[INTERRUPT, NONE],
    planted: bugs! {
        "late-raise" => Product(PlantedFault::MonitoredValueRaisedWithoutTheLock),
            "MonitoredValue is raised after the lock of the waiters was dropped: a lower value is lost";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::of(sampled(5_000), bounded(2, 20_000_000), sampled(100_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let fence = world.fence("gate");
    let queue = world.queue("queue", Submission::User);
    queue.wait(&fence, 1).expect("a submission");
    queue.signal(&fence, 2).expect("a submission");
    let event = world.keep(world.device.create_event(EventDesc::manual_reset()));
    fence.set_event_on_completion(1, &event).expect("a registration");
    let (waited, signalled) = (fence.clone(), fence.clone());
    let main = move |platform: &Platform| {
        platform.spawn("signaller", move || assert_ok(signalled.signal(1)));
        assert_ok(waited.wait(2));
    };
    world.race(main, move |world, end| {
        let interrupts = world.machine.gpu().stats().interrupts_raised;
        end.always("the first waiter was released", event.is_set());
        end.always("the fence has its last value", fence.completed_value() == 2);
        end.always("no MonitoredValue is armed", world.monitored.all_disarmed());
        end.sometimes(INTERRUPT, interrupts > 0);
        end.sometimes(NONE, interrupts == 0);
    })
}
