//! The race of two signal packets that stand in the same three hardware queues, handed in by two
//! threads in opposite order, with the end of the third queue, which stands behind a wait that
//! nobody meets. Neither packet may wait for the other for ever, and neither for the queue that is
//! gone; what was queued later is signalled later.

use crate::plan::{Plan, Plans};
use crate::race::Race;
use crate::world::{Setting, World, until_quiet};
use std::sync::Arc;
use tidegate::Platform;
use tidegate::calls::{
    CreateHwContext, CreateHwQueue, CreateMonitoredFence, FenceValue, Handle, Kernel, Priority,
    SignalFlags, Status, SubmitSignalToHwQueues, SyncObjectFlags,
};
use tidegate::explorer::{Prepared, Probe, Verdict};
use tidegate::platform::WaitEnd;

const MAIN_LAST: &str = "main's packet is queued last";
const OTHER_LAST: &str = "the other's packet is queued last";
const TOO_LATE: &str = "a queue is gone before main's packet";

/// Notes of the run.
const TAKEN: usize = 0;
const REFUSED: usize = 1;
const ENDED: usize = 2;

pub(crate) const RACE: Race = Race {
    name: "broadcast-against-destroy",
    about: "two threads signal over the same hardware queues, and one ends a blocked queue: every packet is signalled",
    marks: &[MAIN_LAST, OTHER_LAST, TOO_LATE],
    agents: &["engine", "timer", "main", "other"],
    planted: &[],
    plans: Plans {
        short: Plan::sampled(30_000),
        full: Plan::bounded(1, 20_000_000),
        bugs: Plan::sampled(100_000),
    },
    prepare,
    bug: None,
};

/// A packet that signals each of `fences` over `hw_queues`.
fn broadcast(
    kernel: &dyn Kernel,
    hw_queues: &[Handle],
    fences: &[(Handle, u64)],
) -> Result<(), Status> {
    let fences: Vec<FenceValue> =
        fences.iter().map(|(fence, value)| FenceValue { fence: *fence, value: *value }).collect();
    let flags = SignalFlags::ALLOW_FENCE_REWIND;
    kernel.submit_signal_to_hw_queues(SubmitSignalToHwQueues { hw_queues, fences: &fences, flags })
}

fn hw_queue(kernel: &dyn Kernel, device: Handle) -> Handle {
    let hw_context =
        kernel.create_hw_context(CreateHwContext { device, node_ordinal: 0, engine_affinity: 0 });
    let args = CreateHwQueue {
        hw_context: hw_context.expect("a context"),
        user_mode_submission: false,
        priority: Priority::Normal,
        tag: 0,
    };
    kernel.create_hw_queue(args).expect("a queue").handle
}

fn prepare(platform: &Platform, _bug: Option<&'static str>) -> Prepared {
    let world = World::new(platform, Setting::default());
    let kernel: Arc<dyn Kernel> = world.machine.open("broadcaster").expect("a process");
    let device = kernel.create_device().expect("a device");
    let [first, second, blocked] = [(); 3].map(|()| hw_queue(&*kernel, device));
    let [mains, others, order, never] = ["main's", "the other's", "order", "never"].map(|name| {
        let (initial_value, flags, engine_affinity) = (0, SyncObjectFlags::empty(), 0);
        let args = CreateMonitoredFence { device, initial_value, flags, engine_affinity, name };
        kernel.create_monitored_fence(args).expect("a fence")
    });
    let wait = [FenceValue { fence: never.handle, value: 1 }];
    kernel.submit_wait_to_hw_queue(blocked, &wait).expect("a wait");
    let probe = Probe::new();
    let handles = [mains.handle, others.handle, order.handle];
    let (spawner, own, noted) = (platform.clone(), kernel.clone(), probe.clone());
    let main = move || {
        let [mains, others, order] = handles;
        let kernel = own.clone();
        let other = spawner.spawn("other", move || {
            broadcast(&*kernel, &[blocked, second, first], &[(others, 1), (order, 2)])
                .expect("all queues are there");
            kernel.destroy_hw_queue(blocked).expect("nobody else ends it");
        });
        match broadcast(&*own, &[first, second, blocked], &[(mains, 1), (order, 1)]) {
            Ok(()) => noted.note(TAKEN, 1),
            Err(status) => noted.note(REFUSED, u64::from(status == Status::INVALID_PARAMETER)),
        }
        if other.join() == WaitEnd::Woken {
            noted.note(ENDED, 1);
        }
        until_quiet(&spawner);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let (taken, refused) = (probe.seen(TAKEN).is_some(), probe.seen(REFUSED));
        let last = order.value.load();
        end.always(
            "a call fails only because the queue is gone",
            refused.is_none_or(|expected| expected == 1),
        );
        end.eventually("both calls return", probe.seen(ENDED).is_some());
        end.eventually("the other's packet is signalled", others.value.load() == 1);
        end.eventually(
            "main's packet is signalled if it was taken",
            mains.value.load() == u64::from(taken),
        );
        end.sometimes(MAIN_LAST, last == 1);
        end.sometimes(OTHER_LAST, taken && last == 2);
        end.sometimes(TOO_LATE, !taken);
        world.must_be_sound(end);
        drop(kernel);
    })
}
