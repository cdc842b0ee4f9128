//! The order of waits: circles of locks and waits are named although no agent was blocked.

// A release build of the host and of virtual time records no order.
#![cfg(debug_assertions)]

use std::process::Command;
use std::sync::Arc;
use tidegate_explorer::machine;
use tidegate_explorer::strategy::replay::Replay;
use tidegate_platform::level::{self, Level};
use tidegate_platform::wait_order::DPC;
use tidegate_platform::{
    Agent, Event, MemoryModel, Mutex, Platform, RunReport, Step, StepCosts, Turn, WaitClass,
    WakeWord, Word,
};

fn platforms() -> [Platform; 2] {
    [Platform::closed_host(), Platform::virtual_time(StepCosts::free())]
}

fn explored() -> Platform {
    machine(Replay::default(), MemoryModel::TotalStoreOrder)
}

/// Runs `test` on each platform, one after the other: a thread has one cooperative machine.
fn everywhere(test: impl Fn(Platform)) {
    test(Platform::closed_host());
    test(Platform::virtual_time(StepCosts::free()));
    test(explored());
}

/// Returns the only circle of a run in which no agent was blocked.
fn only_circle(platform: &Platform, report: &RunReport) -> String {
    assert!(report.blocked.is_empty() && report.panics.is_empty(), "{report:?}");
    assert!(!report.completed());
    assert_eq!(report.wait_circles[..], platform.take_wait_circles());
    let [circle] = &report.wait_circles[..] else { panic!("{report:?}") };
    circle.clone()
}

static END_OF_TURN: WaitClass = WaitClass::named("the end of a turn");

/// An engine as the machine that ships has it: its turn ends other agents' waits, and a DPC runs
/// inside of it.
struct Engine {
    mailbox: Arc<Mutex<()>>,
    work: Word,
    turn_ended: Event,
}

impl Agent for Engine {
    fn ends(&self) -> Option<&'static WaitClass> {
        Some(&END_OF_TURN)
    }

    fn turn(&mut self) -> Turn {
        match self.work.exchange(0) {
            0 => return Turn::Park,
            // The command that the driver waits for.
            1 => {}
            // An interrupt, and its DPC.
            _ => {
                let _dpc = level::raise(Level::Dispatch);
                drop(self.mailbox.lock_device());
            }
        }
        self.turn_ended.set(Step::ThreadWake);
        Turn::Again
    }
}

/// A driver sends a command under the mailbox's lock and waits for the engine inside of it. At
/// another time, a DPC takes that lock on the engine's thread. One after the other, so nothing
/// stands still.
fn run_driver(platform: &Platform, waits_inside: bool) -> RunReport {
    let (mailbox, wake) = (Arc::new(platform.mutex("mailbox", ())), WakeWord::new(platform));
    let (work, turn_ended) = (platform.page(1).word(0), platform.event(false));
    let engine =
        Engine { mailbox: mailbox.clone(), work: work.clone(), turn_ended: turn_ended.clone() };
    let machine = platform.clone();
    platform.run(move || {
        let service = machine.spawn_service("engine", wake.clone(), vec![Box::new(engine)]);
        let turn = |kind| {
            work.store(kind);
            wake.ring(Step::DoorbellToFetch);
        };
        let held = mailbox.lock_device();
        turn(1);
        if waits_inside {
            turn_ended.wait_for(None, &END_OF_TURN);
            drop(held);
        } else {
            drop(held);
            turn_ended.wait_for(None, &END_OF_TURN);
        }
        turn(2);
        turn_ended.wait_for(None, &END_OF_TURN);
        service.stop();
    })
}

#[test]
fn a_lock_over_a_wait_for_a_service_that_takes_the_lock_is_named_without_a_standstill() {
    everywhere(|platform| {
        let report = run_driver(&platform, true);
        let circle = only_circle(&platform, &report);
        for part in [
            "'mailbox'",
            "'the end of a turn'",
            "'mailbox', then the wait for 'the end of a turn', in agent 'main'",
            "'the end of a turn', then the lock 'mailbox', in agent 'engine'",
            "run_driver",
            "turn at ",
        ] {
            assert!(circle.contains(part), "{part} is missing: {circle}");
        }
        let report = run_driver(&platform, true);
        let again: Vec<_> = platform.take_wait_circles();
        assert!(again.is_empty(), "a machine names a circle once: {report:?}");
    });
}

#[test]
fn a_lock_that_is_dropped_before_the_wait_closes_no_circle() {
    everywhere(|platform| {
        let report = run_driver(&platform, false);
        assert!(report.completed(), "{report:?}");
    });
}

#[test]
fn a_wait_that_a_dpc_ends_depends_on_the_locks_that_a_dpc_takes() {
    static ACKNOWLEDGEMENT: WaitClass = WaitClass::named("an acknowledgement").ended_by(&[&DPC]);
    everywhere(|platform| {
        let (lock, acknowledged) = (platform.mutex("state", ()), platform.event(true));
        let report = platform.run(move || {
            {
                let _dpc = level::raise(Level::Dispatch);
                drop(lock.lock());
                acknowledged.set(Step::ThreadWake);
            }
            let _held = lock.lock();
            acknowledged.wait_for(None, &ACKNOWLEDGEMENT);
        });
        let circle = only_circle(&platform, &report);
        assert!(circle.contains("'an acknowledgement' is ended by 'a DPC'"), "{circle}");
        assert!(circle.contains("'a DPC', then the lock 'state'"), "{circle}");
    });
}

#[test]
fn locks_without_an_order_that_are_taken_both_ways_round_are_named() {
    everywhere(|platform| {
        let (a, b) = (platform.mutex("a", ()), platform.mutex("b", ()));
        let report = platform.run(move || {
            let (outer, inner) = (a.lock(), b.lock());
            drop((inner, outer));
            let (outer, inner) = (b.lock(), a.lock());
            drop((inner, outer));
        });
        let circle = only_circle(&platform, &report);
        assert!(circle.contains("'a', then the lock 'b'"), "{circle}");
    });
}

#[test]
fn a_service_that_takes_the_lock_over_its_stop_is_named() {
    struct Takes(Arc<Mutex<u32>>);
    impl Agent for Takes {
        fn turn(&mut self) -> Turn {
            *self.0.lock() += 1;
            Turn::Park
        }
    }
    // In virtual time it sleeps when it is stopped, and ends without another turn.
    let platform = Platform::virtual_time(StepCosts::free());
    let (lock, wake) = (Arc::new(platform.mutex("list", 0)), WakeWord::new(&platform));
    let (machine, taken) = (platform.clone(), lock.clone());
    let report = platform.run(move || {
        let service = machine.spawn_service("reader", wake, vec![Box::new(Takes(taken))]);
        machine.sleep_until(machine.now().after(1_000));
        let held = lock.lock_device();
        assert!(*held > 0, "it had a turn");
        service.stop();
    });
    let circle = only_circle(&platform, &report);
    assert!(circle.contains("then the wait for 'the end of the service 'reader''"), "{circle}");
}

#[test]
fn the_end_that_an_agent_owes_depends_on_what_it_waits_for() {
    static OPENING: WaitClass = WaitClass::named("the opening of a gate");
    static LEAVING: WaitClass = WaitClass::named("the last caller of a gate");
    everywhere(|platform| {
        let machine = platform.clone();
        let report = platform.run(move || {
            {
                let _inside = machine.owe(&LEAVING);
                machine.may_wait_for(&OPENING);
            }
            let _closed = machine.owe(&OPENING);
            machine.may_wait_for(&LEAVING);
        });
        let circle = only_circle(&platform, &report);
        assert!(circle.contains("then the wait for 'the opening of a gate'"), "{circle}");
    });
}

#[test]
fn a_lock_that_the_waiter_drops_meanwhile_is_not_held() {
    everywhere(|platform| {
        let lock = platform.mutex("dropped over the wait", ());
        let machine = platform.clone();
        let report = platform.run(move || {
            {
                let _turn = machine.owe(&END_OF_TURN);
                drop(lock.lock());
            }
            lock.lock().may_drop_and_wait_for(&END_OF_TURN);
        });
        assert!(report.completed(), "{report:?}");
    });
}

#[test]
fn edges_of_two_machines_close_no_circle() {
    let [host, other] = platforms();
    for (platform, turned) in [(host, false), (other, true)] {
        let (a, b) = (platform.mutex("first", ()), platform.mutex("second", ()));
        let report = platform.run(move || {
            let (outer, inner) = if turned { (&b, &a) } else { (&a, &b) };
            let held = outer.lock();
            drop(inner.lock());
            drop(held);
        });
        assert!(report.completed(), "{report:?}");
    }
}

/// The variable that makes [`a_circle_that_no_test_takes_fails_the_process`] leave one.
const LEAVES: &str = "TIDEGATE_TEST_LEAVES_A_CIRCLE";

#[test]
fn a_circle_that_no_test_takes_fails_the_process() {
    if std::env::var_os(LEAVES).is_some() {
        // On a service, and with a report that the test does not read.
        let _report = run_driver(&Platform::closed_host(), true);
        return;
    }
    let name = "wait_order::a_circle_that_no_test_takes_fails_the_process";
    let mut child = Command::new(std::env::current_exe().expect("the test has a path"));
    let output = child.args(["--exact", name]).env(LEAVES, "1").output().expect("a process");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
    assert!(errors.contains("waits in a circle: "), "{errors}");
    assert_eq!(output.status.code(), Some(101), "{errors}");
}
