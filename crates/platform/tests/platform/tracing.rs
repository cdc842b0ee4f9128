//! Checks how long the timeline keeps a fence, with and without a recording.

use tidegate_platform::Platform;
use tidegate_trace::{Kind, LaneKind, NameId, Record};

#[test]
fn a_fence_that_no_record_names_leaves_nothing_behind() {
    let platform = Platform::closed_host();
    let kept = platform.trace_fence("kept");
    let ids: Vec<_> = (0..100).map(|n| platform.trace_fence(&format!("fence {n}")).id()).collect();
    assert!(ids.iter().all(|id| *id == ids[0] && *id != kept.id()), "{ids:?}");
    platform.enable_tracing();
    let trace = platform.take_trace("two fences at once");
    assert_eq!(trace.fences.len(), 2);
}

#[test]
fn a_fence_that_a_record_may_name_keeps_its_number() {
    let platform = Platform::closed_host();
    let before = platform.trace_fence("before");
    platform.enable_tracing();
    let id = before.id();
    drop(before);
    let after = platform.trace_fence("after");
    let trace = platform.take_trace("recorded");
    assert_eq!((trace.fences[id.0 as usize].name.as_str(), trace.fences.len()), ("before", 2));
    // The number is of the trace that was taken.
    let next = platform.trace_fence("next");
    drop(after);
    assert_eq!(next.id(), id);
    assert_eq!(platform.take_trace("the next").fences[next.id().0 as usize].name, "next");
}

#[test]
fn a_fence_of_a_taken_trace_ends_without_effect_on_the_next() {
    let platform = Platform::closed_host();
    let old = platform.trace_fence("old");
    platform.take_trace("the first");
    let new = platform.trace_fence("new");
    drop(old);
    assert_ne!(platform.trace_fence("beside").id(), new.id());
}

#[test]
fn records_of_a_thread_belong_to_the_platform_that_they_were_made_on() {
    let platforms = [Platform::closed_host(), Platform::closed_host()];
    let lanes = platforms.each_ref().map(|platform| {
        platform.enable_tracing();
        platform.lane(LaneKind::CpuThread, "application", "main")
    });
    let record = |of: usize, at_ns| {
        platforms[of].record(Record::instant(lanes[of], Kind::Submit, NameId::NONE, at_ns));
    };
    // The thread alternates, and records on the first once more when its trace has been taken: the
    // machine ends later than its run.
    for (of, at_ns) in [(0, 1), (1, 2), (0, 3), (1, 4)] {
        record(of, at_ns);
    }
    let times = |of: usize| {
        let trace = platforms[of].take_trace("one of two");
        trace.records.iter().map(|record| record.start_ns).collect::<Vec<_>>()
    };
    assert_eq!(times(0), [1, 3]);
    record(0, 5);
    assert_eq!(times(1), [2, 4]);
}
