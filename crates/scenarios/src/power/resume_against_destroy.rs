//! A suspension and its end against the destruction of the queue. The driver finds the queues of
//! the context under its lock, and sends a command for each without the lock. Meanwhile the process
//! destroys a queue.
//!
//! A queue that is gone counts as suspended and as resumed. Its command fails at the hardware, and
//! the call itself does not fail.

use crate::prelude::*;

const RESUMED: &str = "the context was resumed before the queue was destroyed";
const GONE: &str = "the queue was destroyed before the end of the suspension";

pub(crate) const RACE: Race = Race {
    name: "resume-against-destroy",
    about: "a context is suspended and resumed while its process destroys the queue: both calls succeed",
    marks: &[RESUMED, GONE],
    planted: bugs! {
        "queue-gone" => Product(PlantedFault::FailsForAQueueThatIsGone),
            "the driver fails a resumption whose queue another thread has destroyed";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::of(sampled(30_000), bounded(1, 20_000_000), sampled(100_000)),
    prepare,
};

/// Notes: the suspension ended, and the queue was destroyed before.
const ENDED: usize = notes::OWN;
const DESTROYED: usize = notes::OWN + 1;

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let client = world.client("app");
    let queue = client.hw_queue();
    let (kernel, adapter) = (client.kernel.clone(), world.machine.adapter().clone());
    let (probe, over) = (world.probe.clone(), world.probe.clone());
    let main = move |platform: &Platform| {
        let suspender = platform.spawn("suspender", move || {
            let suspended = adapter.suspend_contexts().expect("the adapter works");
            suspended.resume();
            probe.note(ENDED, u64::from(probe.seen(DESTROYED).is_some()));
        });
        kernel.destroy_hw_queue(queue.handle).expect("the queue exists");
        over.note(DESTROYED, 1);
        suspender.join();
    };
    world.race(main, move |world, end| {
        let after = world.probe.seen(ENDED);
        end.eventually("the suspension ends", after.is_some());
        end.always("no engine is reset", world.machine.adapter().recoveries().is_empty());
        end.sometimes(RESUMED, after == Some(0));
        end.sometimes(GONE, after == Some(1));
    })
}
