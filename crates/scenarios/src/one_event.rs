//! The race of an event that stands behind several waits with whoever takes it: one CPU signal
//! satisfies two waits for values of one fence, and the waiter may be back at the event before both
//! were released. It takes the event once.
//!
//! Both waits are entered before the run begins; when nothing moves any more the event is clear.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::notes;
use crate::world::{Setting, World, ends_well, until_quiet};
use tidegate::Platform;
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::platform::WaitEnd;

const SLEPT: &str = "the waiter came before the signal";
const AT_ONCE: &str = "the signal came first";

/// Times that the event was taken after the first.
const TAKEN_AGAIN: usize = notes::OWN;
/// The event was set when its waiter came.
const FOUND_SET: usize = notes::OWN + 1;

const PLANTED: &[PlantedBug] = &[PlantedBug {
    name: "two-signals",
    about: "each value is signalled by itself: the waits are released one by one, and the event may be taken twice",
}];

pub(crate) const RACE: Race = Race {
    name: "one-event",
    about: "one signal satisfies two waits of one event, whose waiter may be faster than the release: one wake",
    marks: &[SLEPT, AT_ONCE],
    agents: &["engine", "timer", "main", "waiter"],
    planted: PLANTED,
    plans: Plans {
        short: Plan::exhaustive(1_000_000),
        full: Plan::exhaustive(1_000_000),
        bugs: Plan::exhaustive(1_000_000),
    },
    prepare,
    bug: None,
};

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let world = World::new(platform, Setting::default());
    let (fence, event) = (world.fence("shared"), platform.event(false));
    for value in [1, 2] {
        fence.set_event_on_completion(value, &event).expect("a wait");
    }
    let values: &[u64] = if bug.is_some() { &[1, 2] } else { &[2] };
    let (spawner, signalled, own, probe) =
        (platform.clone(), fence.clone(), event.clone(), world.probe.clone());
    let main = move || {
        let clock = spawner.clone();
        spawner.spawn("waiter", move || {
            if own.is_set() {
                probe.note(FOUND_SET, 1);
            }
            own.wait();
            // Time passes when nothing else can happen.
            if own.wait_for(Some(clock.now().after(1)), "a second wake") == WaitEnd::Woken {
                probe.note(TAKEN_AGAIN, 1);
            }
        });
        values.iter().for_each(|value| ends_well(signalled.signal(*value)));
        until_quiet(&spawner);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let once = world.probe.seen(TAKEN_AGAIN).is_none() && !event.is_set();
        end.always("the event is taken once", once);
        let found_set = world.probe.seen(FOUND_SET).is_some();
        end.sometimes(SLEPT, !found_set);
        end.sometimes(AT_ONCE, found_set);
        world.must_be_sound(end);
        drop(fence);
    })
}
