//! The race of a CPU wait with a pulse: the fence goes to 5 and at once to 1, by an engine or by a
//! CPU thread, while the application begins to wait for 5. An engine that rewinds interrupts
//! nobody, so whoever comes late must find what was: the interrupt of the 5 is dealt with on an
//! agent of its own, and the value may fall before, while and after that one looks.
//!
//! The application loads the value just before and just after its call. Was the pulse not over
//! after the call, the wait must be satisfied; was it over before, it must not be.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::{LeftOut, notes};
use crate::world::{Setting, World, ends_well, until_quiet};
use tidegate::dxgkrnl::InterruptDelivery;
use tidegate::explorer::{PlantedBug, Prepared, Verdict};
use tidegate::{Platform, Submission};

const BEFORE: usize = notes::OWN;
const AFTER: usize = notes::OWN + 1;

const LATCHED: &str = "the wait was satisfied by a value that had fallen again";
const TOO_LATE: &str = "the pulse was over when the wait was called";

const NO_BARRIER: &str = "no-cpu-barrier";
const NO_HISTORY: &str = "no-history";

pub(crate) const BY_ENGINE: Race = Race {
    name: "arm-against-rewind",
    about: "a CPU thread begins to wait while an engine signals the value and rewinds the fence: the wait latches",
    marks: &[LATCHED, TOO_LATE],
    agents: &["engine", "interrupts", "timer", "main"],
    planted: &[
        PlantedBug {
            name: NO_BARRIER,
            about: "the driver leaves out the barrier of UpdateMonitoredValues: the kernel's look comes before its update",
        },
        PlantedBug {
            name: NO_HISTORY,
            about: "the hardware keeps no history: the kernel looks after the interrupt, and the value has fallen",
        },
    ],
    plans: Plans {
        short: Plan::sampled(30_000),
        full: Plan::bounded(1, 20_000_000),
        bugs: Plan::sampled(100_000),
    },
    prepare: by_engine,
    bug: None,
};

pub(crate) const BY_CPU: Race = Race {
    name: "arm-against-cpu-rewind",
    about: "a CPU thread begins to wait while another signals the value and rewinds the fence: the wait latches",
    marks: &[LATCHED, TOO_LATE],
    agents: &["engine", "timer", "main", "signaller"],
    planted: &[],
    plans: Plans {
        short: Plan::sampled(30_000),
        full: Plan::bounded(2, 20_000_000),
        bugs: Plan::sampled(100_000),
    },
    prepare: by_cpu,
    bug: None,
};

fn by_engine(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let left_out = if bug == Some(NO_BARRIER) { LeftOut::CpuBarrier } else { LeftOut::Nothing };
    let fence_history = bug != Some(NO_HISTORY);
    let world = World::new(
        platform,
        Setting {
            left_out,
            fence_history,
            interrupts: InterruptDelivery::Worker,
            ..Setting::default()
        },
    );
    let queue = world.queue("copy", Submission::User, 0);
    let fence = world.fence("pulsed");
    queue.signal(&fence, 5).expect("a submission");
    queue.signal(&fence, 1).expect("a submission");
    race(platform, world, fence, None, Some(queue))
}

fn by_cpu(platform: &Platform, _bug: Option<&'static str>) -> Prepared {
    let world = World::new(platform, Setting::default());
    let fence = world.fence("pulsed");
    let signalled = fence.clone();
    let pulse = move || {
        ends_well(signalled.signal(5));
        ends_well(signalled.signal(1));
    };
    race(platform, world, fence, Some(Box::new(pulse)), None)
}

fn race(
    platform: &Platform,
    world: World,
    fence: tidegate::d3d12::Fence,
    signaller: Option<Box<dyn FnOnce() + Send>>,
    queue: Option<tidegate::d3d12::Queue>,
) -> Prepared {
    let (event, clock) = (platform.event(true), platform.clone());
    let (waited, probe, reached) = (fence.clone(), world.probe.clone(), event.clone());
    let main = move || {
        if let Some(signaller) = signaller {
            clock.spawn("signaller", signaller);
        }
        probe.note(BEFORE, waited.completed_value());
        ends_well(waited.set_event_on_completion(5, &reached));
        probe.note(AFTER, waited.completed_value());
        until_quiet(&clock);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
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
        end.always(
            "MonitoredValue tells whether somebody waits",
            !satisfied || world.monitored.nobody_waits(),
        );
        end.sometimes(LATCHED, satisfied && over(AFTER));
        end.sometimes(TOO_LATE, over(BEFORE));
        world.must_be_sound(end);
        drop(queue);
    })
}
