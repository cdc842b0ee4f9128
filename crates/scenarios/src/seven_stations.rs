//! The race of the native fence document, "Hazards" of CurrentValue and MonitoredValue, through the
//! whole machine: a user-mode queue signals a fence while a CPU thread begins to wait for it.
//!
//! The submission stands in the ring, and its doorbell is rung, before the run begins; what is
//! explored is the engine's way from the doorbell to the interrupt, the driver's routine, the
//! kernel's deferred routine, and the call that waits. The waiter may find the value without a
//! kernel call, before it is armed, by its second look, or be interrupted.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::{LeftOut, notes};
use crate::world::{Setting, World, ends_well, plant};
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const INTERRUPTED: &str = "the waiter was armed, and the signal interrupted";
const SECOND_LOOK: &str = "the waiter was armed, and its second look found the value";
const NOT_ARMED: &str = "the signal interrupted nobody, and nobody was armed";

const PLANTED: &[PlantedBug] = &[
    PlantedBug {
        name: "no-gpu-barrier",
        about: "the engine loads MonitoredValue while its CurrentValue is still in its store buffer",
    },
    PlantedBug {
        name: "no-cpu-barrier",
        about: "UpdateMonitoredValues returns while MonitoredValue is still in the processor's store buffer",
    },
];

pub(crate) const RACE: Race = Race {
    name: "seven-stations",
    about: "a user-mode queue signals a fence while a CPU thread begins to wait for it: the wait ends",
    marks: &[INTERRUPTED, SECOND_LOOK, NOT_ARMED],
    agents: &["engine", "timer", "main"],
    planted: PLANTED,
    plans: Plans {
        short: Plan::exhaustive(1_000_000),
        full: Plan::exhaustive(1_000_000),
        bugs: Plan::exhaustive(1_000_000),
    },
    prepare,
    bug: None,
};

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    plant(platform, bug, &[("no-gpu-barrier", "no signal barrier")]);
    let setting = Setting {
        left_out: if bug == Some("no-cpu-barrier") {
            LeftOut::CpuBarrier
        } else {
            LeftOut::Nothing
        },
        ..Setting::default()
    };
    let world = World::new(platform, setting);
    let queue = world.queue("copy", Submission::User, 0);
    let fence = world.fence("done");
    queue.signal(&fence, 1).expect("a submission");
    let waited = fence.clone();
    let main = move || ends_well(waited.wait(1));
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let armed = world.probe.seen(notes::ARMED).is_some();
        let interrupted = world.probe.seen(notes::INTERRUPTED).is_some();
        end.always("the fence has the value that was signaled", fence.completed_value() == 1);
        end.sometimes(INTERRUPTED, armed && interrupted);
        end.sometimes(SECOND_LOOK, armed && !interrupted);
        end.sometimes(NOT_ARMED, !armed && !interrupted);
        world.must_be_sound(end);
        drop(queue);
    })
}
