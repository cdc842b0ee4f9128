//! Destroying a fence against its signal. A CPU thread registers an event for a value and destroys
//! the fence while an engine signals it. The event is set, by the signal or by the destruction; a
//! late interrupt has no effect.
//!
//! The signal is in the ring before the run begins. It is submitted through kernel calls, because
//! an API queue would keep the fence alive.

use crate::prelude::*;

const INTERRUPTED: &str = "the signal interrupted for the event";
const NOT_INTERRUPTED: &str = "the signal did not interrupt";

pub(crate) const RACE: Race = Race {
    name: "destroy-against-signal",
    about: "a fence with a registered event is destroyed while an engine signals it: the event is set",
    marks: &[INTERRUPTED, NOT_INTERRUPTED],
    planted: &[],
    shape: Shape::Machine(&[]),
    plans: Plans::of(exhaustive(1_000_000), exhaustive(5_000_000), bounded(1, 1_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let client = world.client("app");
    let fence = client.native(0);
    client.connected_queue(0).push(&signal_packet(&fence, 1, NO_LOG_ENTRY));
    let (event, calls) = (run.platform.event(true), client.kernel.clone());
    let (set, reached) = (event.clone(), at(&fence, 1));
    let main = move |_: &Platform| {
        calls
            .wait_from_cpu(&reached, WaitMode::All, Some(event.clone()))
            .expect("the fence exists");
        calls.destroy_synchronization_object(reached[0].fence).expect("the fence exists");
        event.wait();
    };
    world.race(main, move |world, end| {
        let interrupted = world.noted(notes::INTERRUPTED);
        end.eventually("the event is set", set.is_set());
        end.sometimes(INTERRUPTED, interrupted);
        end.sometimes(NOT_INTERRUPTED, !interrupted);
    })
}
