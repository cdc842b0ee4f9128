//! Two clients of a service: one waits for a fence that the other signals. The waiter arms a word
//! of its memory, and its session registers the wait. The other session stores the end to that word
//! and wakes the thread that sleeps on it. With an event, it rings the bell of the waiter's own
//! thread.
//!
//! The wait ends, whether it was registered before the signal or after it.

use crate::prelude::*;
use crate::service::served::{Served, passes};

const FIRST: &str = "the wait began before the signal";
const LATER: &str = "the value was there before the wait";

const READ: usize = notes::OWN;

pub(crate) const BLOCKING: Race = Race {
    name: "served-wait-against-signal",
    about: "a client of a service blocks for a fence that another client signals: the wait ends",
    marks: &[FIRST, LATER],
    planted: bugs! {
        "armed-late" => Product(PlantedFault::ArmedAfterTheRegistration),
            "the service arms the word of a wait after it has registered the wait: the end is overwritten";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::of(bounded(1, 1_000_000), bounded(2, 20_000_000), bounded(1, 1_000_000)),
    prepare: |run| prepare(run, false),
};

pub(crate) const WITH_EVENT: Race = Race {
    name: "served-event-against-signal",
    about: "a client of a service has an event set by a fence that another client signals: it is set",
    marks: &[FIRST, LATER],
    planted: bugs! {
        "rung-early" => Product(PlantedFault::RungBeforeTheEnd),
            "the service rings the client before it stores the end of the wait: the event is never set";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::of(bounded(1, 1_000_000), bounded(2, 20_000_000), bounded(1, 1_000_000)),
    prepare: |run| prepare(run, true),
};

fn prepare(run: &Run<'_>, with_event: bool) -> Prepared {
    let world = run.world();
    let served = Served::new(&world);
    let (service, probe) = (served.clone(), world.probe.clone());
    let event = run.platform.event(true);
    let main = move |platform: &Platform| {
        let [(signaller, theirs), (waiter, own)] =
            platform.unexplored(|| service.connect_two(["signaller", "waiter"]));
        let calls = signaller.client.kernel.clone();
        let signals = platform.spawn("signaller", move || {
            calls.signal_from_cpu(&at(&theirs, 1), SignalFlags::empty()).expect("a signal");
        });
        probe.note(READ, own.value.get().expect("a value"));
        let calls = &waiter.client.kernel;
        if with_event {
            let waited = calls.wait_from_cpu(&at(&own, 1), WaitMode::All, Some(event.clone()));
            waited.expect("a wait");
            event.wait();
        } else {
            passes(calls.wait_from_cpu(&at(&own, 1), WaitMode::All, None));
        }
        signals.join();
        service.end();
    };
    world.race_without_pause(main, move |world, end| {
        served.has_ended(end);
        let read = world.probe.seen(READ);
        end.sometimes(FIRST, read == Some(0));
        end.sometimes(LATER, read == Some(1));
    })
}
