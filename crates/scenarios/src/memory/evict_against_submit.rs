//! An eviction against a submission. A process submits work and then evicts the allocation that the
//! work uses, and another process needs the space. The kernel must see the queued work before it
//! frees the space, so the submission must precede the eviction.
//!
//! Local memory has room for one allocation. In the run, a fill of it is submitted and another
//! process requests the space.

use crate::prelude::*;

const GIVEN: &str = "the other process received the space";
const REFUSED: &str = "the other process requested space while the allocation was held";

pub(crate) const RACE: Race = Race {
    name: "evict-against-submit",
    about: "an allocation in use by submitted work is evicted for another one: the work runs and finds it",
    marks: &[GIVEN, REFUSED],
    planted: bugs! {
        "evict-first" => Scenario,
            "the eviction precedes the submission that uses the memory: the kernel misses the use and moves the memory";
    },
    shape: Shape::Machine(&[setting::LITTLE_LOCAL_MEMORY]),
    plans: Plans::samples(20_000, 1_000_000, 20_000),
    prepare,
};

/// Size of each allocation in bytes.
const BYTES: u64 = 64;

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let queue = world.queue("copy", Submission::Hardware);
    let desc = |name: &str| BufferDesc::gpu_upload(name, BYTES);
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
                call => assert_ok(call),
            });
        if evicts_first {
            assert_ok(device.evict(&[&evicted]));
        }
        let ran = queue.execute(&[&list]);
        if !evicts_first {
            assert_ok(device.evict(&[&evicted]));
        }
        // With the bug, the device may be lost here; the check detects that.
        if ran.is_ok() {
            pressure.join();
        }
    };
    world.race(main, move |world, end| {
        let given = other.video_memory().is_ok_and(|memory| memory.current_usage == BYTES);
        let mut bytes = [0; 4];
        let read = used.read(BYTES - 4, &mut bytes).is_ok();
        end.always("the submission does not fault", world.device.removed_reason().is_none());
        end.eventually("the work runs", read && bytes == [7, 0, 0, 0]);
        end.sometimes(GIVEN, given);
        end.sometimes(REFUSED, !given);
    })
}
