//! Two threads queue signal packets over the same three hardware queues, in opposite order, while
//! the third queue is destroyed. That queue is blocked by a wait that is never satisfied. The
//! packets must not deadlock or wait for that queue, and the packet queued last must signal last.

use crate::prelude::*;

const MAIN_LAST: &str = "main's packet is queued last";
const OTHER_LAST: &str = "the other's packet is queued last";
const TOO_LATE: &str = "a queue is destroyed before main's packet";

const TAKEN: usize = notes::OWN;
const REFUSED: usize = notes::OWN + 1;
const ENDED: usize = notes::OWN + 2;

pub(crate) const RACE: Race = Race {
    name: "broadcast-against-destroy",
    about: "two threads signal over the same hardware queues, and one of them destroys a blocked queue: every packet is signalled",
    marks: &[MAIN_LAST, OTHER_LAST, TOO_LATE],
    planted: &[],
    shape: Shape::Machine(&[]),
    plans: Plans::of(sampled(30_000), bounded(1, 20_000_000), sampled(100_000)),
    prepare,
};

/// Submits a packet that signals each of `fences` over `hw_queues`.
fn broadcast(
    kernel: &dyn Kernel,
    hw_queues: &[Handle],
    fences: [(Handle, u64); 2],
) -> Result<(), Status> {
    let fences = fences.map(|(fence, value)| FenceValue { fence, value });
    let flags = SignalFlags::ALLOW_FENCE_REWIND;
    kernel.submit_signal_to_hw_queues(SubmitSignalToHwQueues { hw_queues, fences: &fences, flags })
}

fn prepare(run: &Run<'_>) -> Prepared {
    let world = run.world();
    let client = world.client("broadcaster");
    let [first, second, blocked] = [(); 3].map(|()| client.hw_queue().handle);
    let [mains, others, order, never] = [(); 4].map(|()| client.monitored(0));
    client.kernel.submit_wait_to_hw_queue(blocked, &at(&never, 1)).expect("a wait");
    let handles = [mains.handle, others.handle, order.handle];
    let (own, noted) = (client.kernel.clone(), world.probe.clone());
    let main = move |platform: &Platform| {
        let [mains, others, order] = handles;
        let kernel = own.clone();
        let other = platform.spawn("other", move || {
            broadcast(&*kernel, &[blocked, second, first], [(others, 1), (order, 2)])
                .expect("all queues exist");
            kernel.destroy_hw_queue(blocked).expect("it is destroyed once");
        });
        match broadcast(&*own, &[first, second, blocked], [(mains, 1), (order, 1)]) {
            Ok(()) => noted.note(TAKEN, 1),
            Err(status) => noted.note(REFUSED, u64::from(status == Status::INVALID_PARAMETER)),
        }
        if other.join() == WaitEnd::Woken {
            noted.note(ENDED, 1);
        }
    };
    world.race(main, move |world, end| {
        let (taken, refused) = (world.noted(TAKEN), world.probe.seen(REFUSED));
        let last = order.value.load();
        end.always(
            "a call fails only because the queue is destroyed",
            refused.is_none_or(|expected| expected == 1),
        );
        end.eventually("both calls return", world.noted(ENDED));
        end.eventually("the other thread's packet is signalled", others.value.load() == 1);
        end.eventually(
            "main's packet is signalled if it was accepted",
            mains.value.load() == u64::from(taken),
        );
        end.sometimes(MAIN_LAST, last == 1);
        end.sometimes(OTHER_LAST, taken && last == 2);
        end.sometimes(TOO_LATE, !taken);
    })
}
