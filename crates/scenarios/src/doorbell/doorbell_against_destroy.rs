//! A doorbell that is created for a queue while another thread of the process destroys the queue. A
//! queue with a doorbell cannot be destroyed, and a queue that is being destroyed gets no doorbell.
//!
//! So exactly one of the two calls succeeds.

use super::of_new_queue;
use crate::prelude::*;

const CREATED: &str = "the doorbell was created";
const DESTROYED: &str = "the queue was destroyed";

const WAS_CREATED: usize = notes::OWN;
const WAS_DESTROYED: usize = notes::OWN + 1;

pub(crate) const RACE: Race = Race {
    name: "doorbell-against-destroy",
    about: "a doorbell is created while another thread destroys its queue: one of the calls is refused",
    marks: &[CREATED, DESTROYED],
    planted: bugs! {
        "late-entry" => Product(PlantedFault::DoorbellEnteredAfterItsTransition),
            "the doorbell is found only after its transition: the queue is destroyed meanwhile, and the doorbell lives on";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let client = world.client("app");
    let args = of_new_queue(&client);
    let hw_queue = args.hw_queue;
    let kernel = client.kernel.clone();
    let (probe, noted) = (world.probe.clone(), world.probe.clone());
    let main = move |platform: &Platform| {
        let destroying = kernel.clone();
        platform.spawn("destroyer", move || {
            let destroyed = destroying.destroy_hw_queue(hw_queue).is_ok();
            noted.note(WAS_DESTROYED, u64::from(destroyed));
        });
        let created = kernel.create_doorbell(args);
        probe.note(WAS_CREATED, u64::from(created.is_ok()));
    };
    world.race(main, move |world, end| {
        let [created, destroyed] = [WAS_CREATED, WAS_DESTROYED].map(|note| world.probe.seen(note));
        let both = created.zip(destroyed).map(|(created, destroyed)| created + destroyed);
        end.always("one of the calls is refused", both.is_none_or(|succeeded| succeeded == 1));
        end.sometimes(CREATED, created == Some(1));
        end.sometimes(DESTROYED, destroyed == Some(1));
    })
}
