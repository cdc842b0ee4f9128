//! The same straight-line code on the three back ends: events, mutexes, services that park,
//! deadlines, standing still.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use tidegate_explorer::strategy::exhaustive::Exhaustive;
use tidegate_explorer::strategy::replay::Replay;
use tidegate_explorer::{Searched, machine, search};
use tidegate_platform::{
    Agent, CpuTime, DescriptorError, Event, MemoryModel, Mutex, Platform, PlatformKind, Step,
    StepCosts, Turn, WaitEnd, WakeWord, Word,
};

/// One machine of each back end. A thread has one at a time, so each is made after the last ended.
fn platforms() -> impl Iterator<Item = Platform> {
    let each: [fn() -> Platform; 3] = [
        Platform::closed_host,
        || Platform::virtual_time(StepCosts::free().with(Step::ThreadWake, 500)),
        || machine(Replay::default(), MemoryModel::TotalStoreOrder),
    ];
    each.into_iter().map(|make| make())
}

/// Blocks until `condition` holds. There is no limit: the host may be slow.
fn poll_until(platform: &Platform, condition: impl Fn() -> bool) {
    while !condition() {
        platform.sleep_until(platform.now().after(1_000));
    }
}

#[test]
fn a_second_machine_on_a_thread_panics_and_the_first_goes_on() {
    let first = Platform::virtual_time(StepCosts::free());
    let second = std::panic::catch_unwind(|| Platform::virtual_time(StepCosts::free()));
    assert!(second.is_err());
    assert!(first.run(|| {}).completed());
}

#[test]
fn an_event_wakes_its_waiter_everywhere() {
    for platform in platforms() {
        let (event, seen) = (platform.event(false), platform.page(1).word(0));
        let (e, s, p) = (event.clone(), seen.clone(), platform.clone());
        let report = platform.run(move || {
            let (e2, s2) = (e.clone(), s.clone());
            let waiter = p.spawn("waiter", move || {
                assert_eq!(e2.wait(), WaitEnd::Woken);
                s2.store(7);
            });
            e.set(Step::ThreadWake);
            waiter.join();
        });
        assert!(report.completed(), "{report:?}");
        assert_eq!(seen.load(), 7, "{:?}", platform.kind());
    }
}

#[test]
fn a_wait_for_any_of_several_events_takes_the_one_that_is_set_and_no_other() {
    for platform in platforms() {
        let seen = platform.page(1).word(0);
        let (s, p) = (seen.clone(), platform.clone());
        let report = platform.run(move || {
            let events = [p.event(false), p.event(true), p.event(false)];
            let [first, manual, last] = events.clone();
            // The lowest that is set already; an auto-reset event is taken, a manual-reset event
            // stays.
            last.set(Step::ThreadWake);
            manual.set(Step::ThreadWake);
            let any = |events: &[Event; 3]| Event::wait_any(&events.each_ref(), "any of three");
            assert_eq!((any(&events), any(&events)), (Ok(1), Ok(1)));
            manual.reset();
            assert_eq!(any(&events), Ok(2));
            assert!(!last.is_set());
            // One that is set during the wait, beside a waiter for only that event.
            let (all, seen) = (events.clone(), s.clone());
            let waiter = p.spawn("any", move || {
                for index in [2, 0, 1] {
                    assert_eq!(any(&all), Ok(index));
                    seen.store(seen.load() + 1);
                }
            });
            for (event, count) in [(&last, 1), (&first, 2), (&manual, 3)] {
                event.set(Step::ThreadWake);
                poll_until(&p, || s.load() == count);
            }
            waiter.join();
            assert!(!first.is_set() && !last.is_set() && manual.is_set());
        });
        assert!(report.completed(), "{:?}: {report:?}", platform.kind());
        assert_eq!(seen.load(), 3, "{:?}", platform.kind());
    }
}

#[test]
fn a_wait_for_all_events_takes_every_one_of_them_or_none() {
    for platform in platforms() {
        let p = platform.clone();
        let report = platform.run(move || {
            let events = [p.event(false), p.event(true), p.event(false)];
            let [first, manual, last] = events.clone();
            let wait_all = |deadline| Event::wait_all(&events.each_ref(), deadline, "all of three");
            first.set(Step::ThreadWake);
            manual.set(Step::ThreadWake);
            assert_eq!(wait_all(Some(p.now().after(1_000))), WaitEnd::TimedOut);
            assert!(first.is_set(), "a wait that timed out took nothing");
            last.set(Step::ThreadWake);
            assert_eq!(wait_all(None), WaitEnd::Woken);
            assert!(!first.is_set() && manual.is_set() && !last.is_set());
            // One event may be named twice.
            last.set(Step::ThreadWake);
            assert_eq!(Event::wait_all(&[&last, &last], None, "one"), WaitEnd::Woken);
            // The last of them ends the wait.
            let waiter = {
                let events = events.clone();
                p.spawn("all", move || {
                    let end = Event::wait_all(&events.each_ref(), None, "all of three");
                    assert_eq!(end, WaitEnd::Woken);
                })
            };
            last.set(Step::ThreadWake);
            first.set(Step::ThreadWake);
            waiter.join();
            assert!(!first.is_set() && manual.is_set() && !last.is_set());
        });
        assert!(report.completed(), "{:?}: {report:?}", platform.kind());
    }
}

#[test]
fn a_wait_for_any_event_ends_at_its_deadline_and_takes_none() {
    for platform in platforms() {
        let p = platform.clone();
        let report = platform.run(move || {
            let events = [p.event(false), p.event(true)];
            let any = || {
                let deadline = Some(p.now().after(1_000));
                Event::wait_any_for(&events.each_ref(), deadline, "any of two")
            };
            assert_eq!(any(), Err(WaitEnd::TimedOut));
            events[0].set(Step::ThreadWake);
            assert_eq!((any(), any()), (Ok(0), Err(WaitEnd::TimedOut)));
        });
        assert!(report.completed(), "{:?}: {report:?}", platform.kind());
    }
}

/// Blocks on two events, of which the first is set, until this time at most.
type WaitUntil = fn(&[Event; 2], CpuTime) -> WaitEnd;

/// The wait and the events that are set when it ends in time, and when it does not.
const WAITS: [(&str, WaitUntil, [bool; 2]); 3] = [
    ("one", |events, deadline| events[1].wait_for(Some(deadline), "one"), [true, false]),
    (
        "all",
        |events, deadline| Event::wait_all(&events.each_ref(), Some(deadline), "all"),
        [false, false],
    ),
    (
        "any",
        |events, deadline| {
            assert!(events[0].try_take());
            let end = Event::wait_any_for(&events.each_ref(), Some(deadline), "any");
            events[0].set(Step::ThreadWake);
            end.map_or_else(|end| end, |index| [WaitEnd::Stopped, WaitEnd::Woken][index])
        },
        [true, false],
    ),
];

/// Of two agents whose deadlines pass at the same time, the first to sleep runs first. If that is
/// the waiter, it has timed out when the other sets the event.
#[test]
fn a_wait_that_ends_at_its_deadline_takes_what_was_set_before_or_nothing() {
    for ((name, wait, taken), late_ns, waits_first) in WAITS
        .into_iter()
        .flat_map(|wait| [(wait, 0, true), (wait, 0, false), (wait, 1, true), (wait, 1, false)])
    {
        let platform = Platform::virtual_time(StepCosts::free());
        let p = platform.clone();
        let report = platform.run(move || {
            let events = [p.event(false), p.event(false)];
            events[0].set(Step::ThreadWake);
            let deadline = p.now().after(1_000);
            let (last, at) = (events[1].clone(), p.clone());
            let setter = p.spawn("setter", move || {
                at.sleep_until(deadline.after(late_ns));
                last.set(Step::ThreadWake);
            });
            if !waits_first {
                p.sleep_until(p.now().after(1));
            }
            let end = wait(&events, deadline);
            let (expected, left) = match (late_ns, waits_first) {
                (0, false) => (WaitEnd::Woken, taken),
                _ => (WaitEnd::TimedOut, [true, true]),
            };
            assert_eq!(end, expected, "{name}, {late_ns} ns late, waits first: {waits_first}");
            setter.join();
            assert_eq!(events.each_ref().map(Event::is_set), left, "{name}: {end:?}");
        });
        assert!(report.completed(), "{name}: {report:?}");
    }
}

#[test]
fn the_descriptor_of_an_event_is_readable_while_the_event_is_set() {
    let platform = Platform::host();
    for manual_reset in [false, true] {
        let event = platform.event(manual_reset);
        event.set(Step::ThreadWake);
        let fd = event.fd().unwrap();
        let is_readable = || {
            let none = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&none)).unwrap() == 1
        };
        assert!(is_readable(), "the event was set before it had a descriptor");
        assert_eq!((event.wait(), is_readable()), (WaitEnd::Woken, manual_reset));
        event.reset();
        assert!(!is_readable());
        event.clone().set(Step::ThreadWake);
        assert!(is_readable());
        event.set(Step::ThreadWake);
        assert!(is_readable() && event.try_take());
        assert_eq!(is_readable(), manual_reset);
        event.reset();
        // All of several events, and any.
        event.set(Step::ThreadWake);
        assert_eq!(Event::wait_all(&[&event], None, "all"), WaitEnd::Woken);
        assert_eq!(is_readable(), manual_reset);
        event.set(Step::ThreadWake);
        assert_eq!((Event::wait_any(&[&event], "any"), is_readable()), (Ok(0), manual_reset));
        assert_eq!(event.fd().unwrap().as_raw_fd(), fd.as_raw_fd(), "one for all clones");
    }
    let virtual_event = Platform::virtual_time(StepCosts::free()).event(false);
    assert!(matches!(
        virtual_event.fd().unwrap_err(),
        DescriptorError::NotOnHost(PlatformKind::Virtual)
    ));
}

#[test]
fn a_mutex_excludes_and_names_the_agent_that_takes_it_twice() {
    for platform in platforms() {
        let count = std::sync::Arc::new(platform.mutex("count", 0u64));
        let (c, p) = (count.clone(), platform.clone());
        let report = platform.run(move || {
            let handles: Vec<_> = (0..3)
                .map(|i| {
                    let c = c.clone();
                    p.spawn(format!("adder {i}"), move || (0..100).for_each(|_| *c.lock() += 1))
                })
                .collect();
            handles.iter().for_each(|h| {
                h.join();
            });
        });
        assert!(report.completed(), "{report:?}");
        let platform2 = platform.clone();
        drop(count);
        let twice = std::sync::Arc::new(platform2.mutex("twice", ()));
        let report = platform.run(move || {
            let _held = twice.lock();
            let _again = twice.lock();
        });
        assert!(
            report.panics[0].contains("takes the lock 'twice', which it holds already"),
            "{report:?}"
        );
    }
}

// A release build does not check the order, because a check at each lock takes longer than the
// lock.
#[cfg(debug_assertions)]
#[test]
fn a_lock_is_taken_inside_those_before_it_in_the_order() {
    for platform in platforms() {
        platform.set_lock_order(&["outer", "inner"]);
        let locks = std::sync::Arc::new((platform.mutex("outer", ()), platform.mutex("inner", ())));
        let in_order = locks.clone();
        let report = platform.run(move || {
            let _outer = in_order.0.lock();
            let _inner = in_order.1.lock();
        });
        assert!(report.completed(), "{report:?}");
        let report = platform.run(move || {
            let _inner = locks.1.lock();
            let _outer = locks.0.lock();
        });
        let panic = "takes the lock 'outer' while it holds 'inner', against the lock order";
        assert!(report.panics[0].contains(panic), "{report:?}");
    }
}

#[test]
fn an_explored_agent_that_wants_a_lock_of_the_builder_is_blocked() {
    let platform = machine(Replay::default(), MemoryModel::TotalStoreOrder);
    let lock = std::sync::Arc::new(platform.mutex("held over the run", ()));
    let (wanted, held) = (lock.clone(), lock.lock());
    let report = platform.run(move || drop(wanted.lock()));
    assert_eq!(report.blocked, [("main".to_owned(), "the lock 'held over the run'".to_owned())]);
    drop(held);
    drop(lock.lock());
}

struct Echo {
    bell: Word,
    seen: Word,
}
impl Agent for Echo {
    fn turn(&mut self) -> Turn {
        let rung = self.bell.load();
        if rung == self.seen.load() {
            return Turn::Park;
        }
        self.seen.store(rung);
        Turn::Again
    }
}

#[test]
fn a_service_parks_and_a_ring_wakes_it() {
    for platform in platforms() {
        let page = platform.page(2);
        let (bell, seen, wake) = (page.word(0), page.word(1), WakeWord::new(&platform));
        let service = platform.spawn_service(
            "echo",
            wake.clone(),
            vec![Box::new(Echo { bell: bell.clone(), seen: seen.clone() })],
        );
        let (p, s) = (platform.clone(), seen.clone());
        let report = platform.run(move || {
            for ring in 1..=3 {
                bell.store(ring);
                wake.ring(Step::DoorbellToFetch);
                poll_until(&p, || s.load() == ring);
            }
            service.stop();
        });
        assert!(report.completed(), "{report:?}");
        assert_eq!(seen.load(), 3);
    }
}

#[test]
fn a_machine_that_stands_still_names_each_agent_and_its_wait() {
    for platform in platforms() {
        let event = platform.event(false);
        let report = platform.run(move || {
            assert_eq!(event.wait_for(None, "a signal that never comes"), WaitEnd::Stopped);
        });
        assert_eq!(report.blocked, [("main".to_owned(), "a signal that never comes".to_owned())]);
    }
}

/// Agents that are started before the run move while the caller waits, and go on in the run.
#[test]
fn what_begins_before_the_run_may_wait() {
    for platform in platforms() {
        let (begun, go_on, steps) =
            (platform.event(false), platform.event(false), platform.page(1).word(0));
        let first = platform.before_run(|| {
            let (begun_too, go_on, value) = (begun.clone(), go_on.clone(), steps.clone());
            platform.spawn("first", move || {
                value.store(1);
                begun_too.set(Step::ThreadWake);
                assert_eq!(go_on.wait(), WaitEnd::Woken);
                value.store(2);
            });
            assert_eq!(begun.wait(), WaitEnd::Woken);
            steps.load()
        });
        assert_eq!((first, steps.load()), (Some(1), 1));
        let (p, s) = (platform.clone(), steps.clone());
        let report = platform.run(move || {
            assert_eq!(p.before_run(|| s.load()), Some(1), "a plain call in the run");
            go_on.set(Step::ThreadWake);
            poll_until(&p, || s.load() == 2);
        });
        assert!(report.completed(), "{report:?}");
    }
}

#[test]
fn what_begins_before_the_run_and_waits_for_nothing_was_the_run() {
    for platform in platforms().skip(1) {
        let (event, other) = (platform.event(false), platform.event(false));
        let ended = platform.page(1).word(0);
        let begun = platform.before_run(|| {
            let (other, ended) = (other.clone(), ended.clone());
            platform.spawn("other", move || {
                assert_eq!(other.wait(), WaitEnd::Stopped);
                ended.store(1);
            });
            event.wait()
        });
        assert_eq!((begun, platform.is_stopped()), (Some(WaitEnd::Stopped), true));
        assert_eq!(ended.load(), 1, "all agents have ended");
        assert_eq!(platform.before_run(|| event.wait()), Some(WaitEnd::Stopped));
    }
}

/// Two agents race before the run, and the search has one schedule.
#[test]
fn what_begins_before_the_run_is_not_explored() {
    let mut runs = 0;
    let searched = search(Exhaustive::new(), MemoryModel::TotalStoreOrder, |platform| {
        let (begun, words) = (platform.event(false), platform.page(2));
        let begin = || {
            for agent in 0..2 {
                let (begun, word) = (begun.clone(), words.word(agent));
                platform.spawn("early", move || {
                    word.store(1);
                    begun.set(Step::ThreadWake);
                });
            }
            while words.word(0).load() + words.word(1).load() < 2 {
                begun.wait();
            }
        };
        assert_eq!(platform.before_run(begin), Some(()));
        assert!(platform.run(|| ()).completed());
        runs += 1;
        ControlFlow::Continue(())
    });
    assert_eq!(runs, 1, "{searched:?}");
}

#[test]
fn a_standstill_names_blocked_workers_and_no_idle_service() {
    for platform in platforms() {
        if !platform.is_cooperative() {
            continue;
        }
        let (event, wake) = (platform.event(false), WakeWord::new(&platform));
        platform.spawn_service("idle", wake, Vec::new());
        let (of_worker, p) = (event.clone(), platform.clone());
        let report = platform.run(move || {
            p.spawn_worker("worker", move || {
                of_worker.wait_for(None, "work");
            });
            event.wait_for(None, "a signal that never comes");
        });
        assert_eq!(report.blocked.len(), 1);
        assert_eq!(report.blocked_services, [("worker".to_owned(), "work".to_owned())]);
    }
}

/// Polls every millisecond, as background work.
struct Background {
    clock: Platform,
    next: Option<CpuTime>,
    looks: Word,
}

impl Agent for Background {
    fn turn(&mut self) -> Turn {
        let now = self.clock.now();
        if self.next.is_none_or(|next| now >= next) {
            self.next = Some(now.after(1_000_000));
            self.looks.fetch_add(1);
        }
        Turn::Background(self.next.unwrap())
    }
}

/// How many looks there are when `ns` have passed in modelled time.
fn polls_in(platform: &Platform, ns: u64, looks: &Word) -> u64 {
    platform.sleep_until(platform.now().after(ns));
    looks.load()
}

#[test]
fn background_work_keeps_no_machine_going() {
    for platform in platforms() {
        let (looks, wake) = (platform.page(1).word(0), WakeWord::new(&platform));
        let agent = Background { clock: platform.clone(), next: None, looks: looks.clone() };
        platform.spawn_service("background", wake, vec![Box::new(agent)]);
        let (event, p) = (platform.event(false), platform.clone());
        let (busy, counted) = (looks.clone(), looks.clone());
        let report = platform.run(move || {
            // It is done while an agent waits for the clock.
            match p.kind() {
                PlatformKind::Virtual => assert_eq!(polls_in(&p, 20_000_000, &busy), 20),
                // Of two deadlines at one time, that of the background is first here.
                PlatformKind::Explored => assert_eq!(polls_in(&p, 20_000_000, &busy), 21),
                PlatformKind::Host => poll_until(&p, || busy.load() > 1),
            }
            assert_eq!(event.wait_for(None, "a signal that never comes"), WaitEnd::Stopped);
        });
        assert_eq!(report.blocked, [("main".to_owned(), "a signal that never comes".to_owned())]);
        // In virtual time it is done twice more, before the machine counts as stalled.
        let most = if platform.kind() == PlatformKind::Virtual { 23 } else { 21 };
        assert!(
            platform.kind() == PlatformKind::Host || counted.load() <= most,
            "{}",
            counted.load()
        );
    }
}

/// Has background work soon. Counts its turns until the first after the sleep was announced.
struct BeforeSleep {
    clock: Platform,
    wake: Word,
    awake: Word,
    announced: Word,
}

impl Agent for BeforeSleep {
    fn turn(&mut self) -> Turn {
        if self.wake.load() != 0 {
            self.announced.store(1);
        } else if self.announced.load() == 0 {
            self.awake.fetch_add(1);
        }
        Turn::Background(self.clock.now().after(1_000))
    }
}

#[test]
fn a_service_does_not_spin_for_background_work() {
    let platform = Platform::host();
    let [awake, announced] = [0, 1].map(|_| platform.page(1).word(0));
    let wake = WakeWord::new(&platform);
    let agent = BeforeSleep {
        clock: platform.clone(),
        wake: wake.word(),
        awake: awake.clone(),
        announced: announced.clone(),
    };
    let service = platform.spawn_service("background", wake, vec![Box::new(agent)]);
    poll_until(&platform, || announced.load() != 0);
    assert_eq!(awake.load(), 1);
    service.stop();
}

/// Finds, as background work, what a service did after every other agent had gone to sleep.
struct Finds {
    clock: Platform,
    next: CpuTime,
    done: Word,
    event: Event,
}

impl Agent for Finds {
    fn turn(&mut self) -> Turn {
        if self.clock.now() >= self.next {
            self.next = self.clock.now().after(1_000_000);
            if self.done.load() != 0 {
                self.event.set(Step::ThreadWake);
            }
        }
        Turn::Background(self.next)
    }
}

/// A service that works until a time, and tells no agent.
struct Works {
    clock: Platform,
    until: CpuTime,
    done: Word,
}

impl Agent for Works {
    fn turn(&mut self) -> Turn {
        if self.clock.now() < self.until {
            return Turn::Until(self.until);
        }
        self.done.store(1);
        Turn::Park
    }
}

#[test]
fn background_work_finds_what_was_done_before_a_stall() {
    let platform = Platform::virtual_time(StepCosts::free());
    let (done, event) = (platform.page(1).word(0), platform.event(false));
    let (clock, next) = (platform.clone(), CpuTime(1_000_000));
    let finds = Finds { clock, next, done: done.clone(), event: event.clone() };
    let (clock, until) = (platform.clone(), CpuTime(10_500_000));
    let works = Works { clock, until, done };
    platform.spawn_service("finds", WakeWord::new(&platform), vec![Box::new(finds)]);
    platform.spawn_service("works", WakeWord::new(&platform), vec![Box::new(works)]);
    let p = platform.clone();
    let report = platform.run(move || {
        assert_eq!(event.wait_for(None, "what the work did"), WaitEnd::Woken);
        assert_eq!(p.now(), CpuTime(11_000_000));
        // Each stall has its last expirations.
        p.sleep_until(CpuTime(20_500_000));
        // What it has found in between.
        assert!(event.try_take());
        assert_eq!(event.wait_for(None, "the same again"), WaitEnd::Woken);
        assert_eq!(p.now(), CpuTime(21_000_000));
    });
    assert!(report.completed(), "{report:?}");
}

#[test]
fn a_deadline_ends_a_wait() {
    for platform in platforms() {
        let (event, p) = (platform.event(true), platform.clone());
        let report = platform.run(move || {
            let deadline = p.now().after(2_000_000);
            assert_eq!(event.wait_for(Some(deadline), "nothing"), WaitEnd::TimedOut);
            assert!(p.now() >= deadline);
        });
        assert!(report.completed(), "{report:?}");
    }
}

#[test]
fn virtual_time_orders_agents_by_their_clocks() {
    let platform =
        Platform::virtual_time(StepCosts::free().with(Step::KernelCall, 300).with(Step::Dpc, 1000));
    let order = std::sync::Arc::new(platform.mutex("order", Vec::new()));
    let (o, p) = (order.clone(), platform.clone());
    platform.run(move || {
        let (o1, p1) = (o.clone(), p.clone());
        let a = p.spawn("a", move || {
            p1.spend(Step::Dpc);
            o1.lock().push(("a", p1.now()));
        });
        for _ in 0..3 {
            p.spend(Step::KernelCall);
            o.lock().push(("main", p.now()));
        }
        p.busy(200);
        o.lock().push(("main", p.now()));
        a.join();
    });
    let seen = order.lock_outside();
    assert_eq!(
        seen,
        [
            ("main", CpuTime(300)),
            ("main", CpuTime(600)),
            ("main", CpuTime(900)),
            ("a", CpuTime(1000)),
            ("main", CpuTime(1100))
        ]
    );
}

trait LockOutside<T> {
    fn lock_outside(&self) -> T;
}
impl<T: Clone> LockOutside<T> for Mutex<T> {
    fn lock_outside(&self) -> T {
        self.lock().clone()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Bug {
    None,
    NoResample,
    NoGpuBarrier,
    NoCpuBarrier,
}

/// The store-buffering race of CurrentValue and MonitoredValue. Returns the waits lost.
fn litmus(bug: Bug, model: MemoryModel) -> (u64, Searched) {
    let mut lost = 0;
    let searched = search(Exhaustive::new(), model, |platform| {
        let (current, monitored) = (platform.page(1).word(0), platform.page(1).word(0));
        monitored.store(u64::MAX);
        let interrupt = platform.event(false);
        let p = platform.clone();
        let report = platform.run(move || {
            let (c, m, i, p1) = (current.clone(), monitored.clone(), interrupt.clone(), p.clone());
            p.spawn("gpu", move || {
                c.store(1);
                if bug != Bug::NoGpuBarrier {
                    p1.fence();
                }
                if 1 > m.load() {
                    i.set(Step::InterruptDelivery);
                }
            });
            monitored.store(0);
            if bug != Bug::NoCpuBarrier {
                p.fence();
            }
            if bug == Bug::NoResample || current.load() < 1 {
                interrupt.wait_for(None, "value 1");
            }
        });
        lost += u64::from(!report.blocked.is_empty());
        assert!(report.panics.is_empty(), "{report:?}");
        ControlFlow::Continue(())
    });
    (lost, searched)
}

#[test]
fn the_litmus_pair_is_exhausted_and_its_planted_bugs_are_found() {
    let (lost, searched) = litmus(Bug::None, MemoryModel::TotalStoreOrder);
    println!("litmus: {searched:?}");
    assert_eq!(lost, 0);
    assert!(litmus(Bug::NoResample, MemoryModel::TotalStoreOrder).0 > 0);
    assert!(litmus(Bug::NoGpuBarrier, MemoryModel::TotalStoreOrder).0 > 0);
    assert!(litmus(Bug::NoCpuBarrier, MemoryModel::TotalStoreOrder).0 > 0);
}

#[test]
fn sequential_consistency_cannot_see_a_missing_barrier() {
    assert_eq!(litmus(Bug::NoGpuBarrier, MemoryModel::SequentiallyConsistent).0, 0);
    assert_eq!(litmus(Bug::NoCpuBarrier, MemoryModel::SequentiallyConsistent).0, 0);
    assert!(litmus(Bug::NoResample, MemoryModel::SequentiallyConsistent).0 > 0);
}
