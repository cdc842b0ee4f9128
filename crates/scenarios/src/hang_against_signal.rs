//! A recovery against a signal: one process hangs its engine, and the CPU signals the fence that the
//! queue of another process waits for there, at the moment of the time-out. Whether the signal comes
//! before, during or after the reset, the waiting queue runs what stands behind its wait, once; the
//! guilty device is lost, and no waiter is left behind a fence of it.
//!
//! The time-out is forced once everything stands: the one queue at its wait, the engine in the
//! other's commands.

use crate::prelude::*;
use tidegate::calls::TdrTest;
use tidegate::dxgkrnl::RecoveryOutcome;

const BEFORE: &str = "the signal came before the reset";
const DURING: &str = "the signal came while the engine was reset";
const AFTER: &str = "the signal came when the engine went on";

/// Notes of the run.
const STOOD: usize = notes::OWN;
const RETURNED: usize = notes::OWN + 1;

pub(crate) const NOT_BLAMED: Bug = Bug {
    name: "not-blamed",
    about: "the driver does not name the context whose work the reset cut off: every device with work on the engine is lost",
    fault: Fault::Driver(LeftOut::Blame),
};

pub(crate) const RACE: Race = Race {
    name: "hang-against-signal",
    about: "an engine that hangs is reset while a queue that waits there is let go on: it runs, and the guilty alone is lost",
    marks: &[BEFORE, DURING, AFTER],
    planted: &[
        NOT_BLAMED,
        Bug {
            name: "not-restarted",
            about: "the driver reports that the engine goes on, and it does not",
            fault: Fault::Driver(LeftOut::Restart),
        },
    ],
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world(|_| ());
    let innocent = world.queue("innocent", Submission::Hardware);
    let (gate, done) = (world.fence("gate"), world.fence("done"));
    innocent.wait(&gate, 1).expect("a wait");
    innocent.execute(&[&world.empty_list()]).expect("a submission");
    innocent.signal(&done, 1).expect("a signal");
    let device = world.another_device();
    let guilty = world.keep(queue_on(&device, "guilty", Submission::Hardware));
    let never = world.keep(device.create_fence("never", 0).expect("a fence"));
    let hang = world.keep(list_of(&device, |list| list.hang()));
    guilty.execute(&[&hang]).expect("a submission");
    guilty.signal(&never, 1).expect("a signal");
    let (probe, adapter) = (world.probe.clone(), world.machine.adapter().clone());
    let passed = done.clone();
    let main = move |platform: &Platform| {
        until_quiet(platform);
        let returned = probe.clone();
        let waiter = platform.spawn("waiter", move || match never.wait(1) {
            Err(Error::DeviceRemoved(_)) => returned.note(RETURNED, 1),
            call => ends_well(call),
        });
        platform.spawn("debugger", move || {
            // A machine that stops meanwhile is the failure by itself.
            let _stopped =
                adapter.debug_timeouts(TdrTest::EngineTdr { node_ordinal: 0, engine_ordinal: 0 });
        });
        // A step of its own, so that the note is taken when its turn has come.
        let _not_yet = gate.completed_value();
        note_reset(&probe, STOOD);
        ends_well(gate.signal(1));
        ends_well(passed.wait(1));
        waiter.join();
    };
    world.race(main, move |world, end| {
        let (guilty_ran, ran) = (world.packets_of(&[&guilty]), world.packets_of(&[&innocent]));
        let outcomes: Vec<_> =
            world.machine.adapter().recoveries().into_iter().map(|r| r.outcome).collect();
        end.always("the innocent device is not lost", world.device.removed_reason().is_none());
        end.always("what hangs never completes", guilty_ran == 0);
        end.always("the work behind the wait runs once", ran <= 1);
        end.eventually("it runs, and its signal comes", ran == 1 && done.completed_value() == 1);
        end.eventually("the guilty device is lost", device.removed_reason().is_some());
        end.eventually("its waiter returns", world.noted(RETURNED));
        end.eventually("the engine is reset once", outcomes == [RecoveryOutcome::EngineReset]);
        let stood = world.probe.seen(STOOD);
        end.sometimes(BEFORE, stood == Some(0));
        end.sometimes(DURING, stood == Some(1));
        end.sometimes(AFTER, stood == Some(2));
    })
}

/// Notes whether the hardware is before its reset (0), in it (1) or behind it (2).
pub(crate) fn note_reset(probe: &Probe, note: usize) {
    let [reset, went_on] = [notes::RESET, notes::WENT_ON].map(|note| probe.seen(note).is_some());
    probe.note(note, u64::from(reset) + u64::from(went_on));
}
