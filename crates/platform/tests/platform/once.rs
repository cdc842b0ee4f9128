//! Values that are made on first use by agents of a cooperative machine.

use std::sync::{Arc, OnceLock};

use tidegate_platform::once::{make_alone, make_first};
use tidegate_platform::{CpuTime, Platform, StepCosts};

fn run(make: impl Fn(&Platform, &OnceLock<u64>) -> u64 + Send + Sync + 'static) -> Vec<String> {
    let platform = Platform::virtual_time(StepCosts::free());
    let (cell, make) = (Arc::new(OnceLock::new()), Arc::new(make));
    let report = platform.run({
        let platform = platform.clone();
        move || {
            for name in ["a", "b"] {
                let (p, cell, make) = (platform.clone(), cell.clone(), make.clone());
                platform.spawn(name, move || assert_eq!(make(&p, &cell), 7));
            }
        }
    });
    report.panics
}

#[test]
fn a_making_with_a_step_needs_no_lock() {
    let panics = run(|platform, cell| {
        *make_first(cell, || {
            platform.sleep_until(CpuTime(10));
            7
        })
    });
    assert_eq!(panics, Vec::<String>::new());
}

#[test]
fn a_step_in_a_making_alone_is_named() {
    let panics = run(|platform, cell| {
        *make_alone(cell, || {
            platform.sleep_until(CpuTime(10));
            7
        })
    });
    assert!(panics[0].contains("takes a step in its making"), "{panics:?}");
}
