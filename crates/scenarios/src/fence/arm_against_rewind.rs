//! A CPU wait for 5 against a pulse: an engine or a CPU thread signals 5 and immediately rewinds
//! the fence to 1. An engine's rewind raises no interrupt, so a late wait must be satisfied by the
//! history. The interrupt of the 5 is handled on its own agent, so the value may fall before,
//! during or after the handler's read.
//!
//! The application loads the value just before and just after its call. If the pulse ends after the
//! call, the wait must be satisfied; if it ended before the call, it must not be.

use crate::prelude::*;

const BEFORE: usize = notes::OWN;
const AFTER: usize = notes::OWN + 1;

const LATCHED: &str = "the wait was satisfied by a value that had been rewound";
const TOO_LATE: &str = "the pulse ended before the wait was called";

pub(crate) const BY_ENGINE: Race = Race {
    name: "arm-against-rewind",
    about: "a CPU thread begins to wait while an engine signals the value and rewinds the fence: the wait latches",
    marks: &[LATCHED, TOO_LATE],
    planted: bugs! {
        "no-cpu-barrier" => Driver(LeftOut::CpuBarrier),
            "the driver omits the barrier of UpdateMonitoredValues: the kernel reads the fence before its update";
        "no-history" => Scenario,
            "the hardware keeps no history: the kernel reads the fence after the interrupt, when it was rewound";
    },
    shape: Shape::Machine(&[setting::WORKER_INTERRUPTS]),
    plans: Plans::of(sampled(30_000), bounded(1, 20_000_000), sampled(100_000)),
    prepare: by_engine,
};

pub(crate) const BY_CPU: Race = Race {
    name: "arm-against-cpu-rewind",
    about: "a CPU thread begins to wait while another signals the value and rewinds the fence: the wait latches",
    marks: &[LATCHED, TOO_LATE],
    planted: &[],
    shape: Shape::Machine(&[]),
    plans: Plans::of(sampled(30_000), bounded(2, 20_000_000), sampled(100_000)),
    prepare: by_cpu,
};

fn by_engine(run: &Run<'_>) -> Prepared {
    let world = run.world_with_bug(|config| config.driver.fence_history = !run.has("no-history"));
    let (queue, fence) = (world.queue("copy", Submission::User), world.fence("pulsed"));
    queue.signal(&fence, 5).expect("a submission");
    queue.signal(&fence, 1).expect("a submission");
    race(world, fence, None)
}

fn by_cpu(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let fence = world.fence("pulsed");
    let signalled = fence.clone();
    let pulse = move || {
        assert_ok(signalled.signal(5));
        assert_ok(signalled.signal(1));
    };
    race(world, fence, Some(Box::new(pulse)))
}

fn race(world: World, fence: Fence, signaller: Option<Box<dyn FnOnce() + Send>>) -> Prepared {
    let event = world.device.create_event(EventDesc::manual_reset());
    let (waited, probe, reached) = (fence.clone(), world.probe.clone(), event.clone());
    let main = move |platform: &Platform| {
        if let Some(signaller) = signaller {
            platform.spawn("signaller", signaller);
        }
        probe.note(BEFORE, waited.completed_value());
        assert_ok(waited.set_event_on_completion(5, &reached));
        probe.note(AFTER, waited.completed_value());
    };
    world.race(main, move |world, end| {
        let over = |note| world.probe.seen(note) == Some(1);
        let satisfied = event.is_set();
        end.eventually(
            "a wait whose value is reached after the call is satisfied",
            satisfied || over(AFTER),
        );
        end.always(
            "a wait is not satisfied by a value from before the call",
            !satisfied || !over(BEFORE),
        );
        end.always("the fence keeps the last value", fence.completed_value() == 1);
        let disarmed = world.monitored.all_disarmed();
        end.always("no MonitoredValue is armed without a waiter", !satisfied || disarmed);
        end.sometimes(LATCHED, satisfied && over(AFTER));
        end.sometimes(TOO_LATE, over(BEFORE));
    })
}
