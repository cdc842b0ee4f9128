//! The seven stations through the packet model: a context's signal is made by VidSch when the DMA
//! packet before it completes, and a monitored fence has no MonitoredValue, so every completion
//! interrupts.
//!
//! The packet is handed to the engine before the run begins; in the run the CPU queues the signal
//! behind it while it completes, then waits.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::notes;
use crate::world::{Setting, World, ends_well};
use tidegate::d3d12::FenceChoice;
use tidegate::explorer::{Prepared, Verdict};
use tidegate::{Platform, Submission};

const BLOCKED: &str = "the signal was queued before the packet was complete";
const LATE: &str = "the signal was queued after the packet was complete";

pub(crate) const RACE: Race = Race {
    name: "seven-stations-packet",
    about: "a signal is queued behind a context's packet while the packet completes: the waiter is released",
    marks: &[BLOCKED, LATE],
    agents: &["engine", "timer", "main"],
    planted: &[],
    plans: Plans {
        short: Plan::bounded(1, 1_000_000),
        full: Plan::exhaustive(1_000_000),
        bugs: Plan::exhaustive(1_000_000),
    },
    prepare,
    bug: None,
};

fn prepare(platform: &Platform, _bug: Option<&'static str>) -> Prepared {
    // Nothing preempts the packet. The one that fills a save area would be another race.
    let setting =
        Setting { fences: FenceChoice::Monitored, save_areas: false, ..Setting::default() };
    let world = World::new(platform, setting);
    let queue = world.queue("copy", Submission::Packet, 0);
    let fence = world.fence("done");
    let list = world.empty_list();
    queue.execute(&[&list]).expect("a submission");
    let (signaller, waited, probe) = (queue.clone(), fence.clone(), world.probe.clone());
    let main = move || {
        ends_well(signaller.signal(&waited, 1));
        probe.note(notes::OWN, waited.completed_value());
        ends_well(waited.wait(1));
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let at_once = world.probe.seen(notes::OWN);
        end.always("the fence has the value that was signaled", fence.completed_value() == 1);
        end.sometimes(BLOCKED, at_once == Some(0));
        end.sometimes(LATE, at_once == Some(1));
        world.must_be_sound(end);
        drop((queue, list));
    })
}
