//! The race of two CPU waiters for one value with its signal. The second finds MonitoredValue as it
//! wants it and publishes nothing; if the first is released between its look at the fence and its
//! entry, nobody but itself looks again.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::notes;
use crate::world::{Setting, World, ends_well, until_quiet};
use tidegate::dxgkrnl::InterruptDelivery;
use tidegate::explorer::{Prepared, Verdict};
use tidegate::{Platform, Submission};

const INTERRUPTED: &str = "the engine's signal interrupted";
const AT_ONCE: &str = "nobody had to wait";

pub(crate) const RACE: Race = Race {
    name: "two-waiters",
    about: "two CPU threads begin to wait for one value while an engine signals it: both are released",
    marks: &[INTERRUPTED, AT_ONCE],
    agents: &["interrupts", "engine", "timer", "main", "second waiter"],
    planted: &[],
    plans: Plans {
        // It takes two forced switches to lose a waiter.
        short: Plan::sampled(30_000),
        full: Plan::bounded(2, 20_000_000),
        bugs: Plan::sampled(100_000),
    },
    prepare,
    bug: None,
};

fn prepare(platform: &Platform, _bug: Option<&'static str>) -> Prepared {
    let setting = Setting { interrupts: InterruptDelivery::Worker, ..Setting::default() };
    let world = World::new(platform, setting);
    let queue = world.queue("copy", Submission::User, 0);
    let fence = world.fence("shared");
    queue.signal(&fence, 1).expect("a submission");
    let (spawner, first, second) = (platform.clone(), fence.clone(), fence.clone());
    let main = move || {
        spawner.spawn("second waiter", move || ends_well(second.wait(1)));
        ends_well(first.wait(1));
        until_quiet(&spawner);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        end.always("MonitoredValue says that nobody waits", world.monitored.nobody_waits());
        end.sometimes(INTERRUPTED, world.probe.seen(notes::INTERRUPTED).is_some());
        end.sometimes(AT_ONCE, world.probe.seen(notes::ARMED).is_none());
        world.must_be_sound(end);
        drop((queue, fence));
    })
}
