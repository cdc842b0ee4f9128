//! Where the values of fences are: the three kinds of storage, the segments that the driver
//! names, moves under memory pressure, the system process, and the bounds of addresses.

use std::ops::Range;
use tidegate::calls::CurrentValueView;
use tidegate::ddi::memory::{AllocationSegments, StandardAllocationType};
use tidegate::ddi::record::FenceStorage;
use tidegate_testbed::prelude::*;

const LOCAL: PhysicalAddress = PhysicalAddress(1 << 40);
const HIDDEN: PhysicalAddress = PhysicalAddress(1 << 41);
/// Long enough for everything that can move to have moved.
const SETTLED_NS: u64 = 1_000_000;

/// All fence types that the documents know.
fn all_types(config: &mut MachineConfig) {
    config.driver.local_monitored_values = true;
}

fn intra(w: &World) -> FenceInstance {
    w.try_intra(SyncObjectFlags::empty()).unwrap()
}

fn shareable() -> SyncObjectFlags {
    SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    System,
    Local,
    Hidden,
}

fn memory_at(at: PhysicalAddress) -> Memory {
    match at {
        _ if at < LOCAL => Memory::System,
        _ if at < HIDDEN => Memory::Local,
        _ => Memory::Hidden,
    }
}

/// In which memory CurrentValue and MonitoredValue are.
fn memories(w: &World, fence: &FenceInstance) -> [Memory; 2] {
    let space = own_space(w);
    [fence.current_value_gpu_va, fence.monitored_value_gpu_va]
        .map(|va| memory_at(leads_to(w, space, va).unwrap().0))
}

// spec: NF-030, NF-034, NF-039, NF-108, NF-041
#[test]
fn where_the_values_stand_follows_from_the_type() {
    let w = world_with(all_types);
    let (default, intra) = (w.native(7), intra(&w));
    assert_eq!(memories(&w, &default), [Memory::System, Memory::Local]);
    assert_eq!(memories(&w, &intra), [Memory::Hidden; 2]);
    // User mode cannot tell an optimised DEFAULT fence: it has all that a DEFAULT fence has.
    assert_eq!((default.value.get(), default.epoch.is_some()), (Some(7), true));
    let event = w.wait_event(&default, 9);
    w.signal(&default, 9);
    assert!(event.is_set());
    let shared = w.try_native(0, shareable()).unwrap();
    assert_eq!(memories(&w, &shared), [Memory::System; 2], "other adapters may read it");
    for fence in [&default, &intra, &shared] {
        let writable = |va| leads_to(&w, own_space(&w), va).unwrap().1;
        assert!(writable(fence.current_value_gpu_va) && !writable(fence.monitored_value_gpu_va));
    }
}

#[test]
fn both_values_stand_in_system_memory_without_an_enabled_feature() {
    let w = world();
    assert_eq!(memories(&w, &w.native(0)), [Memory::System; 2]);
}

// spec: NF-041
#[test]
fn local_memory_is_used_only_if_kernel_and_driver_both_have_it() {
    let unwilling_driver = |config: &mut MachineConfig| {
        all_types(config);
        config.driver.local_monitored_values = false;
    };
    let w = world_with(unwilling_driver);
    assert_eq!(memories(&w, &w.native(0)), [Memory::System; 2]);
    drop(w);
    let old_kernel = |config: &mut MachineConfig| {
        all_types(config);
        config.kernel.native_fence_os_caps = NativeFenceOsCaps::empty();
    };
    let w = world_with(old_kernel);
    assert_eq!(memories(&w, &w.native(0)), [Memory::System; 2]);
    assert_eq!(w.try_intra(SyncObjectFlags::empty()).err(), Some(Status::NOT_SUPPORTED));
    assert!(w.driver.take_names().iter().all(|n| *n != "GetStandardAllocationDriverData"));
    drop(w);
    let w = world_with(all_types);
    let far = w.try_intra(shareable() | SyncObjectFlags::CROSS_ADAPTER);
    let unreachable = "another adapter cannot reach local memory";
    assert_eq!(far.err(), Some(Status::INVALID_PARAMETER), "{unreachable}");
}

// spec: NF-109, NF-110, NF-111
#[test]
fn the_driver_is_queried_for_segments_before_the_first_page_of_a_kind_and_once() {
    assert_eq!(StandardAllocationType::FenceStorage as u32, 6);
    let w = world_with(all_types);
    w.driver.take();
    for _ in 0..2 {
        w.native(0);
        intra(&w);
        w.try_intra(shareable()).unwrap();
    }
    let calls = w.driver.take();
    let storage = |call: &DdiCall| match call {
        DdiCall::GetStandardAllocationDriverData { args } => Some(*args),
        _ => None,
    };
    let queries: Vec<FenceStorage> = calls.iter().filter_map(storage).collect();
    let count = |value, fence_type| {
        let of = FenceStorage { physical_adapter_index: 0, value, fence_type };
        queries.iter().filter(|query| **query == of).count()
    };
    use tidegate::ddi::NativeFenceType::{Default as Shared, IntraGpu};
    use tidegate::ddi::memory::FenceStorageValueType::{CurrentValue, MonitoredValue};
    assert_eq!(queries.len(), 3, "{queries:?}");
    assert_eq!(count(MonitoredValue, Shared), 1);
    assert_eq!((count(CurrentValue, IntraGpu), count(MonitoredValue, IntraGpu)), (1, 1));
    let first = |ddi: &str| calls.iter().position(|c| c.name() == ddi).unwrap();
    assert!(first("GetStandardAllocationDriverData") < first("CreateNativeFence"));
}

/// Creates a fence and returns the error.
type Create = fn(&World) -> Option<Status>;

// spec: NF-007, NF-033, NF-036, NF-112
#[test]
fn storage_is_taken_from_the_segment_that_the_driver_named_and_nonsense_is_refused() {
    let answer = |set: u32, preferred: u32| AllocationSegments {
        supported_write_segment_set: set,
        eviction_segment_set: 0,
        preferred_segment: preferred,
    };
    // Segment 1 is seen by the CPU, segment 2 is not.
    let w = world_with(all_types);
    w.hooked.plant(|answers| answers.segments = Some(answer(0b01, 1)));
    assert_eq!(memories(&w, &w.native(0)), [Memory::System, Memory::Local]);
    drop(w);
    let w = world_with(all_types);
    w.hooked.plant(|answers| answers.segments = Some(answer(0b10, 0)));
    assert_eq!(memories(&w, &intra(&w)), [Memory::Hidden; 2]);
    drop(w);
    let refused: [(AllocationSegments, Create); 4] = [
        (answer(0b10, 2), |w| w.try_native(0, SyncObjectFlags::empty()).err()),
        (answer(0b01, 1), |w| w.try_intra(SyncObjectFlags::empty()).err()),
        (answer(0, 0), |w| w.try_native(0, SyncObjectFlags::empty()).err()),
        (answer(0b101, 1), |w| w.try_native(0, SyncObjectFlags::empty()).err()),
    ];
    for (answer, create) in refused {
        let w = world_with(all_types);
        w.hooked.plant(|answers| answers.segments = Some(answer));
        assert_eq!(create(&w), Some(Status::DEVICE_REMOVED), "{answer:?}");
        let bugs = w.adapter().bug_checks();
        assert!(matches!(bugs[..], [BugCheck::FenceStorageSegments(_)]), "{bugs:?}");
    }
    // A driver that has none says so, and DEFAULT fences do without.
    let w = world_with(all_types);
    w.hooked.fail_next(Entry::GetStandardAllocationDriverData, Status::NOT_SUPPORTED);
    assert_eq!(memories(&w, &w.native(0)), [Memory::System; 2]);
}

// spec: NF-039, NF-040
#[test]
fn no_cpu_access_reaches_an_intra_gpu_fence() {
    world_with(all_types).run(|w| {
        let (fence, other) = (intra(w), w.native(0));
        assert!(matches!(fence.value, CurrentValueView::OutOfReach) && fence.epoch.is_none());
        let (queue, context) = (w.hw_queue(), w.context(0));
        let both = [at(&other, 1)[0], at(&fence, 1)[0]];
        let refused = [
            w.wait(fence.handle, 0),
            w.kernel.wait_from_cpu(&both, WaitMode::Any, Some(w.platform.event(true))),
            w.kernel.signal_from_cpu(&both, SignalFlags::empty()),
            // What VidSch would do with the CPU.
            w.kernel.submit_wait_to_hw_queue(queue.handle, &both),
            w.kernel.submit_signal_to_hw_queue(queue.handle, &both),
            w.kernel.wait_from_gpu(context, &both),
            w.kernel.signal_from_gpu(context, &both),
        ];
        assert_eq!(refused, [Err(Status::NOT_SUPPORTED); 7]);
        assert_eq!(other.value.load(), 0, "a refused call does nothing");
        assert!(w.calls().monitored.is_empty(), "the kernel arms nothing there");
        w.kernel.destroy_synchronization_object(fence.handle).unwrap();
        assert!(w.calls().current.iter().all(|(u, _)| u.current_value.is_none()));
    });
}

// spec: NF-113
#[test]
fn engines_set_signal_and_await_an_intra_gpu_fence_across_processes() {
    world_with(all_types).run(|w| {
        let fence = w.try_intra(shareable()).unwrap();
        let after = w.native(0);
        let [maker, waiter] = [0, 1].map(|node| w.connected_queue(node));
        // Its initial value is the user-mode driver's: a GPU write.
        maker.push(&w.execute_packet(&[store(fence.current_value_gpu_va, 5)], 1));
        w.wait(maker.queue.progress_fence, 1).unwrap();
        let interrupts = w.stats().interrupts;
        waiter.wait(&fence, 5).signal_and_wait(&after, 1);
        waiter.wait(&fence, 9).signal(&after, 2);
        w.pass(SETTLED_NS);
        assert_eq!(after.value.load(), 1);
        // Another process signals it at an address of its own.
        let other = w.client("other");
        let shared = w.share(&fence, SyncObjectAccess::WAIT | SyncObjectAccess::SIGNAL).unwrap();
        let opened = other.open_native(&shared, SyncObjectFlags::empty()).unwrap();
        assert_eq!(opened.value.get(), None);
        let theirs = w.calls().roots.last().unwrap().0;
        let here = leads_to(w, own_space(w), fence.current_value_gpu_va);
        assert_eq!(leads_to(w, theirs, opened.current_value_gpu_va), here);
        assert_eq!(other.try_signal(&opened, 9), Err(Status::NOT_SUPPORTED));
        maker.signal(&fence, 9);
        w.wait(after.handle, 2).unwrap();
        assert!(w.stats().interrupts > interrupts, "of the other fence");
        assert!(w.gpu_stats().interrupts_suppressed > 0, "signals of this one do not interrupt");
    });
}

/// A queue that waits for `fence` to reach `value` and then signals a fence of its own; the wait is
/// parked.
fn parked(w: &World, node: u32, fence: &FenceInstance, value: u64) -> (UserQueue, FenceInstance) {
    let (queue, after) = (w.connected_queue(node), w.native(0));
    queue.wait(fence, value).signal(&after, 1);
    w.pass(SETTLED_NS);
    assert_eq!(after.value.load(), 0);
    (queue, after)
}

#[test]
fn the_end_of_an_intra_gpu_fence_lets_its_waits_pass_and_the_next_one_begins_at_0() {
    world_with(all_types).run(|w| {
        let fence = intra(w);
        let (queue, after) = parked(w, 1, &fence, 9);
        w.kernel.destroy_synchronization_object(fence.handle).unwrap();
        w.wait(after.handle, 1).unwrap();
        let next = intra(w);
        assert_eq!(next.current_value_gpu_va, fence.current_value_gpu_va, "the slot is used again");
        let (_queue, after) = parked(w, 0, &next, 1);
        queue.signal(&next, 1);
        w.wait(after.handle, 1).unwrap();
    });
}

#[test]
fn a_lost_device_s_intra_gpu_fence_lets_the_waits_of_others_pass() {
    world_with(all_types).run(|w| {
        let other = w.another_device();
        let fence = other.try_intra(SyncObjectFlags::empty()).unwrap();
        let (queue, after) = parked(w, 1, &fence, 9);
        // It moves, and is found where it is then.
        w.adapter().trim_fence_storage(0).unwrap();
        other.submit_packet(other.context(0), &[store(0x10, 1)]);
        w.wait(after.handle, 1).unwrap();
        assert!(matches!(other.state(), Ok(DeviceState::Faulted(_))));
        // Signals do nothing to it any more.
        queue.signal(&fence, 1).wait(&fence, u64::MAX).signal(&after, 2);
        w.wait(after.handle, 2).unwrap();
    });
}

// spec: NF-139
#[test]
fn a_monitored_value_that_moved_is_armed_where_it_is_and_loses_no_waiter() {
    world_with(all_types).run(|w| {
        let fence = w.native(0);
        let queue = w.connected_queue(0);
        let before = w.wait_event(&fence, 3);
        let gone = w.adapter().local_fence_storage_bytes();
        assert_eq!(w.adapter().trim_fence_storage(0), Ok(gone));
        assert_eq!(w.adapter().local_fence_storage_bytes(), 0);
        assert_eq!(memories(w, &fence), [Memory::System; 2]);
        // The earlier waiter is released by the MonitoredValue at the new address.
        queue.signal(&fence, 3);
        before.wait();
        let after = w.wait_event(&fence, 5);
        let calls = w.calls();
        let (first, last) = (&calls.monitored[0], calls.monitored.last().unwrap());
        assert_eq!((last.monitored_value.load(), last.value), (4, 4));
        assert_eq!(first.monitored_value.load(), 2, "the old address is not armed any more");
        queue.signal(&fence, 5);
        after.wait();
        assert!(calls.residency.len() >= 2, "the driver got the first place and the next");
    });
}

#[test]
fn a_queue_that_waits_in_hardware_finds_its_fence_where_it_went() {
    world_with(all_types).run(|w| {
        let (fence, neighbour) = (intra(w), intra(w));
        let (queue, after) = parked(w, 1, &fence, 9);
        let signaller = w.connected_queue(0);
        signaller.push(&w.execute_packet(&[store(neighbour.current_value_gpu_va, 4)], 1));
        w.wait(signaller.queue.progress_fence, 1).unwrap();
        let driver_fence = w.calls().residency[0].0;
        assert!(w.adapter().trim_fence_storage(0).unwrap() > 0);
        assert_eq!([&fence, &neighbour].map(|of| memories(w, of)), [[Memory::System; 2]; 2]);
        let moved =
            w.calls().residency.into_iter().rev().find(|(f, ..)| *f == driver_fence).unwrap();
        let now = [fence.current_value_gpu_va, fence.monitored_value_gpu_va]
            .map(|va| leads_to(w, own_space(w), va).unwrap().0);
        assert_eq!([moved.1, moved.2], now, "the driver knows where");
        signaller.signal(&fence, 9);
        w.wait(after.handle, 1).unwrap();
        // What the values were went along.
        queue.wait(&neighbour, 4).signal_and_wait(&after, 2);
        let later = intra(w);
        assert_eq!(memories(w, &later), [Memory::System; 2], "a page that left stays out");
    });
}

#[test]
fn an_instance_without_the_signal_right_cannot_store_to_a_fence_that_moved() {
    let w = world_with(all_types);
    let fence = w.try_intra(shareable()).unwrap();
    let shared = w.share(&fence, SyncObjectAccess::WAIT | SyncObjectAccess::SIGNAL).unwrap();
    let other = w.client("other");
    let theirs = w.calls().roots.last().unwrap().0;
    let open = |flags| other.open_native(&shared, flags).unwrap();
    let waits = open(SyncObjectFlags::NO_SIGNAL);
    let writable =
        |space, fence: &FenceInstance| leads_to(&w, space, fence.current_value_gpu_va).unwrap().1;
    assert_eq!([writable(own_space(&w), &fence), writable(theirs, &waits)], [true, false]);
    assert!(w.adapter().trim_fence_storage(0).unwrap() > 0);
    assert_eq!([writable(own_space(&w), &fence), writable(theirs, &waits)], [true, false]);
    let signals = open(SyncObjectFlags::empty());
    assert_eq!(signals.current_value_gpu_va, waits.current_value_gpu_va);
    assert!(writable(theirs, &signals));
}

#[test]
fn a_budget_sends_the_oldest_page_away() {
    let with_budget = |bytes: u64| {
        world_with(move |config| {
            config.driver.fence_stride_bytes = 4096;
            config.kernel.fence_storage_budget_bytes = bytes;
            all_types(config);
        })
    };
    let w = with_budget(2 * 4096);
    let fences = [(); 3].map(|()| w.native(0));
    let monitored = fences.each_ref().map(|f| memories(&w, f)[1]);
    assert_eq!(monitored, [Memory::System, Memory::Local, Memory::Local]);
    assert_eq!(w.adapter().local_fence_storage_bytes(), 2 * 4096);
    drop((fences, w));
    let w = with_budget(4095);
    assert_eq!(memories(&w, &w.native(0)), [Memory::System; 2]);
    assert_eq!(memories(&w, &intra(&w)), [Memory::System; 2]);
}

#[test]
fn a_driver_that_cannot_move_storage_is_a_bug_check() {
    let w = world_with(all_types);
    w.native(0);
    w.hooked.fail_next(Entry::BuildPagingBuffer, Status::INVALID_PARAMETER);
    assert_eq!(w.adapter().trim_fence_storage(0), Err(Status::DEVICE_REMOVED));
    let expected =
        BugCheck::DdiFailed { ddi: "DxgkDdiBuildPagingBuffer", status: Status::INVALID_PARAMETER };
    assert_eq!(w.adapter().bug_checks(), [expected]);
}

/// Real threads: storage leaves local memory while engines signal, queues wait in hardware and a
/// CPU waits.
#[test]
fn storage_moves_under_traffic_and_every_waiter_is_released() {
    const ROUNDS: u64 = 150;
    let change = |config: &mut MachineConfig| {
        // Each fence has pages of its own, so each round has something to move.
        config.driver.fence_stride_bytes = 4096;
        config.gpu.service_threads = 2;
        all_types(config);
    };
    setup(change).on(Platform::closed_host()).start().run(|w| {
        let [first, second] = [0, 1].map(|node| w.connected_queue(node));
        let (moved, over) = (w.platform.page(1).word(0), w.platform.page(1).word(0));
        let (mover, bytes, stop) = (w.adapter().clone(), moved.clone(), over.clone());
        let pressure = w.platform.spawn("memory pressure", move || {
            while stop.load() == 0 {
                let trimmed = mover.trim_fence_storage(0);
                let why = || panic!("{trimmed:?}: {:?}", mover.bug_checks());
                bytes.fetch_add(trimmed.unwrap_or_else(|_| why()));
            }
        });
        // More rounds, until something has moved.
        for round in (1..).take_while(|round| *round <= ROUNDS || moved.load() == 0) {
            let (inner, outer) = (intra(w), w.native(0));
            second.wait(&inner, round).signal(&outer, round);
            first.signal(&inner, round);
            w.wait(outer.handle, round).unwrap();
            if round % 3 == 0 {
                w.kernel.destroy_synchronization_object(inner.handle).unwrap();
                w.kernel.destroy_synchronization_object(outer.handle).unwrap();
            }
        }
        over.store(1);
        pressure.join();
    });
}

fn with_system_process(config: &mut MachineConfig) {
    all_types(config);
    config.driver.system_process_mapping = true;
}

// spec: NF-074, NF-075
#[test]
fn both_values_are_mapped_in_the_system_process_where_the_driver_requests_it() {
    world_with(with_system_process).run(|w| {
        let fences = [w.native(0), w.native(0), w.try_native(0, shareable()).unwrap(), intra(w)];
        let calls = w.calls();
        let system = &calls.system_process[calls.system_process.len() - fences.len()..];
        for (fence, addresses) in fences.iter().zip(system) {
            let (current, monitored) = addresses.expect("the driver got both");
            let here = |va| leads_to(w, own_space(w), va);
            assert_eq!(leads_to(w, 0, current), here(fence.current_value_gpu_va));
            assert_eq!(leads_to(w, 0, monitored), here(fence.monitored_value_gpu_va));
        }
        let [first, second] = [0, 1].map(|number| system[number].unwrap());
        let distances = (second.0 - first.0, second.1 - first.1);
        assert_eq!(distances, (64, 64), "a packed page is mapped once");
        // The CMP finds a fence there: a queue that waits goes on when the CPU signals.
        let (_queue, after) = parked(w, 1, &fences[0], 3);
        w.signal(&fences[0], 3);
        w.wait(after.handle, 1).unwrap();
        // What moves moves there, too.
        w.adapter().trim_fence_storage(0).unwrap();
        let moved = leads_to(w, 0, system[3].unwrap().0);
        assert_eq!(moved, leads_to(w, own_space(w), fences[3].current_value_gpu_va));
        assert_eq!(memory_at(moved.unwrap().0), Memory::System);
        // It ends with the fence, whose pages were its own.
        w.kernel.destroy_synchronization_object(fences[2].handle).unwrap();
        let (current, monitored) = system[2].unwrap();
        assert_eq!([current, monitored].map(|va| leads_to(w, 0, va)), [None, None]);
    });
    let w = world();
    w.native(0);
    assert_eq!(w.calls().system_process, [None]);
    let calls = w.calls();
    assert!(calls.roots.iter().all(|(space, _)| *space != 0), "no system process was requested");
}

// spec: NF-076
#[test]
fn every_address_of_a_fence_value_is_between_the_bounds_that_the_driver_declares() {
    const WINDOW: Range<u64> = 0x2_0000..0x3_0000;
    let bounded = |window: (Option<u64>, Option<u64>)| {
        move |config: &mut MachineConfig| {
            config.driver.fence_window = window;
            with_system_process(config);
        }
    };
    let w = world_with(bounded((Some(WINDOW.start), Some(WINDOW.end - 1))));
    let inside = |va: u64| WINDOW.contains(&va);
    let fences = [w.native(0), intra(&w), w.try_native(0, shareable()).unwrap()];
    for fence in &fences {
        assert!(inside(fence.current_value_gpu_va) && inside(fence.monitored_value_gpu_va));
    }
    for (current, monitored) in w.calls().system_process.into_iter().flatten() {
        assert!(inside(current) && inside(monitored));
    }
    // Nothing else is.
    for _ in 0..20 {
        let (_, va) = w.bytes(4096);
        assert!(va + 4096 <= WINDOW.start || va >= WINDOW.end, "{va:#x}");
    }
    // A window that is full says so and harms nothing.
    let full = loop {
        if let Err(status) = w.try_native(0, shareable()) {
            break status;
        }
    };
    assert_eq!(full, Status::NO_MEMORY);
    w.signal(&fences[0], 1);
    assert_eq!(fences[0].value.load(), 1);
    drop((fences, w));
    // No whole page. The last one is below the lowest address that is ever mapped.
    let empty = [
        ((0x3_0000, 0x3_0000), (0x3_0000, 0x3_0000)),
        ((0x3_0000, 0x3_0FFE), (0x3_0000, 0x3_0000)),
        ((0x3_0001, 0x3_1FFE), (0x3_1000, 0x3_1000)),
        ((0, 0xFFFF), (0x1_0000, 0x1_0000)),
    ];
    for ((lowest, highest), (start_va, end_va)) in empty {
        match setup(bounded((Some(lowest), Some(highest)))).try_start() {
            Err(MachineError::Start(error)) => {
                assert_eq!(error, StartError::FenceWindow(start_va, end_va))
            }
            _ => panic!("the start must fail for {lowest:#x} to {highest:#x}"),
        }
    }
    // Only one bound.
    let w = world_with(bounded((Some(1 << 30), None)));
    assert!(w.native(0).current_value_gpu_va >= 1 << 30 && w.bytes(64).1 < 1 << 30);
}

// spec: NF-027, NF-028
#[test]
fn fences_of_every_stride_keep_out_of_each_other_s_way() {
    for stride in (3..=12).map(|bit| 1u32 << bit) {
        let strided = move |config: &mut MachineConfig| {
            config.driver.fence_stride_bytes = stride;
            all_types(config);
        };
        world_with(strided).run(move |w| {
            let fences: Vec<FenceInstance> = (0..5).map(|_| w.native(0)).collect();
            let hidden: Vec<FenceInstance> = (0..3).map(|_| intra(w)).collect();
            let queue = w.connected_queue(0);
            let events: Vec<_> =
                fences.iter().zip(1..).map(|(f, value)| w.wait_event(f, 10 * value)).collect();
            for (fence, value) in fences.iter().zip(1..) {
                queue.signal(fence, 10 * value);
            }
            for (fence, value) in hidden.iter().zip(1..) {
                queue.signal(fence, value).wait(fence, value);
            }
            let done = w.native(0);
            queue.signal_and_wait(&done, 1);
            events.iter().for_each(|event| _ = event.wait());
            let values: Vec<u64> = fences.iter().map(|f| f.value.load()).collect();
            assert_eq!(values, [10, 20, 30, 40, 50], "at a stride of {stride}");
        });
    }
}

// spec: NF-026
#[test]
fn no_two_processes_share_a_page_of_fences() {
    let w = world_with(all_types);
    let other = w.client("other");
    for fence_type in [NativeFenceType::Default, NativeFenceType::IntraGpu] {
        let [mine, theirs] =
            [&*w, &other].map(|of| of.native_with(|args| args.fence_type = fence_type).unwrap());
        let space = w.calls().roots.last().unwrap().0;
        let page = |space, va| leads_to(&w, space, va).unwrap().0.0 / 4096;
        let mine = [mine.current_value_gpu_va, mine.monitored_value_gpu_va]
            .map(|va| page(own_space(&w), va));
        let theirs =
            [theirs.current_value_gpu_va, theirs.monitored_value_gpu_va].map(|va| page(space, va));
        assert!(mine.iter().all(|page| !theirs.contains(page)), "{mine:?} {theirs:?}");
    }
}

// spec: NF-018
#[test]
fn a_store_to_a_monitored_value_is_a_fault_that_names_queue_submission_and_address() {
    for optimized in [false, true] {
        let change = move |config: &mut MachineConfig| {
            let flag = NativeFenceOsCaps::OPTIMIZED_DEFAULT_FENCE_TYPE;
            config.kernel.native_fence_os_caps.set(flag, optimized);
            all_types(config);
        };
        world_with(change).run(|w| {
            let (fence, queue) = (w.native(0), w.connected_queue(0));
            queue.signal(&fence, 1);
            queue.push(&w.execute_packet(&[store(fence.monitored_value_gpu_va, 1)], 1));
            assert_eq!(w.wait(fence.handle, 9), Err(Status::DEVICE_REMOVED));
            let Ok(DeviceState::Faulted(report)) = w.state() else { panic!("the device faulted") };
            let number = w.number(queue.queue.handle);
            assert_eq!((report.queue, report.position, report.write), (number, 1, true));
            assert_eq!(report.gpu_va, fence.monitored_value_gpu_va);
        });
    }
}

/// Value, pulse and waits of a fence that CPU and engines use at once are those of a DEFAULT fence
/// whatever its storage.
#[test]
fn a_cpu_that_reads_while_an_engine_stores_never_sees_half_a_value() {
    setup(all_types).on(Platform::closed_host()).start().run(|w| {
        let (fence, queue, done) = (w.native(0), w.connected_queue(0), w.native(0));
        let seen = Arc::new(w.platform.mutex("what was seen", Vec::new()));
        let (kept, value, end) = (seen.clone(), fence.value.clone(), done.value.clone());
        let reader = w.platform.spawn("reader", move || {
            while end.load() == 0 {
                kept.lock().push(value.load());
            }
        });
        for round in 0..20 {
            for value in [0, u64::MAX] {
                queue.signal(&fence, value);
            }
            queue.signal(&done, 0);
            if round % 10 == 9 {
                let enough = seen.lock().len() + 1_000;
                while seen.lock().len() < enough {}
            }
        }
        queue.signal_and_wait(&done, 1);
        reader.join();
        assert!(seen.lock().iter().all(|value| [0, u64::MAX].contains(value)));
    });
}
