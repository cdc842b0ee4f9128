//! A reset against doorbells. An engine that another process hangs, or the whole adapter, is reset
//! while a process rings a connected doorbell and connects another one.
//!
//! An engine reset does not affect the process: doorbells stay connected and all rung work runs
//! once. An adapter reset loses the process's device if it had work there; its doorbells then read
//! ABORT and are off the hardware. Otherwise it keeps its doorbells and its work runs. This holds
//! for every time of the ring.
//!
//! A first submission connects the first queue before the run begins. The timeout is forced once
//! the engine hangs.

use crate::prelude::*;
use crate::recovery::hang_against_signal::{NOT_BLAMED, note_reset};

const BEFORE: &str = "the process rang before the reset";
const DURING: &str = "the process rang while the hardware was reset";
const AFTER: &str = "the process rang after the hardware had resumed";
const LOST: &str = "the process had work on the hardware and lost its device";
const SPARED: &str = "the device of the process survived the reset";

/// Note: state of the hardware when the process rang.
const RESET_STATE: usize = notes::OWN;

const NOT_RESTARTED: Bug = Bug {
    name: "not-restarted",
    about: "the driver reports the hardware as resumed, but it is not",
    fault: Fault::Driver(LeftOut::Restart),
};
const PLANS: Plans = Plans::samples(30_000, 3_000_000, 100_000);

pub(crate) const OF_ENGINE: Race = Race {
    name: "reset-against-doorbell",
    about: "an engine is reset while another process rings and connects doorbells on it: all rung work runs once",
    marks: &[BEFORE, DURING, AFTER],
    planted: &[NOT_BLAMED, NOT_RESTARTED],
    shape: Shape::Machine(&[]),
    plans: PLANS,
    prepare: |run| prepare(run, TdrTest::EngineTdr { node_ordinal: 0, engine_ordinal: 0 }),
};

pub(crate) const OF_ADAPTER: Race = Race {
    name: "adapter-reset-against-doorbell",
    about: "an adapter is reset while a process rings and connects doorbells: its work runs once, or its doorbells read ABORT",
    marks: &[BEFORE, DURING, AFTER, LOST, SPARED],
    planted: &[
        Bug {
            name: "keeps-doorbells",
            about: "the driver does not disconnect the doorbells of a lost device, and the hardware keeps reading them",
            fault: Fault::Driver(LeftOut::Disconnection),
        },
        NOT_RESTARTED,
    ],
    shape: Shape::Machine(&[]),
    plans: PLANS,
    prepare: |run| prepare(run, TdrTest::ForceTdr),
};

/// Number of command buffers of the innocent process.
const SUBMITTED: u64 = 3;

fn prepare(run: &Run<'_>, test: TdrTest) -> Prepared {
    let of_adapter = test == TdrTest::ForceTdr;
    let world = run.world();
    let [connected, fresh] = ["connected", "fresh"].map(|name| world.queue(name, Submission::User));
    let list = world.empty_list();
    connected.execute(&[&list]).expect("a submission");
    let device = world.another_device();
    let guilty = world.keep(queue_on(&device, "guilty", Submission::Hardware));
    let hangs = world.keep(list_of(&device, |list| list.hang()));
    let (probe, adapter) = (world.probe.clone(), world.machine.adapter().clone());
    let (work, ringers) = (list.clone(), [connected.clone(), fresh.clone()]);
    let main = move |platform: &Platform| {
        // Wait until the first submission is complete and the engine hangs.
        sleep_until_idle(platform);
        assert_ok(guilty.execute(&[&hangs]));
        sleep_until_idle(platform);
        let debugger = platform.spawn("debugger", move || {
            // If the machine stops meanwhile, that is the failure.
            let _stopped = adapter.debug_timeouts(test);
        });
        for queue in ringers {
            match queue.execute(&[&work]) {
                Err(Error::DeviceRemoved(_) | Error::QueueAborted { .. }) => {}
                call => assert_ok(call),
            }
            note_reset(&probe, RESET_STATE);
        }
        debugger.join();
    };
    world.race(main, move |world, end| {
        let ran = world.packets_of(&[&connected, &fresh]);
        let lost = world.device.removed_reason().is_some();
        let doorbells = world.machine.gpu().census().doorbells;
        end.always("each command buffer runs at most once", ran <= SUBMITTED);
        end.always("an engine reset loses only the guilty device", of_adapter || !lost);
        end.eventually("rung work runs, or the device is lost", lost || ran == SUBMITTED);
        end.always("no doorbell of a lost device is on the hardware", !lost || doorbells == 0);
        end.eventually("the guilty device is lost", device.removed_reason().is_some());
        // Outside of the run, where a ring must be refused.
        let refused = |queue: &Queue| {
            let rung = queue.execute(&[&list]);
            matches!(rung, Err(Error::DeviceRemoved(_) | Error::QueueAborted { .. }))
        };
        end.always(
            "a doorbell of a lost device reads ABORT",
            !lost || refused(&connected) && refused(&fresh),
        );
        let state = world.probe.seen(RESET_STATE);
        end.sometimes(BEFORE, state == Some(0));
        end.sometimes(DURING, state == Some(1));
        end.sometimes(AFTER, state == Some(2));
        end.sometimes(LOST, lost);
        end.sometimes(SPARED, !lost);
    })
}
