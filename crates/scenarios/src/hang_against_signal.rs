//! The race of a recovery with a signal: one process hangs its engine, and the queue of another
//! one, which waits for a fence there, is let go on by the CPU at the moment of the time-out.
//! Whenever the signal comes, before the reset, in it or after it, the waiting queue runs what
//! stands behind its wait, once; the guilty device is lost, and nobody is left behind a fence of
//! it.
//!
//! The time-out is forced once everything stands: the one queue at its wait, the engine in the
//! other's commands.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::{LeftOut, notes};
use crate::world::{Setting, World, ends_well, queue_on, until_quiet};
use tidegate::calls::TdrTest;
use tidegate::d3d12::{CommandListType, Error};
use tidegate::dxgkrnl::RecoveryOutcome;
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const BEFORE: &str = "the signal came before the reset";
const DURING: &str = "the signal came while the engine was reset";
const AFTER: &str = "the signal came when the engine went on";

/// Notes of the run.
const STOOD: usize = notes::OWN;
const TOLD: usize = notes::OWN + 1;

const NOBODY_NAMED: &str = "nobody-named";
const PLANTED: &[PlantedBug] = &[
    PlantedBug {
        name: NOBODY_NAMED,
        about: "the driver does not say whose work the reset cut off: whoever has work on the engine pays",
    },
    PlantedBug {
        name: "not-restarted",
        about: "the driver says that the engine goes on, and it does not",
    },
];

pub(crate) const RACE: Race = Race {
    name: "hang-against-signal",
    about: "an engine that hangs is reset while a queue that waits there is let go on: it runs, and the guilty alone is lost",
    marks: &[BEFORE, DURING, AFTER],
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

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let left_out = match bug {
        Some(NOBODY_NAMED) => LeftOut::Blame,
        Some(_) => LeftOut::Restart,
        None => LeftOut::Nothing,
    };
    let setting = Setting { left_out, ..Setting::default() };
    let world = World::new(platform, setting);
    let innocent = world.queue("innocent", Submission::Hardware, 0);
    let (gate, done) = (world.fence("gate"), world.fence("done"));
    let work = world.empty_list();
    innocent.wait(&gate, 1).expect("a wait");
    innocent.execute(&[&work]).expect("a submission");
    innocent.signal(&done, 1).expect("a signal");
    let device = world.machine.device(setting.device_options()).expect("another process");
    let guilty = queue_on(&device, "guilty", Submission::Hardware, 0);
    let never = device.create_fence("never", 0).expect("a fence");
    let mut list = device.create_command_list(CommandListType::Copy);
    list.hang().expect("a command");
    let hang = list.close().expect("a list");
    guilty.execute(&[&hang]).expect("a submission");
    guilty.signal(&never, 1).expect("a signal");
    let (spawner, probe, adapter) =
        (platform.clone(), world.probe.clone(), world.machine.adapter().clone());
    let (opened, passed, awaited) = (gate.clone(), done.clone(), never.clone());
    let main = move || {
        until_quiet(&spawner);
        let told = probe.clone();
        let waiter = spawner.spawn("waiter", move || match awaited.wait(1) {
            Err(Error::DeviceRemoved(_)) => told.note(TOLD, 1),
            call => ends_well(call),
        });
        spawner.spawn("debugger", move || {
            // A machine that stops meanwhile is the failure by itself.
            let _stopped =
                adapter.debug_timeouts(TdrTest::EngineTdr { node_ordinal: 0, engine_ordinal: 0 });
        });
        // A step of its own, so that the note is taken when its turn has come.
        let _not_yet = opened.completed_value();
        let [reset, went_on] =
            [notes::RESET, notes::WENT_ON].map(|note| probe.seen(note).is_some());
        probe.note(STOOD, u64::from(reset) + u64::from(went_on));
        ends_well(opened.signal(1));
        ends_well(passed.wait(1));
        waiter.join();
        until_quiet(&spawner);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let stats = world.machine.gpu().stats();
        let packets = |tag: u32| stats.tags.get(&tag).map_or(0, |tag| tag.packets);
        let outcomes: Vec<_> =
            world.machine.adapter().recoveries().into_iter().map(|r| r.outcome).collect();
        end.always("the innocent device is not lost", world.device.removed_reason().is_none());
        end.always("what hangs never completes", packets(guilty.tag()) == 0);
        end.always("the work behind the wait runs once", packets(innocent.tag()) <= 1);
        end.eventually(
            "it runs, and its signal comes",
            packets(innocent.tag()) == 1 && done.completed_value() == 1,
        );
        end.eventually("the guilty device is lost", device.removed_reason().is_some());
        end.eventually("its waiter is told", world.probe.seen(TOLD).is_some());
        end.eventually("the engine is reset once", outcomes == [RecoveryOutcome::EngineReset]);
        let stood = world.probe.seen(STOOD);
        end.sometimes(BEFORE, stood == Some(0));
        end.sometimes(DURING, stood == Some(1));
        end.sometimes(AFTER, stood == Some(2));
        world.must_be_sound(end);
        drop((innocent, guilty, gate, never, work, hang));
    })
}
