//! A suspension against the destruction of a doorbell, with which the queue leaves the hardware.
//! The driver has recorded the queues whose suspension it awaits. The destruction removes the last
//! one and completes the suspension, which the driver reports and for which it queues a DPC: in a
//! call of the kernel, where no interrupt follows and no turn of an engine ends.
//!
//! The DPC runs all the same, so the suspension ends at once.

use super::of_new_queue;
use crate::prelude::*;

const BEFORE: &str = "the context was suspended before the doorbell was destroyed";
const GONE: &str = "the doorbell was destroyed before the end of the suspension";

/// Notes: whether the suspension was complete, and whether the doorbell was gone by then.
const COMPLETE: usize = notes::OWN;
const GONE_BY_THEN: usize = notes::OWN + 1;
const DESTROYED: usize = notes::OWN + 2;

pub(crate) const RACE: Race = Race {
    name: "suspend-against-destroy",
    about: "a context is suspended while the doorbell of its queue is destroyed: the suspension ends at once",
    marks: &[BEFORE, GONE],
    planted: bugs! {
        "dpc-left" => Product(PlantedFault::DPCOfACallIsLeft),
            "a DPC that the driver queues in a call of the kernel is left to the next interrupt";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::of(sampled(30_000), bounded(1, 20_000_000), sampled(100_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let client = world.client("app");
    let kernel = client.kernel.clone();
    let doorbell = kernel.create_doorbell(of_new_queue(&client)).expect("a doorbell").handle;
    let adapter = world.machine.adapter().clone();
    let (probe, over) = (world.probe.clone(), world.probe.clone());
    let main = move |platform: &Platform| {
        let suspender = platform.spawn("suspender", move || {
            let suspended = adapter.suspend_contexts().expect("the adapter works");
            probe.note(GONE_BY_THEN, u64::from(probe.seen(DESTROYED).is_some()));
            probe.note(COMPLETE, u64::from(suspended.is_complete()));
            suspended.resume();
        });
        kernel.destroy_doorbell(doorbell).expect("the doorbell exists");
        over.note(DESTROYED, 1);
        suspender.join();
    };
    world.race(main, move |world, end| {
        let [complete, gone] = [COMPLETE, GONE_BY_THEN].map(|note| world.probe.seen(note));
        let adapter = world.machine.adapter();
        end.eventually("the suspension is complete", complete == Some(1));
        end.always("no engine is reset", adapter.recoveries().is_empty());
        end.always("the driver is not blamed", adapter.driver_faults().is_empty());
        end.sometimes(BEFORE, gone == Some(0));
        end.sometimes(GONE, gone == Some(1));
    })
}
