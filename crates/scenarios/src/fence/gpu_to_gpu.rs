//! A signal on one GPU against a queue that reaches its wait on another. The GPUs notify each other
//! and share fence storage, without a CPU. The signaller stores CurrentValue, executes its barrier
//! and loads the other GPU's count of parked queues. The other increments it, then checks the
//! fence.

use crate::fence::cross_adapter_relay::Adapters;
use crate::prelude::*;

pub(crate) const RACE: Race = Race {
    name: "gpu-to-gpu",
    about: "one GPU signals and notifies another, where a queue reaches its wait: the queue is unblocked",
    marks: crate::fence::cross_adapter_relay::RACE.marks,
    planted: bugs! {
        "no-gpu-barrier" => Product(PlantedFault::NoSignalBarrier),
            "the signaller loads the count of parked queues while its CurrentValue is still in its store buffer";
    },
    shape: Shape::Machine(&[setting::PEER_SIGNALS]),
    plans: Plans::of(exhaustive(1_000_000), exhaustive(20_000_000), bounded(2, 1_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = Adapters::new(run, [LeftOut::Nothing; 2]);
    world.race(run.platform, |world, end| {
        end.always("no CPU is interrupted", world.probe.seen(notes::INTERRUPTED).is_none());
    })
}
