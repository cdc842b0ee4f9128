//! Futures of fences: a small executor in virtual time, tokio on the host, and what a dropped
//! future leaves behind.

use crate::bench::{Bench, bench};
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Wake, Waker};
use tidegate_d3d12::Event;
use tidegate_d3d12::*;
use tidegate_testbed::prelude::*;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime;

/// Unparks the thread of an executor.
struct Unpark(Event);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.set();
    }
}

/// An executor of one future, which counts its polls.
struct Executor {
    event: Event,
    waker: Waker,
    polls: u32,
}

impl Executor {
    fn new(b: &Bench<'_>) -> Executor {
        let event = b.device.create_event(EventDesc::auto_reset().named("an executor"));
        Executor { waker: Waker::from(Arc::new(Unpark(event.clone()))), event, polls: 0 }
    }

    fn poll<F: Future>(&mut self, future: Pin<&mut F>) -> Poll<F::Output> {
        self.polls += 1;
        future.poll(&mut Context::from_waker(&self.waker))
    }

    fn block_on<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        loop {
            match self.poll(future.as_mut()) {
                Poll::Ready(output) => return output,
                Poll::Pending => self.event.wait().unwrap(),
            }
        }
    }
}

fn registered(b: &Bench<'_>) -> usize {
    b.machine.adapter().census().fence_waits
}

#[test]
fn a_future_of_a_fence_is_polled_when_the_fence_was_signalled_and_not_before() {
    for submission in [Submission::Packet, Submission::Hardware, Submission::User] {
        bench(move |b| {
            let (queue, fence) = (b.queue(submission), b.device.create_fence("f", 0).unwrap());
            let (none, start) = (registered(&b), b.platform.now());
            queue.execute(&[&b.list(5_000)]).unwrap();
            queue.signal(&fence, 1).unwrap();
            let mut executor = Executor::new(&b);
            executor.block_on(fence.reached(1)).unwrap();
            assert_eq!((executor.polls, b.platform.now().since(start)), (2, 5_000));
            assert_eq!(registered(&b), none);
            b.kernel.take();
            executor.block_on(fence.reached(1)).unwrap();
            assert_eq!((executor.polls, b.kernel.take()), (3, vec![]), "it is reached already");
        });
    }
}

#[test]
fn a_future_latches_a_pulse_and_follows_its_last_waker() {
    bench(|b| {
        let fence = b.device.create_fence("f", 0).unwrap();
        let [mut first, mut second] = [Executor::new(&b), Executor::new(&b)];
        let mut future = pin!(fence.reached(5));
        assert!(first.poll(future.as_mut()).is_pending());
        assert!(second.poll(future.as_mut()).is_pending());
        fence.signal(5).unwrap();
        fence.signal(0).unwrap();
        second.event.wait().unwrap();
        assert!(!first.event.is_set(), "the future had moved to another task");
        assert_eq!(second.poll(future.as_mut()), Poll::Ready(Ok(())));
        assert_eq!(fence.completed_value(), 0);
    });
}

#[test]
fn a_future_that_is_dropped_leaves_no_registration_and_no_wake() {
    bench(|b| {
        let fence = b.device.create_fence("f", 0).unwrap();
        let none = registered(&b);
        let mut executor = Executor::new(&b);
        let mut futures: Vec<_> = (1..=10).map(|value| Box::pin(fence.reached(value))).collect();
        for future in &mut futures {
            assert!(executor.poll(future.as_mut()).is_pending());
        }
        assert_eq!(registered(&b), none + 10);
        drop(futures);
        assert_eq!(registered(&b), none);
        fence.signal(10).unwrap();
        b.work();
        assert!(!executor.event.is_set(), "a waker was called for a dropped future");
    });
}

/// Panics when it is called, and when it is dropped uncalled.
struct Panics(Word);

impl Panics {
    fn waker(app: &App) -> Waker {
        Waker::from(Arc::new(Panics(app.machine.platform().page(1).word(0))))
    }
}

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        self.0.store(1);
        panic!("a waker");
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        assert!(self.0.load() == 1, "a waker that is dropped");
    }
}

#[test]
fn a_waker_that_panics_leaves_the_other_futures_and_the_signal() {
    let app = App::new(DeviceOptions::default(), |_| ());
    let (ended, report) = app.machine.run_to_report(|| {
        let fence = app.create_fence("f", 0).unwrap();
        let desc = QueueDesc::copy("q").submission(Submission::User);
        let queue = app.create_queue(desc).unwrap();
        for (value, by_engine) in [(1, false), (2, true)] {
            let events = [(); 2].map(|()| app.create_event(EventDesc::auto_reset()));
            let [one, two] = events.clone().map(|event| Waker::from(Arc::new(Unpark(event))));
            let wakers = [Panics::waker(&app), one, Panics::waker(&app), two, Panics::waker(&app)];
            let mut futures = wakers.map(|waker| (Box::pin(fence.reached(value)), waker));
            for (future, waker) in &mut futures {
                assert!(future.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
            }
            match by_engine {
                true => queue.signal(&fence, value).unwrap(),
                false => fence.signal(value).unwrap(),
            }
            // A standstill if a waker is not called.
            events.iter().for_each(|event| event.wait().unwrap());
            for (future, waker) in &mut futures {
                let polled = future.as_mut().poll(&mut Context::from_waker(waker));
                assert_eq!(polled, Poll::Ready(Ok(())));
            }
        }
        // A future whose wait is cancelled drops its waker.
        let mut cancelled = Box::pin(fence.reached(3));
        {
            let waker = Panics::waker(&app);
            assert!(cancelled.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        drop(cancelled);
    });
    assert_eq!(ended, Some(()), "{report:?}");
    let of = |text: &str| report.panics.iter().filter(|panic| panic.contains(text)).count();
    assert_eq!((of("a waker that is dropped"), report.panics.len()), (1, 7), "{report:?}");
}

#[test]
fn the_future_of_a_removed_device_and_of_a_stopped_machine_is_an_error() {
    bench(|b| {
        let (queue, fence) =
            (b.queue(Submission::Hardware), b.device.create_fence("f", 0).unwrap());
        let mut executor = Executor::new(&b);
        let faulting = b.device.list(CommandListType::Copy, |list| list.fill_unchecked(0x10, 4, 0));
        queue.execute(&[&faulting]).unwrap();
        let removed = executor.block_on(fence.reached(1)).unwrap_err();
        assert!(matches!(removed, Error::DeviceRemoved(RemovedReason::Faulted(_))), "{removed}");
        let other = b.another();
        let fence = other.device.create_fence("f", 0).unwrap();
        let mut future = pin!(fence.reached(1));
        assert!(executor.poll(future.as_mut()).is_pending());
        b.platform.stop();
        assert_eq!(executor.poll(future.as_mut()), Poll::Ready(Err(Error::Stopped)));
    });
}

#[expect(deprecated, reason = "its successor is unsafe; the descriptor of an event never changes")]
#[test]
fn tokio_tasks_await_fences_and_events() {
    const ROUNDS: u64 = 100;
    let app = App::on(&Platform::host(), DeviceOptions::default(), |_| ());
    app.run(|app| {
        let runtime =
            runtime::Builder::new_multi_thread().worker_threads(2).enable_io().build().unwrap();
        let device = app.device.clone();
        let (made, used) =
            (device.create_fence("made", 0).unwrap(), device.create_fence("used", 0).unwrap());
        let none = app.machine.adapter().census().fence_waits;
        let (producer, consumer) = (
            device.create_queue(QueueDesc::compute("producer")).unwrap(),
            device.create_queue(QueueDesc::copy("consumer")).unwrap(),
        );
        runtime.block_on(async {
            let (own_made, own_used) = (made.clone(), used.clone());
            let task = tokio::spawn(async move {
                for round in 1..=ROUNDS {
                    own_used.reached(round - 1).await.unwrap();
                    producer.signal(&own_made, round).unwrap();
                }
                // A queue that is dropped drops what is still queued.
                producer
            });
            for round in 1..=ROUNDS {
                made.reached(round).await.unwrap();
                consumer.signal(&used, round).unwrap();
            }
            let _producer = task.await.unwrap();
            // A task that is aborted drops its future.
            let (never, own) = (tokio::sync::oneshot::channel::<()>(), made.clone());
            let aborted = tokio::spawn(async move {
                let _until_dropped = never.0;
                own.reached(u64::MAX - 1).await
            });
            aborted.abort();
            assert!(aborted.await.unwrap_err().is_cancelled());
            assert!(never.1.await.is_err());
            // The descriptor of an event.
            let event = device.create_event(EventDesc::auto_reset());
            let fd = AsyncFd::with_interest(event.fd().unwrap(), Interest::READABLE).unwrap();
            for value in 1..=3 {
                made.set_event_on_completion(ROUNDS + value, &event).unwrap();
                consumer.signal(&made, ROUNDS + value).unwrap();
                while !event.try_take() {
                    fd.readable().await.unwrap().clear_ready();
                }
            }
        });
        used.wait(ROUNDS).unwrap();
        assert_eq!(app.machine.adapter().census().fence_waits, none);
    });
}
