//! What threads wait with, besides mutexes and condition variables.

use crate::failure;
use std::panic::catch_unwind;
use std::time::Duration;
use tidegate::check::cell::RaceCell;
use tidegate::check::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use tidegate::check::sync::atomic::{AtomicBool, AtomicU32};
use tidegate::check::sync::mpsc::{channel, sync_channel};
use tidegate::check::sync::{Arc, Barrier, Once, OnceLock, RwLock};
use tidegate::check::{Builder, Coverage, check, thread};
use tidegate::explorer::machine;
use tidegate::explorer::strategy::replay::Replay;
use tidegate::platform::{MemoryModel, Platform, StepCosts};

/// A thread parks until a flag is set. The wrong one looks at no flag.
fn parks(looks: bool) -> impl Fn() + Send + Sync + 'static {
    move || {
        let shared = Arc::new((AtomicBool::new(false), RaceCell::new(0)));
        let (other, main) = (Arc::clone(&shared), thread::current());
        let setter = thread::Builder::new().name("setter").spawn(move || {
            main.unpark();
            other.1.set(3);
            other.0.store(true, Release);
            main.unpark();
        });
        if looks {
            while !shared.0.load(Acquire) {
                thread::park();
            }
        } else {
            thread::park();
        }
        assert_eq!(shared.1.get(), 3);
        setter.unwrap().join().unwrap();
    }
}

#[test]
fn an_unpark_before_the_park_counts_and_two_are_one() {
    let checked = check(parks(true));
    assert_eq!(checked.coverage, Coverage::Everything);
    assert!(failure(Builder::new(), parks(false)).contains("data race on the RaceCell"));
    // The token orders what was done before it.
    check(|| {
        let data = Arc::new(RaceCell::new(0));
        let (other, main) = (Arc::clone(&data), thread::current());
        thread::spawn(move || {
            other.set(3);
            main.unpark();
        });
        thread::park();
        assert_eq!(data.get(), 3);
    });
}

#[test]
fn a_park_that_nothing_ends_is_named_with_its_line() {
    let found = failure(Builder::new(), || {
        let named = thread::Builder::new().name("sleeper").spawn(|| thread::park()).unwrap();
        assert_eq!(named.thread().name(), Some("sleeper"));
        let _ = named.join();
    });
    let line = "'sleeper' waits for an unpark, at ";
    assert!(found.contains(line), "{found}");
    assert!(found.contains("'main' waits for the end of 'sleeper', at "), "{found}");
    assert!(found.matches("waiting.rs:").count() >= 2, "{found}");
}

#[test]
fn a_park_with_a_limit_ends_when_no_thread_can_move() {
    check(|| thread::park_timeout(Duration::from_secs(3_600)));
}

/// Two readers that must both be inside, and a writer.
fn readers(other_writes: bool) -> impl Fn() + Send + Sync + 'static {
    move || {
        let lock = RwLock::new(RaceCell::new(0));
        let inside = AtomicU32::new(0);
        let meet = || {
            inside.fetch_add(1, SeqCst);
            while inside.load(SeqCst) < 2 {
                thread::yield_now();
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                if other_writes {
                    let held = lock.write().unwrap();
                    held.set(1);
                    meet();
                } else {
                    let held = lock.read().unwrap();
                    assert!(held.get() <= 1);
                    meet();
                }
            });
            let held = lock.read().unwrap();
            assert!(held.get() <= 1);
            meet();
        });
        lock.write().unwrap().set(2);
        assert!(lock.try_read().is_ok() && lock.try_write().is_ok());
    }
}

#[test]
fn readers_share_a_lock_and_a_writer_has_it_alone() {
    assert_eq!(check(readers(false)).coverage, Coverage::Everything);
    let found = failure(Builder::new(), readers(true));
    assert!(found.contains("waits for RwLock made at "), "{found}");
    let writers = check(|| {
        let lock = RwLock::new(0);
        thread::scope(|scope| {
            scope.spawn(|| *lock.write().unwrap() += 1);
            scope.spawn(|| {
                let read = lock.read().unwrap();
                assert_eq!(*read, *read);
            });
            *lock.write().unwrap() += 1;
        });
        assert_eq!(lock.into_inner().unwrap(), 2);
    });
    assert_eq!(writers.coverage, Coverage::Everything);
}

#[test]
fn a_writer_that_panics_poisons_its_lock_and_frees_it() {
    let found = failure(Builder::new(), || {
        let lock = Arc::new(RwLock::new(0));
        let other = Arc::clone(&lock);
        let writer = thread::spawn(move || {
            let _held = other.write().unwrap();
            panic!("in the section");
        });
        assert!(writer.join().is_err());
        assert!(lock.read().is_err() && lock.is_poisoned());
    });
    assert!(found.contains("agent 'thread 1' panicked") && found.contains("in the section"));
    assert!(!found.contains("'main' waits"), "{found}");
}

#[test]
fn a_value_is_written_once_and_seen_whole() {
    let checked = check(|| {
        let (value, writes) = (OnceLock::new(), AtomicU32::new(0));
        let get = || {
            value.get_or_init(|| {
                writes.fetch_add(1, Relaxed);
                RaceCell::new(9)
            })
        };
        thread::scope(|scope| {
            scope.spawn(|| assert_eq!(get().get(), 9));
            if let Some(seen) = value.get() {
                assert_eq!(seen.get(), 9);
            }
            assert_eq!(get().get(), 9);
        });
        assert_eq!(writes.load(Relaxed), 1);
        assert!(value.set(RaceCell::new(1)).is_err());
        let once = Once::new();
        once.call_once(|| {});
        assert!(once.is_completed());
    });
    assert_eq!(checked.coverage, Coverage::Everything);
}

#[test]
fn a_write_that_panics_leaves_the_value_to_the_thread_that_waits_for_it() {
    let checked = check(|| {
        let value = OnceLock::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                let panics = std::panic::AssertUnwindSafe(|| value.get_or_init(|| panic!("no 1")));
                if let Ok(seen) = std::panic::catch_unwind(panics) {
                    assert_eq!(*seen, 2);
                }
            });
            assert_eq!(*value.get_or_init(|| 2), 2);
        });
        assert_eq!(value.into_inner(), Some(2));
    });
    assert_eq!(checked.coverage, Coverage::Everything);
}

#[test]
fn a_barrier_releases_all_of_its_threads_and_has_one_leader() {
    let checked = check(|| {
        let (barrier, leaders) = (Barrier::new(2), AtomicU32::new(0));
        let data = [RaceCell::new(0), RaceCell::new(0)];
        let pass = |me: usize| {
            data[me].set(1);
            if barrier.wait().is_leader() {
                leaders.fetch_add(1, Relaxed);
            }
            assert_eq!(data[1 - me].get(), 1);
        };
        thread::scope(|scope| {
            scope.spawn(|| pass(0));
            pass(1);
        });
        assert_eq!(leaders.load(Relaxed), 1);
    });
    assert_eq!(checked.coverage, Coverage::Everything);
}

#[test]
fn channels_hand_values_over_in_order_and_end_with_their_senders() {
    check(|| {
        let (sender, receiver) = channel();
        let second = sender.clone();
        thread::spawn(move || second.send(RaceCell::new(1)).unwrap());
        drop(sender);
        let values: Vec<i32> = receiver.iter().map(|cell| cell.get()).collect();
        assert_eq!(values, [1]);
    });
    let bounded = |takes_all: bool| {
        move || {
            let (sender, receiver) = sync_channel(1);
            let producer = thread::spawn(move || (0..3).all(|value| sender.send(value).is_ok()));
            let taken: Vec<i32> = receiver.iter().take(if takes_all { 3 } else { 1 }).collect();
            assert_eq!(taken[0], 0);
            if takes_all {
                assert!(receiver.recv().is_err());
                assert!(producer.join().unwrap());
            } else {
                // The receiver is kept, so the producer waits for room.
                let _ = producer.join();
            }
        }
    };
    check(bounded(true));
    let found = failure(Builder::new(), bounded(false));
    assert!(found.contains("'thread 1' waits for Condvar made at "), "{found}");
    assert!(found.contains("waiting.rs:"), "{found}");
}

#[test]
fn they_are_those_of_std_outside_of_a_check() {
    let (lock, barrier) = (RwLock::new(1), Barrier::new(2));
    let (sender, receiver) = sync_channel(1);
    let main = thread::current();
    thread::scope(|scope| {
        scope.spawn(|| {
            *lock.write().unwrap() += 1;
            barrier.wait();
            sender.send(7).unwrap();
            main.unpark();
        });
        barrier.wait();
        assert_eq!((*lock.read().unwrap(), receiver.recv()), (2, Ok(7)));
        thread::park();
    });
    let value = OnceLock::new();
    assert_eq!((value.set(1), value.get(), value.set(2)), (Ok(()), Some(&1), Err(2)));
}

/// The panic of a thread goes through the scope to its agent, which catches it a second time.
#[test]
fn a_panic_that_leaves_a_scope_is_reported_once() {
    let platforms: [fn() -> Platform; 2] = [
        || Platform::virtual_time(StepCosts::free()),
        || machine(Replay::default(), MemoryModel::TotalStoreOrder),
    ];
    for make in platforms {
        let platform = make();
        let report = platform.run(|| {
            let scope = || -> () { thread::scope(|_| panic!("planted 1")) };
            let payload = catch_unwind(scope).unwrap_err();
            thread::scope(|_| panic!("planted 2, after {:?}", payload.downcast_ref::<&str>()))
        });
        let panics = &report.panics;
        assert_eq!(panics.len(), 2, "{:?}: {panics:?}", platform.kind());
        assert!(panics[0].contains("planted 1"), "{panics:?}");
        assert!(panics[1].contains("planted 2, after Some(\"planted 1\")"), "{panics:?}");
    }
}
