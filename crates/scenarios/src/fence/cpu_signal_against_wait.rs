//! A CPU signal against a CPU wait for its value. The signal is a store: it enters the kernel's
//! rooms only if the word of the smallest awaited value says so (decisions/0093). The waiter stores
//! the word and loads CurrentValue; the signal stores CurrentValue and loads the word.

use crate::prelude::*;

const ARMED: &str = "the waiter was registered";
const AT_ONCE: &str = "the wait found the value";

pub(crate) const RACE: Race = Race {
    name: "cpu-signal-against-wait",
    about: "a CPU thread signals a fence while another begins to wait for it: the wait ends",
    marks: &[ARMED, AT_ONCE],
    planted: bugs! {
        "early-test" => Product(PlantedFault::WaitersTestedBeforeTheCPUSignal),
            "the signal looks for waiters before it stores CurrentValue";
        "no-barrier" => Product(PlantedFault::NoBarrierInTheCPUSignal),
            "the signal looks for waiters while CurrentValue is still in its store buffer";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::all(exhaustive(1_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let fence = world.fence("gate");
    let (waited, signalled) = (fence.clone(), fence.clone());
    let main = move |platform: &Platform| {
        platform.spawn("signaller", move || assert_ok(signalled.signal(1)));
        assert_ok(waited.wait(1));
    };
    world.race(main, move |world, end| {
        let armed = world.noted(notes::ARMED);
        end.always("the fence has the signalled value", fence.completed_value() == 1);
        end.always("no MonitoredValue is armed", world.monitored.all_disarmed());
        end.sometimes(ARMED, armed);
        end.sometimes(AT_ONCE, !armed);
    })
}
