//! Protocols from the books, as a user writes them. The right form is exhausted. Each wrong form is
//! found, and its line replays it.

use crate::{failure, line_of};
use tidegate::check::cell::RaceCell;
use tidegate::check::sync::Mutex;
use tidegate::check::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use tidegate::check::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use tidegate::check::{Builder, Coverage, check, hint, thread};

/// Searches a right program, by the defaults, to its end.
fn is_right(name: &str, program: impl Fn() + Send + Sync + 'static) {
    let checked = check(program);
    println!("{name}: {checked:?}");
    assert_eq!(checked.coverage, Coverage::Everything, "{name}");
}

/// Finds the mistake of a wrong program by the defaults. Its line fails in the same way.
fn is_wrong<P: Fn() + Send + Sync + 'static>(name: &str, program: impl Fn() -> P, expected: &str) {
    let found = failure(Builder::new(), program());
    let first = found.lines().next().unwrap_or_default();
    println!("{name}: {first}");
    assert!(found.contains(expected), "{name}: {found}");
    assert!(found.contains("classics.rs:"), "{name}: {found}");
    let again = failure(Builder::new().replay(line_of(&found)), program());
    assert!(again.contains(expected), "{name}: {again}");
    assert_eq!(line_of(&again), line_of(&found), "{name}");
}

/// Two threads that each pass through a section of their own. `enter` and `leave` get the number of
/// the thread.
fn exclusion<S: Send + Sync>(
    state: S,
    enter: impl Fn(&S, usize) + Send + Sync,
    leave: impl Fn(&S, usize) + Send + Sync,
) {
    let count = RaceCell::new(0);
    let pass = |me| {
        enter(&state, me);
        count.with_mut(|count| *count += 1);
        leave(&state, me);
    };
    thread::scope(|scope| {
        scope.spawn(|| pass(0));
        pass(1);
    });
    assert_eq!(count.get(), 2);
}

/// Peterson's lock, with the order of the stores that announce a thread.
fn peterson(store: Ordering) -> impl Fn() + Send + Sync + 'static {
    move || {
        let state = ([AtomicBool::new(false), AtomicBool::new(false)], AtomicU32::new(0));
        exclusion(
            state,
            |(wants, turn), me| {
                wants[me].store(true, Relaxed);
                turn.store(1 - me as u32, store);
                while wants[1 - me].load(Acquire) && turn.load(Acquire) == 1 - me as u32 {
                    hint::spin_loop();
                }
            },
            |(wants, _), me| wants[me].store(false, Release),
        );
    }
}

#[test]
fn petersons_lock_needs_a_sequentially_consistent_store() {
    is_right("Peterson", peterson(SeqCst));
    is_wrong("Peterson with release", || peterson(Release), "data race on the RaceCell");
}

/// Dekker's entry with relaxed accesses, and with or without a fence between store and load.
fn dekker(with_fence: bool) -> impl Fn() + Send + Sync + 'static {
    move || {
        let flags = [AtomicBool::new(false), AtomicBool::new(false)];
        let inside = AtomicU32::new(0);
        let enter = |me: usize| {
            flags[me].store(true, Relaxed);
            if with_fence {
                fence(SeqCst);
            }
            if !flags[1 - me].load(Relaxed) {
                assert_eq!(inside.fetch_add(1, Relaxed), 0, "both threads are inside");
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| enter(0));
            enter(1);
        });
    }
}

#[test]
fn dekkers_entry_needs_a_fence() {
    is_right("Dekker with a fence", dekker(true));
    is_wrong("Dekker without", || dekker(false), "both threads are inside");
}

/// A sequence lock: a writer of two words, and a reader that repeats until it has both of one
/// write.
fn sequence_lock(marks_the_write: bool, reads_again: bool) -> impl Fn() + Send + Sync + 'static {
    move || {
        let sequence = AtomicU32::new(0);
        let words = [AtomicU64::new(0), AtomicU64::new(0)];
        thread::scope(|scope| {
            scope.spawn(|| {
                if marks_the_write {
                    sequence.store(1, Relaxed);
                    fence(Release);
                }
                words.iter().for_each(|word| word.store(7, Relaxed));
                sequence.store(2, Release);
            });
            let read = loop {
                let before = sequence.load(Acquire);
                if before & 1 == 1 {
                    hint::spin_loop();
                    continue;
                }
                let read = [words[0].load(Relaxed), words[1].load(Relaxed)];
                fence(Acquire);
                if !reads_again || sequence.load(Relaxed) == before {
                    break read;
                }
            };
            assert_eq!(read[0], read[1], "half of a write is read");
        });
    }
}

#[test]
fn a_sequence_lock_marks_the_write_and_reads_again() {
    is_right("sequence lock", sequence_lock(true, true));
    for wrong in [(false, true), (true, false)] {
        let program = || sequence_lock(wrong.0, wrong.1);
        is_wrong("sequence lock, wrong", program, "half of a write is read");
    }
}

/// A word published by a release fence and read behind an acquire fence. `late`: what it announces
/// is written after the fence, and before the store.
fn announced_by_fences(late: bool) -> impl Fn() + Send + Sync + 'static {
    move || {
        let (value, is_written) = (RaceCell::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                if !late {
                    value.set(7);
                }
                fence(Release);
                if late {
                    value.set(7);
                }
                is_written.store(true, Relaxed);
            });
            if is_written.load(Relaxed) {
                fence(Acquire);
                assert_eq!(value.get(), 7);
            }
        });
    }
}

#[test]
fn a_release_fence_publishes_what_is_before_it_and_nothing_behind_it() {
    is_right("fences", announced_by_fences(false));
    is_wrong("late write", || announced_by_fences(true), "race");
}

/// A ring of one producer and one consumer. The wrong producer counts before it writes.
fn ring(counts_first: bool) -> impl Fn() + Send + Sync + 'static {
    move || {
        let (slots, [head, tail]) =
            ([RaceCell::new(0), RaceCell::new(0)], [AtomicU32::new(0), AtomicU32::new(0)]);
        thread::scope(|scope| {
            scope.spawn(|| {
                for value in 0..3 {
                    while value - tail.load(Acquire) == 2 {
                        hint::spin_loop();
                    }
                    let write = || slots[value as usize % 2].set(value);
                    let count = || head.store(value + 1, Release);
                    if counts_first {
                        count();
                        write();
                    } else {
                        write();
                        count();
                    }
                }
            });
            for value in 0..3 {
                while head.load(Acquire) == value {
                    hint::spin_loop();
                }
                assert_eq!(slots[value as usize % 2].get(), value);
                tail.store(value + 1, Release);
            }
        });
    }
}

#[test]
fn a_ring_writes_a_slot_before_it_counts_it() {
    is_right("ring", ring(false));
    is_wrong("ring that counts first", || ring(true), "data race on the RaceCell");
}

const NONE: u64 = 0xFF;

/// Treiber's stack of three nodes by their numbers, with or without a tag against ABA. One thread
/// takes a node, the other takes two and gives the first back.
fn stack(tagged: bool) -> impl Fn() + Send + Sync + 'static {
    move || {
        let next = [AtomicU64::new(1), AtomicU64::new(2), AtomicU64::new(NONE)];
        let is_owned = [false; 3].map(AtomicBool::new);
        let head = AtomicU64::new(0);
        let after = |seen: u64, node: u64| {
            let tag = if tagged { (seen >> 8) + 1 } else { 0 };
            tag << 8 | node
        };
        let take = || loop {
            let seen = head.load(Acquire);
            let node = seen & 0xFF;
            if node == NONE {
                return None;
            }
            let below = next[node as usize].load(Acquire);
            if head.compare_exchange(seen, after(seen, below), SeqCst, Relaxed).is_ok() {
                let owned = is_owned[node as usize].swap(true, SeqCst);
                assert!(!owned, "a node has two owners");
                return Some(node);
            }
        };
        let give = |node: u64| {
            is_owned[node as usize].store(false, SeqCst);
            loop {
                let seen = head.load(Acquire);
                next[node as usize].store(seen & 0xFF, Release);
                if head.compare_exchange(seen, after(seen, node), SeqCst, Relaxed).is_ok() {
                    return;
                }
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                take();
                take();
            });
            if let (Some(first), Some(_)) = (take(), take()) {
                give(first);
            }
        });
    }
}

#[test]
fn a_stack_of_numbers_needs_a_tag() {
    is_right("stack with a tag", stack(true));
    is_wrong("stack without", || stack(false), "a node has two owners");
}

/// A value that the first thread makes, checked once without the lock and once with it.
fn double_check(load: Ordering, store: Ordering) -> impl Fn() + Send + Sync + 'static {
    move || {
        let (is_made, lock, value) = (AtomicBool::new(false), Mutex::new(()), RaceCell::new(0));
        let get = || {
            if !is_made.load(load) {
                let _held = lock.lock().unwrap();
                if !is_made.load(Relaxed) {
                    value.set(5);
                    is_made.store(true, store);
                }
            }
            assert_eq!(value.get(), 5);
        };
        thread::scope(|scope| {
            scope.spawn(get);
            get();
        });
    }
}

#[test]
fn a_double_check_needs_release_and_acquire() {
    is_right("double check", double_check(Acquire, Release));
    for (load, store) in [(Relaxed, Release), (Acquire, Relaxed)] {
        let program = || double_check(load, store);
        is_wrong("double check, wrong", program, "data race on the RaceCell");
    }
}
