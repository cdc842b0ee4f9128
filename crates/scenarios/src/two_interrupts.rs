//! Two engines signal fences of two processes while interrupts run on an agent of their own, as on
//! another processor. Both fences stand at the same address, each in its own address space. One
//! interrupt may report both signals; a signal that comes while the interrupt routine runs needs
//! another one.
//!
//! Two waiters are needed: a lost interrupt shows only when no later one makes up for it.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::{LeftOut, notes};
use crate::world::{Setting, World, ends_well, queue_on, until_quiet};
use tidegate::dxgkrnl::InterruptDelivery;
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const BOTH_IN_ONE: &str = "one interrupt reported both fences";
const ONE_EACH: &str = "each fence had an interrupt of its own";

const LATE_CLEAR: &str = "line-cleared-late";
const BY_ADDRESS: &str = "fences-told-by-address";

const PLANTED: &[PlantedBug] = &[
    PlantedBug {
        name: LATE_CLEAR,
        about: "the interrupt line is cleared after the routine: an interrupt that comes while it runs is lost",
    },
    PlantedBug {
        name: BY_ADDRESS,
        about: "the list of signalled fences knows addresses, not processes: of two at one address the second is dropped",
    },
];

pub(crate) const RACE: Race = Race {
    name: "two-interrupts",
    about: "two engines signal fences of two processes at one address, with interrupts on an agent: both waiters are released",
    marks: &[BOTH_IN_ONE, ONE_EACH],
    agents: &["interrupts", "engine 0", "engine 1", "timer", "main", "other"],
    planted: PLANTED,
    plans: Plans {
        short: Plan::sampled(30_000),
        full: Plan::bounded(2, 20_000_000),
        bugs: Plan::sampled(100_000),
    },
    prepare,
    bug: None,
};

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let setting = Setting {
        engines: 2,
        interrupts: InterruptDelivery::Worker,
        left_out: match bug {
            Some(LATE_CLEAR) => LeftOut::InterruptInRoutine,
            Some(BY_ADDRESS) => LeftOut::SecondAtAddress,
            _ => LeftOut::Nothing,
        },
        ..Setting::default()
    };
    let world = World::new(platform, setting);
    let neighbour = world.machine.device(setting.device_options()).expect("a device");
    let fences =
        [&world.device, &neighbour].map(|device| device.create_fence("done", 0).expect("a fence"));
    let queues = [
        queue_on(&world.device, "first", Submission::User, 0),
        queue_on(&neighbour, "second", Submission::User, 1),
    ];
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
        let seen = |note| world.probe.seen(note);
        end.always(
            "both fences are signalled",
            fences.iter().all(|fence| fence.completed_value() == 1),
        );
        let places = (seen(notes::FIRST_FENCE_AT), seen(notes::SECOND_FENCE_AT));
        end.always("both fences stand at one address", places.0.is_some() && places.0 == places.1);
        let reported_both = seen(notes::REPORTED_AGAIN).is_some();
        let again = seen(notes::INTERRUPTED_AGAIN).is_some();
        end.sometimes(BOTH_IN_ONE, reported_both && !again);
        end.sometimes(ONE_EACH, reported_both && again);
        world.must_be_sound(end);
        drop((queues, fences, neighbour));
    })
}
