//! A signal against a CPU wait, through the packet model: VidSch makes a context's signal when the
//! DMA packet before it completes, and a monitored fence has no MonitoredValue, so every completion
//! interrupts.
//!
//! The packet is handed to the engine before the run begins; in the run the CPU queues the signal
//! behind it while it completes, then waits.

use crate::prelude::*;

const BLOCKED: &str = "the signal was queued before the packet was complete";
const LATE: &str = "the signal was queued after the packet was complete";

pub(crate) const RACE: Race = Race {
    name: "seven-stations-packet",
    about: "a signal is queued behind a context's packet while the packet completes: the waiter is released",
    marks: &[BLOCKED, LATE],
    planted: &[],
    plans: Plans::of(bounded(1, 1_000_000), exhaustive(1_000_000), exhaustive(1_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    // Nothing preempts the packet. The one that fills a save area would be another race.
    let world = Run { fences: FenceChoice::Monitored, ..*run }
        .world(|config| config.driver.save_areas = false);
    let (queue, fence) = (world.queue("copy", Submission::Packet), world.fence("done"));
    queue.execute(&[&world.empty_list()]).expect("a submission");
    let (waited, probe) = (fence.clone(), world.probe.clone());
    let main = move |_: &Platform| {
        ends_well(queue.signal(&waited, 1));
        probe.note(notes::OWN, waited.completed_value());
        ends_well(waited.wait(1));
    };
    world.race_to_the_end(main, move |world, end| {
        let at_once = world.probe.seen(notes::OWN);
        end.always("the fence has the value that was signaled", fence.completed_value() == 1);
        end.sometimes(BLOCKED, at_once == Some(0));
        end.sometimes(LATE, at_once == Some(1));
    })
}
