//! The race of a change of priority with the engine that serves the queue: a context of the FOCUS band goes down to IDLE while its
//! command buffers are dispatched, and another one of the NORMAL band waits. When the call has returned, the engine ends the turn that it
//! is in, and then the other queue comes first.
//!
//! Everything is submitted before the run begins. The other queue's command copies the first one's progress value, so that it is known
//! how much of the first queue's work came before it.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::{LeftOut, notes};
use crate::world::{Setting, World, until_quiet};
use std::sync::Arc;
use tidegate::Platform;
use tidegate::calls::{
    AllocationKind, AllocationMemory, CreateAllocation, CreateHwContext, CreateHwQueue, Handle, HwQueue,
    Kernel, Placement, Priority, SubmitCommandToHwQueue,
};
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::gpu_abi::{Command, CommandWriter, GpuVa};
use tidegate::platform::Bulk;

const AT_ONCE: &str = "the other queue comes before all work of the one that goes down";
const BETWEEN: &str = "it comes between two command buffers";
const TOO_LATE: &str = "all work was done before the change";

const PLANTED: &[PlantedBug] = &[
    PlantedBug { name: "not-told", about: "the driver does not pass the change on to the hardware" },
    PlantedBug {
        name: "stale-place",
        about: "an engine gives a queue back at the place that it had when it was taken",
    },
];

pub(crate) const RACE: Race = Race {
    name: "priority-against-dispatch",
    about: "a context loses its priority while its queue is dispatched: from the end of the turn on the other queue comes first",
    marks: &[AT_ONCE, BETWEEN, TOO_LATE],
    agents: &["engine", "main"],
    planted: PLANTED,
    plans: Plans {
        short: Plan::bounded(1, 5_000_000),
        full: Plan::bounded(2, 20_000_000),
        bugs: Plan::bounded(1, 5_000_000),
    },
    prepare,
    bug: None,
};

/// Command buffers of the queue that goes down.
const BUFFERS: u64 = 2;

fn context(kernel: &dyn Kernel, device: Handle) -> (Handle, HwQueue) {
    let args = CreateHwContext { device, node_ordinal: 0, engine_affinity: 0 };
    let hw_context = kernel.create_hw_context(args).expect("a context");
    let (user_mode_submission, priority) = (false, Priority::Normal);
    let args = CreateHwQueue { hw_context, user_mode_submission, priority, tag: 0, lane: 0 };
    (hw_context, kernel.create_hw_queue(args).expect("a queue"))
}

fn bytes(kernel: &dyn Kernel, device: Handle, bytes: u64) -> (Bulk, u64) {
    let args = CreateAllocation { device, bytes, kind: AllocationKind::Bulk, placement: Placement::System };
    let made = kernel.create_allocation(args).expect("memory");
    let AllocationMemory::Bulk(memory) = made.memory else { panic!("bytes were asked for") };
    (memory, made.gpu_va)
}

fn submit(kernel: &dyn Kernel, device: Handle, queue: &HwQueue, progress_fence_id: u64, command: &Command) {
    let mut writer = CommandWriter::new();
    writer.push(command);
    let (memory, commands_gpu_va) = bytes(kernel, device, writer.bytes());
    memory.write(0, &writer.to_bytes()).expect("it was made for them");
    let args = SubmitCommandToHwQueue {
        hw_queue: queue.handle,
        progress_fence_id,
        commands_gpu_va,
        command_bytes: writer.bytes() as u32,
        queued_ns: 0,
    };
    kernel.submit_command_to_hw_queue(args).expect("a submission");
}

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let left_out = if bug == Some("not-told") { LeftOut::Priority } else { LeftOut::Nothing };
    let setting = Setting { stale_places: bug == Some("stale-place"), ..Setting::default() };
    let world = World::new(platform, setting);
    let kernel: Arc<dyn Kernel> = world.machine.privileged_process("app").expect("a process");
    let device = kernel.create_device().expect("a device");
    let (falling, first) = context(&*kernel, device);
    let (_, other) = context(&*kernel, device);
    kernel.set_context_scheduling_priority(falling, 1).expect("the FOCUS band");
    world.leave_out(left_out);
    for buffer in 1..=BUFFERS {
        submit(&*kernel, device, &first, buffer, &Command::Label { name: 0 });
    }
    let (copied, copied_at) = bytes(&*kernel, device, 8);
    let (source, destination) = (GpuVa(first.progress_gpu_va), GpuVa(copied_at));
    submit(&*kernel, device, &other, 1, &Command::Copy { source, destination, bytes: 8 });
    let (clock, own, progress, probe) =
        (platform.clone(), kernel.clone(), first.progress_value.clone(), world.probe.clone());
    let main = move || {
        own.set_context_scheduling_priority(falling, -1).expect("the IDLE band");
        probe.note(notes::OWN, progress.load());
        until_quiet(&clock);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let mut before = [0; 8];
        copied.read(0, &mut before).expect("8 bytes");
        let before = u64::from_le_bytes(before);
        let done = (first.progress_value.load(), other.progress_value.load());
        let returned = world.probe.seen(notes::OWN);
        let ran = world.machine.gpu().stats().tags.get(&0).map_or(0, |tag| tag.packets);
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
        world.must_be_sound(end);
        drop(kernel);
    })
}
