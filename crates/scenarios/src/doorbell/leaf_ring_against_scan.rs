//! A ring of a doorbell beyond the 48th against a scan of the engine, on the summary of `gpu-abi`.
//! Such a doorbell has its bit in a leaf, and a bit of the root represents the leaves. Another
//! doorbell of the same leaf was rung before, so the scan takes the root's bit and the leaf while
//! the ring sets both.
//!
//! This scan or the next one finds the ring.

use crate::prelude::*;
use tidegate::gpu_abi::Summary;
use tidegate::platform::WakeWord;

const THIS: &str = "the scan found the ring";
const NEXT: &str = "the next scan found the ring";

/// The doorbells: one that was rung before, and one that is rung in the run.
const BEFORE: u32 = 50;
const RUNG: u32 = 60;

pub(crate) const RACE: Race = Race {
    name: "leaf-ring-against-scan",
    about: "a doorbell beyond the 48th is rung while the engine scans its leaf: this scan or the next one finds the ring",
    marks: &[THIS, NEXT],
    planted: bugs! {
        "late-root" => Product(PlantedFault::RootClearedAfterItsLeaves),
            "the scan clears the root's bits after it has read the leaves: a ring in between is in a leaf without a bit of the root";
    },
    shape: Shape::Model,
    plans: Plans::all(exhaustive(1_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let platform = run.platform.clone();
    let wake = WakeWord::new(&platform);
    let summary = Arc::new(Summary::new(&platform, wake));
    summary.ringer(BEFORE).ring();
    let (scanned, ringer, probe) = (summary.clone(), summary.ringer(RUNG), Probe::new());
    let noted = probe.clone();
    let main = move || {
        platform.spawn("ringer", move || ringer.ring());
        let mut found = Vec::new();
        scanned.take(|bit| found.push(bit));
        noted.note(0, u64::from(found.contains(&RUNG)));
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let this = probe.seen(0) == Some(1);
        let mut left = Vec::new();
        summary.take(|bit| left.push(bit));
        let next = left.contains(&RUNG);
        end.eventually("a scan finds the ring", this || next);
        end.sometimes(THIS, this);
        end.sometimes(NEXT, next && !this);
    })
}
