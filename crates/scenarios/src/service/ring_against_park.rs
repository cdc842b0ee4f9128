//! A client of a service rings while the engine goes to sleep. The client sets the doorbell's bit
//! and reads whether the engine sleeps. The service wakes the engine, by a message.
//!
//! The first submission finds the engine asleep. The second one is made while the engine runs the
//! first and goes to sleep again. Both run, whether the client finds the engine awake or asleep.

use crate::prelude::*;
use crate::service::served::Served;

const AWAKE: &str = "the second ring found the engine awake";
const ASLEEP: &str = "the second ring had the service wake the engine";

const VALUE: usize = notes::OWN;
const WAKES: usize = notes::OWN + 1;

pub(crate) const RACE: Race = Race {
    name: "served-ring-against-park",
    about: "a client of a service rings a doorbell while its engine goes to sleep: the work runs",
    marks: &[AWAKE, ASLEEP],
    planted: bugs! {
        "no-wake-call" => Product(PlantedFault::SleepingEngineIsNotWoken),
            "the client does not have the service wake the engine that sleeps";
        "no-summary-barrier" => Product(PlantedFault::NoSummaryBarrier),
            "the client loads its bit of the summary before its doorbell's store is visible";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::of(bounded(1, 1_000_000), bounded(2, 20_000_000), bounded(1, 1_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let served = Served::new(&world);
    let (service, probe) = (served.clone(), world.probe.clone());
    let main = move |platform: &Platform| {
        let (process, queue, fence) =
            service.connect_with_queue("app", |client| client.connected_queue(0));
        queue.signal(&fence, 1);
        let before = service.sessions.counts().wakes;
        queue.signal(&fence, 2);
        probe.note(WAKES, service.sessions.counts().wakes - before);
        sleep_until_idle(platform);
        probe.note(VALUE, fence.value.get().expect("a value"));
        drop((queue, process));
        service.end();
    };
    world.race_without_pause(main, move |world, end| {
        served.has_ended(end);
        end.eventually("both submissions run", world.probe.seen(VALUE) == Some(2));
        let wakes = world.probe.seen(WAKES);
        end.sometimes(AWAKE, wakes == Some(0));
        end.sometimes(ASLEEP, wakes == Some(1));
    })
}
