//! The race of a process that is terminated with its own rings, beside a neighbour that takes its
//! doorbell away: a thread of the process submits while somebody else ends it, and the neighbour,
//! in a process of its own, submits with the only physical doorbell.
//!
//! The process is connected before the run begins. Whatever the thread has reached, nothing of it
//! runs once its contexts are suspended, nothing of it is left at the end, and the neighbour's work
//! is done.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::{LeftOut, notes};
use crate::world::{Setting, World, ends_well, queue_on, until_quiet};
use std::sync::Arc;
use tidegate::calls::{Kernel, OpenSyncObject, SyncObjectFlags};
use tidegate::d3d12::{Error, FenceFlags};
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::platform::WaitEnd;
use tidegate::{Platform, Submission};

const RAN: &str = "the ring's work ran before the end";
const CUT_OFF: &str = "the ring came before the end, and its work never ran";
const REFUSED: &str = "the thread was told that its device is gone";
const VICTIMISED: &str = "a doorbell was taken away";

/// Notes of the run.
const ENDED: usize = notes::OWN;
const TOLD: usize = notes::OWN + 1;
const RUNG: usize = notes::OWN + 2;

const PLANTED: &[PlantedBug] = &[PlantedBug {
    name: "destroyed-before-suspended",
    about: "the queue is still on the run list when it is taken apart: work runs for a process that is gone",
}];

pub(crate) const RACE: Race = Race {
    name: "terminate-against-ring",
    about: "a process is terminated while it rings and loses its doorbell: nothing of it runs on or is left, the neighbour works",
    marks: &[RAN, CUT_OFF, REFUSED, VICTIMISED],
    agents: &["engine", "timer", "main", "thread", "neighbour"],
    planted: PLANTED,
    plans: Plans {
        short: Plan::sampled(30_000),
        full: Plan::sampled(3_000_000),
        bugs: Plan::sampled(100_000),
    },
    prepare,
    bug: None,
};

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let left_out = if bug.is_some() { LeftOut::Suspension } else { LeftOut::Nothing };
    let setting = Setting { doorbells: 1, left_out, ..Setting::default() };
    let world = World::new(platform, setting);
    let (theirs, done) = (world.queue("neighbour", Submission::User, 0), world.fence("done"));
    let shared = world.device.create_fence_with("shared", 0, FenceFlags::SHARED).expect("a fence");
    let handle = world.device.create_shared_handle(&shared).expect("a handle");
    // Something outside of both processes looks at the shared fence.
    let watcher = world.machine.process("watcher").expect("a process");
    let open = OpenSyncObject {
        device: watcher.create_device().expect("a device"),
        nt_handle: &handle,
        flags: SyncObjectFlags::empty(),
        engine_affinity: 0,
    };
    let looked_at = watcher.open_sync_object_from_nt_handle(open).expect("a fence").value;
    theirs.signal(&done, 1).expect("a submission");
    let census = |world: &World| {
        let machine = &world.machine;
        (machine.adapter().census(), machine.driver().census(), machine.gpu().census())
    };
    let before = census(&world);
    let process = world.machine.process("victim").expect("a process");
    let device = world.machine.device_in(&process, setting.device_options()).expect("a device");
    let queue = queue_on(&device, "victim", Submission::User, 0);
    let opened = device.open_shared_handle("shared", &handle).expect("a fence");
    queue.signal(&opened, 1).expect("a submission");
    assert!(world.watched.set(looked_at).is_ok(), "watched once");
    let victim = (Arc::clone(&process), device, queue, opened);
    let (spawner, probe) = (platform.clone(), world.probe.clone());
    let (ringer, rung) = ((victim.2.clone(), victim.3.clone()), probe.clone());
    let (neighbour, fence) = (theirs.clone(), done.clone());
    let main = move || {
        let thread = spawner.spawn("thread", move || match ringer.0.signal(&ringer.1, 2) {
            Ok(()) => rung.note(RUNG, 1),
            Err(Error::DeviceRemoved(_) | Error::QueueAborted { .. }) => rung.note(TOLD, 1),
            Err(Error::Stopped) => {}
            Err(error) => panic!("{error}"),
        });
        let other = spawner.spawn("neighbour", move || {
            ends_well(neighbour.signal(&fence, 2));
        });
        process.terminate();
        probe.note(ENDED, 1);
        assert_eq!((thread.join(), other.join()), (WaitEnd::Woken, WaitEnd::Woken));
        until_quiet(&spawner);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let value = shared.completed_value();
        let suspended_at = world.probe.seen(notes::SUSPENDED);
        let (ended, told) = (world.probe.seen(ENDED).is_some(), world.probe.seen(TOLD).is_some());
        let rung = world.probe.seen(RUNG).is_some();
        end.eventually("the process is ended", ended);
        end.eventually("the neighbour's work is done", done.completed_value() == 2);
        end.always("nothing runs once it is suspended", suspended_at.is_none_or(|at| at == value));
        end.always("the thread hears of the end or was before it", !ended || rung || told);
        end.sometimes(RAN, value == 2);
        end.sometimes(CUT_OFF, rung && value < 2);
        end.sometimes(REFUSED, told);
        end.sometimes(VICTIMISED, world.probe.seen(notes::VICTIMISED).is_some());
        world.must_be_sound(end);
        // The application's handles of it are still there; nothing else is.
        let mut left = census(&world);
        // Whether the neighbour has its doorbell at the end depends on who came last.
        let doorbells = std::mem::replace(&mut left.2.doorbells, before.2.doorbells);
        end.always("nothing is left of it", !ended || (left == before && doorbells <= 1));
        drop((victim, theirs, watcher));
    })
}
