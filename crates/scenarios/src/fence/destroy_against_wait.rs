//! A CPU wait against the destruction of the fence instance that it names. Another thread may
//! destroy the instance after the call has found the handle and before it registers its wait. A
//! second instance keeps the fence alive, so only the destruction of the first can release the
//! wait. The call is either refused or released.

use crate::prelude::*;

const REFUSED: &str = "the instance was destroyed before the call";
const RELEASED: &str = "its destruction released the wait";

const WAS_REFUSED: usize = notes::OWN;
const WAS_RELEASED: usize = notes::OWN + 1;

pub(crate) const RACE: Race = Race {
    name: "destroy-against-wait",
    about: "an instance of a fence is destroyed while a CPU thread begins to wait on it: the wait is refused or released",
    marks: &[REFUSED, RELEASED],
    planted: &[],
    shape: Shape::Machine(&[]),
    plans: Plans::all(exhaustive(1_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let client = world.client("app");
    let flags = SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING;
    let first = client.try_monitored(0, flags).expect("a fence");
    let nt_handle = client.share(&first, SyncObjectAccess::all()).expect("a handle for others");
    client.open_shared(&nt_handle, SyncObjectFlags::empty()).expect("a second instance");
    let (probe, waiting, destroying) =
        (world.probe.clone(), client.kernel.clone(), client.kernel.clone());
    let main = move |platform: &Platform| {
        let instance = first.handle;
        platform.spawn("destroyer", move || {
            destroying.destroy_synchronization_object(instance).expect("it is destroyed once");
        });
        match waiting.wait_from_cpu(&at(&first, 1), WaitMode::All, None) {
            Ok(()) => probe.note(WAS_RELEASED, 1),
            Err(Status::INVALID_PARAMETER) => probe.note(WAS_REFUSED, 1),
            // The machine stopped. The blocked wait is then reported as the failure.
            Err(Status::CANCELLED) => {}
            Err(other) => panic!("{other:?}"),
        }
    };
    world.race_without_pause(main, move |world, end| {
        end.sometimes(REFUSED, world.noted(WAS_REFUSED));
        end.sometimes(RELEASED, world.noted(WAS_RELEASED));
        drop(nt_handle);
    })
}
