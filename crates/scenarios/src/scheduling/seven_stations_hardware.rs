//! A signal against a CPU wait, through a kernel-mode hardware queue. VidSch signals the fence when
//! the progress fence reaches the preceding command buffer, so arming races with that signal.
//!
//! The command buffer is submitted before the run begins. In the run the CPU queues the signal
//! behind it while the engine executes it, then waits.

use crate::prelude::*;

const INTERRUPTED: &str = "the scheduler's wait was armed, and the progress signal interrupted";
const NOT_INTERRUPTED: &str = "the progress signal did not interrupt";

pub(crate) const RACE: Race = Race {
    name: "seven-stations-hardware",
    about: "a signal is queued behind work of a kernel-mode hardware queue while the work completes: the waiter is released",
    marks: &[INTERRUPTED, NOT_INTERRUPTED],
    // The barrier of UpdateMonitoredValues is not needed here: the scheduler takes a lock between
    // arming and its next read.
    planted: bugs! {
        "no-gpu-barrier" => Product(PlantedFault::NoSignalBarrier),
            "the engine loads MonitoredValue while its progress value is still in its store buffer";
    },
    shape: Shape::Machine(&[setting::WORKER_INTERRUPTS, setting::SCHEDULER_FENCES]),
    plans: Plans::of(bounded(1, 1_000_000), bounded(1, 20_000_000), sampled(100_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let (queue, fence) = (world.queue("copy", Submission::Hardware), world.fence("done"));
    queue.execute(&[&world.empty_list()]).expect("a submission");
    let waited = fence.clone();
    let main = move |_: &Platform| {
        assert_ok(queue.signal(&waited, 1));
        assert_ok(waited.wait(1));
    };
    world.race_without_pause(main, move |world, end| {
        let interrupted = world.noted(notes::INTERRUPTED);
        end.always("the fence has the signalled value", fence.completed_value() == 1);
        end.sometimes(INTERRUPTED, interrupted);
        end.sometimes(NOT_INTERRUPTED, !interrupted);
    })
}
