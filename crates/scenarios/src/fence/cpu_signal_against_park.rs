//! A CPU signal against a queue that reaches its wait. The signal stores the value. If the
//! hardware's word says that a queue may wait, UpdateCurrentValuesFromCpu has the hardware check
//! its parked queues (decisions/0093). A parking queue enters the table, changes the word and
//! checks its fence again.
//!
//! The wait is in the ring before the run begins; the CPU signals in the run.

use crate::prelude::*;

const STALLED: &str = "the queue parked before the signal";
const PASSED: &str = "the signal came before the wait";

pub(crate) const RACE: Race = Race {
    name: "cpu-signal-against-park",
    about: "a queue reaches a wait while the CPU signals the fence: the queue is unblocked",
    marks: &[STALLED, PASSED],
    planted: bugs! {
        "no-notification" => Driver(LeftOut::Notification),
            "the driver does not have the hardware check its parked queues";
        "early-test" => Product(PlantedFault::WaitersTestedBeforeTheCPUSignal),
            "the signal loads the hardware's word before it stores CurrentValue";
        "no-barrier" => Product(PlantedFault::NoBarrierInTheCPUSignal),
            "the signal loads the hardware's word while CurrentValue is in its store buffer";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::all(exhaustive(1_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let queue = world.queue("consumer", Submission::User);
    let (ready, done) = (world.fence("ready"), world.fence("done"));
    queue.wait(&ready, 1).expect("a submission");
    queue.signal(&done, 1).expect("a submission");
    let main = move |_: &Platform| assert_ok(ready.signal(1));
    world.race(main, move |world, end| {
        let stalled = world.machine.gpu().stats().gpu_waits_stalled > 0;
        end.eventually("the waiting queue is unblocked", done.completed_value() == 1);
        end.sometimes(STALLED, stalled);
        end.sometimes(PASSED, !stalled);
    })
}
