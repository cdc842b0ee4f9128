//! The race of two signallers with one waiter: an engine signals 1, a CPU thread signals 2, another
//! waits for 1. A fence is a cell that anybody may write: whichever store comes last stays.
//! Whatever the order, 1 was reached, so the waiter goes on.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::notes;
use crate::world::{Setting, World, ends_well, until_quiet};
use tidegate::dxgkrnl::InterruptDelivery;
use tidegate::explorer::{Prepared, Verdict};
use tidegate::{Platform, Submission};

const CPU_LAST: &str = "the CPU's value stays";
const GPU_LAST: &str = "the engine's value stays";
const INTERRUPTED: &str = "the engine's signal interrupted";

pub(crate) const RACE: Race = Race {
    name: "two-signallers",
    about: "an engine and a CPU thread signal one fence while another thread begins to wait: it is released in every order",
    marks: &[CPU_LAST, GPU_LAST, INTERRUPTED],
    agents: &["interrupts", "engine", "timer", "main", "signaller"],
    planted: &[],
    plans: Plans {
        short: Plan::sampled(30_000),
        full: Plan::bounded(1, 20_000_000),
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
    let (spawner, waited, signalled) = (platform.clone(), fence.clone(), fence.clone());
    let main = move || {
        spawner.spawn("signaller", move || ends_well(signalled.signal(2)));
        ends_well(waited.wait(1));
        until_quiet(&spawner);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let value = fence.completed_value();
        end.always("the fence has one of the two values", value == 1 || value == 2);
        end.always("MonitoredValue says that nobody waits", world.monitored.nobody_waits());
        end.sometimes(CPU_LAST, value == 2);
        end.sometimes(GPU_LAST, value == 1);
        end.sometimes(INTERRUPTED, world.probe.seen(notes::INTERRUPTED).is_some());
        world.must_be_sound(end);
        drop(queue);
    })
}
