//! A signal on one adapter against a wait of a queue on another, where an event is registered too.
//! The signal interrupts its own adapter, whose DPC queues an item for the other adapter. That
//! adapter's driver is notified, its hardware checks parked queues, and the kernel waiters.
//!
//! Both submissions are in their rings before the run begins.

use crate::prelude::*;
use crate::seam::{Seam, Seen};

const STALLED: &str = "the queue parked before the signal";
const PASSED: &str = "the signal came before the wait";

pub(crate) const RACE: Race = Race {
    name: "cross-adapter-relay",
    about: "one adapter signals while a queue on another reaches its wait and an event is registered: both are released",
    marks: &[STALLED, PASSED],
    planted: bugs! {
        "no-relay" => Driver(LeftOut::SignalReport),
            "the signal is not reported to the kernel, so the other adapter is not notified";
        "no-notification" => Driver(LeftOut::Notification),
            "the other adapter's driver does not have its hardware check the parked queues";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::of(exhaustive(1_000_000), exhaustive(20_000_000), bounded(1, 1_000_000)),
    prepare,
};

/// Two adapters with one engine and one process each. A producer on the first signals a fence that
/// a consumer on the second waits for.
pub(crate) struct Adapters {
    /// Declared before the machine, because kernel objects must be dropped first.
    queues: [Queue; 2],
    fences: [Fence; 2],
    pub(crate) devices: [Device; 2],
    pub(crate) machine: Machine,
    pub(crate) probe: Probe,
}

impl Adapters {
    /// Plants one bug per adapter.
    pub(crate) fn new(run: &Run<'_>, left_out: [LeftOut; 2]) -> Adapters {
        let seen = left_out.map(Seen::new);
        let probe = seen[0].probe.clone();
        let mut builder = Machine::builder(run.platform);
        for mut seen in seen {
            seen.probe = probe.clone();
            builder = builder.reference_behind(run.config(|_| ()), move |inner| {
                Arc::new(Seam::new(run, inner, &seen))
            });
        }
        let machine = builder.start().expect("the machine of a scenario starts");
        let device = |index: usize| {
            machine.device_on(index, run.device_options()).expect("a device on each adapter")
        };
        let devices = [0, 1].map(device);
        let flags = FenceFlags::SHARED | FenceFlags::SHARED_CROSS_ADAPTER;
        let made =
            devices[0].create_fence_with(FenceDesc::new("shared").flags(flags)).expect("a fence");
        let handle = devices[0].create_shared_handle(&made).expect("a handle");
        let opened = devices[1].open_shared_handle("shared", &handle).expect("the fence");
        let producer = queue_on(&devices[0], "producer", Submission::User);
        let consumer = queue_on(&devices[1], "consumer", Submission::User);
        consumer.wait(&opened, 1).expect("a submission");
        producer.signal(&made, 1).expect("a submission");
        let (queues, fences) = ([producer, consumer], [made, opened]);
        Adapters { queues, fences, devices, machine, probe }
    }

    /// Runs until no agent is runnable. The CPU only waits.
    pub(crate) fn race(
        self,
        platform: &Platform,
        check: impl FnOnce(&Adapters, &mut Verdict<'_>) + 'static,
    ) -> Prepared {
        let platform = platform.clone();
        let main = move || sleep_until_idle(&platform);
        Prepared::new(main, move |end: &mut Verdict<'_>| {
            let gpu = self.machine.gpu_at(1);
            let (reached, stalled) =
                (gpu.stats().gpu_waits == 1, gpu.stats().gpu_waits_stalled > 0);
            end.eventually(
                "the waiting queue is unblocked",
                reached && gpu.parked_waits().is_empty(),
            );
            check(&self, end);
            end.sometimes(STALLED, stalled);
            end.sometimes(PASSED, !stalled);
            sound(&self.machine, end);
            drop((self.queues, self.fences));
        })
    }
}

fn prepare(run: &Run<'_>) -> Prepared {
    let left_out = match run.left_out() {
        LeftOut::Notification => [LeftOut::Nothing, LeftOut::Notification],
        on_first => [on_first, LeftOut::Nothing],
    };
    let world = Adapters::new(run, left_out);
    let event = world.devices[1].create_event(EventDesc::manual_reset());
    world.fences[1].set_event_on_completion(1, &event).expect("a registration");
    world.race(run.platform, move |_, end| end.eventually("the event is set", event.is_set()))
}
