//! Objects that are created for a device while another thread of the process destroys it. Each
//! create call is refused, or the end of the device destroys the object.
//!
//! At the end the adapter has as many devices and fences as before.

use crate::prelude::*;

const REFUSED: &str = "both calls came after the end of the device";
const BOTH: &str = "both objects were created";
const ONE: &str = "one object was created";

const CREATED: usize = notes::OWN;

pub(crate) const RACE: Race = Race {
    name: "create-against-destroy",
    about: "objects are created for a device while another thread destroys it: none outlives its device",
    marks: &[REFUSED, BOTH, ONE],
    planted: bugs! {
        "late-retirement" => Product(PlantedFault::DeviceRetiredAfterItsObjects),
            "the device is retired after its objects were destroyed: an object that is created in between outlives it";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let client = world.client("app");
    let kernel: Arc<dyn Kernel> = client.kernel.clone();
    let counted = |world: &World| {
        let census = world.machine.adapter().census();
        (census.devices, census.fences)
    };
    let before = counted(&world);
    let device = kernel.create_device().expect("a device");
    let ending = Client::of(world.machine.platform(), kernel.clone(), device);
    let probe = world.probe.clone();
    let main = move |platform: &Platform| {
        platform.spawn("destroyer", move || kernel.destroy_device(device).expect("it exists"));
        let fences = [0, 1].map(|_| ending.try_monitored(0, SyncObjectFlags::empty()).is_ok());
        probe.note(CREATED, fences.into_iter().map(u64::from).sum());
    };
    world.race(main, move |world, end| {
        end.eventually("no object outlives its device", counted(world) == before);
        let created = world.probe.seen(CREATED);
        end.sometimes(REFUSED, created == Some(0));
        end.sometimes(BOTH, created == Some(2));
        end.sometimes(ONE, created == Some(1));
    })
}
