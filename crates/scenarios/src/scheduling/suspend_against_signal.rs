//! A suspension against a signal. While a context is off the run list none of its work runs, and
//! work that was rung meanwhile runs after the resume, without another ring.
//!
//! A first submission connects the doorbell before the run begins. In the run a second signal is
//! submitted while another agent suspends and resumes.

use crate::prelude::*;

const BEFORE: &str = "both signals executed before the suspension";
const HELD: &str = "a signal was held until the resume";

pub(crate) const RACE: Race = Race {
    name: "suspend-against-signal",
    about: "a context is suspended and resumed while its queue signals: no work runs in between, and all work runs after",
    marks: &[BEFORE, HELD],
    planted: bugs! {
        "not-suspended" => Driver(LeftOut::Suspension),
            "the driver reports a context as suspended while its queues are on the run list";
        "not-resumed" => Driver(LeftOut::Resume), "the driver does not put the queues back";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::of(sampled(30_000), bounded(1, 20_000_000), sampled(100_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let (queue, fence) = (world.queue("copy", Submission::User), world.fence("done"));
    queue.signal(&fence, 1).expect("a submission");
    let (signalled, seen) = (fence.clone(), fence.clone());
    let (adapter, probe) = (world.machine.adapter().clone(), world.probe.clone());
    let main = move |platform: &Platform| {
        let clock = platform.clone();
        let suspender = platform.spawn("suspender", move || {
            let suspended = adapter.suspend_contexts().expect("the adapter works");
            let before = seen.completed_value();
            sleep_until_idle(&clock);
            probe.note(notes::OWN, before);
            probe.note(notes::OWN + 1, seen.completed_value());
            suspended.resume();
        });
        assert_ok(queue.signal(&signalled, 2));
        suspender.join();
    };
    world.race(main, move |world, end| {
        let (before, after) = (world.probe.seen(notes::OWN), world.probe.seen(notes::OWN + 1));
        end.always("no work runs while the context is suspended", before == after);
        end.eventually("both signals execute", fence.completed_value() == 2);
        end.always("each submission runs once", world.machine.gpu().stats().signals == 2);
        end.sometimes(BEFORE, before == Some(2));
        end.sometimes(HELD, after.is_some_and(|value| value < 2));
    })
}
