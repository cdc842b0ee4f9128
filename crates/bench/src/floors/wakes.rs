//! Floors of wake-ups: what the waking thread pays, a wake-up on one processor, and the release of
//! one of many threads.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use super::park_until;
use crate::sizes::{BETWEEN_RELEASES_NS, THREAD_RELEASES, THREAD_STACK_BYTES};
use std::collections::BTreeMap;
use std::hint::spin_loop;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use tidegate_measure::floors::{Line, ns, two_sides};
use tidegate_measure::{ASLEEP_NS, CLIENT_CPU, Found, Samples, pin};

const WAKES: u64 = 300;

/// Floor of a signal that wakes a thread: the call that wakes a thread which sleeps on the other
/// processor.
pub(crate) fn wake_call() -> Found<Samples> {
    let (wanted, woken) = (Line::default(), Line::default());
    let sleeper: OnceLock<Thread> = OnceLock::new();
    let calls = Mutex::new(Samples::default());
    let service = || {
        for turn in 1..=WAKES {
            while wanted.0.load(Ordering::Acquire) < turn {}
            let asleep = Instant::now();
            while ns(asleep) < ASLEEP_NS {
                spin_loop();
            }
            woken.0.store(turn, Ordering::Release);
            if let Some(thread) = sleeper.get() {
                let start = Instant::now();
                thread.unpark();
                let took = ns(start);
                calls.lock().unwrap_or_else(PoisonError::into_inner).push(took as f64);
            }
        }
    };
    two_sides(service, || {
        // Filled once, before the first turn.
        let _ = sleeper.set(thread::current());
        for turn in 1..=WAKES {
            wanted.0.store(turn, Ordering::Release);
            park_until(&woken, turn);
        }
    })?;
    Ok(calls.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Floor of a wake-up on one processor: from the call to the first instruction of the thread. The
/// waking thread sleeps next.
pub(crate) fn wake_on_one_processor() -> Found<Samples> {
    pin(CLIENT_CPU)?;
    let (begin, woken_at, seen) = (Instant::now(), Line::default(), Line::default());
    let waker = thread::current();
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let mut samples = Samples::default();
            for turn in 1..=WAKES {
                park_until(&woken_at, 1);
                let at = woken_at.0.load(Ordering::Acquire);
                samples.push(ns(begin).saturating_sub(at) as f64);
                woken_at.0.store(0, Ordering::Release);
                seen.0.store(turn, Ordering::Release);
                waker.unpark();
            }
            samples
        });
        for turn in 1..=WAKES {
            woken_at.0.store(ns(begin).max(1), Ordering::Release);
            sleeper.thread().unpark();
            park_until(&seen, turn);
        }
        sleeper.join().map_err(|_| "the sleeper of a floor panicked".into())
    })
}

/// Floor of a signal that releases one of `count` threads: the value, the first of an ordered map
/// of threads, `unpark`, until the thread runs. No thread is bound to a processor.
pub(crate) fn ordered_threads(count: u64) -> Found<Samples> {
    let value = Line::default();
    let started = Line::default();
    let seen: Vec<Line> = (0..=count).map(|_| Line::default()).collect();
    let sleepers: Mutex<BTreeMap<u64, Thread>> = Mutex::default();
    let (value, started, seen, sleepers) = (&value, &started, &seen, &sleepers);
    let begin = Instant::now();
    let signal = |to: u64| {
        value.0.store(to, Ordering::SeqCst);
        let mut sleepers = sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(first) = sleepers.first_entry() {
            if *first.key() > to {
                break;
            }
            first.remove().unpark();
        }
    };
    thread::scope(|scope| {
        for number in 1..=count {
            let wait = move || {
                let this = thread::current();
                sleepers.lock().unwrap_or_else(PoisonError::into_inner).insert(number, this);
                started.0.fetch_add(1, Ordering::SeqCst);
                while value.0.load(Ordering::SeqCst) < number {
                    thread::park();
                }
                seen[number as usize].0.store(ns(begin), Ordering::Release);
            };
            let builder = thread::Builder::new().stack_size(THREAD_STACK_BYTES);
            if let Err(e) = builder.spawn_scoped(scope, wait) {
                signal(count);
                return Err(format!("thread {number} of {count}: {e}").into());
            }
        }
        while started.0.load(Ordering::SeqCst) < count {
            thread::yield_now();
        }
        let mut samples = Samples::default();
        for number in 1..=THREAD_RELEASES.min(count) {
            let start = ns(begin);
            signal(number);
            // The waking thread leaves its processor to the released one.
            thread::sleep(Duration::from_nanos(BETWEEN_RELEASES_NS));
            let at = loop {
                match seen[number as usize].0.load(Ordering::Acquire) {
                    0 => thread::yield_now(),
                    at => break at,
                }
            };
            samples.push(at.saturating_sub(start) as f64);
        }
        signal(count);
        Ok(samples)
    })
}
