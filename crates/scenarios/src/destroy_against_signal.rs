//! The race of a fence's end with its signal: a CPU thread registers an event for a value and lets go of the fence while an
//! engine signals it. The event is set, by the signal or by the fence's end; an interrupt that comes late harms nobody.
//!
//! The signal stands in the ring before the run begins.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::notes;
use crate::world::{Setting, World, ends_well, until_quiet};
use tidegate::explorer::{Prepared, Verdict};
use tidegate::{Platform, Submission};

const INTERRUPTED: &str = "the signal interrupted for the event";
const NOT_INTERRUPTED: &str = "the signal interrupted nobody";

pub(crate) const RACE: Race = Race {
    name: "destroy-against-signal",
    about: "a fence with a registered event is destroyed while an engine signals it: the event is set",
    marks: &[INTERRUPTED, NOT_INTERRUPTED],
    agents: &["engine", "main"],
    planted: &[],
    plans: Plans {
        short: Plan::bounded(1, 1_000_000),
        full: Plan::exhaustive(5_000_000),
        bugs: Plan::bounded(1, 1_000_000),
    },
    prepare,
    bug: None,
};

fn prepare(platform: &Platform, _bug: Option<&'static str>) -> Prepared {
    let world = World::new(platform, Setting::default());
    let queue = world.queue("copy", Submission::User, 0);
    let fence = world.fence("short-lived");
    queue.signal(&fence, 1).expect("a submission");
    let (clock, event) = (platform.clone(), world.device.create_event(true));
    let set = event.clone();
    let main = move || {
        ends_well(fence.set_event_on_completion(1, &event));
        drop(fence);
        event.wait();
        until_quiet(&clock);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let interrupted = world.probe.seen(notes::INTERRUPTED).is_some();
        end.eventually("the event is set", set.is_set());
        end.sometimes(INTERRUPTED, interrupted);
        end.sometimes(NOT_INTERRUPTED, !interrupted);
        world.must_be_sound(end);
        drop(queue);
    })
}
