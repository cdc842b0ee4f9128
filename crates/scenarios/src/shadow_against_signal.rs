//! The race of the native fence document, "Synchronization within the GPU", through the whole
//! machine: a user-mode queue signals a fence while a CPU thread begins to wait for it, on hardware
//! whose CMP keeps a shadow of MonitoredValue for its engine to compare with, and whose stores of
//! fence values are on their way for a while.
//!
//! As in `seven_stations` the submission stands in the ring and its doorbell is rung before the run
//! begins. UpdateMonitoredValues has the CMP store the shadow, execute its barrier against the
//! engine, and load CurrentValue; if the value is above, the engine interrupts on the CMP's behalf.
//! The kernel looks again as well, so that interrupt is often a spurious one.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::{LeftOut, notes};
use crate::world::{Setting, World, ends_well, plant};
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const ENGINE: &str = "the waiter was armed, and the engine found its value above the shadow";
const CMP: &str = "the waiter was armed, and the CMP found CurrentValue above the shadow";
const NOT_ARMED: &str = "nobody was armed and nobody was interrupted";

const NOT_TOLD: &str = "not-told";
const NO_CPU_BARRIER: &str = "no-cpu-barrier";
const NO_CMP_BARRIER: &str = "no-cmp-barrier";
const NO_GPU_BARRIER: &str = "no-gpu-barrier";

/// Room for so many.
const SHADOWS: u32 = 4;

const PLANTED: &[PlantedBug] = &[
    PlantedBug {
        name: NOT_TOLD,
        about: "the driver stores MonitoredValue behind a barrier and does not tell the CMP: the shadow is old",
    },
    PlantedBug {
        name: NO_CPU_BARRIER,
        about: "a fence that found no room for a shadow: UpdateMonitoredValues returns without a barrier",
    },
    PlantedBug {
        name: NO_CMP_BARRIER,
        about: "the CMP loads CurrentValue while its store of the shadow is still on its way",
    },
    PlantedBug {
        name: NO_GPU_BARRIER,
        about: "the engine compares, and interrupts, while its store of CurrentValue is still posted",
    },
];

pub(crate) const RACE: Race = Race {
    name: "shadow-against-signal",
    about: "a CPU thread begins to wait while a signal is compared with a shadow of MonitoredValue: the wait ends",
    marks: &[ENGINE, CMP, NOT_ARMED],
    agents: &["engine", "timer", "main"],
    planted: PLANTED,
    plans: Plans {
        short: Plan::exhaustive(2_000_000),
        full: Plan::exhaustive(2_000_000),
        bugs: Plan::exhaustive(2_000_000),
    },
    prepare,
    bug: None,
};

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let left_out = match bug {
        Some(NOT_TOLD) => LeftOut::ShadowUpdate,
        Some(NO_CPU_BARRIER) => LeftOut::CpuBarrier,
        _ => LeftOut::Nothing,
    };
    let faults = [(NO_CMP_BARRIER, "no shadow barrier"), (NO_GPU_BARRIER, "no signal barrier")];
    plant(platform, bug, &faults);
    let setting = Setting { shadow_entries: SHADOWS, left_out, ..Setting::default() };
    let world = World::new(platform, setting);
    let queue = world.queue("copy", Submission::User, 0);
    let others = if bug == Some(NO_CPU_BARRIER) { SHADOWS } else { 0 };
    let others: Vec<_> = (0..others).map(|_| world.fence("another")).collect();
    let fence = world.fence("done");
    queue.signal(&fence, 1).expect("a submission");
    let waited = fence.clone();
    let main = move || ends_well(waited.wait(1));
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let armed = world.probe.seen(notes::ARMED).is_some();
        let interrupted = world.probe.seen(notes::INTERRUPTED).is_some();
        let by_cmp = world.machine.gpu().stats().shadow_interrupts > 0;
        end.always("the fence has the value that was signaled", fence.completed_value() == 1);
        end.sometimes(ENGINE, armed && interrupted && !by_cmp);
        end.sometimes(CMP, armed && by_cmp);
        end.sometimes(NOT_ARMED, !armed && !interrupted);
        world.must_be_sound(end);
        drop((queue, others));
    })
}
