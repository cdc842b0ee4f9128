//! Two connects against each other. Two user-mode queues of one engine share one physical doorbell,
//! which a third one holds, and connect concurrently. Each connect victimises the other queue. The
//! kernel's transition lock must therefore admit the driver's callback on the agent that owns the
//! connect, and no other agent.
//!
//! With one lock per doorbell, each connect would hold its own and request the other's, which
//! deadlocks. The planted bug has the same shape with one lock.

use crate::prelude::*;

const EACH_OTHER: &str = "each queue victimised the other";
const ONE_WAY: &str = "one queue connected once, after the other had finished";
const REPEATED: &str = "one queue connected twice";

pub(crate) const RACE: Race = Race {
    name: "connect-against-connect",
    about: "two victimised queues connect to the only doorbell concurrently: both continue, and each submission runs once",
    marks: &[EACH_OTHER, ONE_WAY, REPEATED],
    planted: bugs! {
        "callback-on-another-agent" => Driver(LeftOut::CallbackOwner),
            "the driver makes DxgkCbDisconnectDoorbell on a worker and waits for it: the worker waits for the transition";
    },
    shape: Shape::Machine(&[setting::ONE_DOORBELL]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = Run { bug: None, ..*run }.world();
    let queues = ["first", "second", "third"].map(|name| world.queue(name, Submission::User));
    let fences = ["one", "two", "three"].map(|name| world.fence(name));
    for (queue, fence) in queues.iter().zip(&fences) {
        queue.signal(fence, 1).expect("a submission");
    }
    world.leave_out(run.left_out());
    let before = [0, 1].map(|n: usize| queues[n].stats().connects);
    let ([first, second, _], [one, two, _]) = (queues.clone(), fences.clone());
    let main = move |platform: &Platform| {
        platform.spawn("second", move || assert_ok(second.signal(&two, 2)));
        assert_ok(first.signal(&one, 2));
    };
    world.race(main, move |world, end| {
        let values = fences.each_ref().map(|fence| fence.completed_value());
        end.eventually("every submission runs", values == [2, 2, 1]);
        end.always("each submission runs once", world.machine.gpu().stats().signals == 5);
        let connects = [0, 1].map(|n: usize| queues[n].stats().connects - before[n]);
        let both = connects.iter().all(|n| *n > 0);
        end.sometimes(EACH_OTHER, both && world.noted(notes::VICTIMISED));
        end.sometimes(ONE_WAY, connects == [1, 1]);
        end.sometimes(REPEATED, connects.iter().any(|n| *n > 1));
    })
}
