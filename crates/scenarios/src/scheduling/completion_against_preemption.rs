//! The completion of packets against their preemption for a context of higher priority. Packets
//! that the engine completed before its answer count as complete, by their own report or by the
//! answer. The others are resubmitted. Every packet runs once.
//!
//! Two packets are in flight before the run begins. In the run the other context submits a packet.
//! VidSch signals a fence after each context's last packet.

use crate::prelude::*;

const ALL_BACK: &str = "both packets were preempted";
const ONE_BACK: &str = "one packet was complete and the other was preempted";
const NONE_BACK: &str = "the packets were complete when the request was answered";
const NOT_REQUESTED: &str = "the packets were complete before the request";

pub(crate) const RACE: Race = Race {
    name: "completion-against-preemption",
    about: "packets complete while they are preempted: each runs once, whether it was complete or preempted",
    marks: &[ALL_BACK, ONE_BACK, NONE_BACK, NOT_REQUESTED],
    planted: bugs! {
        "answers-itself" => Driver(LeftOut::Preemption),
            "the driver answers a request by the current completions, and the packets stay on the hardware";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::of(sampled(20_000), bounded(1, 50_000_000), sampled(20_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = Run { fences: FenceChoice::Monitored, ..*run }.world();
    let (low, high) = (world.queue("low", Submission::Packet), world.urgent_queue("high"));
    let (low_done, high_done) = (world.fence("low"), world.fence("high"));
    let list = world.empty_list();
    for _ in 0..2 {
        low.execute(&[&list]).expect("a submission");
    }
    low.signal(&low_done, 1).expect("a signal");
    let (urgent, done) = (high.clone(), high_done.clone());
    let main = move |_: &Platform| {
        assert_ok(urgent.execute(&[&list]));
        assert_ok(urgent.signal(&done, 1));
    };
    world.race(main, move |world, end| {
        let requested = world.noted(notes::REQUESTED);
        let back = [notes::RESUBMITTED, notes::RESUBMITTED_AGAIN].map(|note| world.noted(note));
        let packets = world.packets_of(&[&low, &high]);
        let done = (low_done.completed_value(), high_done.completed_value());
        end.eventually("all packets run", done == (1, 1));
        end.always("each packet runs once", packets <= 3);
        end.sometimes(ALL_BACK, back == [true, true]);
        end.sometimes(ONE_BACK, back == [true, false]);
        end.sometimes(NONE_BACK, requested && back == [false, false]);
        end.sometimes(NOT_REQUESTED, !requested);
    })
}
