//! A signal against a CPU wait (the native fence document, "Hazards" of CurrentValue and
//! MonitoredValue), through the whole machine: a user-mode queue signals a fence while a CPU thread
//! begins to wait for it.
//!
//! The submission is in the ring and its doorbell rung before the run begins. The run covers the
//! engine from the doorbell to the interrupt, the driver's interrupt routine, the kernel's DPC, and
//! the wait call. The waiter may find the value without a kernel call, before it is armed, by its
//! second read, or be released by an interrupt.

use crate::prelude::*;

const INTERRUPTED: &str = "the waiter was armed, and the signal interrupted";
const SECOND_READ: &str = "the waiter was armed, and its second read found the value";
const NOT_ARMED: &str = "no waiter was armed, and the signal did not interrupt";

pub(crate) const RACE: Race = Race {
    name: "seven-stations",
    about: "a user-mode queue signals a fence while a CPU thread begins to wait for it: the wait ends",
    marks: &[INTERRUPTED, SECOND_READ, NOT_ARMED],
    planted: bugs! {
        "no-gpu-barrier" => Product(PlantedFault::NoSignalBarrier),
            "the engine loads MonitoredValue while its CurrentValue is still in its store buffer";
        "no-cpu-barrier" => Driver(LeftOut::CpuBarrier),
            "UpdateMonitoredValues returns while MonitoredValue is still in the processor's store buffer";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::all(exhaustive(1_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let (queue, fence) = (world.queue("copy", Submission::User), world.fence("done"));
    queue.signal(&fence, 1).expect("a submission");
    let waited = fence.clone();
    let main = move |_: &Platform| assert_ok(waited.wait(1));
    world.race_without_pause(main, move |world, end| {
        let (armed, interrupted) = (world.noted(notes::ARMED), world.noted(notes::INTERRUPTED));
        end.always("the fence has the signalled value", fence.completed_value() == 1);
        end.sometimes(INTERRUPTED, armed && interrupted);
        end.sometimes(SECOND_READ, armed && !interrupted);
        end.sometimes(NOT_ARMED, !armed && !interrupted);
    })
}
