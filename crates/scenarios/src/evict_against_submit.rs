//! An eviction against a submission: a process gives up an allocation behind the work that uses it,
//! and another process needs its room. The kernel must know the queued work before it gives the
//! room away. Therefore a submission comes first and its eviction second.
//!
//! Local memory holds one allocation. It is in use by a fill that is submitted in the run; another
//! process requests the room.

use crate::prelude::*;
use tidegate::d3d12::{BufferDesc, DeviceOptions, Heap, ResidencyChoice};

const GIVEN: &str = "the room was given to the other process";
const REFUSED: &str = "the other process came while the room was held";

pub(crate) const RACE: Race = Race {
    name: "evict-against-submit",
    about: "an allocation leaves local memory for another one while it is submitted work's: the work runs, and finds it",
    marks: &[GIVEN, REFUSED],
    planted: &[Bug {
        name: "evict-first",
        about: "the eviction comes before the submission that it is for: the kernel does not know of the use, and moves the memory",
        fault: Fault::Scenario,
    }],
    plans: Plans::samples(20_000, 1_000_000, 20_000),
    prepare,
};

/// Of each allocation.
const BYTES: u64 = 64;

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world(|config| config.gpu.local_memory_bytes = BYTES);
    let queue = world.queue("copy", Submission::Hardware);
    let desc = |name: &str| BufferDesc { name: name.to_owned(), bytes: BYTES, heap: Heap::Default };
    let used = world.keep(world.device.create_buffer(desc("used")).expect("a buffer"));
    let list = world.keep(list_of(&world.device, |list| list.fill(&used, 0, BYTES, 7)));
    let options =
        DeviceOptions { residency: ResidencyChoice::Automatic, ..DeviceOptions::default() };
    let other = world.machine.device(options).expect("another process");
    let wanted = world.keep(other.create_buffer(desc("wanted")).expect("a buffer"));
    let (device, other_device) = (world.device.clone(), other.clone());
    let (evicted, evicts_first) = (used.clone(), run.has("evict-first"));
    let main = move |platform: &Platform| {
        let pressure =
            platform.spawn("other process", move || match other_device.make_resident(&[&wanted]) {
                Err(Error::OverBudget { .. }) => {}
                call => ends_well(call),
            });
        if evicts_first {
            ends_well(device.evict(&[&evicted]));
        }
        let ran = queue.execute(&[&list]);
        if !evicts_first {
            ends_well(device.evict(&[&evicted]));
        }
        // With the bug the device may be lost by now, which the check sees.
        if ran.is_ok() {
            pressure.join();
        }
    };
    world.race(main, move |world, end| {
        let given = other.video_memory().is_ok_and(|memory| memory.current_usage == BYTES);
        let mut bytes = [0; 4];
        let read = used.read(BYTES - 4, &mut bytes).is_ok();
        end.always("nothing of the submission faults", world.device.removed_reason().is_none());
        end.eventually("the work runs", read && bytes == [7, 0, 0, 0]);
        end.sometimes(GIVEN, given);
        end.sometimes(REFUSED, !given);
    })
}
