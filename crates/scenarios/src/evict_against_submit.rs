//! The race of an eviction with a submission: a process gives up an allocation behind the work that
//! uses it, and another one wants its room. Whoever takes the room away must know by then what is
//! queued. That is why a submission comes first and its eviction second.
//!
//! Local memory holds one allocation. It is in use by a fill that is submitted in the run; another
//! process asks for the room.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::world::{Setting, World, ends_well, until_quiet};
use tidegate::d3d12::{BufferDesc, CommandListType, DeviceOptions, Error, Heap, ResidencyChoice};
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const GIVEN: &str = "the room was given to the other process";
const REFUSED: &str = "the other process came while the room was held";

const PLANTED: &[PlantedBug] = &[PlantedBug {
    name: "evict-first",
    about: "the eviction comes before the submission that it is for: the kernel does not know of the use, and moves the memory",
}];

pub(crate) const RACE: Race = Race {
    name: "evict-against-submit",
    about: "an allocation leaves local memory for another one while it is submitted work's: the work runs, and finds it",
    marks: &[GIVEN, REFUSED],
    agents: &["engine", "timer", "main", "other process", "paging"],
    planted: PLANTED,
    plans: Plans {
        short: Plan::sampled(20_000),
        full: Plan::sampled(1_000_000),
        bugs: Plan::sampled(20_000),
    },
    prepare,
    bug: None,
};

/// Of each allocation.
const BYTES: u64 = 64;

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let world = World::new(platform, Setting { local_memory_bytes: BYTES, ..Setting::default() });
    let queue = world.queue("copy", Submission::Hardware, 0);
    let desc = |name: &str| BufferDesc { name: name.to_owned(), bytes: BYTES, heap: Heap::Default };
    let used = world.device.create_buffer(desc("used")).expect("a buffer");
    let mut list = world.device.create_command_list(CommandListType::Copy);
    list.fill(&used, 0, BYTES, 7).expect("a fill");
    let list = list.close().expect("a list");
    let options =
        DeviceOptions { residency: ResidencyChoice::Automatic, ..DeviceOptions::default() };
    let other = world.machine.device(options).expect("another process");
    let wanted = other.create_buffer(desc("wanted")).expect("a buffer");
    let (clock, device, other_device) = (platform.clone(), world.device.clone(), other.clone());
    let (submits, submitted, evicted, wants) =
        (queue.clone(), list.clone(), used.clone(), wanted.clone());
    let evicts_first = bug.is_some();
    let main = move || {
        let pressure =
            clock.spawn("other process", move || match other_device.make_resident(&[&wants]) {
                Err(Error::OverBudget { .. }) => {}
                call => ends_well(call),
            });
        if evicts_first {
            ends_well(device.evict(&[&evicted]));
        }
        let ran = submits.execute(&[&submitted]);
        if !evicts_first {
            ends_well(device.evict(&[&evicted]));
        }
        // With the bug the device may be lost by now, which the check sees.
        if ran.is_ok() {
            pressure.join();
        }
        until_quiet(&clock);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let given = other.video_memory().is_ok_and(|memory| memory.current_usage == BYTES);
        let mut bytes = [0; 4];
        let read = used.read(BYTES - 4, &mut bytes).is_ok();
        end.always("nothing of the submission faults", world.device.removed_reason().is_none());
        end.eventually("the work runs", read && bytes == [7, 0, 0, 0]);
        end.sometimes(GIVEN, given);
        end.sometimes(REFUSED, !given);
        world.must_be_sound(end);
        drop((queue, list, wanted));
    })
}
