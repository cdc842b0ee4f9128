//! The race of a completion with a preemption: packets of a context complete while the kernel asks
//! for them, because somebody of higher priority has come. Whatever the engine has completed when
//! it answers counts as complete, by a report of its own or by the answer; what it has not is
//! submitted again, and everything runs once.
//!
//! Two packets are on the engine before the run begins. In the run the other context gets its
//! packet; the fences are signalled by VidSch behind each context's last one.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::{LeftOut, notes};
use crate::world::{Setting, World, ends_well, queue_of, until_quiet};
use tidegate::calls::Priority;
use tidegate::d3d12::FenceChoice;
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const ALL_BACK: &str = "both packets came back";
const ONE_BACK: &str = "one packet was complete, and the other came back";
const NONE_BACK: &str = "the packets were complete when the request was answered";
const NOT_ASKED: &str = "the packets were complete before they could be asked for";

const PLANTED: &[PlantedBug] = &[PlantedBug {
    name: "answers-itself",
    about: "the driver answers a request by what is complete at that moment, and the hardware keeps the packets",
}];

pub(crate) const RACE: Race = Race {
    name: "completion-against-preemption",
    about: "packets complete while they are asked for: each runs once, whether it was complete or came back",
    marks: &[ALL_BACK, ONE_BACK, NONE_BACK, NOT_ASKED],
    agents: &["engine", "timer", "paging", "main"],
    planted: PLANTED,
    plans: Plans {
        short: Plan::sampled(20_000),
        full: Plan::bounded(1, 50_000_000),
        bugs: Plan::sampled(20_000),
    },
    prepare,
    bug: None,
};

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let left_out = if bug.is_some() { LeftOut::Preemption } else { LeftOut::Nothing };
    let world = World::new(
        platform,
        Setting { fences: FenceChoice::Monitored, left_out, ..Setting::default() },
    );
    let low = world.queue("low", Submission::Packet, 0);
    let high = queue_of(&world.device, "high", Priority::High, Submission::Packet, 0);
    let (low_done, high_done) = (world.fence("low"), world.fence("high"));
    let list = world.empty_list();
    for _ in 0..2 {
        low.execute(&[&list]).expect("a submission");
    }
    low.signal(&low_done, 1).expect("a signal");
    let (urgent, work, done, clock) =
        (high.clone(), list.clone(), high_done.clone(), platform.clone());
    let main = move || {
        ends_well(urgent.execute(&[&work]));
        ends_well(urgent.signal(&done, 1));
        until_quiet(&clock);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let asked = world.probe.seen(notes::ASKED).is_some();
        let back = [notes::RESUBMITTED, notes::RESUBMITTED_TOO]
            .map(|note| world.probe.seen(note).is_some());
        let packets = world.packets_of(&[&low, &high]);
        end.eventually(
            "everything runs",
            low_done.completed_value() == 1 && high_done.completed_value() == 1,
        );
        end.always("each packet runs once", packets <= 3);
        end.sometimes(ALL_BACK, back == [true, true]);
        end.sometimes(ONE_BACK, back == [true, false]);
        end.sometimes(NONE_BACK, asked && back == [false, false]);
        end.sometimes(NOT_ASKED, !asked);
        world.must_be_sound(end);
        drop((low, high, list));
    })
}
