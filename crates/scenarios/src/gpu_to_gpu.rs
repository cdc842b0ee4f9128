//! The race of a signal on one GPU with a queue that comes to its wait on another, where the GPUs
//! tell each other and share their fence storage: the signaller stores CurrentValue, executes its
//! barrier and loads the other's count of waiting queues; the other counts up and looks again. No
//! CPU is in between.
//!
//! Both submissions stand in their rings before the run begins. The CPU only waits until nothing
//! moves any more.

use crate::cross_adapter_relay::Adapters;
use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::notes;
use crate::world::{Setting, plant, queue_on, until_quiet};
use tidegate::ddi::PeerSignalCaps;
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const STALLED: &str = "the queue waited for the signal";
const PASSED: &str = "the signal came first";

const PLANTED: &[PlantedBug] = &[PlantedBug {
    name: "no-gpu-barrier",
    about: "the signaller looks whether the other GPU waits while its CurrentValue is still in its store buffer",
}];

pub(crate) const RACE: Race = Race {
    name: "gpu-to-gpu",
    about: "one GPU signals while a queue comes to its wait on another, which it tells by itself: the queue goes on",
    marks: &[STALLED, PASSED],
    agents: &[
        "engine of the producer",
        "timer of the producer",
        "engine of the consumer",
        "timer of the consumer",
        "main",
    ],
    planted: PLANTED,
    plans: Plans {
        short: Plan::exhaustive(1_000_000),
        full: Plan::exhaustive(20_000_000),
        bugs: Plan::bounded(2, 1_000_000),
    },
    prepare,
    bug: None,
};

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let peer_signal = PeerSignalCaps { common_doorbell: true, shared_fence_storage: true };
    plant(platform, bug, &[(PLANTED[0].name, "no signal barrier")]);
    let setting = Setting { peer_signal, ..Setting::default() };
    let world = Adapters::new(platform, [setting, setting]);
    let [signalled, awaited] = world.fence();
    let producer = queue_on(&world.devices[0], "producer", Submission::User, 0);
    let consumer = queue_on(&world.devices[1], "consumer", Submission::User, 0);
    consumer.wait(&awaited, 1).expect("a submission");
    producer.signal(&signalled, 1).expect("a submission");
    let clock = platform.clone();
    let main = move || until_quiet(&clock);
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let gpu = world.machine.gpu_at(1);
        let (came, stalled) = (gpu.stats().gpu_waits == 1, gpu.stats().gpu_waits_stalled > 0);
        end.eventually("the waiting queue goes on", came && gpu.parked_waits().is_empty());
        end.always("nobody is interrupted", world.probe.seen(notes::INTERRUPTED).is_none());
        end.sometimes(STALLED, stalled);
        end.sometimes(PASSED, !stalled);
        world.must_be_sound(end);
        drop((producer, consumer, signalled, awaited));
    })
}
