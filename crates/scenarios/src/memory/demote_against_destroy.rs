//! The eviction of fence storage from local memory against the end of a fence in it. The driver is
//! told the new place of each fence that it has. A fence that it has destroyed is still in the
//! kernel's table while its mappings end, and must not be named.

use crate::prelude::*;

const MOVED: &str = "the storage moved";

pub(crate) const RACE: Race = Race {
    name: "demote-against-destroy",
    about: "fence storage leaves local memory while a fence in it is destroyed: the driver is told of fences that it has",
    marks: &[MOVED],
    planted: bugs! {
        "destroyed-fence-named" => Product(PlantedFault::DestroyedFenceMoves),
            "a fence that the driver has destroyed is moved and named to it";
    },
    shape: Shape::Machine(&[
        setting::WORKER_INTERRUPTS,
        setting::LOCAL_MONITORED_VALUES,
        setting::FEW_VALUES_A_PAGE,
    ]),
    plans: Plans::of(sampled(3_000), bounded(1, 20_000_000), sampled(100_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let client = world.client("app");
    let fence = client.native(0);
    let (calls, adapter) = (client.kernel.clone(), world.machine.adapter().clone());
    let bytes = run.platform.page(1).word(0);
    let moved = bytes.clone();
    let main = move |platform: &Platform| {
        let pressure = platform.spawn("memory pressure", move || {
            bytes.store(adapter.trim_fence_storage(0).expect("storage can move"));
        });
        calls.destroy_synchronization_object(fence.handle).expect("the fence exists");
        pressure.join();
    };
    world.race(main, move |_, end| {
        end.sometimes(MOVED, moved.load() > 0);
    })
}
