//! The removal of an adapter against a submission, a CPU wait that is being registered, and a
//! forced engine time-out, all of one process.
//!
//! Invariants: the wait ends; its fence reads the maximum and keeps it, so that nothing of the
//! process runs after its contexts are suspended; the driver is not called after DxgkDdiStopDevice,
//! and no object is left with it.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::{LeftOut, notes};
use crate::world::{Setting, World};
use std::sync::Arc;
use tidegate::calls::{Status, TdrTest};
use tidegate::d3d12::{Error, RemovedReason};
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const SIGNALLED: &str = "the wait was satisfied before the removal";
const RELEASED: &str = "the removal released the wait";
const REFUSED: &str = "the submission was refused";
const RECOVERED: &str = "the recovery came before the removal";
const TOO_LATE: &str = "the recovery came after the removal began";

/// Notes of the run.
const WAITED: usize = notes::OWN;
const SUBMITTED: usize = notes::OWN + 1;
const RESET: usize = notes::OWN + 2;
const DONE: usize = notes::OWN + 3;

const PLANTED: &[PlantedBug] = &[PlantedBug {
    name: "late-device",
    about: "the end of a device is not waited for: DxgkDdiStopDevice comes while the driver still has the device",
}];

pub(crate) const RACE: Race = Race {
    name: "remove-against-submit",
    about: "an adapter is removed against a submission, a wait and a recovery: waits end, fences read the maximum, the driver stops last",
    marks: &[SIGNALLED, RELEASED, REFUSED, RECOVERED, TOO_LATE],
    agents: &["engine", "timer", "main", "submitter", "waiter", "debugger", "driver"],
    planted: PLANTED,
    plans: Plans {
        short: Plan::sampled(30_000),
        full: Plan::sampled(1_000_000),
        bugs: Plan::sampled(100_000),
    },
    prepare,
    bug: None,
};

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let left_out = if bug.is_some() { LeftOut::DeviceEnd } else { LeftOut::Nothing };
    let world = World::new(platform, Setting { left_out, ..Setting::default() });
    let (queue, fence) = (world.queue("app", Submission::User, 0), world.fence("f"));
    let (spawner, probe, adapter) =
        (platform.clone(), world.probe.clone(), world.machine.adapter().clone());
    let (ringer, signalled, awaited) = (queue.clone(), fence.clone(), fence.clone());
    let main = move || {
        let (submitted, waited, reset) = (probe.clone(), probe.clone(), probe.clone());
        let submitter = spawner.spawn("submitter", move || match ringer.signal(&signalled, 1) {
            Ok(()) => submitted.note(SUBMITTED, 1),
            Err(Error::DeviceRemoved(_) | Error::QueueAborted { .. }) => {
                submitted.note(SUBMITTED, 2)
            }
            Err(Error::Stopped) => {}
            Err(error) => panic!("{error}"),
        });
        let waiter = spawner.spawn("waiter", move || match awaited.wait(1) {
            Ok(()) => waited.note(WAITED, 1),
            Err(Error::DeviceRemoved(_)) => waited.note(WAITED, 2),
            Err(Error::Stopped) => {}
            Err(error) => panic!("{error}"),
        });
        let recovering = Arc::clone(&adapter);
        let debugger = spawner.spawn("debugger", move || {
            let engine = TdrTest::EngineTdr { node_ordinal: 0, engine_ordinal: 0 };
            match recovering.debug_timeouts(engine) {
                Ok(()) => reset.note(RESET, 1),
                Err(Status::DEVICE_REMOVED) => reset.note(RESET, 2),
                Err(status) => panic!("{status}"),
            }
        });
        adapter.remove();
        probe.note(DONE, 1);
        for agent in [submitter, waiter, debugger] {
            agent.join();
        }
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let noted = |note| world.probe.seen(note);
        let done = noted(DONE).is_some();
        let reason = world.device.removed_reason();
        let removed =
            matches!(reason, Some(RemovedReason::AdapterRemoved | RemovedReason::Hung(_)));
        end.eventually("the removal ends", done);
        end.eventually("the wait ends", noted(WAITED).is_some());
        end.always("the device says why it is lost", !done || removed);
        end.always("the fence keeps its maximum", !done || fence.completed_value() == u64::MAX);
        let census = world.machine.adapter().census();
        let left =
            census.devices + census.contexts + census.hw_queues + census.doorbells + census.fences;
        end.always("the kernel has no object left", !done || left == 0);
        end.always(
            "the driver has no object left",
            !done || world.machine.driver().census() == [0; 7],
        );
        end.sometimes(SIGNALLED, noted(WAITED) == Some(1));
        end.sometimes(RELEASED, noted(WAITED) == Some(2));
        end.sometimes(REFUSED, noted(SUBMITTED) == Some(2));
        end.sometimes(RECOVERED, noted(RESET) == Some(1));
        end.sometimes(TOO_LATE, noted(RESET) == Some(2));
        world.must_be_sound(end);
        drop((queue, fence.clone()));
    })
}
