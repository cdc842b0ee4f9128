//! A signal against a CPU wait (the native fence document, "Hazards" of CurrentValue and
//! MonitoredValue), through the whole machine: a user-mode queue signals a fence while a CPU thread
//! begins to wait for it.
//!
//! The submission stands in the ring, and its doorbell is rung, before the run begins; what is
//! explored is the engine's way from the doorbell to the interrupt, the driver's routine, the
//! kernel's DPC, and the call that waits. The waiter may find the value without a kernel call,
//! before it is armed, by its second read, or be interrupted.

use crate::prelude::*;

const INTERRUPTED: &str = "the waiter was armed, and the signal interrupted";
const SECOND_LOOK: &str = "the waiter was armed, and its second read found the value";
const NOT_ARMED: &str = "no waiter was armed, and the signal did not interrupt";

pub(crate) const RACE: Race = Race {
    name: "seven-stations",
    about: "a user-mode queue signals a fence while a CPU thread begins to wait for it: the wait ends",
    marks: &[INTERRUPTED, SECOND_LOOK, NOT_ARMED],
    planted: &[
        Bug {
            name: "no-gpu-barrier",
            about: "the engine loads MonitoredValue while its CurrentValue is still in its store buffer",
            fault: Fault::Product("no signal barrier"),
        },
        Bug {
            name: "no-cpu-barrier",
            about: "UpdateMonitoredValues returns while MonitoredValue is still in the processor's store buffer",
            fault: Fault::Driver(LeftOut::CpuBarrier),
        },
    ],
    plans: Plans::all(exhaustive(1_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world(|_| ());
    let (queue, fence) = (world.queue("copy", Submission::User), world.fence("done"));
    queue.signal(&fence, 1).expect("a submission");
    let waited = fence.clone();
    let main = move |_: &Platform| ends_well(waited.wait(1));
    world.race_to_the_end(main, move |world, end| {
        let (armed, interrupted) = (world.noted(notes::ARMED), world.noted(notes::INTERRUPTED));
        end.always("the fence has the value that was signaled", fence.completed_value() == 1);
        end.sometimes(INTERRUPTED, armed && interrupted);
        end.sometimes(SECOND_LOOK, armed && !interrupted);
        end.sometimes(NOT_ARMED, !armed && !interrupted);
    })
}
