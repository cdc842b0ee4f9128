//! The removal of an adapter against a submission, the registration of a CPU wait, and a forced
//! engine timeout, all of one process.
//!
//! Invariants: the wait ends. Its fence reads the maximum and keeps it, so no work of the process
//! runs after its contexts are suspended. The driver is not called after DxgkDdiStopDevice and
//! holds no object then.

use crate::prelude::*;

const SIGNALLED: &str = "the wait was satisfied before the removal";
const RELEASED: &str = "the removal released the wait";
const REFUSED: &str = "the submission was refused";
const RECOVERED: &str = "the recovery preceded the removal";
const TOO_LATE: &str = "the recovery began after the removal";

const WAITED: usize = notes::OWN;
const SUBMITTED: usize = notes::OWN + 1;
const RESET: usize = notes::OWN + 2;
const DONE: usize = notes::OWN + 3;

pub(crate) const RACE: Race = Race {
    name: "remove-against-submit",
    about: "an adapter is removed during a submission, a wait and a recovery: waits end, and the driver is stopped last",
    marks: &[SIGNALLED, RELEASED, REFUSED, RECOVERED, TOO_LATE],
    planted: bugs! {
        "late-device" => Driver(LeftOut::DeviceEnd),
            "the kernel does not wait for a device's destruction: DxgkDdiStopDevice is called while the driver holds it";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(30_000, 1_000_000, 100_000),
    prepare,
};

/// Returns 1 for success, 2 if the device was lost, and `None` if the machine stopped.
fn outcome(call: Result<(), Error>) -> Option<u64> {
    match call {
        Ok(()) => Some(1),
        Err(Error::DeviceRemoved(_) | Error::QueueAborted { .. }) => Some(2),
        Err(Error::Stopped) => None,
        Err(error) => panic!("{error}"),
    }
}

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let (queue, fence) = (world.queue("app", Submission::User), world.fence("f"));
    let (probe, adapter) = (world.probe.clone(), world.machine.adapter().clone());
    let (signalled, awaited) = (fence.clone(), fence.clone());
    let main = move |platform: &Platform| {
        let (submitted, waited, reset) = (probe.clone(), probe.clone(), probe.clone());
        let submitter = platform.spawn("submitter", move || {
            outcome(queue.signal(&signalled, 1))
                .into_iter()
                .for_each(|n| submitted.note(SUBMITTED, n));
        });
        let waiter = platform.spawn("waiter", move || {
            outcome(awaited.wait(1)).into_iter().for_each(|n| waited.note(WAITED, n));
        });
        let recovering = Arc::clone(&adapter);
        let debugger = platform.spawn("debugger", move || {
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
    world.race_without_pause(main, move |world, end| {
        let noted = |note| world.probe.seen(note);
        let done = noted(DONE).is_some();
        let reason = world.device.removed_reason();
        let removed =
            matches!(reason, Some(RemovedReason::AdapterRemoved | RemovedReason::Hung(_)));
        end.eventually("the removal ends", done);
        end.eventually("the wait ends", noted(WAITED).is_some());
        end.always("the lost device states a reason", !done || removed);
        end.always("the fence keeps its maximum", !done || fence.completed_value() == u64::MAX);
        let census = world.machine.adapter().census();
        let left =
            census.devices + census.contexts + census.hw_queues + census.doorbells + census.fences;
        end.always("the kernel has no object left", !done || left == 0);
        let of_driver = world.machine.driver().census();
        end.always("the driver has no object left", !done || of_driver == [0; 9]);
        end.sometimes(SIGNALLED, noted(WAITED) == Some(1));
        end.sometimes(RELEASED, noted(WAITED) == Some(2));
        end.sometimes(REFUSED, noted(SUBMITTED) == Some(2));
        end.sometimes(RECOVERED, noted(RESET) == Some(1));
        end.sometimes(TOO_LATE, noted(RESET) == Some(2));
    })
}
