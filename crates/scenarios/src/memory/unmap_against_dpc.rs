//! The removal of a mapping against a DPC on the thread of the engine that it waits for. Two
//! engines share one thread, as in the machine that ships. The second keeps its queue from turn to
//! turn, and the first completes packets: its interrupt and DPC run inline, and the DPC submits the
//! next packet through the mailbox. Meanwhile another process destroys an allocation, and its
//! driver call waits for the turn of the second engine to end.
//!
//! The wait holds no lock that the DPC can want. With the mailbox held, the DPC blocks, the thread
//! never ends that turn, and the adapter makes no progress.

use crate::prelude::*;

const WAITED: &str = "the call waited for the end of a turn";
const UNDISTURBED: &str = "no engine was in a turn";

pub(crate) const RACE: Race = Race {
    name: "unmap-against-dpc",
    about: "an allocation is destroyed while engines of one thread keep a queue and run a DPC: everything completes",
    marks: &[WAITED, UNDISTURBED],
    planted: bugs! {
        "mailbox-held" => Product(PlantedFault::SleepsWithTheMailbox),
            "the driver waits for the end of a turn with the mailbox locked, which the DPC wants";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::of(sampled(30_000), bounded(1, 20_000_000), sampled(100_000)),
    prepare,
};

/// Packets of the first engine: more than the driver's ring takes at a time.
const PACKETS: u64 = 3;

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let client = world.client("app");
    let context = client.context(0);
    let (commands_gpu_va, command_bytes) = client.commands(&[Command::Label { name: 1 }]);
    for _ in 0..PACKETS {
        let packet = SubmitCommand { context, commands_gpu_va, command_bytes };
        client.kernel.submit_command(packet).expect("a submission");
    }
    let (queue, fence) = (world.queue_at(1, "kept"), world.fence("kept"));
    queue.signal(&fence, 1).expect("a submission");
    let other = world.client("other");
    let unused = other.allocate(8, AllocationKind::Protocol).handle;
    let main = move |_: &Platform| {
        other.kernel.destroy_allocation(unused).expect("the allocation exists");
    };
    world.race(main, move |world, end| {
        let waited = world.machine.gpu().turn_ends_awaited() > 0;
        end.eventually("the second engine's work completes", fence.completed_value() == 1);
        let counts = world.machine.gpu().stats().queues;
        let completed: u64 = counts.values().map(|queue| queue.packets).sum();
        end.eventually("the packets complete", completed >= PACKETS);
        end.sometimes(WAITED, waited);
        end.sometimes(UNDISTURBED, !waited);
    })
}
