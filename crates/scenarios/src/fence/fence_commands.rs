//! A wait in the middle of a command buffer of a hardware queue against a signal in another one.
//! The waiting queue enters the table, increments the armed word and checks its fence again, then
//! goes on in the middle of its command buffer. No software takes part.
//!
//! Both command buffers are submitted before the run begins.

use crate::prelude::*;

const STALLED: &str = "the queue parked in its command buffer before the signal";
const PASSED: &str = "the signal came before the wait";

pub(crate) const RACE: Race = Race {
    name: "fence-commands",
    about: "a hardware queue reaches a wait in its command buffer while another engine signals: the rest of the buffer runs",
    marks: &[STALLED, PASSED],
    planted: bugs! {
        "no-gpu-barrier" => Product(PlantedFault::NoSignalBarrier),
            "the signaller reads the armed word while its CurrentValue is still in its store buffer";
        "latched-as-done" => Product(PlantedFault::LatchedWaitEndsItsCommandBuffer),
            "a queue whose wait latches before its engine parks it skips the rest of its command buffer";
    },
    shape: Shape::Machine(&[setting::OWN_THREADS]),
    plans: Plans::of(exhaustive(1_000_000), exhaustive(20_000_000), bounded(2, 1_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let producer = world.hw_queue_at(0, "producer");
    let consumer = world.hw_queue_at(1, "consumer");
    let (ready, done) = (world.fence("ready"), world.fence("done"));
    consumer.wait(&ready, 1).expect("a submission");
    consumer.signal(&done, 1).expect("a submission");
    producer.signal(&ready, 1).expect("a submission");
    world.race(
        |_| (),
        move |world, end| {
            let stalled = world.machine.gpu().stats().gpu_waits_stalled > 0;
            end.eventually("the command buffer goes on", done.completed_value() == 1);
            end.always("no CPU is interrupted", !world.noted(notes::INTERRUPTED));
            end.sometimes(STALLED, stalled);
            end.sometimes(PASSED, !stalled);
        },
    )
}
