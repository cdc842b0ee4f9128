//! Two threads of a client of a service make calls at a time, over one connection.
//!
//! Each gets the answer of its own call.

use crate::prelude::*;
use crate::service::served::{SHARED, Served};

const SIGNAL_FIRST: &str = "the signal was carried out first";
const STATE_FIRST: &str = "the state was read first";

const VALUE: usize = notes::OWN;

pub(crate) const RACE: Race = Race {
    name: "served-call-against-call",
    about: "two threads of a client of a service make calls at a time: each gets its own answer",
    marks: &[SIGNAL_FIRST, STATE_FIRST],
    planted: bugs! {
        "turn-too-short" => Product(PlantedFault::TurnGivenBackBeforeTheAnswer),
            "a thread gives the connection back between its call and the answer: another thread takes the answer";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::of(bounded(2, 1_000_000), exhaustive(1_000_000), bounded(2, 1_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let served = Served::new(&world);
    let (service, probe) = (served.clone(), world.probe.clone());
    let main = move |platform: &Platform| {
        let (process, fence) = platform.unexplored(|| {
            let process = service.connect("app");
            let fence = process.client.try_monitored(0, SHARED).expect("a fence");
            (process, fence)
        });
        let (calls, signalled) = (process.client.kernel.clone(), fence.clone());
        let signals = platform.spawn("signaller", move || {
            calls.signal_from_cpu(&at(&signalled, 1), SignalFlags::empty()).expect("a signal");
        });
        assert_eq!(process.client.state(), Ok(DeviceState::Active));
        probe.note(VALUE, fence.value.get().expect("a value"));
        signals.join();
        service.end();
    };
    world.race_without_pause(main, move |world, end| {
        served.has_ended(end);
        end.sometimes(SIGNAL_FIRST, world.probe.seen(VALUE) == Some(1));
        end.sometimes(STATE_FIRST, world.probe.seen(VALUE) == Some(0));
    })
}
