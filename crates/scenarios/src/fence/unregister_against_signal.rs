//! The end of an event's registration against the signal that would set the event. The caller drops
//! the registration, resets the event and reuses it.
//!
//! At the end the event is not set, and no wait is registered.

use crate::prelude::*;

const BEFORE: &str = "the event was set before the registration ended";
const CANCELLED: &str = "the registration was cancelled before the signal";

/// Set if the registration was over when it was dropped.
const WAS_OVER: usize = notes::OWN;

pub(crate) const RACE: Race = Race {
    name: "unregister-against-signal",
    about: "an event's registration is dropped while the fence is signalled: the event is not set afterwards",
    marks: &[BEFORE, CANCELLED],
    planted: bugs! {
        "stale-wake" => Product(PlantedFault::StaleWake),
            "the cancellation does not wait for a notice that is being given: it sets the event later";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::of(exhaustive(1_000_000), exhaustive(20_000_000), bounded(2, 1_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let (fence, event) =
        (world.fence("shared"), world.device.create_event(EventDesc::manual_reset()));
    let registration = fence.register_event(1, &event).expect("a registration");
    let (own, probe) = (event.clone(), world.probe.clone());
    let main = move |platform: &Platform| {
        platform.spawn("signaller", move || assert_ok(fence.signal(1)));
        if registration.is_over() {
            probe.note(WAS_OVER, 1);
        }
        drop(registration);
        own.reset();
    };
    world.race(main, move |world, end| {
        end.always("no stale wake", !event.is_set());
        end.always("no wait is registered", world.machine.adapter().census().fence_waits == 0);
        let was_over = world.noted(WAS_OVER);
        end.sometimes(BEFORE, was_over);
        end.sometimes(CANCELLED, !was_over);
    })
}
