//! The race of a log's writer with its reader, of the native fence document: the GPU puts no
//! barrier between a log entry and the index that counts it, and an interrupt may have the kernel
//! read between the two. What the index counts is read once: were the entry not there by then, the
//! waiter that it names would be forgotten. The driver's part in UpdateNativeFenceLogs sees to
//! that.
//!
//! Two engines signal a fence each, for a waiter each, with interrupts that name both queues, so
//! that the interrupt of one has the logs of both read. Entries are posted: they may be on their
//! way while their index is there.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::{LeftOut, notes};
use crate::world::{Setting, World, ends_well, until_quiet};
use tidegate::dxgkrnl::InterruptDelivery;
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::kmd::InterruptMode;
use tidegate::{Platform, Submission};

const READ: &str = "a log with news was read";
const BOTH: &str = "one interrupt found the news of both queues";
const NO_FLUSH: &str = "no-flush";

pub(crate) const RACE: Race = Race {
    name: "log-write-against-log-read",
    about: "an interrupt has the log of another engine's queue read while that engine writes it: no waiter is forgotten",
    marks: &[READ, BOTH],
    agents: &["interrupts", "engine 0", "engine 1", "timer", "main", "other"],
    planted: &[PlantedBug {
        name: NO_FLUSH,
        about: "UpdateNativeFenceLogs does nothing: the index is believed before its entry is there",
    }],
    plans: Plans {
        short: Plan::sampled(45_000),
        full: Plan::bounded(2, 20_000_000),
        bugs: Plan::sampled(400_000),
    },
    prepare,
    bug: None,
};

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let world = World::new(
        platform,
        Setting {
            engines: 2,
            interrupts: InterruptDelivery::Worker,
            posted_log_entries: true,
            interrupt: InterruptMode::HwQueueArray,
            names_all_queues: true,
            left_out: if bug == Some(NO_FLUSH) { LeftOut::LogFlush } else { LeftOut::Nothing },
            ..Setting::default()
        },
    );
    let queues = [0, 1].map(|node| world.queue("copy", Submission::User, node));
    let fences = [world.fence("first"), world.fence("second")];
    for (queue, fence) in queues.iter().zip(&fences) {
        queue.signal(fence, 1).expect("a submission");
    }
    let (spawner, [first, second]) = (platform.clone(), fences.clone());
    let main = move || {
        spawner.spawn("other", move || ends_well(second.wait(1)));
        ends_well(first.wait(1));
        until_quiet(&spawner);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let flushed = world.probe.seen(notes::FLUSHED);
        end.always(
            "both fences are signalled",
            fences.iter().all(|fence| fence.completed_value() == 1),
        );
        end.sometimes(READ, flushed.is_some());
        end.sometimes(BOTH, flushed == Some(2));
        world.must_be_sound(end);
        drop(queues);
    })
}
