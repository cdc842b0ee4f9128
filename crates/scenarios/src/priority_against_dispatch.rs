//! A change of priority against the engine that serves the queue: a context of the FOCUS band goes
//! down to IDLE while its command buffers are dispatched, and another one of the NORMAL band waits.
//! When the call has returned, the engine ends the turn that it is in, and then the other queue
//! comes first.
//!
//! Everything is submitted before the run begins. The other queue's command copies the first one's
//! progress value, which shows how much of the first queue's work came before it.

use crate::prelude::*;
use tidegate::gpu_abi::{Command, GpuVa};

const AT_ONCE: &str = "the other queue comes before all work of the one that goes down";
const BETWEEN: &str = "it comes between two command buffers";
const TOO_LATE: &str = "all work was done before the change";

pub(crate) const RACE: Race = Race {
    name: "priority-against-dispatch",
    about: "a context loses its priority while its queue is dispatched: from the end of the turn on the other queue comes first",
    marks: &[AT_ONCE, BETWEEN, TOO_LATE],
    planted: &[
        Bug {
            name: "not-told",
            about: "the driver does not pass the change on to the hardware",
            fault: Fault::Driver(LeftOut::Priority),
        },
        Bug {
            name: "stale-place",
            about: "an engine gives a queue back at the place that it had when it was taken",
            fault: Fault::Product("stale place"),
        },
    ],
    plans: Plans::of(bounded(1, 5_000_000), exhaustive(20_000_000), exhaustive(5_000_000)),
    prepare,
};

/// Command buffers of the queue that goes down.
const BUFFERS: u64 = 2;

fn prepare(run: &Run<'_>) -> Prepared {
    let world = Run { bug: None, ..*run }.world(|_| ());
    let client = world.privileged_client("app");
    let falling = client.hw_context(0);
    let first = client.hw_queue_in(falling, false).expect("a queue");
    let other = client.hw_queue();
    client.kernel.set_context_scheduling_priority(falling, 1).expect("the FOCUS band");
    world.leave_out(run.left_out());
    for buffer in 1..=BUFFERS {
        client.submit(&first, buffer, &[Command::Label { name: 0 }]);
    }
    let (copied, copied_at) = client.bytes(8);
    let (source, destination) = (GpuVa(first.progress_gpu_va), GpuVa(copied_at));
    client.submit(&other, 1, &[Command::Copy { source, destination, bytes: 8 }]);
    let (own, progress, probe) =
        (client.kernel.clone(), first.progress_value.clone(), world.probe.clone());
    let numbers = [&first, &other].map(|queue| client.number(queue.handle));
    let main = move |_: &Platform| {
        own.set_context_scheduling_priority(falling, -1).expect("the IDLE band");
        probe.note(notes::OWN, progress.load());
    };
    world.race(main, move |world, end| {
        let before = copied.read_u64(0).expect("8 bytes");
        let done = (first.progress_value.load(), other.progress_value.load());
        let returned = world.probe.seen(notes::OWN);
        let ran = world.packets_of_numbers(&numbers);
        end.eventually("all of both queues runs", done == (BUFFERS, 1));
        end.always("each command buffer runs once", ran == BUFFERS + 1);
        // The turn in which the call returned may end one of them.
        end.always(
            "from the end of the turn on the other queue comes first",
            done.1 == 0 || returned.is_none_or(|seen| before <= seen + 1),
        );
        end.sometimes(AT_ONCE, done.1 == 1 && before == 0);
        end.sometimes(BETWEEN, (1..BUFFERS).contains(&before));
        end.sometimes(TOO_LATE, before == BUFFERS);
    })
}
