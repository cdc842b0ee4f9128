//! Two engines signal fences of two processes while interrupts run on an agent of their own. Both
//! fences stand at the same address, each in its own address space. One interrupt may report both
//! signals; a signal that comes while the interrupt routine runs needs another one.
//!
//! Two waiters are needed: a lost interrupt shows only when no later one makes up for it.

use crate::prelude::*;

const BOTH_IN_ONE: &str = "one interrupt reported both fences";
const ONE_EACH: &str = "each fence had an interrupt of its own";

pub(crate) const RACE: Race = Race {
    name: "two-interrupts",
    about: "two engines signal fences of two processes at one address, with interrupts on an agent: both waiters are released",
    marks: &[BOTH_IN_ONE, ONE_EACH],
    planted: &[
        Bug {
            name: "line-cleared-late",
            about: "the interrupt line is cleared after the routine: an interrupt that comes while it runs is lost",
            fault: Fault::Driver(LeftOut::InterruptInRoutine),
        },
        Bug {
            name: "fences-told-by-address",
            about: "the list of signalled fences knows addresses, not processes: of two at one address the second is dropped",
            fault: Fault::Driver(LeftOut::SecondAtAddress),
        },
    ],
    plans: Plans::of(sampled(30_000), bounded(2, 20_000_000), sampled(100_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world(|config| {
        engines(config, 2);
        worker_interrupts(config);
    });
    let neighbour = world.another_device();
    let fences = [&world.device, &neighbour]
        .map(|device| world.keep(device.create_fence("done", 0).expect("a fence")));
    let queues = [
        world.queue_at(0, "first"),
        world.keep(queue_of(&neighbour, "second", Priority::Normal, Submission::User, 1)),
    ];
    for (queue, fence) in queues.iter().zip(&fences) {
        queue.signal(fence, 1).expect("a submission");
    }
    let [first, second] = fences.clone();
    let main = move |platform: &Platform| {
        platform.spawn("other", move || ends_well(second.wait(1)));
        ends_well(first.wait(1));
    };
    world.race(main, move |world, end| {
        let seen = |note| world.probe.seen(note);
        let values = fences.each_ref().map(|fence| fence.completed_value());
        end.always("both fences are signalled", values == [1, 1]);
        let places = (seen(notes::FIRST_FENCE_AT), seen(notes::SECOND_FENCE_AT));
        end.always("both fences stand at one address", places.0.is_some() && places.0 == places.1);
        let reported_both = seen(notes::REPORTED_AGAIN).is_some();
        let again = seen(notes::INTERRUPTED_AGAIN).is_some();
        end.sometimes(BOTH_IN_ONE, reported_both && !again);
        end.sometimes(ONE_EACH, reported_both && again);
    })
}
