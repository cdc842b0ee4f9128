//! The writer of a fence log against its reader (the native fence document). The GPU puts no
//! barrier between a log entry and the index that counts it, and an interrupt may make the kernel
//! read in between. The kernel reads each counted entry once: if it is not visible yet, its waiter
//! is lost. The driver's part in UpdateNativeFenceLogs prevents that.
//!
//! Two engines signal one fence each, with one waiter each. Interrupts name both queues, so each
//! interrupt reads both logs. Entries are posted and may become visible after their index.

use crate::prelude::*;

const READ: &str = "a log with new entries was read";
const BOTH: &str = "one interrupt found new entries of both queues";

pub(crate) const RACE: Race = Race {
    name: "log-write-against-log-read",
    about: "an interrupt reads the log of another engine's queue while that engine writes it: no waiter is lost",
    marks: &[READ, BOTH],
    planted: bugs! {
        "no-flush" => Driver(LeftOut::LogFlush),
            "UpdateNativeFenceLogs does nothing: the index is read before its entry is visible";
    },
    shape: Shape::Machine(&[
        setting::OWN_THREADS,
        setting::WORKER_INTERRUPTS,
        setting::POSTED_LOG_ENTRIES,
        setting::NAMED_QUEUES,
    ]),
    plans: Plans::of(sampled(45_000), bounded(2, 20_000_000), sampled(400_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = Run { names_all_queues: true, ..*run }.world();
    let queues = [0, 1].map(|node| world.queue_at(node, "copy"));
    let fences = [world.fence("first"), world.fence("second")];
    for (queue, fence) in queues.iter().zip(&fences) {
        queue.signal(fence, 1).expect("a submission");
    }
    let [first, second] = fences.clone();
    let main = move |platform: &Platform| {
        platform.spawn("other", move || assert_ok(second.wait(1)));
        assert_ok(first.wait(1));
    };
    world.race(main, move |world, end| {
        let flushed = world.probe.seen(notes::FLUSHED);
        let values = fences.each_ref().map(|fence| fence.completed_value());
        end.always("both fences are signalled", values == [1, 1]);
        end.sometimes(READ, flushed.is_some());
        end.sometimes(BOTH, flushed == Some(2));
    })
}
