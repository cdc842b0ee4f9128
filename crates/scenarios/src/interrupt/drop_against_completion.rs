//! The last handle of a queue against the completion of its work. One thread drops the handle and
//! then creates buffers. Each creation ends the queue if the queue is idle. The engine meanwhile
//! runs a wait for a gate that another thread opens, and the signal behind it.
//!
//! The work is complete before the queue ends, and the queue ends.

use crate::prelude::*;

const IDLE: &str = "the queue was idle when its last handle was dropped";
const PENDING: &str = "the queue had work when its last handle was dropped";

/// Set when the handle was dropped before the work was complete.
const WAS_PENDING: usize = notes::OWN;

pub(crate) const RACE: Race = Race {
    name: "drop-against-completion",
    about: "the last handle of a queue is dropped while its work completes: the work runs to its end",
    marks: &[IDLE, PENDING],
    planted: bugs! {
        "ended-with-the-handle" => Product(PlantedFault::QueueEndsWithItsLastHandle),
            "a queue ends with its last handle, whatever is queued";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(20_000, 1_000_000, 20_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    // Not kept by the world, because the run drops the last handle.
    let queue = queue_on(&world.device, "queue", Submission::User);
    let (gate, done) = (world.fence("gate"), world.fence("done"));
    queue.wait(&gate, 1).expect("a submission");
    queue.signal(&done, 1).expect("a submission");
    let (probe, device, fence) = (world.probe.clone(), world.device.clone(), done.clone());
    let main = move |platform: &Platform| {
        let opener = platform.spawn("opener", move || assert_ok(gate.signal(1)));
        if fence.completed_value() == 0 {
            probe.note(WAS_PENDING, 1);
        }
        drop(queue);
        drop(device.create_buffer(BufferDesc::readback("buffer", 8)));
        opener.join();
    };
    world.race(main, move |world, end| {
        let pending = world.noted(WAS_PENDING);
        end.eventually("the queued signal runs", done.completed_value() == 1);
        end.sometimes(IDLE, !pending);
        end.sometimes(PENDING, pending);
    })
}
