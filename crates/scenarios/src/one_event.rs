//! An event of several waits against its waiter: one CPU signal satisfies two waits for values of
//! one fence, and the waiter may be back at the event before both were released. It takes the event
//! once.
//!
//! Both waits are entered before the run begins; when no agent can move the event is clear.

use crate::prelude::*;
use tidegate::platform::WaitEnd;

const SLEPT: &str = "the waiter came before the signal";
const AT_ONCE: &str = "the signal came first";

/// Times that the event was taken after the first.
const TAKEN_AGAIN: usize = notes::OWN;
/// The event was set when its waiter came.
const FOUND_SET: usize = notes::OWN + 1;

pub(crate) const RACE: Race = Race {
    name: "one-event",
    about: "one signal satisfies two waits of one event, whose waiter may be faster than the release: one wake",
    marks: &[SLEPT, AT_ONCE],
    planted: &[Bug {
        name: "two-signals",
        about: "each value is signalled by itself: the waits are released one by one, and the event may be taken twice",
        fault: Fault::Scenario,
    }],
    plans: Plans::all(exhaustive(1_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world(|_| ());
    let (fence, event) = (world.fence("shared"), run.platform.event(false));
    for value in [1, 2] {
        fence.set_event_on_completion(value, &event).expect("a wait");
    }
    let values: &[u64] = if run.bug.is_some() { &[1, 2] } else { &[2] };
    let (own, probe) = (event.clone(), world.probe.clone());
    let main = move |platform: &Platform| {
        let clock = platform.clone();
        platform.spawn("waiter", move || {
            if own.is_set() {
                probe.note(FOUND_SET, 1);
            }
            own.wait();
            // Time passes when nothing else can happen.
            if own.wait_for(Some(clock.now().after(1)), "a second wake") == WaitEnd::Woken {
                probe.note(TAKEN_AGAIN, 1);
            }
        });
        values.iter().for_each(|value| ends_well(fence.signal(*value)));
    };
    world.race(main, move |world, end| {
        end.always("the event is taken once", !world.noted(TAKEN_AGAIN) && !event.is_set());
        let found_set = world.noted(FOUND_SET);
        end.sometimes(SLEPT, !found_set);
        end.sometimes(AT_ONCE, found_set);
    })
}
