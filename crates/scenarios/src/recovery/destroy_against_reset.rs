//! The destruction of a packet context against a reset of the adapter. The driver ends the save
//! area of the context from inside of DxgkDdiDestroyContext: it calls the kernel, which unmaps the
//! area and for that calls the driver again. The reset meanwhile closes the driver's gate and waits
//! for every call that is inside.
//!
//! The call from inside passes the gate, so the reset succeeds wherever it meets the destruction.

use crate::prelude::*;

const FIRST: &str = "the context was destroyed: its device, which has no work, survives the reset";

const DESTROYED: usize = notes::OWN;

pub(crate) const RACE: Race = Race {
    name: "destroy-against-reset",
    about: "a context with a save area is destroyed while the adapter is reset: the reset waits for the call, and no call waits for the reset that waits for it",
    marks: &[FIRST],
    planted: bugs! {
        "nested-call-waits" => Product(PlantedFault::NestedCallWaitsAtTheGate),
            "a call from inside of the driver waits at the driver's gate for the reset that waits for it";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::samples(20_000, 1_000_000, 100_000),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let client = world.client("in the driver");
    let context = client.context(0);
    let (adapter, probe) = (world.machine.adapter().clone(), world.probe.clone());
    let main = move |platform: &Platform| {
        let debugger = platform.spawn("debugger", move || {
            // If the machine stops meanwhile, that is the failure.
            let _stopped = adapter.debug_timeouts(TdrTest::ForceTdr);
        });
        // A lost device has no context any more.
        let destroyed = client.kernel.destroy_context(context);
        probe.note(DESTROYED, u64::from(destroyed.is_ok()));
        debugger.join();
    };
    world.race(main, move |world, end| {
        let recoveries = world.machine.adapter().recoveries();
        let reset = recoveries.iter().all(|r| r.outcome == RecoveryOutcome::AdapterReset);
        end.eventually("the adapter is reset", recoveries.len() == 1 && reset);
        let destroyed = world.probe.seen(DESTROYED);
        end.sometimes(FIRST, destroyed == Some(1));
        end.eventually("the context is destroyed", world.machine.adapter().census().contexts <= 1);
    })
}
