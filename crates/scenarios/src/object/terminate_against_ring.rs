//! The termination of a process against its own rings and a neighbour that victimises its doorbell.
//! One thread of the process submits, another agent terminates the process, and the neighbour
//! submits from its own process. There is one physical doorbell.
//!
//! The process is connected before the run begins. Wherever the thread is, no work of the process
//! runs after its contexts are suspended, no object remains, and the neighbour's work completes.

use crate::prelude::*;

const RAN: &str = "the rung work ran before the termination";
const CUT_OFF: &str = "the ring preceded the termination, and its work never ran";
const REFUSED: &str = "the thread's call reported a lost device";
const VICTIMISED: &str = "a doorbell was victimised";

const ENDED: usize = notes::OWN;
const GONE: usize = notes::OWN + 1;
const RUNG: usize = notes::OWN + 2;

pub(crate) const RACE: Race = Race {
    name: "terminate-against-ring",
    about: "a process is terminated while it rings and loses its doorbell: its work and objects end, and the neighbour's work runs",
    marks: &[RAN, CUT_OFF, REFUSED, VICTIMISED],
    planted: bugs! {
        "destroyed-before-suspended" => Driver(LeftOut::Suspension),
            "the queue is still on the run list when it is destroyed: work runs for a terminated process";
    },
    shape: Shape::Machine(&[setting::ONE_DOORBELL]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let (theirs, done) = (world.queue("neighbour", Submission::User), world.fence("done"));
    let shared =
        world.device.create_fence_with(FenceDesc::new("shared").shared()).expect("a fence");
    let handle = world.device.create_shared_handle(&shared).expect("a handle");
    // A third process reads the shared fence.
    let watcher = world.client("watcher");
    let watched = watcher.open_shared(&handle, SyncObjectFlags::empty()).expect("a fence").value;
    theirs.signal(&done, 1).expect("a submission");
    let census = |world: &World| {
        let machine = &world.machine;
        (machine.adapter().census(), machine.driver().census(), machine.gpu().census())
    };
    let before = census(&world);
    let process = world.machine.process("victim").expect("a process");
    let device = world.machine.device_in(&process, run.device_options()).expect("a device");
    let queue = queue_on(&device, "victim", Submission::User);
    let opened = device.open_shared_handle("shared", &handle).expect("a fence");
    queue.signal(&opened, 1).expect("a submission");
    assert!(world.watched.set(watched).is_ok(), "no other fence is watched");
    let (ringer, rung, fence) =
        ((queue.clone(), opened.clone()), world.probe.clone(), done.clone());
    let (victim, probe) = ((Arc::clone(&process), device, queue, opened), world.probe.clone());
    let main = move |platform: &Platform| {
        let thread = platform.spawn("thread", move || match ringer.0.signal(&ringer.1, 2) {
            Ok(()) => rung.note(RUNG, 1),
            Err(Error::DeviceRemoved(_) | Error::QueueAborted { .. }) => rung.note(GONE, 1),
            call => assert_ok(call),
        });
        let other = platform.spawn("neighbour", move || assert_ok(theirs.signal(&fence, 2)));
        process.terminate();
        probe.note(ENDED, 1);
        assert_eq!((thread.join(), other.join()), (WaitEnd::Woken, WaitEnd::Woken));
    };
    world.race(main, move |world, end| {
        let value = shared.completed_value();
        let suspended_at = world.probe.seen(notes::SUSPENDED);
        let [ended, gone, rung] = [ENDED, GONE, RUNG].map(|note| world.noted(note));
        end.eventually("the process is terminated", ended);
        end.eventually("the neighbour's work is done", done.completed_value() == 2);
        end.always(
            "no work runs once the process is suspended",
            suspended_at.is_none_or(|at| at == value),
        );
        end.always("the thread's call ends before the process or fails", !ended || rung || gone);
        end.sometimes(RAN, value == 2);
        end.sometimes(CUT_OFF, rung && value < 2);
        end.sometimes(REFUSED, gone);
        end.sometimes(VICTIMISED, world.noted(notes::VICTIMISED));
        // Only the application's handles remain.
        let mut left = census(world);
        // The last connect decides whether the neighbour holds its doorbell at the end.
        let doorbells = std::mem::replace(&mut left.2.doorbells, before.2.doorbells);
        end.always(
            "no object of the process remains",
            !ended || (left == before && doorbells <= 1),
        );
        drop(victim);
    })
}
