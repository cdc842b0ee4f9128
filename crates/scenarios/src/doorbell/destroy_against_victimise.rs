//! Destroying doorbells against the victimisation of one of them. A queue connects and takes the
//! only physical doorbell, while another agent destroys a queue that was never connected and then
//! the victim. The driver's callback runs inside the connect's transition. Other agents may release
//! the doorbell meanwhile, and destroying it needs that transition. In this scenario the driver
//! also reports, on every connect, that the never-connected doorbell is lost.

use crate::prelude::*;

const VICTIMISED: &str = "the doorbell was victimised";
const FREE: &str = "the doorbell was free before the connect";

/// Set when both queues are destroyed.
const ENDED: usize = notes::OWN;

pub(crate) const RACE: Race = Race {
    name: "destroy-against-victimise",
    about: "a queue takes the only physical doorbell while its owner and another queue are destroyed: all calls finish",
    marks: &[VICTIMISED, FREE],
    planted: &[],
    shape: Shape::Machine(&[setting::ONE_DOORBELL]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = Run { first_doorbell_lost: true, ..*run }.world();
    // Not kept by the world, because the run drops the last handles.
    let idle = queue_on(&world.device, "idle", Submission::User);
    // The victim has work, and so ends with its device at the latest.
    let device = world.machine.device(run.device_options()).expect("a device of the victim");
    let victim = queue_on(&device, "victim", Submission::User);
    let before = device.create_fence("before", 0).expect("a fence");
    let second = world.queue("second", Submission::User);
    let done = world.fence("done");
    victim.signal(&before, 1).expect("a submission");
    let (probe, fence) = (world.probe.clone(), done.clone());
    let main = move |platform: &Platform| {
        let other = platform.spawn("other", move || {
            drop(idle);
            drop((victim, before, device));
        });
        assert_ok(second.signal(&fence, 1));
        if other.join() == WaitEnd::Woken {
            probe.note(ENDED, 1);
        }
    };
    world.race(main, move |world, end| {
        let victimised = world.noted(notes::VICTIMISED);
        end.eventually("the queues are destroyed", world.noted(ENDED));
        end.eventually("the remaining queue works", done.completed_value() == 1);
        end.sometimes(VICTIMISED, victimised);
        end.sometimes(FREE, !victimised);
    })
}
