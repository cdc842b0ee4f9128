//! A signal against a CPU wait, through a kernel-mode hardware queue: VidSch signals the fence when
//! the queue's progress fence reaches the command buffer before it, so the race of arming and
//! signalling is that of the progress fence.
//!
//! The command buffer is submitted before the run begins; in the run the CPU queues the signal
//! behind it while the engine executes it, then waits.

use crate::prelude::*;

const INTERRUPTED: &str = "the scheduler's wait was armed, and the progress interrupted";
const NOT_INTERRUPTED: &str = "the progress did not interrupt";

pub(crate) const RACE: Race = Race {
    name: "seven-stations-hardware",
    about: "a signal is queued behind work of a kernel-mode hardware queue while the work completes: the waiter is released",
    marks: &[INTERRUPTED, NOT_INTERRUPTED],
    // The barrier of UpdateMonitoredValues cannot be missed here: the scheduler takes a lock between
    // arming and its next read.
    planted: &[Bug {
        name: "no-gpu-barrier",
        about: "the engine loads MonitoredValue while its progress value is still in its store buffer",
        fault: Fault::Product("no signal barrier"),
    }],
    plans: Plans::of(sampled(30_000), bounded(1, 20_000_000), sampled(100_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world(worker_interrupts);
    let (queue, fence) = (world.queue("copy", Submission::Hardware), world.fence("done"));
    queue.execute(&[&world.empty_list()]).expect("a submission");
    let waited = fence.clone();
    let main = move |_: &Platform| {
        ends_well(queue.signal(&waited, 1));
        ends_well(waited.wait(1));
    };
    world.race_to_the_end(main, move |world, end| {
        let interrupted = world.noted(notes::INTERRUPTED);
        end.always("the fence has the value that was signaled", fence.completed_value() == 1);
        end.sometimes(INTERRUPTED, interrupted);
        end.sometimes(NOT_INTERRUPTED, !interrupted);
    })
}
