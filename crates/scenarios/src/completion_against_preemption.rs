//! The completion of packets against the request to preempt them, because a context of higher
//! priority has work. Whatever the engine has completed when it answers counts as complete, by a
//! report of its own or by the answer; the rest is submitted again, and everything runs once.
//!
//! Two packets are on the engine before the run begins. In the run the other context gets its
//! packet; VidSch signals the fences behind each context's last one.

use crate::prelude::*;

const ALL_BACK: &str = "both packets came back";
const ONE_BACK: &str = "one packet was complete, and the other came back";
const NONE_BACK: &str = "the packets were complete when the request was answered";
const NOT_REQUESTED: &str = "the packets were complete before the request";

pub(crate) const RACE: Race = Race {
    name: "completion-against-preemption",
    about: "packets complete while they are preempted: each runs once, whether it was complete or came back",
    marks: &[ALL_BACK, ONE_BACK, NONE_BACK, NOT_REQUESTED],
    planted: &[Bug {
        name: "answers-itself",
        about: "the driver answers a request by what is complete at that moment, and the hardware keeps the packets",
        fault: Fault::Driver(LeftOut::Preemption),
    }],
    plans: Plans::of(sampled(20_000), bounded(1, 50_000_000), sampled(20_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = Run { fences: FenceChoice::Monitored, ..*run }.world(|_| ());
    let (low, high) = (world.queue("low", Submission::Packet), world.urgent_queue("high"));
    let (low_done, high_done) = (world.fence("low"), world.fence("high"));
    let list = world.empty_list();
    for _ in 0..2 {
        low.execute(&[&list]).expect("a submission");
    }
    low.signal(&low_done, 1).expect("a signal");
    let (urgent, done) = (high.clone(), high_done.clone());
    let main = move |_: &Platform| {
        ends_well(urgent.execute(&[&list]));
        ends_well(urgent.signal(&done, 1));
    };
    world.race(main, move |world, end| {
        let requested = world.noted(notes::REQUESTED);
        let back = [notes::RESUBMITTED, notes::RESUBMITTED_TOO].map(|note| world.noted(note));
        let packets = world.packets_of(&[&low, &high]);
        let done = (low_done.completed_value(), high_done.completed_value());
        end.eventually("everything runs", done == (1, 1));
        end.always("each packet runs once", packets <= 3);
        end.sometimes(ALL_BACK, back == [true, true]);
        end.sometimes(ONE_BACK, back == [true, false]);
        end.sometimes(NONE_BACK, requested && back == [false, false]);
        end.sometimes(NOT_REQUESTED, !requested);
    })
}
