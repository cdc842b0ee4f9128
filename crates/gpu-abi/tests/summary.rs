//! Rings against a scan of the summary, in every schedule: no ring is lost, wherever the bits of
//! the doorbells lie.

use std::collections::BTreeSet;
use tidegate_explorer::{Options, Platform, Prepared, Scenario, explore};
use tidegate_gpu_abi::Summary;
use tidegate_platform::{Step, WakeWord};

/// Two doorbells are rung while the engine takes the rung ones.
struct RingAgainstTake([u32; 2]);

const MARKS: [&str; 2] = ["a scan before the rings ended found one", "a scan found none"];

impl Scenario for RingAgainstTake {
    fn name(&self) -> &str {
        "ring-against-take"
    }

    fn about(&self) -> &str {
        "two doorbells are rung while the engine takes the rung ones"
    }

    fn marks(&self) -> &[&'static str] {
        &MARKS
    }

    fn prepare(&self, platform: &Platform) -> Prepared {
        let summary = Summary::new(platform, WakeWord::new(platform));
        let found = platform.page(1).word(0);
        let (spawner, doorbells, first) = (platform.clone(), self.0, found.clone());
        let main = move || {
            let ringers = doorbells.map(|doorbell| {
                let (ringer, ended) = (summary.ringer(doorbell), spawner.event(true));
                let end = ended.clone();
                spawner.spawn("ringer", move || {
                    ringer.ring();
                    end.set(Step::ThreadWake);
                });
                ended
            });
            let mut taken = BTreeSet::new();
            summary.take(|doorbell| assert!(taken.insert(doorbell), "taken twice"));
            first.store(taken.len() as u64 + 1);
            ringers.iter().for_each(|ended| {
                ended.wait();
            });
            summary.take(|doorbell| {
                taken.insert(doorbell);
            });
            assert_eq!(taken, BTreeSet::from(doorbells), "a ring is lost");
        };
        Prepared::new(main, move |verdict| {
            let found = found.load();
            verdict.sometimes(MARKS[0], found > 1);
            verdict.sometimes(MARKS[1], found == 1);
        })
    }
}

#[test]
fn no_ring_is_lost_between_the_root_and_its_leaves() {
    // In the root; the same leaf; two leaves of one group; two groups; root and leaf.
    for doorbells in [[3, 4], [48, 49], [50, 112], [50, 304], [4, 50]] {
        let scenario = RingAgainstTake(doorbells);
        let report = explore(&scenario, &Options::default()).unwrap();
        println!("{doorbells:?}: {} states", report.states);
        assert!(report.exhausted && report.passed(), "{doorbells:?}: {report:?}");
    }
}
