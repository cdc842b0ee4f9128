//! Waits for any and for all of several events, searched exhaustively: no set is lost between the
//! waiter's last check and its sleep, and a wait for all takes every event or none.

use tidegate_explorer::{Coverage, Options, Platform, Prepared, Scenario, StrategyKind, explore};
use tidegate_platform::{Event, Step, WaitEnd};

/// `main` waits twice for any of two auto-reset events. Each is set once by another agent.
struct AnyOfTwo;

const MARKS: [&str; 2] = ["the first event came first", "the second event came first"];

impl Scenario for AnyOfTwo {
    named!(
        "any-of-two",
        "two agents set an event each while a third waits for any of the two, twice",
        &MARKS
    );

    fn prepare(&self, platform: &Platform) -> Prepared {
        let events = [platform.event(false), platform.event(false)];
        let (first, left) = (platform.page(1).word(0), events.clone());
        let (taken, spawner) = (first.clone(), platform.clone());
        let main = move || {
            for (name, event) in ["one", "two"].into_iter().zip(events.clone()) {
                spawner.spawn(name, move || event.set(Step::ThreadWake));
            }
            let any =
                || Event::wait_any(&events.each_ref(), "any of two").expect("the machine runs");
            let order = [any(), any()];
            assert_ne!(order[0], order[1], "an auto-reset event woke twice");
            taken.store(order[0] as u64 + 1);
        };
        Prepared::new(main, move |verdict| {
            assert!(left.iter().all(|event| !event.is_set()));
            let first = first.load();
            verdict.sometimes(MARKS[0], first == 1);
            verdict.sometimes(MARKS[1], first == 2);
        })
    }
}

#[test]
fn a_wait_for_any_of_two_events_loses_no_set_in_any_schedule() {
    let report =
        explore(&AnyOfTwo, &Options { max_runs: 1_000_000, ..Options::default() }).unwrap();
    assert!(report.exhausted && report.passed(), "{report:?}");
    // The count changes only if the events or the definition of a state change.
    assert_eq!(report.states, 2_520);
}

/// Two agents wait for the same two auto-reset events. A third sets both once. The first waiter to
/// take both sets them again, for the second.
struct AllOfTwo;

impl Scenario for AllOfTwo {
    named!(
        "all-of-two",
        "two agents wait for all of the same two events, which are set once for each of them"
    );

    fn prepare(&self, platform: &Platform) -> Prepared {
        let events = [platform.event(false), platform.event(false)];
        let done = platform.page(1).word(0);
        let (spawner, counted) = (platform.clone(), done.clone());
        let main = move || {
            let wait_and_pass_on = {
                let (events, done) = (events.clone(), counted.clone());
                move || {
                    let end = Event::wait_all(&events.each_ref(), None, "all of two");
                    assert_eq!(end, WaitEnd::Woken);
                    done.fetch_add(1);
                    events.iter().for_each(|event| event.set(Step::ThreadWake));
                }
            };
            spawner.spawn("second", wait_and_pass_on.clone());
            events.iter().for_each(|event| event.set(Step::ThreadWake));
            wait_and_pass_on();
        };
        Prepared::new(main, move |_| assert_eq!(done.load(), 2))
    }
}

#[test]
fn two_waits_for_all_of_the_same_events_both_end() {
    let strategy = StrategyKind::Bounded(2);
    let options = Options { strategy, max_runs: 1_000_000, ..Options::default() };
    let report = explore(&AllOfTwo, &options).unwrap();
    assert!(report.passed(), "{report:?}");
    // The count changes only if the events or the definition of a state change.
    assert_eq!((report.coverage, report.states), (Coverage::UpToSwitches(2), 5_893));
}

/// `main` waits for all of two auto-reset events, one of which another agent takes alone and sets
/// again.
struct AllAgainstOne;

impl Scenario for AllAgainstOne {
    named!(
        "all-against-one",
        "a wait for all of two events against a wait for one of them, which is passed on"
    );

    fn prepare(&self, platform: &Platform) -> Prepared {
        let events = [platform.event(false), platform.event(false)];
        let spawner = platform.clone();
        let main = move || {
            let [shared, own] = events.clone();
            let taker = shared.clone();
            spawner.spawn("one", move || {
                assert_eq!(taker.wait(), WaitEnd::Woken);
                taker.set(Step::ThreadWake);
            });
            own.set(Step::ThreadWake);
            shared.set(Step::ThreadWake);
            assert_eq!(Event::wait_all(&[&own, &shared], None, "all of two"), WaitEnd::Woken);
            assert!(!own.is_set());
            shared.set(Step::ThreadWake);
        };
        Prepared::new(main, |_| ())
    }
}

#[test]
fn a_wait_for_all_gives_back_what_it_held_in_any_schedule() {
    let report =
        explore(&AllAgainstOne, &Options { max_runs: 1_000_000, ..Options::default() }).unwrap();
    assert!(report.exhausted && report.passed(), "{report:?}");
    // The count changes only if the events or the definition of a state change.
    assert_eq!(report.states, 1_271);
}
