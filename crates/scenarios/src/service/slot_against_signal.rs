//! A client of a service cancels a wait and waits again, in the same slot of its page, while
//! another client signals the fence for both waits.
//!
//! The second wait ends with its own value, not with what the cancelled wait was for.

use crate::prelude::*;
use crate::service::served::{Served, passes};

const GIVEN: &str = "the first wait was over before its cancellation";
const CANCELLED: &str = "the first wait was cancelled";

const WAS_GIVEN: usize = notes::OWN;
const READ: usize = notes::OWN + 1;

pub(crate) const RACE: Race = Race {
    name: "served-slot-against-signal",
    about: "a client of a service waits again in the slot of a cancelled wait: the second wait ends with its own value",
    marks: &[GIVEN, CANCELLED],
    planted: bugs! {
        "goes-on" => Product(PlantedFault::CancelledWaitGoesOn),
            "the service forgets a cancelled wait without ending it: its end is that of the next one in the slot";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(30_000, 3_000_000, 100_000),
    prepare,
};

struct Callback(Probe);

impl WaitCallback for Callback {
    fn wait_is_over(&self) {
        self.0.note(WAS_GIVEN, 1);
    }
}

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let served = Served::new(&world);
    let (service, probe) = (served.clone(), world.probe.clone());
    let main = move |platform: &Platform| {
        let callback = Arc::new(Callback(probe.clone()));
        let ([(signaller, theirs), (waiter, own)], wait) = platform.unexplored(|| {
            let both = service.connect_two(["signaller", "waiter"]);
            let (calls, own) = (&both[1].0.client.kernel, &both[1].1);
            let notice = WaitNotice::Callback(callback);
            let wait = calls.register_cpu_wait(&at(own, 1), WaitMode::All, notice);
            (both, wait.expect("a wait"))
        });
        let calls = signaller.client.kernel.clone();
        let signals = platform.spawn("signaller", move || {
            for value in 1..=2 {
                calls.signal_from_cpu(&at(&theirs, value), SignalFlags::empty()).expect("a signal");
            }
        });
        drop(wait);
        passes(waiter.client.kernel.wait_from_cpu(&at(&own, 2), WaitMode::All, None));
        probe.note(READ, own.value.get().expect("a value"));
        signals.join();
        drop(waiter);
        service.end();
    };
    world.race_without_pause(main, move |world, end| {
        served.has_ended(end);
        let read = world.probe.seen(READ);
        end.always("the second wait ends with its value", read.is_none_or(|value| value >= 2));
        end.sometimes(GIVEN, world.noted(WAS_GIVEN));
        end.sometimes(CANCELLED, !world.noted(WAS_GIVEN));
    })
}
