//! Two signallers against one waiter: an engine signals 1, a CPU thread signals 2, and another
//! thread waits for 1. The last store determines the value of the fence. In either order 1 was
//! reached, so the waiter is released.

use crate::prelude::*;

const CPU_LAST: &str = "the CPU's value is last";
const GPU_LAST: &str = "the engine's value is last";
const INTERRUPTED: &str = "the engine's signal interrupted";

pub(crate) const RACE: Race = Race {
    name: "two-signallers",
    about: "an engine and a CPU thread signal one fence while another thread begins to wait: it is released in every order",
    marks: &[CPU_LAST, GPU_LAST, INTERRUPTED],
    planted: &[],
    shape: Shape::Machine(&[setting::WORKER_INTERRUPTS]),
    plans: Plans::of(sampled(30_000), bounded(1, 20_000_000), sampled(100_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let (queue, fence) = (world.queue("copy", Submission::User), world.fence("shared"));
    queue.signal(&fence, 1).expect("a submission");
    let (waited, signalled) = (fence.clone(), fence.clone());
    let main = move |platform: &Platform| {
        platform.spawn("signaller", move || assert_ok(signalled.signal(2)));
        assert_ok(waited.wait(1));
    };
    world.race(main, move |world, end| {
        let value = fence.completed_value();
        end.always("the fence has one of the two values", value == 1 || value == 2);
        end.always("no MonitoredValue is armed", world.monitored.all_disarmed());
        end.sometimes(CPU_LAST, value == 2);
        end.sometimes(GPU_LAST, value == 1);
        end.sometimes(INTERRUPTED, world.noted(notes::INTERRUPTED));
    })
}
