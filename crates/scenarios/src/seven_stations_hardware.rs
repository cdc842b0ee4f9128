//! The seven stations through a kernel-mode hardware queue: the fence is signalled by VidSch when
//! the queue's progress fence reaches the command buffer before it, so the race of arming and
//! signalling is that of the progress fence.
//!
//! The command buffer is submitted before the run begins; in the run the CPU queues the signal
//! behind it while the engine executes it, then waits. Interrupts run on an agent of their own, as
//! on another processor.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::notes;
use crate::world::{Setting, World, ends_well, plant};
use tidegate::dxgkrnl::InterruptDelivery;
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const INTERRUPTED: &str = "the scheduler's wait was armed, and the progress interrupted";
const NOT_INTERRUPTED: &str = "the progress interrupted nobody";

// The barrier of UpdateMonitoredValues cannot be missed here: the scheduler takes a lock between
// arming and its next look.
const PLANTED: &[PlantedBug] = &[PlantedBug {
    name: "no-gpu-barrier",
    about: "the engine loads MonitoredValue while its progress value is still in its store buffer",
}];

pub(crate) const RACE: Race = Race {
    name: "seven-stations-hardware",
    about: "a signal is queued behind work of a kernel-mode hardware queue while the work completes: the waiter is released",
    marks: &[INTERRUPTED, NOT_INTERRUPTED],
    agents: &["interrupts", "engine", "timer", "main"],
    planted: PLANTED,
    plans: Plans {
        short: Plan::sampled(30_000),
        full: Plan::bounded(1, 20_000_000),
        bugs: Plan::sampled(100_000),
    },
    prepare,
    bug: None,
};

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    plant(platform, bug, &[(PLANTED[0].name, "no signal barrier")]);
    let setting = Setting { interrupts: InterruptDelivery::Worker, ..Setting::default() };
    let world = World::new(platform, setting);
    let queue = world.queue("copy", Submission::Hardware, 0);
    let fence = world.fence("done");
    let list = world.empty_list();
    queue.execute(&[&list]).expect("a submission");
    let (signaller, waited) = (queue.clone(), fence.clone());
    let main = move || {
        ends_well(signaller.signal(&waited, 1));
        ends_well(waited.wait(1));
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let interrupted = world.probe.seen(notes::INTERRUPTED).is_some();
        end.always("the fence has the value that was signaled", fence.completed_value() == 1);
        end.sometimes(INTERRUPTED, interrupted);
        end.sometimes(NOT_INTERRUPTED, !interrupted);
        world.must_be_sound(end);
        drop((queue, list));
    })
}
