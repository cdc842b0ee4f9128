//! Calls of UpdateMonitoredValues and UpdateCurrentValuesFromCpu that name many fences. Each covers
//! what one call, one lost device or one interrupt changes.

use super::super::monitored::lose;
use tidegate::ddi::fence::UpdateCurrentMode::{AlwaysSignaled, Write};
use tidegate_testbed::prelude::*;

/// The values of each call of UpdateCurrentValuesFromCpu and UpdateMonitoredValues, in order.
#[derive(Debug, PartialEq, Eq)]
enum Batch {
    Current(UpdateCurrentMode, Vec<u64>),
    Monitored(Vec<u64>),
}
use Batch::{Current, Monitored};

/// Takes the calls that were made since the last time.
fn take(w: &World) -> Vec<Batch> {
    let batch = |call| match call {
        DdiCall::UpdateCurrentValuesFromCpu { fences, mode } => {
            Some(Current(mode, fences.iter().map(|update| update.value).collect()))
        }
        DdiCall::UpdateMonitoredValues { fences } => {
            Some(Monitored(fences.iter().map(|update| update.value).collect()))
        }
        _ => None,
    };
    w.driver.take().into_iter().filter_map(batch).collect()
}

fn values(fences: &[FenceInstance], value: u64) -> Vec<FenceValue> {
    fences.iter().flat_map(|fence| at(fence, value)).collect()
}

fn signal(w: &World, fences: &[FenceValue]) {
    w.kernel.signal_from_cpu(fences, SignalFlags::empty()).unwrap();
}

// spec: NF-132, NF-133
#[test]
fn a_signal_of_32_fences_is_one_call_for_their_values_and_one_for_their_minimums() {
    let w = inline_world();
    let fences: Vec<FenceInstance> = (0..32).map(|_| w.native(0)).collect();
    let events: Vec<Event> =
        fences.iter().flat_map(|fence| [w.wait_event(fence, 7), w.wait_event(fence, 9)]).collect();
    take(&w);
    signal(&w, &values(&fences, 7));
    assert_eq!(take(&w), [Current(Write, vec![7; 32]), Monitored(vec![8; 32])]);
    let set: Vec<bool> = events.iter().map(Event::is_set).collect();
    assert_eq!(set, [true, false].repeat(32));
    assert!(fences.iter().all(|fence| fence.value.load() == 7));
}

#[test]
fn a_fence_that_is_named_twice_ends_a_batch_and_so_does_one_of_the_other_kind() {
    let w = inline_world();
    let [a, b] = [w.native(0), w.native(0)];
    let other = w.monitored(0);
    let at = |fence: &FenceInstance, value| FenceValue { fence: fence.handle, value };
    take(&w);
    signal(&w, &[at(&a, 1), at(&b, 2), at(&a, 3), at(&other, 4), at(&b, 5)]);
    let expected = [vec![1, 2], vec![3], vec![5]].map(|values| Current(Write, values));
    assert_eq!(take(&w), expected);
    assert_eq!([&a, &b, &other].map(|fence| fence.value.load()), [3, 5, 4]);
}

// spec: NF-037
#[test]
fn a_wait_for_many_fences_is_one_call_and_so_is_its_end() {
    for mode in [WaitMode::Any, WaitMode::All] {
        let w = inline_world();
        let fences: Vec<FenceInstance> = (0..32).map(|_| w.native(0)).collect();
        take(&w);
        let event = w.platform.event(true);
        w.kernel.wait_from_cpu(&values(&fences, 5), mode, Some(event.clone())).unwrap();
        assert_eq!(take(&w), [Monitored(vec![4; 32])]);
        match mode {
            WaitMode::Any => signal(&w, &at(&fences[3], 5)),
            WaitMode::All => signal(&w, &values(&fences, 5)),
        }
        assert!(event.is_set(), "{mode:?}");
        // The end of a wait for any removes the others; the signalled fence is armed for the rest.
        let calls: Vec<usize> = take(&w)
            .iter()
            .map(|call| match call {
                Current(Write, values) | Monitored(values) => values.len(),
                other => panic!("{other:?}"),
            })
            .collect();
        let expected: &[usize] = if mode == WaitMode::Any { &[1, 31, 1] } else { &[32, 32] };
        assert_eq!(calls, expected, "{mode:?}");
    }
}

// spec: MF-030
#[test]
fn a_queued_wait_for_many_fences_is_one_call() {
    let w = inline_world();
    let fences: Vec<FenceInstance> = (0..8).map(|_| w.native(0)).collect();
    let context = w.context(0);
    take(&w);
    w.kernel.wait_from_gpu(context, &values(&fences, 5)).unwrap();
    assert_eq!(take(&w), [Monitored(vec![4; 8])]);
    signal(&w, &values(&fences, 5));
    let all_satisfied = Monitored(vec![u64::MAX; 8]);
    assert_eq!(take(&w), [Current(Write, vec![5; 8]), all_satisfied]);
}

// spec: MF-048
#[test]
fn a_lost_device_sets_all_its_fences_in_one_call() {
    world().run(|w| {
        let fences: Vec<FenceInstance> = (0..20).map(|_| w.native(0)).collect();
        let monitored = w.monitored(0);
        let events: Vec<Event> = fences.iter().map(|fence| w.wait_event(fence, 9)).collect();
        let other = w.wait_event(&monitored, 9);
        take(w);
        lose(w);
        let calls = take(w);
        let at_maximum: Vec<usize> = calls
            .iter()
            .filter_map(|call| match call {
                Current(AlwaysSignaled, of) => Some(of.len()),
                _ => None,
            })
            .collect();
        // The progress fence of the lost queue is among them.
        assert_eq!(at_maximum, [21], "{calls:?}");
        assert!(calls.contains(&Monitored(vec![u64::MAX; 20])), "{calls:?}");
        assert!(events.iter().all(Event::is_set) && other.is_set());
        assert!(fences.iter().all(|fence| fence.value.load() == u64::MAX));
    });
}
