//! The completion of packets against a recovery: packets of two devices are on an engine when a
//! time-out is forced. They may complete before the recovery reads the engine's state, during the
//! reset, or not at all. An engine that is found done is left alone. Otherwise one device is lost,
//! that of the packet which the driver reports as aborted, and the other's packet completes or comes
//! back.
//!
//! A packet that completes after the ids were taken, with nothing left behind it, is reported too
//! (the LastAbortedFenceId of an empty engine): its device is lost although it is done, as
//! published. Every wait ends, and no fence is signalled by a packet that did not run.

use crate::prelude::*;
use tidegate::calls::TdrTest;
use tidegate::dxgkrnl::RecoveryOutcome;

const NOTHING_LEFT: &str = "the packets were complete: nothing was reset";
const FIRST_LOST: &str = "the first packet's device was lost";
const SECOND_LOST: &str = "the second packet's device was lost";
const BACK: &str = "the second packet came back, and ran";
const DONE_AND_LOST: &str = "a packet was complete, and its device lost";

pub(crate) const RACE: Race = Race {
    name: "completion-against-reset",
    about: "packets complete while their engine is reset: one device is lost at most, and nothing counts as complete that is not",
    marks: &[NOTHING_LEFT, FIRST_LOST, SECOND_LOST, BACK, DONE_AND_LOST],
    planted: &[Bug {
        name: "wrong-aborted-id",
        about: "the driver names the packet behind the aborted one: that one counts as complete, and never ran",
        fault: Fault::Driver(LeftOut::AbortedId),
    }],
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

/// A packet of `device`, behind which a fence is signalled.
fn submits(world: &World, device: &Device, name: &str) -> (Queue, Fence) {
    let queue = world.keep(queue_on(device, name, Submission::Packet));
    let fence = device.create_fence(name, 0).expect("a fence");
    let list = list_of(device, |list| list.label("nothing"));
    queue.execute(&[&list]).expect("a submission");
    queue.signal(&fence, 1).expect("a signal");
    (queue, fence)
}

/// A device may be lost, and then the call returns it.
fn ends_or_is_lost(call: Result<(), Error>) {
    match call {
        Err(Error::DeviceRemoved(_)) => {}
        call => ends_well(call),
    }
}

fn prepare(run: &Run<'_>) -> Prepared {
    // The reset is to hit the packets of the two processes, not those that fill save areas.
    let world = Run { fences: FenceChoice::Monitored, ..*run }
        .world(|config| config.driver.save_areas = false);
    let (first, first_done) = submits(&world, &world.device, "first");
    let other = world.another_device();
    let (second, second_done) = submits(&world, &other, "second");
    let adapter = world.machine.adapter().clone();
    let (one, two) = (first_done.clone(), second_done.clone());
    let main = move |platform: &Platform| {
        let waiter = platform.spawn("waiter", move || ends_or_is_lost(two.wait(1)));
        platform.spawn("debugger", move || {
            let _stopped =
                adapter.debug_timeouts(TdrTest::EngineTdr { node_ordinal: 0, engine_ordinal: 0 });
        });
        ends_or_is_lost(one.wait(1));
        waiter.join();
    };
    world.race(main, move |world, end| {
        let ran = [&first, &second].map(|queue| world.packets_of(&[queue]));
        let lost = [&world.device, &other].map(|device| device.removed_reason().is_some());
        let values = [first_done.completed_value(), second_done.completed_value()];
        let outcome = world.machine.adapter().recoveries().into_iter().map(|r| r.outcome).next();
        let each = |holds: &dyn Fn(usize) -> bool| holds(0) && holds(1);
        end.always("one device is lost at most", lost != [true, true]);
        end.always("each packet runs once at most", each(&|n| ran[n] <= 1));
        end.always(
            "no fence is signalled for a packet that did not run",
            each(&|n| values[n] != 1 || ran[n] == 1),
        );
        end.always(
            "an engine that is done costs no device",
            outcome != Some(RecoveryOutcome::NothingLeft) || lost == [false; 2],
        );
        end.eventually(
            "a device that is not lost gets everything",
            each(&|n| lost[n] || (ran[n], values[n]) == (1, 1)),
        );
        end.eventually("the waiter for a lost one goes on", each(&|n| !lost[n] || values[n] >= 1));
        end.sometimes(NOTHING_LEFT, outcome == Some(RecoveryOutcome::NothingLeft));
        end.sometimes(FIRST_LOST, lost[0]);
        end.sometimes(SECOND_LOST, lost[1]);
        end.sometimes(BACK, world.noted(notes::RESUBMITTED) && !lost[1]);
        end.sometimes(DONE_AND_LOST, (0..2).any(|n| lost[n] && ran[n] == 1));
    })
}
