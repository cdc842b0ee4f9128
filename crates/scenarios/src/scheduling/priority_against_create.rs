//! A change of a context's priority while a queue is created in it. Whichever comes first, the new
//! queue has the priority that the change has set.
//!
//! The engine is busy when work is submitted to a NORMAL queue and then to the new one. The NORMAL
//! queue copies the progress value of the new one, which shows whether that ran before.

use crate::prelude::*;

const BEFORE: &str = "the change returned before the queue existed";
const AFTER: &str = "the queue existed before the change returned";

const CREATED: usize = notes::OWN;
const CHANGED: usize = notes::OWN + 1;
const SUBMITTED: usize = notes::OWN + 2;

pub(crate) const RACE: Race = Race {
    name: "priority-against-create",
    about: "a context is raised while a queue is created in it: the queue runs before NORMAL work",
    marks: &[BEFORE, AFTER],
    planted: bugs! {
        "state-sent-once" => Product(PlantedFault::StateOfANewQueueIsSentOnce),
            "the driver gives a new queue the priority that it has read first, and does not compare it again";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(30_000, 1_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let client = world.privileged_client("app");
    let raised = client.hw_context(0);
    let (busy, other) = (client.hw_queue(), client.hw_queue());
    // A queue gets the priority of its context at its creation when that is not the default.
    client.kernel.set_context_scheduling_priority(raised, -1).expect("the IDLE band");
    let (copied, copied_at) = client.bytes(8);
    let probe = world.probe.clone();
    let main = move |platform: &Platform| {
        let (kernel, changed) = (client.kernel.clone(), probe.clone());
        let changer = platform.spawn("changer", move || {
            kernel.set_context_scheduling_priority(raised, 1).expect("the FOCUS band");
            changed.note(CHANGED, u64::from(changed.seen(CREATED).is_some()));
        });
        let queue = client.hw_queue_in(raised, false).expect("a queue");
        probe.note(CREATED, 1);
        changer.join();
        let (source, destination) = (GpuVa(queue.progress_gpu_va), GpuVa(copied_at));
        client.submit(&busy, 1, &[Command::Timed { ns: 1000 }]);
        client.submit(&other, 1, &[Command::Copy { source, destination, bytes: 8 }]);
        client.submit(&queue, 1, &[Command::Label { name: 0 }]);
        probe.note(SUBMITTED, 1);
        client.wait_progress(&other, 1).expect("the device stays");
    };
    world.race(main, move |world, end| {
        let is_over = world.noted(SUBMITTED);
        end.eventually("all calls return", is_over);
        let first = copied.read_u64(0).expect("8 bytes");
        end.eventually("the new queue has the priority of the change", first == 1);
        end.sometimes(BEFORE, world.probe.seen(CHANGED) == Some(0));
        end.sometimes(AFTER, world.probe.seen(CHANGED) == Some(1));
    })
}
