//! A CPU wait against a pulse: the fence goes to 5 and at once to 1, by an engine or by a CPU
//! thread, while the application begins to wait for 5. A rewind by an engine does not interrupt, so
//! a wait that comes late must find the history: the interrupt of the 5 is handled on an agent of
//! its own, and the value may fall before, while and after the handler reads it.
//!
//! The application loads the value just before and just after its call. If the pulse was not over
//! after the call, the wait must be satisfied; if it was over before, it must not be.

use crate::prelude::*;

const BEFORE: usize = notes::OWN;
const AFTER: usize = notes::OWN + 1;

const LATCHED: &str = "the wait was satisfied by a value that had fallen again";
const TOO_LATE: &str = "the pulse was over when the wait was called";

pub(crate) const BY_ENGINE: Race = Race {
    name: "arm-against-rewind",
    about: "a CPU thread begins to wait while an engine signals the value and rewinds the fence: the wait latches",
    marks: &[LATCHED, TOO_LATE],
    planted: &[
        Bug {
            name: "no-cpu-barrier",
            about: "the driver leaves out the barrier of UpdateMonitoredValues: the kernel reads the fence before its update",
            fault: Fault::Driver(LeftOut::CpuBarrier),
        },
        Bug {
            name: "no-history",
            about: "the hardware keeps no history: the kernel reads the fence after the interrupt, and the value has fallen",
            fault: Fault::Scenario,
        },
    ],
    plans: Plans::of(sampled(30_000), bounded(1, 20_000_000), sampled(100_000)),
    prepare: by_engine,
};

pub(crate) const BY_CPU: Race = Race {
    name: "arm-against-cpu-rewind",
    about: "a CPU thread begins to wait while another signals the value and rewinds the fence: the wait latches",
    marks: &[LATCHED, TOO_LATE],
    planted: &[],
    plans: Plans::of(sampled(30_000), bounded(2, 20_000_000), sampled(100_000)),
    prepare: by_cpu,
};

fn by_engine(run: &Run<'_>) -> Prepared {
    let world = run.world(|config| {
        worker_interrupts(config);
        config.driver.fence_history = !run.has("no-history");
    });
    let (queue, fence) = (world.queue("copy", Submission::User), world.fence("pulsed"));
    queue.signal(&fence, 5).expect("a submission");
    queue.signal(&fence, 1).expect("a submission");
    race(world, fence, None)
}

fn by_cpu(run: &Run<'_>) -> Prepared {
    let world = run.world(|_| ());
    let fence = world.fence("pulsed");
    let signalled = fence.clone();
    let pulse = move || {
        ends_well(signalled.signal(5));
        ends_well(signalled.signal(1));
    };
    race(world, fence, Some(Box::new(pulse)))
}

fn race(world: World, fence: Fence, signaller: Option<Box<dyn FnOnce() + Send>>) -> Prepared {
    let event = world.machine.platform().event(true);
    let (waited, probe, reached) = (fence.clone(), world.probe.clone(), event.clone());
    let main = move |platform: &Platform| {
        if let Some(signaller) = signaller {
            platform.spawn("signaller", signaller);
        }
        probe.note(BEFORE, waited.completed_value());
        ends_well(waited.set_event_on_completion(5, &reached));
        probe.note(AFTER, waited.completed_value());
    };
    world.race(main, move |world, end| {
        let over = |note| world.probe.seen(note) == Some(1);
        let satisfied = event.is_set();
        end.eventually(
            "a wait whose value is reached after its call is satisfied",
            satisfied || over(AFTER),
        );
        end.always(
            "a wait is not satisfied by what was before its call",
            !satisfied || !over(BEFORE),
        );
        end.always("the last value stays", fence.completed_value() == 1);
        let disarmed = world.monitored.all_disarmed();
        end.always("no MonitoredValue is armed without a waiter", !satisfied || disarmed);
        end.sometimes(LATCHED, satisfied && over(AFTER));
        end.sometimes(TOO_LATE, over(BEFORE));
    })
}
