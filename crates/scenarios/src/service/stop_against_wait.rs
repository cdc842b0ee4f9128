//! A service stops while a client waits: a thread blocks for a fence, or an event is registered for
//! it. The session ends the process, and the client's own thread ends the waits.
//!
//! The blocked call returns DEVICE_REMOVED, or the event is set, and the service has no session
//! left.

use crate::prelude::*;
use crate::service::served::{SHARED, Served};

const REFUSED: &str = "the service stopped before the wait was registered";
const CUT_OFF: &str = "the service stopped during the wait";

pub(crate) const BLOCKING: Race = Race {
    name: "served-stop-against-wait",
    about: "a service stops while a client blocks for a fence: the call returns DEVICE_REMOVED, and the service has ended",
    marks: &[REFUSED, CUT_OFF],
    planted: bugs! {
        "no-wake" => Product(PlantedFault::LostWithoutAWake),
            "the client marks its waits as lost and does not wake the threads that sleep for them";
        "last-session-unseen" => Product(PlantedFault::LastSessionUnseen),
            "a session ends without waking the service, which waits for the last one";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare: |run| prepare(run, false),
};

pub(crate) const WITH_EVENT: Race = Race {
    name: "served-stop-against-event",
    about: "a service stops while a client has an event registered for a fence: the event is set, and the service has ended",
    marks: &[REFUSED, CUT_OFF],
    planted: bugs! {
        "events-forgotten" => Product(PlantedFault::EventsForgotten),
            "the client ends the waits of blocked threads alone: an event is never set";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare: |run| prepare(run, true),
};

/// Calls of the set-up: a device and a fence.
const CALLS_BEFORE: u64 = 2;

fn prepare(run: &Run<'_>, with_event: bool) -> Prepared {
    let world = run.world();
    let served = Served::new(&world);
    let service = served.clone();
    let event = run.platform.event(true);
    let main = move |platform: &Platform| {
        let (process, fence) = platform.unexplored(|| {
            let process = service.connect("waiter");
            let fence = process.client.try_monitored(0, SHARED).expect("a fence");
            (process, fence)
        });
        let stops = platform.spawn("stop", move || service.sessions.end());
        let event = with_event.then_some(event);
        let waited =
            process.client.kernel.wait_from_cpu(&at(&fence, 1), WaitMode::All, event.clone());
        match (waited, event) {
            // An event that is never set is reported as the failure.
            (Ok(()), Some(event)) => _ = event.wait(),
            (waited, _) => assert!(
                matches!(waited, Err(Status::DEVICE_REMOVED | Status::CANCELLED)),
                "{waited:?}"
            ),
        }
        stops.join();
    };
    world.race_without_pause(main, move |_, end| {
        served.has_ended(end);
        let answered = served.sessions.counts().calls;
        end.sometimes(REFUSED, answered == CALLS_BEFORE);
        end.sometimes(CUT_OFF, answered > CALLS_BEFORE);
    })
}
