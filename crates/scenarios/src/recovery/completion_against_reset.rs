//! The completion of packets against a recovery. Packets of two devices are on an engine when a
//! timeout is forced. They may complete before the recovery reads the engine's state, during the
//! reset, or not at all. An idle engine is not reset. Otherwise the device of the packet that the
//! driver reports as aborted is lost, and the other packet completes or is resubmitted.
//!
//! If a packet completes after the IDs were read and the engine is then empty, it is still reported
//! as LastAbortedFenceId. Its device is lost although the packet is complete, as published. Every
//! wait ends, and no fence is signalled for a packet that did not run.

use crate::prelude::*;

const NOTHING_LEFT: &str = "the packets were complete: no reset";
const FIRST_LOST: &str = "the first packet's device was lost";
const SECOND_LOST: &str = "the second packet's device was lost";
const BACK: &str = "the second packet was resubmitted and ran";
const DONE_AND_LOST: &str = "a packet was complete and its device lost";

pub(crate) const RACE: Race = Race {
    name: "completion-against-reset",
    about: "packets complete while their engine is reset: at most one device is lost, and no unfinished packet counts as complete",
    marks: &[NOTHING_LEFT, FIRST_LOST, SECOND_LOST, BACK, DONE_AND_LOST],
    planted: bugs! {
        "wrong-aborted-id" => Driver(LeftOut::AbortedId),
            "the driver names the packet after the aborted one: the aborted one counts as complete and never ran";
        "open-to-packets" => Product(PlantedFault::PacketsEnterBesideAReset),
            "packets enter an engine that is reset for its hardware queues: the reset empties the ring, and nothing reports the packet as lost";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

/// Submits a packet of `device`, followed by a signal.
fn submit(world: &World, device: &Device, name: &str) -> (Queue, Fence) {
    let queue = world.keep(queue_on(device, name, Submission::Packet));
    let fence = device.create_fence(name, 0).expect("a fence");
    let list = list_of(device, |list| list.label("nothing"));
    queue.execute(&[&list]).expect("a submission");
    queue.signal(&fence, 1).expect("a signal");
    (queue, fence)
}

/// Accepts success, or the error of a lost device.
fn assert_ok_or_lost(call: Result<(), Error>) {
    match call {
        Err(Error::DeviceRemoved(_)) => {}
        call => assert_ok(call),
    }
}

fn prepare(run: &Run<'_>) -> Prepared {
    // Monitored fences need no save-area packets, so the reset meets only packets of processes.
    let world = Run { fences: FenceChoice::Monitored, ..*run }.world();
    let (first, first_done) = submit(&world, &world.device, "first");
    let other = world.another_device();
    let (second, second_done) = submit(&world, &other, "second");
    let adapter = world.machine.adapter().clone();
    let (one, two) = (first_done.clone(), second_done.clone());
    let main = move |platform: &Platform| {
        let waiter = platform.spawn("waiter", move || assert_ok_or_lost(two.wait(1)));
        platform.spawn("debugger", move || {
            let _stopped =
                adapter.debug_timeouts(TdrTest::EngineTdr { node_ordinal: 0, engine_ordinal: 0 });
        });
        assert_ok_or_lost(one.wait(1));
        waiter.join();
    };
    world.race(main, move |world, end| {
        let ran = [&first, &second].map(|queue| world.packets_of(&[queue]));
        let lost = [&world.device, &other].map(|device| device.removed_reason().is_some());
        let values = [first_done.completed_value(), second_done.completed_value()];
        let outcome = world.machine.adapter().recoveries().into_iter().map(|r| r.outcome).next();
        let each = |holds: &dyn Fn(usize) -> bool| holds(0) && holds(1);
        end.always("at most one device is lost", lost != [true, true]);
        end.always("each packet runs at most once", each(&|n| ran[n] <= 1));
        end.always(
            "no fence is signalled for a packet that did not run",
            each(&|n| values[n] != 1 || ran[n] == 1),
        );
        end.always(
            "no device is lost on an idle engine",
            outcome != Some(RecoveryOutcome::NothingLeft) || lost == [false; 2],
        );
        end.eventually(
            "the work of a surviving device completes",
            each(&|n| lost[n] || (ran[n], values[n]) == (1, 1)),
        );
        end.eventually(
            "waiters for a lost device are released",
            each(&|n| !lost[n] || values[n] >= 1),
        );
        end.sometimes(NOTHING_LEFT, outcome == Some(RecoveryOutcome::NothingLeft));
        end.sometimes(FIRST_LOST, lost[0]);
        end.sometimes(SECOND_LOST, lost[1]);
        end.sometimes(BACK, world.noted(notes::RESUBMITTED) && !lost[1]);
        end.sometimes(DONE_AND_LOST, (0..2).any(|n| lost[n] && ran[n] == 1));
    })
}
