//! An executor on one thread, and the floor of tasks that wait for values: a map of wakers in the
//! order of their values.
//!
//! The rows of tasks and their floor run on the same executor, so it cancels out of their ratio.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::sizes::{BATCH, shuffled};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;
use tidegate_measure::floors::ns;
use tidegate_measure::{CLIENT_CPU, Found, Samples, pin};

/// Numbers of the tasks that were woken.
#[derive(Default)]
struct Ready(Mutex<VecDeque<usize>>);

struct TaskWaker {
    number: usize,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let mut woken = self.ready.0.lock().unwrap_or_else(PoisonError::into_inner);
        woken.push_back(self.number);
    }
}

/// Tasks of one thread. A task is polled when it is added and when it was woken.
pub(crate) struct Tasks<F> {
    tasks: Vec<Option<Pin<Box<F>>>>,
    free: Vec<usize>,
    ready: Arc<Ready>,
}

impl<F: Future> Tasks<F> {
    pub(crate) fn new() -> Tasks<F> {
        Tasks { tasks: Vec::new(), free: Vec::new(), ready: Arc::default() }
    }

    fn poll(&mut self, number: usize) -> Option<F::Output> {
        let task = self.tasks[number].as_mut()?;
        let waker = Waker::from(Arc::new(TaskWaker { number, ready: Arc::clone(&self.ready) }));
        match task.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => None,
            Poll::Ready(output) => {
                self.tasks[number] = None;
                self.free.push(number);
                Some(output)
            }
        }
    }

    /// Adds a task and polls it. Returns its output if it is over at once.
    pub(crate) fn add(&mut self, future: F) -> Option<F::Output> {
        let number = self.free.pop().unwrap_or_else(|| {
            self.tasks.push(None);
            self.tasks.len() - 1
        });
        self.tasks[number] = Some(Box::pin(future));
        self.poll(number)
    }

    /// Polls the tasks that were woken, until one of them is over.
    pub(crate) fn run_one(&mut self) -> F::Output {
        loop {
            let woken = self.ready.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            match woken {
                Some(number) => {
                    if let Some(output) = self.poll(number) {
                        return output;
                    }
                }
                None => std::hint::spin_loop(),
            }
        }
    }
}

/// A value, and the wakers of the tasks that wait for it to rise.
#[derive(Default)]
struct OrderedValue {
    value: AtomicU64,
    waiting: Mutex<BTreeMap<u64, Waker>>,
}

impl OrderedValue {
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
}

struct Reached {
    of: Arc<OrderedValue>,
    value: u64,
}

impl Future for Reached {
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

/// Floor of a signal that releases one of `count` tasks, until the task is over.
pub(crate) fn ordered_tasks(count: u64) -> Found<Samples> {
    const BATCHES: u64 = 1_000;
    let together = BATCH.min(count);
    pin(CLIENT_CPU)?;
    let of = Arc::new(OrderedValue::default());
    let (mut tasks, mut samples) = (Tasks::new(), Samples::default());
    let reached = |value| Reached { of: Arc::clone(&of), value };
    for n in 0..count {
        tasks.add(reached(1 + shuffled(n, count)));
    }
    for batch in 0..BATCHES {
        let start = Instant::now();
        for value in batch * together + 1..=(batch + 1) * together {
            of.signal(value);
            tasks.run_one();
        }
        samples.push_batch(ns(start), together);
        for value in batch * together + 1..=(batch + 1) * together {
            tasks.add(reached(count + value));
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_task_is_released_as_often_as_many() {
        assert_eq!(ordered_tasks(1).unwrap().count(), 1_000);
    }

    #[test]
    fn a_signal_ends_the_tasks_that_wait_for_its_value() {
        let of = Arc::new(OrderedValue::default());
        let mut tasks = Tasks::new();
        for value in [2, 1] {
            assert!(tasks.add(Reached { of: Arc::clone(&of), value }).is_none());
        }
        of.signal(1);
        tasks.run_one();
        assert_eq!(of.waiting.lock().unwrap().len(), 1);
        assert!(tasks.add(Reached { of: Arc::clone(&of), value: 1 }).is_some());
    }
}
