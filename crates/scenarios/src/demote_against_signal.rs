//! The race of fence storage that leaves local memory with a signal and a CPU wait: while a page of
//! MonitoredValues moves, an engine compares with the old place or the new one, and the kernel
//! publishes at one of them. Engines are held while both are there, so they never differ about it.
//!
//! The signal stands in the ring before the run begins.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::{LeftOut, notes};
use crate::world::{Setting, World, ends_well, until_quiet};
use tidegate::dxgkrnl::InterruptDelivery;
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const INTERRUPTED: &str = "the signal interrupted for the event";
const NOT_INTERRUPTED: &str = "the signal interrupted nobody";

const PLANTED: &[PlantedBug] = &[PlantedBug {
    name: "engines-not-held",
    about: "engines go on while MonitoredValue stands in two places: a signal looks at the one that is left",
}];

pub(crate) const RACE: Race = Race {
    name: "demote-against-signal",
    about: "MonitoredValue leaves local memory while an engine signals and the CPU begins to wait: the event is set",
    marks: &[INTERRUPTED, NOT_INTERRUPTED],
    agents: &["interrupts", "engine", "timer", "main", "memory pressure"],
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
    let left_out = if bug.is_some() { LeftOut::EngineHold } else { LeftOut::Nothing };
    let interrupts = InterruptDelivery::Worker;
    let setting =
        Setting { interrupts, left_out, local_monitored_values: true, ..Setting::default() };
    let world = World::new(platform, setting);
    let queue = world.queue("copy", Submission::User, 0);
    let fence = world.fence("moving");
    queue.signal(&fence, 1).expect("a submission");
    let (clock, event) = (platform.clone(), world.device.create_event(true));
    let (set, waited, adapter) = (event.clone(), fence.clone(), world.machine.adapter().clone());
    let main = move || {
        let pressure = clock.spawn("memory pressure", move || {
            adapter.trim_fence_storage(0).expect("storage moves");
        });
        ends_well(waited.set_event_on_completion(1, &event));
        event.wait();
        pressure.join();
        until_quiet(&clock);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let interrupted = world.probe.seen(notes::INTERRUPTED).is_some();
        let left = world.machine.adapter().local_fence_storage_bytes();
        end.eventually("the event is set", set.is_set());
        end.always("the storage has moved", left == 0 || !set.is_set());
        end.sometimes(INTERRUPTED, interrupted);
        end.sometimes(NOT_INTERRUPTED, !interrupted);
        world.must_be_sound(end);
        drop((queue, fence));
    })
}
