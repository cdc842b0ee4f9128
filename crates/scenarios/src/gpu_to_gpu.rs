//! A signal on one GPU against a queue that comes to its wait on another, where the GPUs notify each
//! other and share their fence storage: the signaller stores CurrentValue, executes its barrier and
//! loads the other's count of waiting queues; the other counts up and checks the fence again. No CPU
//! is in between.

use crate::cross_adapter_relay::Adapters;
use crate::prelude::*;
use tidegate::ddi::PeerSignalCaps;

pub(crate) const RACE: Race = Race {
    name: "gpu-to-gpu",
    about: "one GPU signals while a queue comes to its wait on another, which it notifies by itself: the queue goes on",
    marks: crate::cross_adapter_relay::RACE.marks,
    planted: &[Bug {
        name: "no-gpu-barrier",
        about: "the signaller reads whether the other GPU waits while its CurrentValue is still in its store buffer",
        fault: Fault::Product("no signal barrier"),
    }],
    plans: Plans::of(exhaustive(1_000_000), exhaustive(20_000_000), bounded(2, 1_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = Adapters::new(run, [LeftOut::Nothing; 2], |config| {
        config.driver.peer_signal =
            PeerSignalCaps { common_doorbell: true, shared_fence_storage: true };
    });
    world.race(run.platform, |world, end| {
        end.always("no CPU is interrupted", world.probe.seen(notes::INTERRUPTED).is_none());
    })
}
