//! A signal against a CPU wait (the native fence document, "Synchronization within the GPU"),
//! through the whole machine: on hardware whose CMP keeps a shadow of MonitoredValue for its engine
//! to compare with, and whose stores of fence values are posted.
//!
//! As in `seven_stations` the submission stands in the ring and its doorbell is rung before the run
//! begins. UpdateMonitoredValues has the CMP store the shadow, execute its barrier against the
//! engine, and load CurrentValue; if the value is above, the engine interrupts on the CMP's behalf.
//! The kernel checks again as well, so that interrupt is often a spurious one.

use crate::prelude::*;

const ENGINE: &str = "the waiter was armed, and the engine found its value above the shadow";
const CMP: &str = "the waiter was armed, and the CMP found CurrentValue above the shadow";
const NOT_ARMED: &str = "no waiter was armed, and the signal did not interrupt";

/// Shadows that the hardware has room for.
const SHADOWS: u32 = 4;

pub(crate) const RACE: Race = Race {
    name: "shadow-against-signal",
    about: "a CPU thread begins to wait while a signal is compared with a shadow of MonitoredValue: the wait ends",
    marks: &[ENGINE, CMP, NOT_ARMED],
    planted: &[
        Bug {
            name: "not-told",
            about: "the driver stores MonitoredValue behind a barrier and does not update the CMP: the shadow is old",
            fault: Fault::Driver(LeftOut::ShadowUpdate),
        },
        Bug {
            name: "no-cpu-barrier",
            about: "a fence that found no room for a shadow: UpdateMonitoredValues returns without a barrier",
            fault: Fault::Driver(LeftOut::CpuBarrier),
        },
        Bug {
            name: "no-cmp-barrier",
            about: "the CMP loads CurrentValue while its store of the shadow is still posted",
            fault: Fault::Product("no shadow barrier"),
        },
        Bug {
            name: "no-gpu-barrier",
            about: "the engine compares, and interrupts, while its store of CurrentValue is still posted",
            fault: Fault::Product("no signal barrier"),
        },
    ],
    plans: Plans::all(exhaustive(2_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world(|config| {
        config.gpu.shadow_entries = SHADOWS;
        config.gpu.posted_fence_writes = true;
    });
    let queue = world.queue("copy", Submission::User);
    let others = if run.has("no-cpu-barrier") { SHADOWS } else { 0 };
    (0..others).for_each(|_| drop(world.fence("another")));
    let fence = world.fence("done");
    queue.signal(&fence, 1).expect("a submission");
    let waited = fence.clone();
    let main = move |_: &Platform| ends_well(waited.wait(1));
    world.race_to_the_end(main, move |world, end| {
        let (armed, interrupted) = (world.noted(notes::ARMED), world.noted(notes::INTERRUPTED));
        let by_cmp = world.machine.gpu().stats().shadow_interrupts > 0;
        end.always("the fence has the value that was signaled", fence.completed_value() == 1);
        end.sometimes(ENGINE, armed && interrupted && !by_cmp);
        end.sometimes(CMP, armed && by_cmp);
        end.sometimes(NOT_ARMED, !armed && !interrupted);
    })
}
