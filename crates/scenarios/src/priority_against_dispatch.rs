//! The race of a change of priority with the engine that serves the queue: a context of the FOCUS
//! band goes down to IDLE while its command buffers are dispatched, and another one of the NORMAL
//! band waits. When the call has returned, the engine ends the turn that it is in, and then the
//! other queue comes first.
//!
//! Everything is submitted before the run begins. The other queue's command copies the first one's
//! progress value, so that it is known how much of the first queue's work came before it.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::{LeftOut, notes};
use crate::world::{
    Setting, World, allocate_bytes, hw_context, plant, submit_commands, until_quiet,
};
use std::sync::Arc;
use tidegate::Platform;
use tidegate::calls::Kernel;
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::gpu_abi::{Command, GpuVa};

const AT_ONCE: &str = "the other queue comes before all work of the one that goes down";
const BETWEEN: &str = "it comes between two command buffers";
const TOO_LATE: &str = "all work was done before the change";

const PLANTED: &[PlantedBug] = &[
    PlantedBug {
        name: "not-told",
        about: "the driver does not pass the change on to the hardware",
    },
    PlantedBug {
        name: "stale-place",
        about: "an engine gives a queue back at the place that it had when it was taken",
    },
];

pub(crate) const RACE: Race = Race {
    name: "priority-against-dispatch",
    about: "a context loses its priority while its queue is dispatched: from the end of the turn on the other queue comes first",
    marks: &[AT_ONCE, BETWEEN, TOO_LATE],
    agents: &["engine", "timer", "main"],
    planted: PLANTED,
    plans: Plans {
        short: Plan::bounded(1, 5_000_000),
        full: Plan::exhaustive(20_000_000),
        bugs: Plan::exhaustive(5_000_000),
    },
    prepare,
    bug: None,
};

/// Command buffers of the queue that goes down.
const BUFFERS: u64 = 2;

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let left_out = if bug == Some("not-told") { LeftOut::Priority } else { LeftOut::Nothing };
    plant(platform, bug, &[("stale-place", "stale place")]);
    let world = World::new(platform, Setting::default());
    let kernel: Arc<dyn Kernel> = world.machine.privileged_process("app").expect("a process");
    let device = kernel.create_device().expect("a device");
    let (falling, first) = hw_context(&*kernel, device);
    let (_, other) = hw_context(&*kernel, device);
    kernel.set_context_scheduling_priority(falling, 1).expect("the FOCUS band");
    world.leave_out(left_out);
    for buffer in 1..=BUFFERS {
        submit_commands(&*kernel, device, &first, buffer, &[Command::Label { name: 0 }]);
    }
    let (copied, copied_at) = allocate_bytes(&*kernel, device, 8);
    let (source, destination) = (GpuVa(first.progress_gpu_va), GpuVa(copied_at));
    submit_commands(
        &*kernel,
        device,
        &other,
        1,
        &[Command::Copy { source, destination, bytes: 8 }],
    );
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
