//! The reduced search reaches every end state that random runs reach: it omits only orders.

use tidegate::explorer::{Options, Report, StrategyKind, explore};
use tidegate_scenarios::find;

fn search(name: &str, strategy: StrategyKind, max_runs: u64) -> Report {
    let options = Options { strategy, max_runs, keep_ends: true, seed: 7, ..Options::default() };
    explore(find(name).expect("a scenario").as_ref(), &options).unwrap()
}

#[test]
fn every_end_of_random_runs_is_reached_by_the_reduced_search() {
    for name in [
        "cpu-signal-against-park",
        "cross-adapter-relay",
        "destroy-against-wait",
        "doorbell-order",
        "gpu-to-gpu",
        "gpu-wait",
        "litmus-1x2",
        "one-event",
        "renew-against-park",
        "ring-against-park",
        "seven-stations",
        "store-against-rotation",
        "wake-word",
    ] {
        let all = search(name, StrategyKind::Exhaustive, 1_000_000);
        assert!(all.exhausted, "{name}");
        let random = search(name, StrategyKind::Random, 1_500);
        let missed = random.ends.difference(&all.ends).count();
        println!(
            "{name}: {} states, {} ends, {} of random runs",
            all.states,
            all.ends.len(),
            random.ends.len()
        );
        assert_eq!(missed, 0, "{name}: ends of random runs that the search misses");
    }
}

/// The count of the driver's gate and one lock order the two calls. Both orders of the lock are
/// reached, each with both orders of the count.
#[test]
fn both_orders_of_a_destruction_and_a_wait_are_reached_with_few_choices() {
    let all = search("destroy-against-wait", StrategyKind::Exhaustive, 1_000_000);
    assert_eq!((all.states, all.ends.len(), all.reached.len()), (3, 4, 2), "{:?}", all.reached);
}
