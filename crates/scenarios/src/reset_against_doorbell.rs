//! A reset against doorbells: an engine that another process hangs, or the whole adapter, is reset
//! while a process rings a doorbell that is connected, and connects one that is not.
//!
//! The reset of the engine costs the process nothing: doorbells stay, and whatever was rung runs
//! once. The reset of the adapter costs it its device if it had work there; then its doorbells say
//! ABORT and are off the hardware. If it had none, it keeps them, and what it rings runs. One of the
//! two holds, whenever the ring came.
//!
//! The first queue is connected, by a first submission, before the run begins. The time-out is
//! forced once the engine hangs.

use crate::hang_against_signal::{NOT_BLAMED, note_reset};
use crate::prelude::*;
use tidegate::calls::TdrTest;

const BEFORE: &str = "the process rang before the reset";
const DURING: &str = "the process rang while the hardware was reset";
const AFTER: &str = "the process rang when the hardware went on";
const LOST: &str = "the process had work there, and its device was lost";
const SPARED: &str = "the process came out of the reset with its device";

/// How the hardware stood when the process rang: a note of the run.
const STOOD: usize = notes::OWN;

const NOT_RESTARTED: Bug = Bug {
    name: "not-restarted",
    about: "the driver reports that the hardware goes on, and it does not",
    fault: Fault::Driver(LeftOut::Restart),
};
const PLANS: Plans = Plans::samples(30_000, 3_000_000, 100_000);

pub(crate) const OF_ENGINE: Race = Race {
    name: "reset-against-doorbell",
    about: "an engine is reset while another process rings and connects doorbells on it: everything that was rung runs once",
    marks: &[BEFORE, DURING, AFTER],
    planted: &[NOT_BLAMED, NOT_RESTARTED],
    plans: PLANS,
    prepare: |run| prepare(run, TdrTest::EngineTdr { node_ordinal: 0, engine_ordinal: 0 }),
};

pub(crate) const OF_ADAPTER: Race = Race {
    name: "adapter-reset-against-doorbell",
    about: "an adapter is reset while a process rings and connects doorbells: it runs everything once, or its doorbells say ABORT",
    marks: &[BEFORE, DURING, AFTER, LOST, SPARED],
    planted: &[
        Bug {
            name: "keeps-doorbells",
            about: "the driver leaves the doorbells of a lost device on the hardware, which goes on reading them",
            fault: Fault::Driver(LeftOut::Disconnection),
        },
        NOT_RESTARTED,
    ],
    plans: PLANS,
    prepare: |run| prepare(run, TdrTest::ForceTdr),
};

/// Command buffers of the innocent process.
const SUBMITTED: u64 = 3;

fn prepare(run: &Run<'_>, test: TdrTest) -> Prepared {
    let of_adapter = test == TdrTest::ForceTdr;
    let world = run.world(|_| ());
    let [connected, fresh] = ["connected", "fresh"].map(|name| world.queue(name, Submission::User));
    let list = world.empty_list();
    connected.execute(&[&list]).expect("a submission");
    let device = world.another_device();
    let guilty = world.keep(queue_on(&device, "guilty", Submission::Hardware));
    let hangs = world.keep(list_of(&device, |list| list.hang()));
    let (probe, adapter) = (world.probe.clone(), world.machine.adapter().clone());
    let (work, ringers) = (list.clone(), [connected.clone(), fresh.clone()]);
    let main = move |platform: &Platform| {
        // The first submission is complete, and then the engine hangs.
        until_quiet(platform);
        ends_well(guilty.execute(&[&hangs]));
        until_quiet(platform);
        let debugger = platform.spawn("debugger", move || {
            // A machine that stops meanwhile is the failure by itself.
            let _stopped = adapter.debug_timeouts(test);
        });
        for queue in ringers {
            match queue.execute(&[&work]) {
                Err(Error::DeviceRemoved(_) | Error::QueueAborted { .. }) => {}
                call => ends_well(call),
            }
            note_reset(&probe, STOOD);
        }
        debugger.join();
    };
    world.race(main, move |world, end| {
        let ran = world.packets_of(&[&connected, &fresh]);
        let lost = world.device.removed_reason().is_some();
        let doorbells = world.machine.gpu().census().doorbells;
        end.always("each command buffer runs once at most", ran <= SUBMITTED);
        end.always("an engine's reset costs the guilty alone", of_adapter || !lost);
        end.eventually("what was rung runs, or the device is lost", lost || ran == SUBMITTED);
        end.always("no doorbell of a lost device is on the hardware", !lost || doorbells == 0);
        end.eventually("the guilty device is lost", device.removed_reason().is_some());
        // Outside of the run: a ring from now on is refused.
        let refused = |queue: &Queue| {
            let rung = queue.execute(&[&list]);
            matches!(rung, Err(Error::DeviceRemoved(_) | Error::QueueAborted { .. }))
        };
        end.always(
            "a doorbell of a lost device says ABORT",
            !lost || refused(&connected) && refused(&fresh),
        );
        let stood = world.probe.seen(STOOD);
        end.sometimes(BEFORE, stood == Some(0));
        end.sometimes(DURING, stood == Some(1));
        end.sometimes(AFTER, stood == Some(2));
        end.sometimes(LOST, lost);
        end.sometimes(SPARED, !lost);
    })
}
