//! An event shared by several waits against its waiter. One CPU signal satisfies two waits for
//! values of one fence, and the waiter may return to the event before both are released. It must
//! wake once.
//!
//! Both waits are registered before the run begins. At the end the event is not set.

use crate::prelude::*;
use std::time::Duration;

const SLEPT: &str = "the waiter slept before the signal";
const AT_ONCE: &str = "the signal came first";

/// Number of wakes after the first.
const TAKEN_AGAIN: usize = notes::OWN;
/// Set if the waiter found the event set.
const FOUND_SET: usize = notes::OWN + 1;

pub(crate) const RACE: Race = Race {
    name: "one-event",
    about: "one signal satisfies two waits of one event, whose waiter may overtake the release: one wake",
    marks: &[SLEPT, AT_ONCE],
    planted: bugs! {
        "two-signals" => Scenario,
            "each value is signalled separately: the waits are released one by one, and the waiter may be woken twice";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::all(exhaustive(1_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let (fence, event) =
        (world.fence("shared"), world.device.create_event(EventDesc::auto_reset()));
    for value in [1, 2] {
        fence.set_event_on_completion(value, &event).expect("a wait");
    }
    let values: &[u64] = if run.bug.is_some() { &[1, 2] } else { &[2] };
    let (own, probe) = (event.clone(), world.probe.clone());
    let main = move |platform: &Platform| {
        platform.spawn("waiter", move || {
            if own.is_set() {
                probe.note(FOUND_SET, 1);
            }
            assert_ok(own.wait());
            // Virtual time advances only when no agent is runnable.
            if own.wait_timeout(Duration::from_nanos(1)).is_ok_and(|again| again.is_signalled()) {
                probe.note(TAKEN_AGAIN, 1);
            }
        });
        values.iter().for_each(|value| assert_ok(fence.signal(*value)));
    };
    world.race(main, move |world, end| {
        end.always("the waiter is woken once", !world.noted(TAKEN_AGAIN) && !event.is_set());
        let found_set = world.noted(FOUND_SET);
        end.sometimes(SLEPT, !found_set);
        end.sometimes(AT_ONCE, found_set);
    })
}
