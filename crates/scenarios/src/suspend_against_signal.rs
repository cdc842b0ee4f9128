//! The race of a suspension with a signal: while a context is off the run list nothing of it runs,
//! and what was rung meanwhile runs when it is back, without another ring.
//!
//! The doorbell is connected, by a first submission, before the run begins; in the run a second
//! signal is submitted while another agent suspends and resumes.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::{LeftOut, notes};
use crate::world::{Setting, World, ends_well, until_quiet};
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const BEFORE: &str = "both signals were made before the suspension";
const HELD: &str = "a signal was held until the resume";

const PLANTED: &[PlantedBug] = &[
    PlantedBug {
        name: "not-suspended",
        about: "the driver says that a context is suspended whose queues are still on the run list",
    },
    PlantedBug { name: "not-resumed", about: "the driver does not put the queues back" },
];

pub(crate) const RACE: Race = Race {
    name: "suspend-against-signal",
    about: "a context is suspended and resumed while its queue is to signal: nothing runs in between, and everything after",
    marks: &[BEFORE, HELD],
    agents: &["engine", "timer", "main", "suspender"],
    planted: PLANTED,
    plans: Plans {
        short: Plan::sampled(30_000),
        full: Plan::bounded(1, 20_000_000),
        bugs: Plan::sampled(100_000),
    },
    prepare,
    bug: None,
};

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let left_out = match bug {
        Some("not-suspended") => LeftOut::Suspension,
        Some(_) => LeftOut::Resume,
        None => LeftOut::Nothing,
    };
    let world = World::new(platform, Setting { left_out, ..Setting::default() });
    let queue = world.queue("copy", Submission::User, 0);
    let fence = world.fence("done");
    queue.signal(&fence, 1).expect("a submission");
    let (spawner, submitter, signalled) = (platform.clone(), queue.clone(), fence.clone());
    let (adapter, seen, probe) =
        (world.machine.adapter().clone(), fence.clone(), world.probe.clone());
    let main = move || {
        let clock = spawner.clone();
        let suspender = spawner.spawn("suspender", move || {
            let suspended = adapter.suspend_contexts().expect("the adapter works");
            let before = seen.completed_value();
            // Whoever can move does.
            until_quiet(&clock);
            probe.note(notes::OWN, before);
            probe.note(notes::OWN + 1, seen.completed_value());
            suspended.resume();
        });
        ends_well(submitter.signal(&signalled, 2));
        suspender.join();
        until_quiet(&spawner);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let (before, after) = (world.probe.seen(notes::OWN), world.probe.seen(notes::OWN + 1));
        end.always("nothing runs while it is suspended", before == after);
        end.eventually("both signals are made", fence.completed_value() == 2);
        end.always("each submission runs once", world.machine.gpu().stats().signals == 2);
        end.sometimes(BEFORE, before == Some(2));
        end.sometimes(HELD, after.is_some_and(|value| value < 2));
        world.must_be_sound(end);
        drop(queue);
    })
}
