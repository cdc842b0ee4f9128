//! Two suspensions of a context whose work hangs. Both waits time out, and each waiter finds the
//! hang: the first recovery resets the engine, and the second finding is stale. Work of another
//! process runs on the engine between the two.
//!
//! Invariants: the engine is reset once, only the guilty device is lost, and the innocent work runs
//! once.

use crate::prelude::*;
use tidegate::d3d12::testing::TestCommands;
use tidegate::dxgkrnl::RecoveryOutcome;

const RAN_BETWEEN: &str = "the innocent work was done before both suspensions had ended";
const RAN_AFTER: &str = "the innocent work was done after both suspensions";

const HELD: [usize; 2] = [notes::OWN, notes::OWN + 1];
const ORDER: usize = notes::OWN + 2;

pub(crate) const RACE: Race = Race {
    name: "suspend-against-suspend",
    about: "two suspensions wait for a context that hangs: its engine is reset once, and only the guilty device is lost",
    marks: &[RAN_BETWEEN, RAN_AFTER],
    planted: &[Bug {
        name: "stale-finding",
        about: "a hang that a reset has ended is recovered from again: the engine is reset under innocent work",
        fault: Fault::Product("a finding is recovered from after a reset"),
    }],
    shape: Shape::Machine(&[]),
    plans: Plans::samples(30_000, 1_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let innocent = world.queue("innocent", Submission::Packet);
    let (done, empty) = (world.fence("done"), world.empty_list());
    let device = world.another_device();
    let guilty = world.keep(queue_on(&device, "guilty", Submission::Hardware));
    let hang = world.keep(list_of(&device, |list| list.hang()));
    guilty.execute(&[&hang]).expect("a submission");
    let (probe, adapter) = (world.probe.clone(), world.machine.adapter().clone());
    let (queue, passed) = (innocent.clone(), done.clone());
    let main = move |platform: &Platform| {
        sleep_until_idle(platform);
        assert_ok(queue.execute(&[&empty]));
        assert_ok(queue.signal(&passed, 1));
        let holders = HELD.map(|note| {
            let (adapter, probe) = (adapter.clone(), probe.clone());
            platform.spawn("holder", move || {
                // If the machine stops meanwhile, that is the failure.
                let _held = adapter.suspend_contexts();
                probe.note(note, 1);
            })
        });
        assert_ok(passed.wait(1));
        let over = HELD.iter().all(|note| probe.seen(*note).is_some());
        probe.note(ORDER, 1 + u64::from(over));
        holders.into_iter().for_each(|holder| _ = holder.join());
    };
    world.race(main, move |world, end| {
        let ran = world.packets_of(&[&innocent]);
        let outcomes: Vec<_> =
            world.machine.adapter().recoveries().into_iter().map(|r| r.outcome).collect();
        end.always("the innocent device is not lost", world.device.removed_reason().is_none());
        end.always("the innocent work runs once", ran <= 1);
        end.eventually("it runs and its signal follows", ran == 1 && done.completed_value() == 1);
        end.eventually("the guilty device is lost", device.removed_reason().is_some());
        end.eventually("the engine is reset once", outcomes == [RecoveryOutcome::EngineReset]);
        let order = world.probe.seen(ORDER);
        end.sometimes(RAN_BETWEEN, order == Some(1));
        end.sometimes(RAN_AFTER, order == Some(2));
    })
}
