//! A change of priority against the engine that serves the queue. A FOCUS context is demoted to
//! IDLE while its command buffers are dispatched and a NORMAL context waits. After the call has
//! returned, the engine finishes the current turn, and then the other queue runs.
//!
//! All work is submitted before the run begins. The command of the other queue copies the first
//! queue's progress value, which shows when it ran.

use crate::prelude::*;

const AT_ONCE: &str = "the other queue runs before all work of the demoted one";
const BETWEEN: &str = "the other queue runs between two command buffers";
const TOO_LATE: &str = "all work completed before the change";

pub(crate) const RACE: Race = Race {
    name: "priority-against-dispatch",
    about: "a context is demoted while its queue is dispatched: after the current turn the other queue runs first",
    marks: &[AT_ONCE, BETWEEN, TOO_LATE],
    planted: bugs! {
        "no-priority-update" => Driver(LeftOut::Priority),
            "the driver does not pass the change to the hardware";
        "stale-place" => Product(PlantedFault::StalePlace),
            "an engine requeues a queue at its old priority";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::of(bounded(1, 5_000_000), exhaustive(20_000_000), exhaustive(5_000_000)),
    prepare,
};

/// Number of command buffers of the demoted queue.
const BUFFERS: u64 = 2;

fn prepare(run: &Run<'_>) -> Prepared {
    let world = Run { bug: None, ..*run }.world();
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
        end.eventually("all work of both queues runs", done == (BUFFERS, 1));
        end.always("each command buffer runs once", ran == BUFFERS + 1);
        // The turn in which the call returned may complete one command buffer.
        end.always(
            "after the current turn the other queue runs first",
            done.1 == 0 || returned.is_none_or(|seen| before <= seen + 1),
        );
        end.sometimes(AT_ONCE, done.1 == 1 && before == 0);
        end.sometimes(BETWEEN, (1..BUFFERS).contains(&before));
        end.sometimes(TOO_LATE, before == BUFFERS);
    })
}
