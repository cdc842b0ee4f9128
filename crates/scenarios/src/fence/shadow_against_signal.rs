//! A signal against a CPU wait (the native fence document, "Synchronization within the GPU"),
//! through the whole machine. The hardware's CMP keeps a shadow of MonitoredValue for its engine to
//! compare with, and stores of fence values are posted.
//!
//! As in `seven_stations`, the submission is in the ring and its doorbell rung before the run
//! begins. In UpdateMonitoredValues the CMP stores the shadow, executes its barrier against the
//! engine and loads CurrentValue. If the value is above, the engine interrupts on the CMP's behalf.
//! The kernel checks as well, so that interrupt is often spurious.

use crate::prelude::*;
use crate::setting::SHADOW_ENTRIES;

const ENGINE: &str = "the waiter was armed, and the engine found its value above the shadow";
const CMP: &str = "the waiter was armed, and the CMP found CurrentValue above the shadow";
const NOT_ARMED: &str = "no waiter was armed, and the signal did not interrupt";

pub(crate) const RACE: Race = Race {
    name: "shadow-against-signal",
    about: "a CPU thread begins to wait while a signal is compared with a shadow of MonitoredValue: the wait ends",
    marks: &[ENGINE, CMP, NOT_ARMED],
    planted: bugs! {
        "no-shadow-update" => Driver(LeftOut::ShadowUpdate),
            "the driver stores MonitoredValue with a barrier but does not update the CMP: the shadow is stale";
        "no-cpu-barrier" => Driver(LeftOut::CpuBarrier),
            "for a fence without a shadow, UpdateMonitoredValues returns without a barrier";
        "no-cmp-barrier" => Product(PlantedFault::NoShadowBarrier),
            "the CMP loads CurrentValue while its store of the shadow is still posted";
        "no-gpu-barrier" => Product(PlantedFault::NoSignalBarrier),
            "the engine compares, and interrupts, while its store of CurrentValue is still posted";
    },
    shape: Shape::Machine(&[setting::SHADOWS]),
    plans: Plans::all(exhaustive(2_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let queue = world.queue("copy", Submission::User);
    let others = if run.has("no-cpu-barrier") { SHADOW_ENTRIES } else { 0 };
    (0..others).for_each(|_| drop(world.fence("another")));
    let fence = world.fence("done");
    queue.signal(&fence, 1).expect("a submission");
    let waited = fence.clone();
    let main = move |_: &Platform| assert_ok(waited.wait(1));
    world.race_without_pause(main, move |world, end| {
        let (armed, interrupted) = (world.noted(notes::ARMED), world.noted(notes::INTERRUPTED));
        let by_cmp = world.machine.gpu().stats().shadow_interrupts > 0;
        end.always("the fence has the signalled value", fence.completed_value() == 1);
        end.sometimes(ENGINE, armed && interrupted && !by_cmp);
        end.sometimes(CMP, armed && by_cmp);
        end.sometimes(NOT_ARMED, !armed && !interrupted);
    })
}
