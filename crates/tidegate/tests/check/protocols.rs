//! Protocols over atomics, locks and plain cells, without a GPU.

use crate::{failure, line_of};
use tidegate::check::cell::RaceCell;
use tidegate::check::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use tidegate::check::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
use tidegate::check::sync::{Arc, Barrier, Condvar, Mutex, Once, OnceLock, RwLock, mpsc};
use tidegate::check::{Builder, Coverage, MemoryModel, StrategyKind, check, hint, thread};

/// Every strategy, with the budget in which each must find a small mistake.
const STRATEGIES: [StrategyKind; 4] = [
    StrategyKind::Exhaustive,
    StrategyKind::Bounded(2),
    StrategyKind::Random,
    StrategyKind::Pct(3),
];

/// Dekker's entry: each thread announces itself and looks for the other.
fn dekker(order: Ordering) -> impl Fn() + Send + Sync + 'static {
    move || {
        let flags = [AtomicU32::new(0), AtomicU32::new(0)];
        let inside = AtomicU32::new(0);
        let enter = |mine: usize| {
            flags[mine].store(1, order);
            if flags[1 - mine].load(order) == 0 {
                inside.fetch_add(1, SeqCst);
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| enter(0));
            enter(1);
        });
        assert!(inside.load(SeqCst) < 2, "both threads are inside");
    }
}

#[test]
fn dekker_needs_sequentially_consistent_stores() {
    let checked = check(dekker(SeqCst));
    assert_eq!(checked.coverage, Coverage::Everything);
    for strategy in STRATEGIES {
        let found = failure(Builder::new().strategy(strategy), dekker(Release));
        assert!(found.contains("both threads are inside"), "{found}");
        assert!(found.contains("protocols.rs:"), "{found}");
        let sc =
            Builder::new().strategy(strategy).memory_model(MemoryModel::SequentiallyConsistent);
        sc.check(dekker(Release));
    }
}

/// A value is handed over behind a flag.
fn hand_over(store: Ordering, load: Ordering) -> impl Fn() + Send + Sync + 'static {
    move || {
        let shared = Arc::new((RaceCell::new(0), AtomicBool::new(false)));
        let writer = Arc::clone(&shared);
        let writer = thread::spawn(move || {
            writer.0.set(42);
            writer.1.store(true, store);
        });
        while !shared.1.load(load) {
            thread::yield_now();
        }
        assert_eq!(shared.0.get(), 42);
        writer.join().unwrap();
    }
}

#[test]
fn a_flag_publishes_a_cell_by_release_and_acquire_alone() {
    assert_eq!(check(hand_over(Release, Acquire)).coverage, Coverage::Everything);
    for (store, load) in [(Relaxed, Acquire), (Release, Relaxed), (Relaxed, Relaxed)] {
        let found = failure(Builder::new(), hand_over(store, load));
        let two_lines =
            found.contains("'thread 1' writes it at ") && found.contains("'main' reads it at ");
        assert!(found.contains("data race on the RaceCell made at ") && two_lines, "{found}");
    }
}

#[test]
fn fences_order_relaxed_accesses() {
    let with = |order: Option<Ordering>| {
        move || {
            let shared = Arc::new((RaceCell::new(0), AtomicU64::new(0)));
            let writer = Arc::clone(&shared);
            thread::spawn(move || {
                writer.0.set(7);
                if order.is_some() {
                    fence(Release);
                }
                writer.1.store(1, Relaxed);
            });
            if shared.1.load(Relaxed) == 1 {
                fence(order.unwrap_or(Acquire));
                assert_eq!(shared.0.get(), 7);
            }
        }
    };
    check(with(Some(Acquire)));
    check(with(Some(SeqCst)));
    assert!(failure(Builder::new(), with(None)).contains("data race"));
}

#[test]
fn an_unsynchronised_counter_races_under_every_strategy() {
    for strategy in STRATEGIES {
        let found = failure(Builder::new().strategy(strategy), || {
            let count = RaceCell::new(0u32);
            thread::scope(|scope| {
                scope.spawn(|| count.with_mut(|count| *count += 1));
                count.with_mut(|count| *count += 1);
            });
        });
        assert!(found.contains("data race"), "{found}");
    }
    let checked = check(|| {
        let count = Mutex::new(RaceCell::new(0u32));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| count.lock().unwrap().with_mut(|count| *count += 1));
            }
        });
        assert_eq!(count.lock().unwrap().get(), 2);
    });
    assert_eq!(checked.coverage, Coverage::Everything);
}

#[test]
fn a_read_and_a_write_in_two_steps_lose_an_update() {
    let found = failure(Builder::new(), || {
        let count = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let count = Arc::clone(&count);
                thread::spawn(move || {
                    let seen = count.load(Acquire);
                    count.store(seen + 1, Release);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(count.load(Relaxed), 2);
    });
    assert!(found.contains("left: 1") && found.contains("right: 2"), "{found}");
}

#[test]
fn two_mutexes_in_two_orders_deadlock() {
    let both = |crossed: bool| {
        move || {
            let (a, b) = (Mutex::new(0), Mutex::new(0));
            thread::scope(|scope| {
                scope.spawn(|| {
                    let _a = a.lock().unwrap();
                    *b.lock().unwrap() += 1;
                });
                let (first, second) = if crossed { (&b, &a) } else { (&a, &b) };
                let _first = first.lock().unwrap();
                *second.lock().unwrap() += 1;
            });
        }
    };
    assert_eq!(check(both(false)).coverage, Coverage::Everything);
    for strategy in STRATEGIES {
        let found = failure(Builder::new().strategy(strategy), both(true));
        assert!(found.contains("no agent is runnable"), "{found}");
        let waits = found.matches("waits for the lock 'Mutex made at ").count();
        assert_eq!(waits, 2, "{found}");
    }
}

#[test]
fn a_panic_comes_before_the_standstill_of_the_threads_that_it_leaves() {
    let found = failure(Builder::new(), || {
        let flag = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !flag.load(Acquire) {
                    thread::yield_now();
                }
            });
            panic!("before the flag is set");
        });
    });
    assert!(found.contains("agent 'main' panicked at "), "{found}");
    assert!(found.contains("before the flag is set"), "{found}");
}

/// A queue of one place. The consumer tests its condition in a loop, or only before it waits.
fn one_place(notify: fn(&Condvar), holds_the_lock: bool) -> impl Fn() + Send + Sync + 'static {
    move || {
        let place = Arc::new((Mutex::new(None), AtomicBool::new(false), Condvar::new()));
        let producer = Arc::clone(&place);
        let producer = thread::spawn(move || {
            if holds_the_lock {
                *producer.0.lock().unwrap() = Some(5);
            } else {
                producer.1.store(true, SeqCst);
            }
            notify(&producer.2);
        });
        let mut held = place.0.lock().unwrap();
        while held.is_none() && !place.1.load(SeqCst) {
            held = place.2.wait(held).unwrap();
        }
        drop(held);
        producer.join().unwrap();
    }
}

#[test]
fn a_wake_up_is_lost_when_the_condition_changes_outside_of_the_lock() {
    assert_eq!(check(one_place(Condvar::notify_one, true)).coverage, Coverage::Everything);
    assert_eq!(check(one_place(Condvar::notify_all, true)).coverage, Coverage::Everything);
    let found = failure(Builder::new(), one_place(Condvar::notify_one, false));
    assert!(found.contains("'main' waits for Condvar made at "), "{found}");
    assert!(failure(Builder::new(), one_place(|_| {}, true)).contains("no agent is runnable"));
}

#[test]
fn a_loop_that_polls_forever_is_a_standstill() {
    let found = failure(Builder::new(), || {
        let flag = AtomicBool::new(false);
        while !flag.load(Acquire) {
            hint::spin_loop();
        }
    });
    assert!(found.contains("'main' waits for a change of memory, which it polls, at "), "{found}");
}

#[test]
fn a_spin_lock_is_exhausted_and_its_missing_release_found() {
    let spin = |order: Ordering| {
        move || {
            let (lock, data) = (AtomicBool::new(false), RaceCell::new(0));
            let add = || {
                while lock.compare_exchange(false, true, Acquire, Relaxed).is_err() {
                    hint::spin_loop();
                }
                data.with_mut(|data| *data += 1);
                lock.store(false, order);
            };
            thread::scope(|scope| {
                scope.spawn(add);
                add();
            });
            assert_eq!(data.get(), 2);
        }
    };
    assert_eq!(check(spin(Release)).coverage, Coverage::Everything);
    assert!(failure(Builder::new(), spin(Relaxed)).contains("data race"));
}

#[test]
fn a_line_replays_its_schedule_and_no_other() {
    let found = failure(Builder::new(), dekker(Release));
    let line = line_of(&found);
    let again = failure(Builder::new().replay(line.clone()), dekker(Release));
    assert_eq!(line_of(&again), line);
    // The mended program does not fail in this schedule. It has other states, and says so.
    let mended = failure(Builder::new().replay(line), dekker(SeqCst));
    assert!(mended.contains("does not fit scenario 'planted'"), "{mended}");
}

#[test]
fn the_steps_of_a_failure_have_names_lines_and_values() {
    let found = failure(Builder::new(), dekker(Relaxed));
    let steps: Vec<&str> = found.lines().filter(|line| line.contains(", at ")).collect();
    assert!(steps.iter().any(|s| s.contains("thread 1  stores AtomicU32 made at ")), "{found}");
    assert!(
        steps.iter().any(|s| s.contains("main      loads ") && s.contains(": 0, at ")),
        "{found}"
    );
    assert!(found.contains("(in its store buffer)"), "{found}");
    assert!(found.contains("cargo test"), "{found}");
}

#[test]
fn each_kind_of_step_has_its_name_and_value() {
    let found = failure(Builder::new(), || {
        let word = AtomicU32::new(1);
        word.store(2, SeqCst);
        word.swap(3, SeqCst);
        word.fetch_add(4, SeqCst);
        assert!(word.compare_exchange(9, 1, SeqCst, SeqCst).is_err());
        assert!(word.compare_exchange(7, 8, SeqCst, SeqCst).is_ok());
        assert_eq!(word.load(SeqCst), 8);
        let lock = Mutex::new(0);
        *lock.lock().unwrap() = 1;
        panic!("the end of the program");
    });
    let steps = found.lines().filter(|line| line.contains(", at "));
    let in_short = |line: &str| {
        let (what, _) = line.split_once(", at ").unwrap();
        let verb = what.split_whitespace().nth(2).unwrap();
        // Without the places at which word and lock were made.
        match what.rsplit_once(": ") {
            Some((_, value)) => format!("{verb} {value}"),
            None => format!("{verb} the lock: {}", what.contains("the lock 'Mutex made at ")),
        }
    };
    assert_eq!(
        steps.map(in_short).collect::<Vec<_>>(),
        [
            "stores 2",
            "exchanges 3",
            "exchanges 7",
            "exchanges 7",
            "exchanges 8",
            "loads 8",
            "takes the lock: true"
        ],
        "a failed exchange shows what it loaded: {found}"
    );
}

#[test]
fn the_same_check_finds_the_same_schedule() {
    let found = || failure(Builder::new(), dekker(Relaxed));
    assert_eq!(found(), found());
    let sampled =
        || failure(Builder::new().strategy(StrategyKind::Pct(3)).seed(7), dekker(Relaxed));
    assert_eq!(sampled(), sampled());
}

#[test]
fn the_types_are_those_of_std_outside_of_a_check() {
    let shared =
        Arc::new((Mutex::new(0), Condvar::new(), AtomicU32::new(u32::MAX), RaceCell::new(1)));
    let other = Arc::clone(&shared);
    let thread = thread::Builder::new().name("other").spawn(move || {
        other.2.fetch_add(2, AcqRel);
        *other.0.lock().unwrap() = 9;
        other.1.notify_all();
        thread::name()
    });
    let held = shared.1.wait_while(shared.0.lock().unwrap(), |value| *value == 0).unwrap();
    assert_eq!((*held, shared.3.get()), (9, 1));
    drop(held);
    assert_eq!(thread.unwrap().join().unwrap(), "other");
    assert_eq!(shared.2.load(Acquire), 1);
    assert_eq!(thread::scope(|scope| scope.spawn(|| shared.2.swap(3, SeqCst)).join().unwrap()), 1);
}

#[test]
fn a_value_of_one_side_is_refused_on_the_other() {
    fn uses<T: Send + Sync + 'static>(
        outside: T,
        act: impl Fn(&T) + Send + Sync + 'static,
    ) -> String {
        failure(Builder::new(), move || act(&outside))
    }
    let pair = (Mutex::new(0), Condvar::new());
    let (sender, _receiver) = mpsc::channel();
    let found = [
        uses(AtomicU32::new(0), |word| word.store(1, SeqCst)),
        uses(AtomicU32::new(0), |word| assert_eq!(word.load(SeqCst), 0)),
        uses(AtomicU32::new(0), |word| assert_eq!(word.swap(1, SeqCst), 0)),
        uses(Mutex::new(0), |mutex| assert!(mutex.lock().is_ok())),
        uses(Mutex::new(0), |mutex| assert!(mutex.try_lock().is_ok())),
        uses(pair, |(_, condvar)| condvar.notify_one()),
        uses(RwLock::new(0), |lock| assert!(lock.read().is_ok())),
        uses(RwLock::new(0), |lock| assert!(lock.write().is_ok())),
        uses(OnceLock::new(), |once| assert!(once.set(1).is_ok())),
        uses(OnceLock::<u32>::new(), |once| assert_eq!(once.get(), None)),
        uses(Once::new(), |once| once.call_once(|| ())),
        uses(Barrier::new(1), |barrier| assert!(barrier.wait().is_leader())),
        uses(sender, |sender| assert!(sender.send(1).is_ok())),
        uses(RaceCell::new(0), |cell| cell.set(1)),
        uses(RaceCell::new(0), |cell| assert_eq!(cell.get(), 0)),
    ];
    for (number, found) in found.iter().enumerate() {
        let said = "which was made outside of this run, is used at ";
        assert!(found.contains(said), "{number}: {found}");
    }
}

#[test]
fn a_value_made_by_default_is_watched_and_has_the_default_of_its_type() {
    check(|| {
        assert_eq!(*Mutex::<u32>::default().lock().unwrap(), 0);
        assert_eq!(*RwLock::<u32>::default().read().unwrap(), 0);
        assert_eq!(OnceLock::<u32>::default().get(), None);
        assert_eq!(AtomicU32::default().load(SeqCst), 0);
        assert!(!AtomicBool::default().load(SeqCst));
        Condvar::default().notify_all();
    });
    let lost = failure(Builder::new(), || {
        let number = Arc::new(Mutex::<u32>::default());
        let add = |number: &Mutex<u32>| {
            let before = *number.lock().unwrap();
            *number.lock().unwrap() = before + 1;
        };
        thread::scope(|scope| {
            scope.spawn(|| add(&number));
            add(&number);
        });
        assert_eq!(*number.lock().unwrap(), 2, "an addition is lost");
    });
    assert!(lost.contains("an addition is lost"), "{lost}");
}
