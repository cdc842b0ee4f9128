//! The race of paging with an adapter that loses its power: an allocation leaves local memory so
//! that another one can come in, while an idle adapter gives up its power, for which everything has
//! to leave. Both move the same memory, one by an engine and one by the CPU, and neither may find
//! the other half done.
//!
//! Local memory holds one allocation, which one process has written and given up. In the run
//! another process submits a fill of its own allocation, which therefore has to come in, while
//! another agent takes the power. The driver's own look at its queues is off.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::notes;
use crate::world::{Setting, World, ends_well, plant, queue_on, until_quiet};
use tidegate::d3d12::{BufferDesc, CommandListType, DeviceOptions, Heap, ResidencyChoice};
use tidegate::ddi::DevicePowerState;
use tidegate::dxgkrnl::PowerManagement;
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const STAYED: &str = "the adapter kept its power because of the work, or of the paging";
const WOKEN: &str = "the power went, and paging woke the adapter";

const PLANTED: &[PlantedBug] = &[PlantedBug {
    name: "power-over-paging",
    about: "the kernel takes the power while an operation of paging is left to be carried out, and nobody gives it back for that",
}];

pub(crate) const RACE: Race = Race {
    name: "page-against-d3",
    about: "memory is paged while an idle adapter loses its power: nothing is lost, and the work runs",
    marks: &[STAYED, WOKEN],
    agents: &["engine", "timer", "main", "power", "paging"],
    planted: PLANTED,
    plans: Plans {
        short: Plan::sampled(20_000),
        full: Plan::sampled(1_000_000),
        bugs: Plan::sampled(100_000),
    },
    prepare,
    bug: None,
};

/// The power was not taken.
const KEPT: usize = notes::OWN;

/// Of each allocation.
const BYTES: u64 = 64;

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    plant(platform, bug, &[(PLANTED[0].name, "paging unseen")]);
    let power = PowerManagement::Managed;
    let world =
        World::new(platform, Setting { local_memory_bytes: BYTES, power, ..Setting::default() });
    let desc = |name: &str| BufferDesc { name: name.to_owned(), bytes: BYTES, heap: Heap::Default };
    let left = world.device.create_buffer(desc("left")).expect("a buffer");
    left.write(0, &[9; BYTES as usize]).expect("a write");
    world.device.evict(&[&left]).expect("an eviction");
    let options =
        DeviceOptions { residency: ResidencyChoice::Automatic, ..DeviceOptions::default() };
    let other = world.machine.device(options).expect("another process");
    let wanted = other.create_buffer(desc("wanted")).expect("a buffer");
    let queue = queue_on(&other, "copy", Submission::Hardware, 0);
    let mut list = other.create_command_list(CommandListType::Copy);
    list.fill(&wanted, 0, BYTES, 7).expect("a fill");
    let list = list.close().expect("a list");
    let (spawner, submitter, adapter) =
        (platform.clone(), queue.clone(), world.machine.adapter().clone());
    let (submitted, probe) = (list.clone(), world.probe.clone());
    let main = move || {
        spawner.spawn("power", move || {
            let state = adapter.power_down_if_idle().expect("power is managed");
            if state == DevicePowerState::D0 {
                probe.note(KEPT, 1);
            }
        });
        ends_well(submitter.execute(&[&submitted]));
        until_quiet(&spawner);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let (mut filled, mut kept) = ([0; 4], [0; BYTES as usize]);
        let read = wanted.read(BYTES - 4, &mut filled).is_ok() && left.read(0, &mut kept).is_ok();
        end.always("nothing of the submission faults", other.removed_reason().is_none());
        end.eventually("the work runs on memory that came in", read && filled == [7, 0, 0, 0]);
        end.always("what left local memory is kept", read && kept == [9; BYTES as usize]);
        end.sometimes(STAYED, world.probe.seen(KEPT).is_some());
        end.sometimes(WOKEN, world.probe.seen(notes::POWERED).is_some());
        world.must_be_sound(end);
        drop((queue, list, left));
    })
}
