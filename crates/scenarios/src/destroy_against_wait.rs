//! The race of a CPU wait with the end of the instance by which it is asked: the call finds the
//! handle, another thread destroys it, the call enters its wait. Another instance keeps the fence,
//! so that nobody but the end of this one releases the wait.
//!
//! Whoever comes first, the call returns: refused, or released.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::notes;
use crate::world::{Setting, World};
use tidegate::Platform;
use tidegate::calls::{
    CreateMonitoredFence, FenceValue, OpenSyncObject, Status, SyncObjectAccess, SyncObjectFlags,
    WaitMode,
};
use tidegate::explorer::{Prepared, Verdict};

const REFUSED: &str = "the instance was gone before the call";
const RELEASED: &str = "its end released the wait";

/// The wait was refused.
const WAS_REFUSED: usize = notes::OWN;
/// The wait was released.
const WAS_RELEASED: usize = notes::OWN + 1;

pub(crate) const RACE: Race = Race {
    name: "destroy-against-wait",
    about: "an instance of a fence is destroyed while a CPU thread begins to wait by it: the wait is refused or released",
    marks: &[REFUSED, RELEASED],
    agents: &["engine", "timer", "main", "destroyer"],
    planted: &[],
    plans: Plans {
        short: Plan::exhaustive(1_000_000),
        full: Plan::exhaustive(1_000_000),
        bugs: Plan::exhaustive(1_000_000),
    },
    prepare,
    bug: None,
};

fn prepare(platform: &Platform, _bug: Option<&'static str>) -> Prepared {
    let world = World::new(platform, Setting::default());
    let kernel = world.machine.open("app").expect("a process");
    let device = kernel.create_device().expect("a device");
    let flags = SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING;
    let make = CreateMonitoredFence {
        device,
        initial_value: 0,
        flags,
        engine_affinity: 0,
        name: "shared",
    };
    let first = kernel.create_monitored_fence(make).expect("a fence").handle;
    let nt_handle =
        kernel.share_objects(&[first], SyncObjectAccess::all()).expect("a handle for others");
    let open = OpenSyncObject {
        device,
        nt_handle: &nt_handle,
        flags: SyncObjectFlags::empty(),
        engine_affinity: 0,
    };
    kernel.open_sync_object_from_nt_handle(open).expect("a second instance");
    let (spawner, probe, waiting, destroying) =
        (platform.clone(), world.probe.clone(), kernel.clone(), kernel.clone());
    let main = move || {
        spawner.spawn("destroyer", move || {
            destroying
                .destroy_synchronization_object(first)
                .expect("it is there, and destroyed once");
        });
        match waiting.wait_from_cpu(&[FenceValue { fence: first, value: 1 }], WaitMode::All, None) {
            Ok(()) => probe.note(WAS_RELEASED, 1),
            Err(Status::INVALID_PARAMETER) => probe.note(WAS_REFUSED, 1),
            // The machine stopped: that the wait was left is the failure.
            Err(Status::CANCELLED) => {}
            Err(other) => panic!("{other:?}"),
        }
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        end.sometimes(REFUSED, world.probe.seen(WAS_REFUSED).is_some());
        end.sometimes(RELEASED, world.probe.seen(WAS_RELEASED).is_some());
        world.must_be_sound(end);
        drop((kernel, nt_handle));
    })
}
