//! The race of taking a wait back with the signal that would have satisfied it: a CPU thread waits
//! for any of two fences, one is signalled, and while the other registration is taken back its
//! fence is signalled too.
//!
//! Both signals stand in one ring before the run begins. Afterwards nobody waits, and both
//! MonitoredValues say so.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::{LeftOut, notes};
use crate::world::{Setting, World, ends_well, until_quiet};
use tidegate::d3d12::WaitMode;
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const INTERRUPTED: &str = "a signal interrupted for the wait";
const AT_ONCE: &str = "the wait armed no fence";

const PLANTED: &[PlantedBug] = &[PlantedBug {
    name: "no-disarm",
    about: "the driver drops the update that says that nobody waits: every later signal interrupts for nobody",
}];

pub(crate) const RACE: Race = Race {
    name: "cancel-against-signal",
    about: "a wait for any of two fences ends by one of them while the other is signalled: nothing stays armed",
    marks: &[INTERRUPTED, AT_ONCE],
    agents: &["engine", "timer", "main"],
    planted: PLANTED,
    plans: Plans {
        short: Plan::bounded(1, 1_000_000),
        full: Plan::exhaustive(20_000_000),
        bugs: Plan::bounded(1, 1_000_000),
    },
    prepare,
    bug: None,
};

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let left_out = if bug.is_some() { LeftOut::Disarm } else { LeftOut::Nothing };
    let world = World::new(platform, Setting { left_out, ..Setting::default() });
    let queue = world.queue("copy", Submission::User, 0);
    let (first, second) = (world.fence("first"), world.fence("second"));
    queue.signal(&first, 1).expect("a submission");
    queue.signal(&second, 1).expect("a submission");
    let (clock, device, waited) =
        (platform.clone(), world.device.clone(), (first.clone(), second.clone()));
    let main = move || {
        let both = [(&waited.0, 1), (&waited.1, 1)];
        ends_well(device.wait_multiple(&both, WaitMode::Any, None));
        until_quiet(&clock);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let values = (first.completed_value(), second.completed_value());
        end.always("both fences have the value that was signaled", values == (1, 1));
        end.always("MonitoredValue says that nobody waits", world.monitored.nobody_waits());
        end.sometimes(INTERRUPTED, world.probe.seen(notes::INTERRUPTED).is_some());
        end.sometimes(AT_ONCE, world.probe.seen(notes::ARMED).is_none());
        world.must_be_sound(end);
        drop(queue);
    })
}
