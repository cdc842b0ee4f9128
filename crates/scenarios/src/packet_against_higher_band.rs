//! The race of a queue of a higher band with an engine that may not leave a packet: its granularity
//! is DMA_BUFFER_BOUNDARY. A command buffer of two commands is on the engine when work of the FOCUS
//! queue arrives. The engine runs that work before the buffer begins or after it is done, and never
//! between its two commands.
//!
//! The buffers of the lower queue are submitted before the run begins. Each fills two words. The
//! FOCUS queue's command copies both words, which shows the place at which it ran.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::notes;
use crate::world::{
    Setting, World, allocate_bytes, command_buffer, hw_context, submit_commands, until_quiet,
};
use std::sync::Arc;
use tidegate::Platform;
use tidegate::calls::Kernel;
use tidegate::d3dukmdt::ComputePreemption;
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::gpu_abi::{Command, GpuVa};
use tidegate::platform::Bulk;

const BEFORE: &str = "the FOCUS queue comes before all buffers";
const BETWEEN: &str = "it comes between two buffers";
const AFTER: &str = "all buffers were done before";
const AMID: &str = "its work comes when the engine is in the middle of a buffer";

const PLANTED: &[PlantedBug] = &[PlantedBug {
    name: "left-in-the-middle",
    about: "the hardware leaves a packet between two commands, although it declares that it does not",
}];

pub(crate) const RACE: Race = Race {
    name: "packet-against-higher-band",
    about: "a queue of a higher band comes to an engine that may not leave a packet: it comes between two, and nothing is lost",
    marks: &[BEFORE, BETWEEN, AFTER, AMID],
    agents: &["engine", "timer", "main"],
    planted: PLANTED,
    plans: Plans {
        short: Plan::sampled(3_000),
        full: Plan::sampled(1_000_000),
        bugs: Plan::sampled(20_000),
    },
    prepare,
    bug: None,
};

/// Command buffers of the lower queue.
const BUFFERS: u64 = 2;

/// The two words that a buffer fills, each with the buffer's number in both halves.
fn words(memory: &Bulk) -> [u64; 2] {
    [0, 8].map(|at| memory.read_u64(at).expect("16 bytes") & u64::from(u32::MAX))
}

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let compute = match bug {
        None => ComputePreemption::DmaBuffer,
        Some(_) => ComputePreemption::ThreadGroup,
    };
    let world = World::new(platform, Setting { compute_preemption: compute, ..Setting::default() });
    let kernel: Arc<dyn Kernel> = world.machine.privileged_process("app").expect("a process");
    let device = kernel.create_device().expect("a device");
    let (_, low) = hw_context(&*kernel, device);
    let (urgent, high) = hw_context(&*kernel, device);
    kernel.set_context_scheduling_priority(urgent, 1).expect("the FOCUS band");
    let (filled, filled_at) = allocate_bytes(&*kernel, device, 16);
    let (copied, copied_at) = allocate_bytes(&*kernel, device, 16);
    for buffer in 1..=BUFFERS {
        let fill = |at| Command::Fill {
            destination: GpuVa(filled_at + at),
            bytes: 8,
            value: buffer as u32,
        };
        submit_commands(&*kernel, device, &low, buffer, &[fill(0), fill(8)]);
    }
    let (own, clock) = (kernel.clone(), platform.clone());
    let (probe, seen) = (world.probe.clone(), filled.clone());
    let copy = Command::Copy { source: GpuVa(filled_at), destination: GpuVa(copied_at), bytes: 16 };
    let urgent_work = command_buffer(&*kernel, device, &high, 1, &[copy]);
    let main = move || {
        own.submit_command_to_hw_queue(urgent_work).expect("a submission");
        let [first, second] = words(&seen);
        probe.note(notes::OWN, u64::from(first != second));
        until_quiet(&clock);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let done = (low.progress_value.load(), high.progress_value.load());
        let ran = world.machine.gpu().stats().tags.get(&0).map_or(0, |tag| tag.packets);
        let [first, second] = words(&copied);
        end.eventually("all of both queues runs", done == (BUFFERS, 1));
        end.always("each command buffer runs once", ran == BUFFERS + 1);
        end.always("no queue comes between the commands of a buffer", first == second);
        end.always("what the buffers leave is whole", words(&filled) == [BUFFERS; 2]);
        end.sometimes(BEFORE, done.1 == 1 && first == 0);
        end.sometimes(BETWEEN, (1..BUFFERS).contains(&first));
        end.sometimes(AFTER, first == BUFFERS);
        end.sometimes(AMID, world.probe.seen(notes::OWN) == Some(1));
        world.must_be_sound(end);
        drop(kernel);
    })
}
