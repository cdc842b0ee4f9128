//! Work of a higher band against an engine that cannot preempt inside a packet: its granularity is
//! DMA_BUFFER_BOUNDARY. A command buffer of two commands is on the engine when work of the FOCUS
//! queue arrives. The engine may run it before or after the buffer, but never between its commands.
//!
//! The buffers of the lower queue are submitted before the run begins. Each fills two words. The
//! command of the FOCUS queue copies both words, which shows when it ran.

use crate::prelude::*;

const BEFORE: &str = "the FOCUS work runs before all buffers";
const BETWEEN: &str = "the FOCUS work runs between two buffers";
const AFTER: &str = "the FOCUS work runs after all buffers";
const AMID: &str = "the FOCUS work arrives in the middle of a buffer";

pub(crate) const RACE: Race = Race {
    name: "packet-against-higher-band",
    about: "higher-band work arrives at an engine that cannot preempt inside a packet: it runs between packets, and no work is lost",
    marks: &[BEFORE, BETWEEN, AFTER, AMID],
    planted: bugs! {
        "left-in-the-middle" => Scenario,
            "the hardware preempts inside a packet, although it declares that it does not";
    },
    shape: Shape::Machine(&[setting::PREEMPTION_BETWEEN_BUFFERS]),
    plans: Plans::samples(3_000, 1_000_000, 20_000),
    prepare,
};

/// Number of command buffers of the lower queue.
const BUFFERS: u64 = 2;

/// Returns the two words, which every buffer fills with its number in both halves.
fn words(memory: &Bulk) -> [u64; 2] {
    [0, 8].map(|at| memory.read_u64(at).expect("16 bytes") & u64::from(u32::MAX))
}

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world_with_bug(|config| {
        config.gpu.nodes[0].preemption.compute = ComputePreemption::ThreadGroup;
    });
    let client = world.privileged_client("app");
    let low = client.hw_queue();
    let urgent = client.hw_context(0);
    let high = client.hw_queue_in(urgent, false).expect("a queue");
    client.kernel.set_context_scheduling_priority(urgent, 1).expect("the FOCUS band");
    let ((filled, filled_at), (copied, copied_at)) = (client.bytes(16), client.bytes(16));
    for buffer in 1..=BUFFERS {
        let fill = |at| Command::Fill {
            destination: GpuVa(filled_at + at),
            bytes: 8,
            value: buffer as u32,
        };
        client.submit(&low, buffer, &[fill(0), fill(8)]);
    }
    let (own, probe, seen) = (client.kernel.clone(), world.probe.clone(), filled.clone());
    let copy = Command::Copy { source: GpuVa(filled_at), destination: GpuVa(copied_at), bytes: 16 };
    let urgent_work = client.command_buffer(&high, 1, &[copy]);
    let numbers = [&low, &high].map(|queue| client.number(queue.handle));
    let main = move |_: &Platform| {
        own.submit_command_to_hw_queue(urgent_work).expect("a submission");
        let [first, second] = words(&seen);
        probe.note(notes::OWN, u64::from(first != second));
    };
    world.race(main, move |world, end| {
        let done = (low.progress_value.load(), high.progress_value.load());
        let ran = world.packets_of_numbers(&numbers);
        let [first, second] = words(&copied);
        end.eventually("all work of both queues runs", done == (BUFFERS, 1));
        end.always("each command buffer runs once", ran == BUFFERS + 1);
        end.always("no other work runs between the commands of a buffer", first == second);
        end.always("the last buffer's words are complete", words(&filled) == [BUFFERS; 2]);
        end.sometimes(BEFORE, done.1 == 1 && first == 0);
        end.sometimes(BETWEEN, (1..BUFFERS).contains(&first));
        end.sometimes(AFTER, first == BUFFERS);
        end.sometimes(AMID, world.probe.seen(notes::OWN) == Some(1));
    })
}
