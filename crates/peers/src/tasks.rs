//! Tasks on one thread: tokio's watch and Notify, event-listener, and wakers in an ordered map.
//!
//! A value that rises is a fence, and a task that awaits it is a waiter. Values are released in
//! order, and tasks are made in another order.

use crate::timing::{Measured, batches, ns, pin, shuffled};
use crate::{Request, Trouble};
use event_listener::Event;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use tokio::runtime::Runtime;
use tokio::sync::{Notify, watch};
use tokio::task::yield_now;

/// Measures what this room has for a request.
pub(crate) fn measure(request: &Request) -> Result<Option<Measured>, Trouble> {
    pin(request.client_cpu)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|e| format!("a runtime: {e}"))?;
    let measured = match request.row.as_str() {
        "watch_unwaited" => {
            let (sender, _receiver) = watch::channel(0u64);
            batches(request, |value| {
                sender.send_replace(value);
            })
        }
        "watch_chain" => chains(&runtime, request, watch_chain),
        "notify_chain" => chains(&runtime, request, notify_chain),
        "watch_tasks" => herd::<Watch>(&runtime, request),
        "notify_tasks" => herd::<Notified>(&runtime, request),
        "ordered_tasks" => herd::<Ordered>(&runtime, request),
        "listener_tasks" => herd::<Listened>(&runtime, request),
        _ => return Ok(None),
    };
    Ok(Some(measured))
}

/// `batches` chains of `batch` links. A sample is a link.
fn chains(runtime: &Runtime, request: &Request, chain: fn(&Runtime, u64) -> f64) -> Measured {
    let samples = (0..request.batches).map(|_| chain(runtime, request.batch)).collect();
    Measured::of(samples)
}

/// Until every task has been polled once.
async fn rest(tasks: u64) {
    // A poll of this task lets the others run, in parts of a fixed size.
    for _ in 0..tasks / 32 + 8 {
        yield_now().await;
    }
}

/// Task `n` waits for value `n` of one watch, and sends `n + 1`.
fn watch_chain(runtime: &Runtime, depth: u64) -> f64 {
    runtime.block_on(async {
        let (sender, mut receiver) = watch::channel(0u64);
        let sender = Arc::new(sender);
        for value in 1..=depth {
            let (sender, mut receiver) = (Arc::clone(&sender), receiver.clone());
            tokio::spawn(async move {
                if receiver.wait_for(|current| *current >= value).await.is_ok() {
                    sender.send_replace(value + 1);
                }
            });
        }
        rest(depth).await;
        let start = Instant::now();
        sender.send_replace(1);
        // The sender lives until the end.
        let _end = receiver.wait_for(|current| *current > depth).await.map(|value| *value);
        ns(start) / depth as f64
    })
}

/// Task `n` waits for its own Notify, and notifies the next.
fn notify_chain(runtime: &Runtime, depth: u64) -> f64 {
    runtime.block_on(async {
        let links: Arc<Vec<Notify>> = Arc::new((0..=depth).map(|_| Notify::new()).collect());
        for number in 0..depth as usize {
            let links = Arc::clone(&links);
            tokio::spawn(async move {
                links[number].notified().await;
                links[number + 1].notify_one();
            });
        }
        rest(depth).await;
        let start = Instant::now();
        links[0].notify_one();
        links[depth as usize].notified().await;
        ns(start) / depth as f64
    })
}

/// A value that rises, and tasks that await it.
trait Fence: Send + Sync + 'static {
    /// Whether a signal wakes every task, of which most wait again.
    const WAKES_ALL: bool = true;

    fn new() -> Self;
    fn signal(&self, value: u64);
    fn reached(self: Arc<Self>, value: u64) -> impl Future<Output = ()> + Send;
}

struct Watch(watch::Sender<u64>);

impl Fence for Watch {
    fn new() -> Watch {
        Watch(watch::Sender::new(0))
    }

    fn signal(&self, value: u64) {
        self.0.send_replace(value);
    }

    async fn reached(self: Arc<Self>, value: u64) {
        // The sender lives as long as this.
        let _end = self.0.subscribe().wait_for(|current| *current >= value).await.map(|v| *v);
    }
}

struct Notified(AtomicU64, Notify);

impl Fence for Notified {
    fn new() -> Notified {
        Notified(AtomicU64::new(0), Notify::new())
    }

    fn signal(&self, value: u64) {
        self.0.store(value, Ordering::Release);
        self.1.notify_waiters();
    }

    async fn reached(self: Arc<Self>, value: u64) {
        loop {
            let notified = self.1.notified();
            if self.0.load(Ordering::Acquire) >= value {
                return;
            }
            notified.await;
        }
    }
}

struct Listened(AtomicU64, Event);

impl Fence for Listened {
    fn new() -> Listened {
        Listened(AtomicU64::new(0), Event::new())
    }

    fn signal(&self, value: u64) {
        self.0.store(value, Ordering::Release);
        self.1.notify(usize::MAX);
    }

    async fn reached(self: Arc<Self>, value: u64) {
        while self.0.load(Ordering::Acquire) < value {
            let listener = self.1.listen();
            if self.0.load(Ordering::Acquire) < value {
                listener.await;
            }
        }
    }
}

/// What an ordered list costs on this runtime.
struct Ordered {
    value: AtomicU64,
    waiting: Mutex<BTreeMap<u64, Waker>>,
}

impl Fence for Ordered {
    const WAKES_ALL: bool = false;

    fn new() -> Ordered {
        Ordered { value: AtomicU64::new(0), waiting: Mutex::default() }
    }

    fn signal(&self, value: u64) {
        self.value.store(value, Ordering::SeqCst);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(first) = waiting.first_entry() {
            if *first.key() > value {
                break;
            }
            first.remove().wake();
        }
    }

    fn reached(self: Arc<Self>, value: u64) -> impl Future<Output = ()> + Send {
        OrderedWait { of: self, value }
    }
}

struct OrderedWait {
    of: Arc<Ordered>,
    value: u64,
}

impl Future for OrderedWait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.of.value.load(Ordering::SeqCst) >= self.value {
            return Poll::Ready(());
        }
        let mut waiting = self.of.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.of.value.load(Ordering::SeqCst) >= self.value {
            return Poll::Ready(());
        }
        waiting.insert(self.value, context.waker().clone());
        Poll::Pending
    }
}

/// Counts the polls of a future.
struct Counted<F> {
    future: Pin<Box<F>>,
    polls: Arc<AtomicU64>,
}

impl<F: Future> Future for Counted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.polls.fetch_add(1, Ordering::Relaxed);
        self.future.as_mut().poll(context)
    }
}

/// `batch` tasks that await another value each, and `batches` signals that end one of them. A
/// sample lasts until every task that was woken has been polled.
fn herd<F: Fence>(runtime: &Runtime, request: &Request) -> Measured {
    let count = request.batch;
    let samples = runtime.block_on(async {
        let (fence, polls) = (Arc::new(F::new()), Arc::new(AtomicU64::new(0)));
        let add = |value| {
            let future = Box::pin(Arc::clone(&fence).reached(value));
            tokio::spawn(Counted { future, polls: Arc::clone(&polls) });
        };
        (0..count).for_each(|n| add(1 + shuffled(n, count)));
        let polled = async |until: u64| {
            while polls.load(Ordering::Relaxed) < until {
                yield_now().await;
            }
        };
        polled(count).await;
        let mut samples = Vec::new();
        for value in 1..=request.batches {
            let woken = if F::WAKES_ALL { count } else { 1 };
            let (before, start) = (polls.load(Ordering::Relaxed), Instant::now());
            fence.signal(value);
            polled(before + woken).await;
            samples.push(ns(start));
            add(count + value);
            polled(before + woken + 1).await;
        }
        // The tasks that are left end with the runtime.
        samples
    });
    Measured::of(samples)
}
