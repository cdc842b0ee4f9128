//! A signal against a CPU wait, through the packet model. VidSch executes a context's signal when
//! the preceding DMA packet completes. Monitored fences have no MonitoredValue, so each completion
//! interrupts.
//!
//! The packet is submitted before the run begins. In the run the CPU queues the signal behind it
//! while the packet completes, then waits.

use crate::prelude::*;

const BLOCKED: &str = "the signal was queued before the packet was complete";
const LATE: &str = "the signal was queued after the packet was complete";

pub(crate) const RACE: Race = Race {
    name: "seven-stations-packet",
    about: "a signal is queued behind a context's packet while the packet completes: the waiter is released",
    marks: &[BLOCKED, LATE],
    planted: &[],
    shape: Shape::Machine(&[setting::NO_SAVE_AREAS]),
    plans: Plans::of(bounded(1, 1_000_000), exhaustive(1_000_000), exhaustive(1_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    // Monitored fences need no save-area packets, which would be another race.
    let world = Run { fences: FenceChoice::Monitored, ..*run }.world();
    let (queue, fence) = (world.queue("copy", Submission::Packet), world.fence("done"));
    queue.execute(&[&world.empty_list()]).expect("a submission");
    let (waited, probe) = (fence.clone(), world.probe.clone());
    let main = move |_: &Platform| {
        assert_ok(queue.signal(&waited, 1));
        probe.note(notes::OWN, waited.completed_value());
        assert_ok(waited.wait(1));
    };
    world.race_without_pause(main, move |world, end| {
        let at_once = world.probe.seen(notes::OWN);
        end.always("the fence has the signalled value", fence.completed_value() == 1);
        end.sometimes(BLOCKED, at_once == Some(0));
        end.sometimes(LATE, at_once == Some(1));
    })
}
