//! The race of a reset with doorbells: an engine that somebody else hangs, or the whole adapter, is
//! reset while a process rings a doorbell that it has, and connects one that it has not.
//!
//! The reset of the engine costs the process nothing: doorbells stay, and whatever was rung runs
//! once. The reset of the adapter costs it its device if it had work there; then its doorbells say
//! ABORT and are off the hardware. If it had none, it keeps them, and what it rings runs. One of
//! the two, whenever the ring came.
//!
//! The first queue is connected, by a first submission, before the run begins. The time-out is
//! forced once the engine hangs.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::{LeftOut, notes};
use crate::world::{Setting, World, ends_well, queue_on, until_quiet};
use tidegate::calls::TdrTest;
use tidegate::d3d12::{CommandListType, Error};
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const BEFORE: &str = "the process rang before the reset";
const DURING: &str = "the process rang while the hardware was reset";
const AFTER: &str = "the process rang when the hardware went on";
const LOST: &str = "the process had work there, and its device was lost";
const SPARED: &str = "the process came out of the reset with its device";

/// How the hardware stood when the process rang: a note of the run.
const STOOD: usize = notes::OWN;

const NOT_RESTARTED: &str = "not-restarted";
const NOBODY_NAMED: &str = "nobody-named";

const PLANTED_IN_ENGINE: &[PlantedBug] = &[
    PlantedBug {
        name: NOBODY_NAMED,
        about: "the driver does not say whose work the reset cut off: whoever has work on the engine pays",
    },
    PlantedBug {
        name: NOT_RESTARTED,
        about: "the driver says that the engine goes on, and it does not",
    },
];

const PLANTED_IN_ADAPTER: &[PlantedBug] = &[
    PlantedBug {
        name: "keeps-doorbells",
        about: "the driver leaves the doorbells of a lost device on the hardware, which goes on looking at them",
    },
    PlantedBug {
        name: NOT_RESTARTED,
        about: "the driver says that the hardware goes on, and it does not",
    },
];

const PLANS: Plans = Plans {
    short: Plan::sampled(30_000),
    full: Plan::sampled(3_000_000),
    bugs: Plan::sampled(100_000),
};

pub(crate) const OF_ENGINE: Race = Race {
    name: "reset-against-doorbell",
    about: "an engine is reset while somebody else rings and connects doorbells on it: everything that was rung runs once",
    marks: &[BEFORE, DURING, AFTER],
    agents: &["engine", "timer", "main", "debugger"],
    planted: PLANTED_IN_ENGINE,
    plans: PLANS,
    prepare: |platform, bug| {
        prepare(platform, bug, TdrTest::EngineTdr { node_ordinal: 0, engine_ordinal: 0 })
    },
    bug: None,
};

pub(crate) const OF_ADAPTER: Race = Race {
    name: "adapter-reset-against-doorbell",
    about: "an adapter is reset while a process rings and connects doorbells: it runs everything once, or its doorbells say ABORT",
    marks: &[BEFORE, DURING, AFTER, LOST, SPARED],
    agents: &["engine", "timer", "main", "debugger"],
    planted: PLANTED_IN_ADAPTER,
    plans: PLANS,
    prepare: |platform, bug| prepare(platform, bug, TdrTest::ForceTdr),
    bug: None,
};

/// Command buffers of the innocent process.
const SUBMITTED: u64 = 3;

fn prepare(platform: &Platform, bug: Option<&'static str>, test: TdrTest) -> Prepared {
    let left_out = match bug {
        Some(NOBODY_NAMED) => LeftOut::Blame,
        Some(NOT_RESTARTED) => LeftOut::Restart,
        Some(_) => LeftOut::Disconnection,
        None => LeftOut::Nothing,
    };
    // Who resets the adapter is alone with the driver: that is the timer's kernel.
    let of_adapter = test == TdrTest::ForceTdr;
    let setting = Setting { left_out, ..Setting::default() };
    let world = World::new(platform, setting);
    let (connected, fresh) =
        (world.queue("connected", Submission::User, 0), world.queue("fresh", Submission::User, 0));
    let list = world.empty_list();
    connected.execute(&[&list]).expect("a submission");
    let device = world.machine.device(setting.device_options()).expect("another process");
    let guilty = queue_on(&device, "guilty", Submission::Hardware, 0);
    let mut hangs = device.create_command_list(CommandListType::Copy);
    hangs.hang().expect("a command");
    let hangs = hangs.close().expect("a list");
    let (spawner, probe, adapter) =
        (platform.clone(), world.probe.clone(), world.machine.adapter().clone());
    let (work, ringers) = (list.clone(), [connected.clone(), fresh.clone()]);
    let (hanging, last_words) = (guilty.clone(), hangs.clone());
    let main = move || {
        // The first submission is complete, and then the engine hangs.
        until_quiet(&spawner);
        ends_well(hanging.execute(&[&last_words]));
        until_quiet(&spawner);
        let debugger = spawner.spawn("debugger", move || {
            // A machine that stops meanwhile is the failure by itself.
            let _stopped = adapter.debug_timeouts(test);
        });
        for queue in ringers {
            match queue.execute(&[&work]) {
                Ok(())
                | Err(Error::DeviceRemoved(_) | Error::QueueAborted { .. } | Error::Stopped) => {}
                Err(error) => panic!("{error}"),
            }
            let [reset, went_on] =
                [notes::RESET, notes::WENT_ON].map(|note| probe.seen(note).is_some());
            probe.note(STOOD, u64::from(reset) + u64::from(went_on));
        }
        debugger.join();
        until_quiet(&spawner);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let stats = world.machine.gpu().stats();
        let packets = |tag: u32| stats.tags.get(&tag).map_or(0, |tag| tag.packets);
        let ran = packets(connected.tag()) + packets(fresh.tag());
        let lost = world.device.removed_reason().is_some();
        let doorbells = world.machine.gpu().census().doorbells;
        end.always("each command buffer runs once at most", ran <= SUBMITTED);
        end.always("an engine's reset costs the guilty alone", of_adapter || !lost);
        end.eventually("what was rung runs, or the device is lost", lost || ran == SUBMITTED);
        end.always("no doorbell of a lost device is on the hardware", !lost || doorbells == 0);
        end.eventually("the guilty device is lost", device.removed_reason().is_some());
        // Outside of the run: whoever rings now is told.
        let told = |queue: &tidegate::d3d12::Queue| {
            matches!(
                queue.execute(&[&list]),
                Err(Error::DeviceRemoved(_) | Error::QueueAborted { .. })
            )
        };
        end.always(
            "a doorbell of a lost device says ABORT",
            !lost || told(&connected) && told(&fresh),
        );
        let stood = world.probe.seen(STOOD);
        end.sometimes(BEFORE, stood == Some(0));
        end.sometimes(DURING, stood == Some(1));
        end.sometimes(AFTER, stood == Some(2));
        end.sometimes(LOST, lost);
        end.sometimes(SPARED, !lost);
        world.must_be_sound(end);
        drop((guilty, hangs));
    })
}
