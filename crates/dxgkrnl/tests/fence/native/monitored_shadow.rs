//! Native fences on hardware whose CMP keeps shadows of MonitoredValue, through the kernel's calls
//! and the reference driver: the kernel behaves as without shadows, the driver updates the CMP, and
//! every waiter is released.

use tidegate_testbed::prelude::*;

fn hardware(config: &mut MachineConfig, entries: u32, mode: InterruptMode) {
    config.gpu.shadow_entries = entries;
    config.gpu.posted_fence_writes = true;
    config.driver.interrupt = mode;
}

fn shadowed(entries: u32, mode: InterruptMode) -> World {
    world_with(|config| hardware(config, entries, mode))
}

const MODES: [InterruptMode; 4] = [
    InterruptMode::FenceArray,
    InterruptMode::NullArray,
    InterruptMode::HwQueue,
    InterruptMode::HwQueueArray,
];

#[test]
fn two_waiters_are_released_by_the_signals_that_reach_them_and_by_no_others() {
    for mode in MODES {
        let w = shadowed(64, mode).run(|w| {
            let fence = w.native(41);
            let queue = w.connected_queue(0);
            let (early, late) = (w.wait_event(&fence, 42), w.wait_event(&fence, 50));
            assert_eq!(w.armed(), [[41]]);
            queue.push(&signal_packet(&fence, 42, 0));
            w.pass(1_000);
            assert!(early.is_set() && !late.is_set());
            assert_eq!(w.armed(), [[49]]);
            queue.push(&signal_packet(&fence, 49, 1));
            w.pass(1_000);
            assert_eq!(w.stats().fence_interrupts, 1, "49 does not interrupt");
            queue.push(&signal_packet(&fence, 60, 2));
            w.pass(1_000);
            assert!(late.is_set());
            assert_eq!(w.armed(), [[u64::MAX]]);
            queue.push(&signal_packet(&fence, 61, 3));
            w.pass(1_000);
        });
        let (kernel, gpu) = (w.stats(), w.gpu_stats());
        assert_eq!((kernel.fence_interrupts, kernel.spurious_fence_interrupts), (2, 0), "{mode:?}");
        assert_eq!((gpu.shadow_updates, gpu.shadow_interrupts), (3, 0), "{mode:?}");
    }
}

/// A GPU that signals between the kernel's first check and the new MonitoredValue: the CMP finds
/// it, and so does the kernel's second check. The interrupt comes late, and is counted.
#[test]
fn what_the_cmp_finds_above_a_new_value_is_reported_in_every_mode() {
    for mode in MODES {
        let w = shadowed(64, mode).run(|w| {
            let fence = w.native(0);
            let cell = w.current_word(&fence);
            w.hooked.once(Entry::UpdateMonitoredValues, move || _ = cell.store(9));
            let event: Event = w.wait_event(&fence, 5);
            assert!(event.is_set(), "by the second check");
            w.pass(1_000);
        });
        let (kernel, gpu) = (w.stats(), w.gpu_stats());
        assert_eq!(gpu.shadow_interrupts, 1, "{mode:?}");
        assert!(kernel.fence_interrupts >= 1, "{mode:?}");
        assert_eq!(kernel.spurious_fence_interrupts, kernel.fence_interrupts, "{mode:?}");
    }
}

#[test]
fn a_shadow_ends_with_its_fence_and_its_room_is_used_again() {
    let w = shadowed(4, InterruptMode::FenceArray).run(|w| {
        for _ in 0..50 {
            let (fence, event) = w.native_awaited(1);
            w.signal(&fence, 1);
            assert!(event.is_set());
            w.kernel.destroy_synchronization_object(fence.handle).unwrap();
        }
    });
    assert_eq!(w.gpu_stats().shadow_updates, 100, "each was armed and disarmed in its shadow");
}

/// A fence that leaves local memory takes its shadow along: engines go on to compare with that, and
/// not with memory.
#[test]
fn a_shadow_goes_where_its_fence_goes() {
    let local = |config: &mut MachineConfig| {
        hardware(config, 4, InterruptMode::FenceArray);
        config.driver.local_monitored_values = true;
    };
    world_with(local).run(|w| {
        let queue = w.connected_queue(0);
        let fence = w.native(0);
        let (number, ..) = *w.calls().residency.last().expect("the place of a local fence");
        let early = w.wait_event(&fence, 5);
        assert!(w.adapter().trim_fence_storage(0).unwrap() > 0);
        let residency = w.calls().residency;
        let (.., at) = *residency.iter().rev().find(|(of, ..)| *of == number).unwrap();
        let memory = w.hooked.start_info().system_memory;
        let monitored = memory.resolve(at).and_then(|target| target.word());
        let monitored = monitored.expect("MonitoredValue at its new place");
        assert_eq!(monitored.load(), 4);
        monitored.store(0);
        queue.push(&signal_packet(&fence, 4, 0));
        w.pass(1_000);
        assert_eq!(w.stats().fence_interrupts, 0, "memory says otherwise, and is not read");
        queue.push(&signal_packet(&fence, 5, 1));
        early.wait();
        let late = w.wait_event(&fence, 9);
        queue.push(&signal_packet(&fence, 9, 2));
        late.wait();
    });
}
