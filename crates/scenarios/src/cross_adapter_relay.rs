//! The race of a signal on one adapter with a queue that comes to its wait on another, where an
//! event is registered too. The signal interrupts its own adapter, whose deferred routine puts an
//! item into the other's; there the driver is notified, the hardware looks at its waiting queues,
//! and the kernel at its waiters.
//!
//! Both submissions stand in their rings before the run begins. The CPU only waits until nothing
//! moves any more.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::seam::{FirstDoorbell, LeftOut, Monitored, Omission, Routine, Seam, Watched};
use crate::world::{Setting, queue_on, until_quiet};
use std::sync::Arc;
use tidegate::d3d12::{Device, Fence, FenceFlags};
use tidegate::explorer::{PlantedBug, Prepared, Probe, Verdict};
use tidegate::{Machine, Platform, Submission};

const STALLED: &str = "the queue waited for the signal";
const PASSED: &str = "the signal came first";

const PLANTED: &[PlantedBug] = &[
    PlantedBug {
        name: "no-relay",
        about: "the kernel does not hear of the signal, so nobody tells the other adapter",
    },
    PlantedBug {
        name: "no-notification",
        about: "the other adapter's driver does not make its hardware look at the queues that wait",
    },
];

pub(crate) const RACE: Race = Race {
    name: "cross-adapter-relay",
    about: "one adapter signals while a queue comes to its wait on another, where an event waits too: both go on",
    marks: &[STALLED, PASSED],
    agents: &[
        "engine of the producer",
        "timer of the producer",
        "engine of the consumer",
        "timer of the consumer",
        "main",
    ],
    planted: PLANTED,
    plans: Plans {
        short: Plan::exhaustive(1_000_000),
        full: Plan::exhaustive(20_000_000),
        bugs: Plan::bounded(1, 1_000_000),
    },
    prepare,
    bug: None,
};

/// Two adapters, one process on each, one engine each.
pub(crate) struct Adapters {
    /// Before the machine: kernel objects end while it is there.
    pub(crate) devices: [Device; 2],
    pub(crate) machine: Machine,
    pub(crate) probe: Probe,
}

impl Adapters {
    pub(crate) fn new(platform: &Platform, settings: [Setting; 2]) -> Adapters {
        let probe = Probe::new();
        let seam = |inner, left_out| Seam {
            inner,
            probe: probe.clone(),
            monitored: Monitored::default(),
            watched: Watched::default(),
            left_out: Omission::new(left_out),
            names_queues: None,
            first: FirstDoorbell::default(),
            told_again: false,
            routine: Routine::new(platform),
            late_end: Default::default(),
            platform: platform.clone(),
        };
        let mut builder = Machine::builder(platform);
        for setting in settings {
            let seam = &seam;
            builder = builder.reference_behind(setting.config(platform), move |inner| {
                Arc::new(seam(inner, setting.left_out))
            });
        }
        let machine = builder.start().expect("the machine of a scenario starts");
        let device = |index: usize| {
            machine
                .device_on(index, settings[index].device_options())
                .expect("a device on each adapter")
        };
        Adapters { devices: [0, 1].map(device), machine, probe }
    }

    /// A fence at 0 that both have open.
    pub(crate) fn fence(&self) -> [Fence; 2] {
        let flags = FenceFlags::SHARED | FenceFlags::SHARED_CROSS_ADAPTER;
        let made = self.devices[0].create_fence_with("shared", 0, flags).expect("a fence");
        let handle = self.devices[0].create_shared_handle(&made).expect("a handle");
        let opened = self.devices[1].open_shared_handle("shared", &handle).expect("the fence");
        [made, opened]
    }

    /// What every run must keep.
    pub(crate) fn must_be_sound(&self, end: &mut Verdict<'_>) {
        for adapter in [0, 1] {
            let kept = self.machine.driver_at(adapter).violations().is_empty();
            end.always("the drivers keep their contract", kept);
            let none = self.machine.adapter_at(adapter).bug_checks().is_empty();
            end.always("the kernel sees no broken contract", none);
            let none = self.machine.adapter_at(adapter).driver_faults().is_empty();
            end.always("the kernel reports no fault of a driver", none);
        }
    }
}

fn prepare(platform: &Platform, bug: Option<&'static str>) -> Prepared {
    let leaves_out = |which, what| match bug == Some(which) {
        true => Setting { left_out: what, ..Setting::default() },
        false => Setting::default(),
    };
    let settings = [
        leaves_out("no-relay", LeftOut::SignalReport),
        leaves_out("no-notification", LeftOut::Notification),
    ];
    let world = Adapters::new(platform, settings);
    let [signalled, awaited] = world.fence();
    let producer = queue_on(&world.devices[0], "producer", Submission::User, 0);
    let consumer = queue_on(&world.devices[1], "consumer", Submission::User, 0);
    consumer.wait(&awaited, 1).expect("a submission");
    producer.signal(&signalled, 1).expect("a submission");
    let (clock, event) = (platform.clone(), world.devices[1].create_event(true));
    awaited.set_event_on_completion(1, &event).expect("a registration");
    let main = move || until_quiet(&clock);
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let gpu = world.machine.gpu_at(1);
        let (came, stalled) = (gpu.stats().gpu_waits == 1, gpu.stats().gpu_waits_stalled > 0);
        end.eventually("the waiting queue goes on", came && gpu.parked_waits().is_empty());
        end.eventually("the event is set", event.is_set());
        end.sometimes(STALLED, stalled);
        end.sometimes(PASSED, !stalled);
        world.must_be_sound(end);
        drop((producer, consumer, signalled, awaited));
    })
}
