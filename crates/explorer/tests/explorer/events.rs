//! A wait for any of several events, searched exhaustively: no set is lost between the waiter's
//! last check and its sleep.

use tidegate_explorer::{Options, Platform, Prepared, Scenario, explore};
use tidegate_platform::{Event, Step};

/// `main` waits twice for any of two auto-reset events. Each is set once by another agent.
struct AnyOfTwo;

const MARKS: [&str; 2] = ["the first event came first", "the second event came first"];

impl Scenario for AnyOfTwo {
    fn name(&self) -> &str {
        "any-of-two"
    }

    fn about(&self) -> &str {
        "two agents set an event each while a third waits for any of the two, twice"
    }

    fn marks(&self) -> &[&'static str] {
        &MARKS
    }

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
