//! Two engines signal fences of two processes, and interrupts run on their own agent. Both fences
//! have the same address, each in its own address space. One interrupt may report both signals. A
//! signal during the interrupt routine needs another interrupt.
//!
//! There are two waiters, because a later interrupt would compensate for a lost one.

use crate::prelude::*;

const BOTH_IN_ONE: &str = "one interrupt reported both fences";
const ONE_EACH: &str = "each fence had its own interrupt";

pub(crate) const RACE: Race = Race {
    name: "two-interrupts",
    about: "two engines signal fences of two processes at one address, with interrupts on an agent: both waiters are released",
    marks: &[BOTH_IN_ONE, ONE_EACH],
    planted: bugs! {
        "line-cleared-late" => Driver(LeftOut::InterruptInRoutine),
            "the interrupt line is cleared after the routine: an interrupt during the routine is lost";
        "fences-by-address" => Driver(LeftOut::SecondAtAddress),
            "the list of signalled fences ignores the process: the second of two fences at one address is dropped";
    },
    shape: Shape::Machine(&[setting::OWN_THREADS, setting::WORKER_INTERRUPTS]),
    plans: Plans::of(sampled(30_000), bounded(2, 20_000_000), sampled(100_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
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
        platform.spawn("other", move || assert_ok(second.wait(1)));
        assert_ok(first.wait(1));
    };
    world.race(main, move |world, end| {
        let seen = |note| world.probe.seen(note);
        let values = fences.each_ref().map(|fence| fence.completed_value());
        end.always("both fences are signalled", values == [1, 1]);
        let places = (seen(notes::FIRST_FENCE_AT), seen(notes::SECOND_FENCE_AT));
        end.always("both fences have the same address", places.0.is_some() && places.0 == places.1);
        let reported_both = seen(notes::REPORTED_AGAIN).is_some();
        let again = seen(notes::INTERRUPTED_AGAIN).is_some();
        end.sometimes(BOTH_IN_ONE, reported_both && !again);
        end.sometimes(ONE_EACH, reported_both && again);
    })
}
