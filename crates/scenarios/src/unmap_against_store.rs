//! The race of a store by an engine with the end of the mapping that the store goes through. The
//! engine translates the address, and stores later in the same turn. Meanwhile the process destroys
//! the allocation, and its memory goes to another owner.
//!
//! When the call returns the driver has had the translations invalidated (`InvalidateTlb`). An
//! invalidation is complete when every turn that may use an old translation is over, so no store
//! lands in the memory from then on. A store that comes later faults.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::notes;
use crate::world::{Setting, World, plant, until_quiet};
use std::sync::Arc;
use tidegate::Platform;
use tidegate::calls::{
    AllocationKind, AllocationMemory, CreateAllocation, CreateHwContext, CreateHwQueue,
    DeviceState, Kernel, Placement, Priority, SubmitCommandToHwQueue,
};
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::gpu_abi::{Command, CommandWriter, GpuVa};

const STORED: &str = "the store landed before the memory was given away";
const FAULTED: &str = "the store came after the mapping was gone, and faulted";

const PLANTED: &[PlantedBug] = &[PlantedBug {
    name: "unawaited-turns",
    about: "the CMP invalidates translations and does not wait for the turns that use the old ones",
}];

pub(crate) const RACE: Race = Race {
    name: "unmap-against-store",
    about: "an allocation ends while an engine stores to it: nothing lands in its memory once the call has returned",
    marks: &[STORED, FAULTED],
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

/// What the engine stores, and what the next owner of the memory does.
const STALE: u64 = 7;
const NEXT: u64 = 9;

/// The note that the memory was given away, with what stood in it.
const GIVEN_AWAY: usize = notes::OWN;

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    plant(platform, bug, &[(PLANTED[0].name, "unawaited turns")]);
    let world = World::new(platform, Setting::default());
    let kernel: Arc<dyn Kernel> = world.machine.process("app").expect("a process");
    let device = kernel.create_device().expect("a device");
    let allocate = |bytes, kind| {
        let args = CreateAllocation { device, bytes, kind, placement: Placement::System };
        kernel.create_allocation(args).expect("memory")
    };
    let target = allocate(8, AllocationKind::Protocol);
    let AllocationMemory::Protocol(words) = target.memory else { panic!("words were asked for") };
    let mut writer = CommandWriter::new();
    writer.push(&Command::WriteValue { destination: GpuVa(target.gpu_va), value: STALE });
    let commands = allocate(writer.bytes(), AllocationKind::Bulk);
    let AllocationMemory::Bulk(bytes) = &commands.memory else { panic!("bytes were asked for") };
    bytes.write(0, &writer.to_bytes()).expect("it was made for them");
    let args = CreateHwContext { device, node_ordinal: 0, engine_affinity: 0 };
    let hw_context = kernel.create_hw_context(args).expect("a context");
    let (user_mode_submission, priority) = (false, Priority::Normal);
    let args = CreateHwQueue { hw_context, user_mode_submission, priority, tag: 1 };
    let queue = kernel.create_hw_queue(args).expect("a queue");
    let args = SubmitCommandToHwQueue {
        hw_queue: queue.handle,
        progress_fence_id: 1,
        commands_gpu_va: commands.gpu_va,
        command_bytes: writer.bytes() as u32,
    };
    kernel.submit_command_to_hw_queue(args).expect("a submission");
    let (clock, own, probe, word) =
        (platform.clone(), kernel.clone(), world.probe.clone(), words.word(0).clone());
    let main = move || {
        own.destroy_allocation(target.handle).expect("its own allocation");
        probe.note(GIVEN_AWAY, word.load());
        word.store(NEXT);
        until_quiet(&clock);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let found = world.probe.seen(GIVEN_AWAY);
        let faulted = kernel.device_state(device).is_ok_and(|state| state != DeviceState::Active);
        end.eventually("the allocation ends", found.is_some());
        let kept = words.word(0).load() == NEXT;
        end.always("nothing lands in memory that was given away", found.is_none() || kept);
        end.eventually("the store is made or faults", faulted != (found == Some(STALE)));
        end.sometimes(STORED, found == Some(STALE));
        end.sometimes(FAULTED, faulted);
        world.must_be_sound(end);
        drop(kernel);
    })
}
