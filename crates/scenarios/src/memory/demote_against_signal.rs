//! The eviction of fence storage from local memory against a signal and a CPU wait. While a page of
//! MonitoredValues moves, an engine compares with the old or the new copy and the kernel publishes
//! in one of them. Engines are held while both copies exist, so the copies never differ.
//!
//! The signal is in the ring before the run begins.

use crate::prelude::*;

const INTERRUPTED: &str = "the signal interrupted for the event";
const NOT_INTERRUPTED: &str = "the signal did not interrupt";

pub(crate) const RACE: Race = Race {
    name: "demote-against-signal",
    about: "MonitoredValue leaves local memory while an engine signals and the CPU registers an event: the event is set",
    marks: &[INTERRUPTED, NOT_INTERRUPTED],
    planted: bugs! {
        "engines-not-held" => Driver(LeftOut::EngineHold),
            "engines run while MonitoredValue has two copies: a signal compares with the old one";
    },
    shape: Shape::Machine(&[
        setting::WORKER_INTERRUPTS,
        setting::LOCAL_MONITORED_VALUES,
        setting::FEW_VALUES_A_PAGE,
    ]),
    plans: Plans::of(sampled(30_000), bounded(1, 20_000_000), sampled(100_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let (queue, fence) = (world.queue("copy", Submission::User), world.fence("moving"));
    queue.signal(&fence, 1).expect("a submission");
    let event = world.device.create_event(EventDesc::manual_reset());
    let (set, adapter) = (event.clone(), world.machine.adapter().clone());
    let main = move |platform: &Platform| {
        let pressure = platform.spawn("memory pressure", move || {
            adapter.trim_fence_storage(0).expect("storage can move");
        });
        assert_ok(fence.set_event_on_completion(1, &event));
        assert_ok(event.wait());
        pressure.join();
    };
    world.race(main, move |world, end| {
        let interrupted = world.noted(notes::INTERRUPTED);
        let left = world.machine.adapter().local_fence_storage_bytes();
        end.eventually("the event is set", set.is_set());
        end.always("the storage has left local memory", left == 0 || !set.is_set());
        end.sometimes(INTERRUPTED, interrupted);
        end.sometimes(NOT_INTERRUPTED, !interrupted);
    })
}
