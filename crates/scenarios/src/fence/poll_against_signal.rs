//! The poll of a fence's future against the signal that it awaits. The task's executor parks on an
//! event, which its waker sets. After a signal by a CPU thread, that thread calls the waker; after
//! one by an engine, the device's thread does (decisions/0084). A task that moved to another
//! executor polls again, with the waker of that one: it is the waker that counts.
//!
//! At the end the future was ready and no wait is registered.

use crate::prelude::*;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};
use tidegate::d3d12::Event;

const AT_ONCE: &str = "the first poll found the value";
const WOKEN: &str = "the task was woken";

/// Set if a poll found the future pending.
const PENDING: usize = notes::OWN;

pub(crate) const BY_CPU: Race = Race {
    name: "poll-against-signal",
    about: "a task polls the future of a fence while a CPU thread signals it: the task is woken",
    marks: &[AT_ONCE, WOKEN],
    planted: &[
        LATE_WAKER,
        Bug {
            name: "left-to-a-call",
            about: "the signal call does not call the wakers that were left to it",
            fault: Fault::Product(PlantedFault::FutureLeftToASignalCall),
        },
    ],
    shape: Shape::Machine(&[]),
    plans: Plans::of(exhaustive(1_000_000), exhaustive(20_000_000), bounded(2, 1_000_000)),
    prepare: |run| prepare(run, false, 1),
};

pub(crate) const BY_ENGINE: Race = Race {
    name: "poll-against-interrupt",
    about: "a task polls the future of a fence while an engine signals it: the task is woken",
    marks: &[AT_ONCE, WOKEN],
    planted: &[LATE_WAKER],
    shape: Shape::Machine(&[]),
    plans: Plans::of(sampled(5_000), bounded(2, 20_000_000), sampled(20_000)),
    prepare: |run| prepare(run, true, 1),
};

pub(crate) const MOVED: Race = Race {
    name: "second-poll-against-signal",
    about: "a task polls the future of a fence with a second waker while a CPU thread signals it",
    marks: &[AT_ONCE, WOKEN],
    planted: bugs! {
        "unheard-end" => Product(PlantedFault::UnheardEnd),
            "a poll whose wait has ended since its first look keeps no waker and is pending";
    },
    shape: Shape::Machine(&[]),
    plans: Plans::of(exhaustive(1_000_000), exhaustive(20_000_000), bounded(2, 1_000_000)),
    prepare: |run| prepare(run, false, 2),
};

const LATE_WAKER: Bug = Bug {
    name: "late-waker",
    about: "the waker is stored after the wait is registered, without a check whether it is over: the task sleeps for ever",
    fault: Fault::Product(PlantedFault::LateWaker),
};

/// Unparks the executor.
struct Unpark(Event);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.set();
    }
}

/// The task polls `wakers` times, each time with another waker, before it parks for the last one.
fn prepare(run: &Run<'_>, by_engine: bool, wakers: usize) -> Prepared {
    let world = run.world();
    let queue = by_engine.then(|| world.queue("queue", Submission::User));
    let fence = world.fence("awaited");
    let event = |_| world.device.create_event(EventDesc::auto_reset());
    let events: Vec<Event> = (0..wakers).map(event).collect();
    let (awaited, probe) = (fence.clone(), world.probe.clone());
    let main = move |platform: &Platform| {
        platform.spawn("signaller", move || match queue {
            Some(queue) => assert_ok(queue.signal(&fence, 1)),
            None => assert_ok(fence.signal(1)),
        });
        let mut future = pin!(awaited.reached(1));
        loop {
            for event in &events {
                let waker = Waker::from(Arc::new(Unpark(event.clone())));
                match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    Poll::Ready(reached) => return assert_ok(reached),
                    Poll::Pending => probe.note(PENDING, 1),
                }
            }
            assert_ok(events[wakers - 1].wait());
        }
    };
    world.race(main, move |world, end| {
        end.always("no wait is registered", world.machine.adapter().census().fence_waits == 0);
        let was_pending = world.noted(PENDING);
        end.sometimes(AT_ONCE, !was_pending);
        end.sometimes(WOKEN, was_pending);
    })
}
