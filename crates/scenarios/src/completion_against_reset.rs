//! The race of a completion with a recovery: packets of two devices are on an engine when a
//! time-out is forced, and may complete before it is looked at, while it is reset, or not at all.
//! The engine that is found done is left alone; else one device pays, that of the packet which the
//! driver names as cut off, and the other's packet is complete or comes back.
//!
//! A packet that completes after the ids were taken, with nothing left behind it, is named too (the
//! LastAbortedFenceId of an empty engine): its device is lost although it is done. So it is
//! published. Whatever the kernel decides, nobody waits for ever, and no fence is signalled by a
//! packet that did not run.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::{LeftOut, notes};
use crate::world::{Setting, World, ends_well, queue_on, until_quiet};
use tidegate::Platform;
use tidegate::Submission;
use tidegate::calls::TdrTest;
use tidegate::d3d12::{CommandListType, Device, Error, Fence, FenceChoice};
use tidegate::dxgkrnl::RecoveryOutcome;
use tidegate::explorer::{PlantedBug, Prepared, Verdict};

const NOTHING_LEFT: &str = "the packets were complete: nothing was reset";
const FIRST_LOST: &str = "the first packet's device was lost";
const SECOND_LOST: &str = "the second packet's device was lost";
const BACK: &str = "the second packet came back, and ran";
const DONE_AND_LOST: &str = "a packet was complete, and its device lost";

const PLANTED: &[PlantedBug] = &[PlantedBug {
    name: "wrong-aborted-id",
    about: "the driver names the packet behind the one that was cut off: that one counts as complete, and never ran",
}];

pub(crate) const RACE: Race = Race {
    name: "completion-against-reset",
    about: "packets complete while their engine is reset: one device is lost at most, and nothing counts as complete that is not",
    marks: &[NOTHING_LEFT, FIRST_LOST, SECOND_LOST, BACK, DONE_AND_LOST],
    agents: &["engine", "timer", "main", "waiter", "debugger"],
    planted: PLANTED,
    plans: Plans {
        short: Plan::sampled(30_000),
        full: Plan::sampled(3_000_000),
        bugs: Plan::sampled(100_000),
    },
    prepare,
    bug: None,
};

/// A packet of `device`, behind which a fence is signalled.
fn submits(device: &Device, name: &str) -> (tidegate::d3d12::Queue, Fence) {
    let queue = queue_on(device, name, Submission::Packet, 0);
    let fence = device.create_fence(name, 0).expect("a fence");
    let mut list = device.create_command_list(CommandListType::Copy);
    list.label("nothing").expect("a label");
    let list = list.close().expect("a list");
    queue.execute(&[&list]).expect("a submission");
    queue.signal(&fence, 1).expect("a signal");
    (queue, fence)
}

/// A device may be lost, and then it says so.
fn ends_or_is_lost(call: Result<(), Error>) {
    match call {
        Err(Error::DeviceRemoved(_)) => {}
        call => ends_well(call),
    }
}

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let left_out = if bug.is_some() { LeftOut::AbortedId } else { LeftOut::Nothing };
    // The reset is to hit the packets of the two processes, not those that fill save areas.
    let setting = Setting {
        fences: FenceChoice::Monitored,
        left_out,
        save_areas: false,
        ..Setting::default()
    };
    let world = World::new(platform, setting);
    let (first, first_done) = submits(&world.device, "first");
    let other = world.machine.device(setting.device_options()).expect("another process");
    let (second, second_done) = submits(&other, "second");
    let (spawner, adapter) = (platform.clone(), world.machine.adapter().clone());
    let (one, two) = (first_done.clone(), second_done.clone());
    let main = move || {
        let waiter = spawner.spawn("waiter", move || ends_or_is_lost(two.wait(1)));
        spawner.spawn("debugger", move || {
            let _stopped =
                adapter.debug_timeouts(TdrTest::EngineTdr { node_ordinal: 0, engine_ordinal: 0 });
        });
        ends_or_is_lost(one.wait(1));
        waiter.join();
        until_quiet(&spawner);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let stats = world.machine.gpu().stats();
        let ran = |tag: u32| stats.tags.get(&tag).map_or(0, |tag| tag.packets);
        let ran = [ran(first.tag()), ran(second.tag())];
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
            "an engine that is done costs nobody",
            outcome != Some(RecoveryOutcome::NothingLeft) || lost == [false; 2],
        );
        end.eventually(
            "whoever is not lost gets everything",
            each(&|n| lost[n] || (ran[n], values[n]) == (1, 1)),
        );
        end.eventually(
            "whoever waits for a lost one goes on",
            each(&|n| !lost[n] || values[n] >= 1),
        );
        end.sometimes(NOTHING_LEFT, outcome == Some(RecoveryOutcome::NothingLeft));
        end.sometimes(FIRST_LOST, lost[0]);
        end.sometimes(SECOND_LOST, lost[1]);
        end.sometimes(BACK, world.probe.seen(notes::RESUBMITTED).is_some() && !lost[1]);
        end.sometimes(DONE_AND_LOST, (0..2).any(|n| lost[n] && ran[n] == 1));
        world.must_be_sound(end);
        drop((first, second));
    })
}
