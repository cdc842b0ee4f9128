//! One auto-reset event for two fences, with two waiting threads. Each thread that is released
//! signals the next fence, so the event is set once for each thread.
//!
//! At the end both threads were released and the event is not set.

use crate::prelude::*;

const SLEPT: &str = "a thread slept for the event";
const FOUND_SET: &str = "a thread found the event set";

/// Set if a thread found the event set, and if one did not.
const FOUND: usize = notes::OWN;
const SLEPT_FOR: usize = notes::OWN + 1;

pub(crate) const RACE: Race = Race {
    name: "shared-event",
    about: "two threads wait for one auto-reset event of two fences, which are signalled one after the other: each is released",
    marks: &[SLEPT, FOUND_SET],
    planted: bugs! {
        "signals-together" => Scenario,
            "both fences are signalled before a thread is released: two sets may be one, and a thread sleeps for ever";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::of(exhaustive(1_000_000), exhaustive(20_000_000), bounded(2, 1_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let event = world.device.create_event(EventDesc::auto_reset());
    let fences = [world.fence("first"), world.fence("second")];
    for fence in &fences {
        fence.set_event_on_completion(1, &event).expect("a registration");
    }
    let (shared, probe, together) = (event.clone(), world.probe.clone(), run.bug.is_some());
    let main = move |platform: &Platform| {
        let [first, second] = fences;
        for name in ["one", "two"] {
            let (event, second, probe) = (shared.clone(), second.clone(), probe.clone());
            platform.spawn(name, move || {
                probe.note(if event.is_set() { FOUND } else { SLEPT_FOR }, 1);
                assert_ok(event.wait());
                if !together && second.completed_value() == 0 {
                    assert_ok(second.signal(1));
                }
            });
        }
        assert_ok(first.signal(1));
        if together {
            assert_ok(second.signal(1));
        }
    };
    world.race(main, move |world, end| {
        end.always("the event is taken", !event.is_set());
        end.sometimes(SLEPT, world.noted(SLEPT_FOR));
        end.sometimes(FOUND_SET, world.noted(FOUND));
    })
}
