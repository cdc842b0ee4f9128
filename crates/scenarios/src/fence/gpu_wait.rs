//! A GPU wait against its signal, between two engines and without the kernel. The waiting queue
//! enters the table, increments the armed word and checks its fence again. The signaller stores
//! CurrentValue, executes its barrier and loads the armed word.
//!
//! Both submissions are in their rings before the run begins.

use crate::prelude::*;

const STALLED: &str = "the queue parked before the signal";
const PASSED: &str = "the signal came before the wait";

pub(crate) const RACE: Race = Race {
    name: "gpu-wait",
    about: "a queue reaches a wait on one engine while another engine signals: it is unblocked without an interrupt",
    marks: &[STALLED, PASSED],
    planted: bugs! {
        "no-gpu-barrier" => Product(PlantedFault::NoSignalBarrier),
            "the signaller reads the armed word while its CurrentValue is still in its store buffer";
    },
    shape: Shape::Machine(&[setting::OWN_THREADS]),
    plans: Plans::of(exhaustive(1_000_000), exhaustive(20_000_000), exhaustive(1_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let (producer, consumer) = (world.queue_at(0, "producer"), world.queue_at(1, "consumer"));
    let (ready, done) = (world.fence("ready"), world.fence("done"));
    consumer.wait(&ready, 1).expect("a submission");
    consumer.signal(&done, 1).expect("a submission");
    producer.signal(&ready, 1).expect("a submission");
    world.race(
        |_| (),
        move |world, end| {
            let stalled = world.machine.gpu().stats().gpu_waits_stalled > 0;
            end.eventually("the waiting queue is unblocked", done.completed_value() == 1);
            end.always("no CPU is interrupted", !world.noted(notes::INTERRUPTED));
            end.sometimes(STALLED, stalled);
            end.sometimes(PASSED, !stalled);
        },
    )
}
