//! A recovery against a signal. One process hangs an engine on which a queue of another process is
//! parked, and the CPU signals that queue's fence at the time of the timeout. Whether the signal
//! comes before, during or after the reset, the work behind the wait runs once. Only the guilty
//! device is lost, and no waiter for its fences is left.
//!
//! The timeout is forced once one queue is parked and the other process's commands run.

use crate::prelude::*;

const BEFORE: &str = "the signal came before the reset";
const DURING: &str = "the signal came while the engine was reset";
const AFTER: &str = "the signal came after the engine had resumed";

const RESET_STATE: usize = notes::OWN;
const RETURNED: usize = notes::OWN + 1;

pub(crate) const NOT_BLAMED: Bug = Bug {
    name: "not-blamed",
    about: "the driver does not name the context that the reset aborted: every device with work on the engine is lost",
    fault: Fault::Driver(LeftOut::Blame),
};

pub(crate) const RACE: Race = Race {
    name: "hang-against-signal",
    about: "a hung engine is reset while a queue parked there is unblocked: it runs, and only the guilty device is lost",
    marks: &[BEFORE, DURING, AFTER],
    planted: &[
        NOT_BLAMED,
        Bug {
            name: "not-restarted",
            about: "the driver reports the engine as resumed, but it is not",
            fault: Fault::Driver(LeftOut::Restart),
        },
    ],
    shape: Shape::Machine(&[]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
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
        sleep_until_idle(platform);
        let returned = probe.clone();
        let waiter = platform.spawn("waiter", move || match never.wait(1) {
            Err(Error::DeviceRemoved(_)) => returned.note(RETURNED, 1),
            call => assert_ok(call),
        });
        platform.spawn("debugger", move || {
            // If the machine stops meanwhile, that is the failure.
            let _stopped =
                adapter.debug_timeouts(TdrTest::EngineTdr { node_ordinal: 0, engine_ordinal: 0 });
        });
        // A separate step, so that the note is taken when this agent is scheduled.
        let _not_yet = gate.completed_value();
        note_reset(&probe, RESET_STATE);
        assert_ok(gate.signal(1));
        assert_ok(passed.wait(1));
        waiter.join();
    };
    world.race(main, move |world, end| {
        let (guilty_ran, ran) = (world.packets_of(&[&guilty]), world.packets_of(&[&innocent]));
        let outcomes: Vec<_> =
            world.machine.adapter().recoveries().into_iter().map(|r| r.outcome).collect();
        end.always("the innocent device is not lost", world.device.removed_reason().is_none());
        end.always("the hanging work never completes", guilty_ran == 0);
        end.always("the work behind the wait runs once", ran <= 1);
        end.eventually(
            "the work runs and its signal follows",
            ran == 1 && done.completed_value() == 1,
        );
        end.eventually("the guilty device is lost", device.removed_reason().is_some());
        end.eventually("its waiter is released", world.noted(RETURNED));
        end.eventually("the engine is reset once", outcomes == [RecoveryOutcome::EngineReset]);
        let state = world.probe.seen(RESET_STATE);
        end.sometimes(BEFORE, state == Some(0));
        end.sometimes(DURING, state == Some(1));
        end.sometimes(AFTER, state == Some(2));
    })
}

/// Notes the state of the hardware: before its reset (0), during (1) or after (2).
pub(crate) fn note_reset(probe: &Probe, note: usize) {
    let [reset, went_on] = [notes::RESET, notes::RESUMED].map(|note| probe.seen(note).is_some());
    probe.note(note, u64::from(reset) + u64::from(went_on));
}
