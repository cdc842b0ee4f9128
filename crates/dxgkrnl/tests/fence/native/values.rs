//! Native fences through the kernel's calls: the two values, where they are visible, and how waits
//! and signals move them.

use tidegate::calls::LogDetail;
use tidegate::ddi::{Dirql, Dispatch};
use tidegate_testbed::prelude::*;

/// Local memory begins here on the bus; system memory lies below.
const LOCAL_MEMORY: PhysicalAddress = PhysicalAddress(1 << 40);

// spec: NF-091, NF-099, MF-004
#[test]
fn a_new_fence_has_its_value_when_the_call_returns() {
    for initial in [0, 1, 41, u64::MAX - 1, u64::MAX] {
        let w = world();
        for fence in [w.native(initial), w.monitored(initial)] {
            assert_eq!(fence.value.load(), initial);
            assert_ne!(fence.current_value_gpu_va, 0);
            assert_eq!(fence.native, fence.monitored_value_gpu_va != 0);
            w.destroy(&fence);
        }
    }
}

// spec: NF-010, NF-016, NF-175, MF-007, MF-009
#[test]
fn a_process_sees_current_value_alone_and_cannot_write_it() {
    let w = world();
    // All that a process is given, name by name: a new way in would not compile here.
    for fence in [w.native(7), w.monitored(7)] {
        let FenceInstance {
            handle: _,
            value,
            epoch: _,
            value_cpu_va: _,
            cache_type: _,
            current_value_gpu_va: _,
            monitored_value_gpu_va: _,
            native: _,
            private_data: _,
            trace_fence: _,
            number: _,
        } = fence;
        let value = value.read_only().expect("the CPU sees a DEFAULT fence");
        assert_eq!(value.store(8), "read only");
        assert_eq!(value.load(), 7, "CurrentValue; MonitoredValue is at its maximum");
    }
    let queue = w.try_hw_queue(0, true).unwrap();
    let LogDetail {
        wait_entries: _,
        signal_entries: _,
        wait_log_gpu_va: _,
        signal_log_gpu_va: _,
        numbers: _,
        verbose: _,
    } = w.kernel.native_fence_log_detail(queue.handle).unwrap();
    let HwQueue {
        handle: _,
        progress_fence: _,
        progress_value,
        progress_gpu_va: _,
        native_progress_fence: _,
    } = queue;
    assert_eq!(progress_value.store(1), "read only");
}

// spec: NF-003, NF-009, NF-011
#[test]
fn the_last_signal_stays_and_the_kernel_reaches_the_cell() {
    let w = world();
    let fence = w.native(5);
    for value in [6, 1 << 40, 3, u64::MAX, 0] {
        w.signal(&fence, value);
        assert_eq!(fence.value.load(), value);
    }
    // What the driver is handed is the cell itself, and what is stored there the kernel reads.
    let cell = w.current_word(&fence);
    cell.store(9);
    assert_eq!(fence.value.load(), 9);
    assert!(w.wait_event(&fence, 9).is_set());
}

// spec: NF-012, NF-018, MF-011, MF-013
#[test]
fn engines_read_both_values_and_write_the_one() {
    let w = world();
    let (bytes, at_va) = w.bytes(64);
    let fences = [w.native(0x1_2345_6789), w.monitored(0x1_2345_6789)];
    let w = w.run(move |w| {
        let queue = w.hw_queue();
        let read = [
            copy_word(at_va, fences[0].current_value_gpu_va),
            copy_word(at_va + 8, fences[1].current_value_gpu_va),
        ];
        let seen = w.wait_event(&fences[0], 0x2_0000_0000);
        w.submit(&queue, 1, &read);
        w.submit(&queue, 2, &[copy_word(at_va + 16, fences[0].monitored_value_gpu_va)]);
        w.submit(
            &queue,
            3,
            &fences.each_ref().map(|f| store(f.current_value_gpu_va, 0xFEDC_BA98_7654_3210)),
        );
        w.wait(queue.progress_fence, 3).unwrap();
        for fence in &fences {
            assert_eq!(fence.current_value_gpu_va % 8, 0);
            assert_eq!(fence.value.load(), 0xFEDC_BA98_7654_3210);
        }
        assert!(!seen.is_set(), "a plain store releases no waiter");
    });
    let words = [0, 8, 16].map(|offset| bytes.read_u64(offset).unwrap());
    assert_eq!(words, [0x1_2345_6789, 0x1_2345_6789, 0x1_FFFF_FFFF]);
    drop(w);
}

// spec: NF-018
#[test]
fn an_engine_that_writes_monitored_value_faults() {
    let w = world();
    let fence = w.native(0);
    let (w, report) = w.run_to_report(move |w| {
        let queue = w.hw_queue();
        w.submit(&queue, 1, &[store(fence.monitored_value_gpu_va, 1)]);
        assert_eq!(w.wait(queue.progress_fence, 1), Err(Status::DEVICE_REMOVED));
    });
    assert!(report.completed(), "{report:?}");
    assert_ne!(w.state(), Ok(DeviceState::Active));
}

// spec: NF-017
#[test]
fn the_kernel_hands_out_the_monitored_value_that_the_gpu_reads() {
    let w = world();
    let fence = w.native(41);
    let _event = w.wait_event(&fence, 50);
    let cell = w.calls().monitored.last().unwrap().monitored_value.clone();
    assert_eq!(cell.load(), 49);
    let (bytes, at_va) = w.bytes(8);
    w.run(move |w| {
        let queue = w.hw_queue();
        w.on_queue(&queue).run(1, &[copy_word(at_va, fence.monitored_value_gpu_va)]).complete();
    });
    assert_eq!(bytes.read_u64(0), Ok(49));
}

// spec: NF-002, NF-021, MF-039, MF-040
#[test]
fn a_gpu_signal_ends_the_blocking_wait_that_it_satisfies_and_no_other() {
    let w = world();
    w.run(|w| {
        let (fence, done) = (w.native(0), w.native(0));
        let queue = w.connected_queue(1);
        let (five, six) = (w.wait_event(&fence, 5), w.wait_event(&fence, 6));
        assert!(!five.is_set(), "with an event the call returns at once");
        let ended = w.platform.event(true);
        let (kernel, waits, over) = (w.kernel.clone(), at(&fence, 5), ended.clone());
        let waiter = w.platform.spawn("waiter", move || {
            kernel.wait_from_cpu(&waits, WaitMode::All, None).unwrap();
            over.set(tidegate::platform::Step::ThreadWake);
        });
        w.pass(1_000);
        assert!(!ended.is_set(), "without an event the call blocks");
        queue.signal(&fence, 5);
        waiter.join();
        assert!(ended.is_set() && five.is_set() && !six.is_set());
        queue.signal_and_wait(&done, 1);
        assert!(!six.is_set());
        queue.signal_and_wait(&fence, 6);
        w.pass(1_000);
        assert!(six.is_set());
    });
}

// spec: NF-019, NF-048
#[test]
fn monitored_value_moves_as_waiters_arrive_and_leave() {
    let w = world();
    let (fence, other) = (w.native(0), w.native(0));
    let _ninety = w.wait_event(&fence, 90);
    let any = w.platform.event(true);
    let wanted = [at(&fence, 50)[0], at(&other, 1)[0]];
    w.kernel.wait_from_cpu(&wanted, WaitMode::Any, Some(any.clone())).unwrap();
    let _fifty = w.wait_event(&fence, 50);
    let _sixty = w.wait_event(&fence, 60);
    let expected = [vec![89], vec![49, 0]];
    assert_eq!(w.armed(), expected, "only a new smallest value is published, one call for a wait");
    // One of the two that wait for 50 goes without a signal of this fence: the other is still
    // there.
    w.signal(&other, 1);
    assert!(any.is_set());
    assert_eq!(w.armed(), [[u64::MAX]], "the other fence has no waiter now, this one is as it was");
    w.kernel.wait_from_cpu(&[wanted[1], at(&fence, 10)[0]], WaitMode::Any, None).unwrap();
    w.signal(&fence, 50);
    assert_eq!(w.armed(), [[9], [49], [59]], "a waiter moves the value, and back when it leaves");
}

// spec: NF-051, NF-052
#[test]
fn the_kernel_rearms_until_nothing_changes() {
    let w = world();
    let fence = w.native(0);
    let cell = w.current_word(&fence);
    let nine = w.wait_event(&fence, 9);
    w.driver.take();
    // A GPU that signals between each arming and the check that follows, below the value that is
    // armed then.
    let values = w.platform.mutex("values that come in between", vec![9, 5]);
    w.hooked.on(Entry::UpdateMonitoredValues, move || {
        let next = values.lock().pop();
        if let Some(value) = next {
            cell.store(value);
        }
    });
    let five = w.wait_event(&fence, 5);
    assert!(five.is_set() && nine.is_set());
    assert_eq!(w.armed(), [[4], [8], [u64::MAX]]);
}

// spec: NF-049
#[test]
fn arming_never_meets_the_interrupt_routine() {
    let w = world();
    let (inside, overlaps) = (w.platform.page(1).word(0), w.platform.page(1).word(0));
    for entry in [Entry::UpdateMonitoredValues, Entry::InterruptRoutine] {
        let (platform, inside, overlaps) = (w.platform.clone(), inside.clone(), overlaps.clone());
        w.hooked.on(entry, move || {
            if inside.fetch_add(1) != 0 {
                overlaps.fetch_add(1);
            }
            // Long enough for every other thread to make its call.
            platform.busy(5_000);
            inside.fetch_add(u64::MAX);
        });
    }
    let w = w.run(|w| {
        let fence = w.native(0);
        let queue = w.connected_queue(0);
        let (kernel, waits) = (w.kernel.clone(), fence.clone());
        let waiter = w.platform.spawn("waiter", move || {
            for value in 1..=40 {
                kernel.wait_from_cpu(&at(&waits, value), WaitMode::All, None).unwrap();
            }
        });
        for value in 1..=40 {
            let _far = w.wait_event(&fence, 1_000 - value);
            queue.signal(&fence, value);
            w.pass(777);
        }
        waiter.join();
    });
    assert!(w.stats().interrupts > 10);
    assert_eq!(overlaps.load(), 0);
}

// spec: NF-140
#[test]
fn cpu_updates_of_one_fence_reach_the_driver_one_by_one() {
    let w = world();
    let (inside, overlaps) = (w.platform.page(1).word(0), w.platform.page(1).word(0));
    let (platform, counted) = (w.platform.clone(), overlaps.clone());
    w.hooked.on(Entry::UpdateCurrentValuesFromCpu, move || {
        if inside.fetch_add(1) != 0 {
            counted.fetch_add(1);
        }
        platform.busy(5_000);
        inside.fetch_add(u64::MAX);
    });
    let w = w.run(|w| {
        let fence = w.native(0);
        let signallers = [1, 2, 3].map(|number| {
            let (kernel, fence) = (w.kernel.clone(), fence.clone());
            w.platform.spawn(format!("signaller {number}"), move || {
                for round in 0..10 {
                    let fences = at(&fence, 10 * round + number);
                    kernel.signal_from_cpu(&fences, SignalFlags::empty()).unwrap();
                }
            })
        });
        signallers.iter().for_each(|s| _ = s.join());
        let last = w.calls().current.last().unwrap().0.value;
        assert_eq!(fence.value.load(), last, "what was handed over last is what is there");
    });
    assert_eq!(overlaps.load(), 0);
    drop(w);
}

// spec: NF-141
#[test]
fn a_cpu_signal_stores_through_the_driver_then_releases_then_arms() {
    let w = world();
    let fence = w.native(0);
    let (one, two) = (w.wait_event(&fence, 1), w.wait_event(&fence, 2));
    let (seen, early) = (one.clone(), w.platform.page(1).word(0));
    let noted = early.clone();
    w.hooked.on(Entry::UpdateCurrentValuesFromCpu, move || noted.store(u64::from(seen.is_set())));
    let (seen, released) = (one.clone(), w.platform.page(1).word(0));
    let noted = released.clone();
    w.hooked.on(Entry::UpdateMonitoredValues, move || noted.store(u64::from(seen.is_set())));
    w.driver.take();
    w.signal(&fence, 1);
    let [
        DdiCall::UpdateCurrentValuesFromCpu { fences: current, mode },
        DdiCall::UpdateMonitoredValues { fences: monitored },
    ] = &*w.driver.take()
    else {
        panic!("CurrentValue changes, then MonitoredValue")
    };
    assert_eq!((current.len(), current[0].value, *mode), (1, 1, UpdateCurrentMode::Write));
    assert_eq!((monitored.len(), monitored[0].value), (1, 1));
    assert_eq!((early.load(), released.load()), (0, 1));
    assert!(!two.is_set());
}

// spec: NF-132, NF-133
#[test]
fn a_driver_takes_values_of_any_number_of_fences_at_once() {
    let w = inline_world();
    let fences: Vec<FenceInstance> = (0..100).map(|_| w.native(0)).collect();
    for fence in &fences {
        w.signal(fence, 1);
        w.wait_event(fence, 500);
    }
    let calls = w.calls();
    let monitored: Vec<UpdateMonitoredValue<'_>> = calls
        .monitored
        .iter()
        .zip(0..)
        .map(|(u, n)| UpdateMonitoredValue {
            fence: u.fence,
            value: 1_000 + n,
            monitored_value: &u.monitored_value,
        })
        .collect();
    let current: Vec<UpdateCurrentValue<'_>> = calls
        .current
        .iter()
        .zip(0..)
        .map(|(u, n)| UpdateCurrentValue {
            fence: u.0.fence,
            value: 2_000 + n,
            current_value: u.0.current_value.as_ref(),
        })
        .collect();
    assert_eq!((monitored.len(), current.len()), (100, 100));
    w.hooked.update_monitored_values(&Dirql::enter(&()), &monitored);
    w.hooked.update_current_values_from_cpu(&Dispatch::enter(), &current, UpdateCurrentMode::Write);
    for (number, (fence, update)) in (0..).zip(fences.iter().zip(&monitored)) {
        let values = [fence.value.load(), update.monitored_value.load()];
        assert_eq!(values, [2_000 + number, 1_000 + number]);
    }
    w.hooked.update_monitored_values(&Dirql::enter(&()), &[]);
    w.hooked.update_current_values_from_cpu(&Dispatch::enter(), &[], UpdateCurrentMode::Write);
    assert_eq!(w.machine.driver().violations(), []);
}

// spec: NF-032, NF-035, NF-038
#[test]
fn both_values_stand_in_system_memory_in_pages_of_the_kernel() {
    let w = world();
    let before = w.calls().pages.len();
    let fence = w.native(0);
    let pages = w.calls().pages.split_off(before);
    // CurrentValue's page and MonitoredValue's: made for fences, not for anything of the process.
    assert_eq!(pages.iter().map(|(_, writable)| *writable).collect::<Vec<_>>(), [true, false]);
    assert!(pages.iter().all(|(page, _)| *page < LOCAL_MEMORY), "{pages:?}");
    let second = w.native(0);
    assert_eq!(w.calls().pages.len(), before + 2, "the second fence stands in the same pages");
    assert_ne!(fence.current_value_gpu_va, second.current_value_gpu_va);
    let memory = w.hooked.start_info().system_memory;
    for (page, _) in pages {
        let word = memory.resolve(page).and_then(|target| target.word());
        assert!(word.is_some(), "a page of words in system memory");
    }
    let _armed = w.wait_event(&fence, 33);
    assert_eq!(w.calls().monitored.last().unwrap().monitored_value.load(), 32);
}

// spec: NF-042
#[test]
fn a_slot_is_free_only_after_the_driver_has_let_go_of_the_fence() {
    let w = Arc::new(world());
    let dying = w.native(0);
    let made = Arc::new(w.platform.mutex("made meanwhile", Vec::new()));
    let (inside, kept) = (Arc::downgrade(&w), made.clone());
    w.hooked.on(Entry::DestroyNativeFence, move || {
        if let Some(w) = inside.upgrade() {
            let fence = w.native(1);
            kept.lock().push(fence);
        }
    });
    w.kernel.destroy_synchronization_object(dying.handle).unwrap();
    let meanwhile = made.lock().pop().unwrap();
    assert_ne!(meanwhile.current_value_gpu_va, dying.current_value_gpu_va);
    let after = w.native(2);
    assert_eq!(after.current_value_gpu_va, dying.current_value_gpu_va, "now it is free");
    assert_eq!((meanwhile.value.load(), after.value.load()), (1, 2));
}

// spec: NF-083, NF-117
#[test]
fn each_side_is_named_by_the_handle_that_it_gave() {
    let w = world();
    let queue = w.hw_queue();
    let calls = w.calls();
    let (os_handle, global) = calls.fences[0];
    let (opened, local) = calls.instances[0];
    assert_eq!(opened.global, global, "Open names the fence by what Create returned");
    assert_ne!((os_handle.0, opened.os_handle), (global.0, os_handle));
    let (made, hw_queue) = calls.queues[0];
    assert_eq!(made.progress_fence, ProgressFence::Native(global), "made before, by Create");
    w.driver.take();
    w.kernel.destroy_hw_queue(queue.handle).unwrap();
    let [
        DdiCall::DestroyHwQueue { hw_queue: destroyed },
        DdiCall::CloseNativeFence { local: closed },
        DdiCall::DestroyNativeFence { global: ended },
    ] = &*w.driver.take()
    else {
        panic!("the queue, its instance, its fence")
    };
    assert_eq!((*destroyed, *closed, *ended), (hw_queue, local, global));
}

// spec: NF-115, NF-116
#[test]
fn the_progress_fence_of_a_hardware_queue_is_native_and_the_driver_gets_it() {
    let w = world();
    // The driver is queried once where storage may be, before the first fence. The first log
    // creates the system process's address space.
    w.native(0);
    w.try_hw_queue(2, true).unwrap();
    for user_mode_submission in [false, true] {
        w.driver.take();
        let queue = w.try_hw_queue(2, user_mode_submission).unwrap();
        assert!(queue.native_progress_fence);
        let names = w.driver.take_names();
        assert_eq!(
            names[..4],
            ["CreateContext", "CreateNativeFence", "OpenNativeFence", "CreateHwQueue"]
        );
        let (made, _) = *w.calls().queues.last().unwrap();
        assert!(matches!(made.progress_fence, ProgressFence::Native(_)));
        assert_eq!(made.progress_current_gpu_va, queue.progress_gpu_va);
    }
}

// spec: NF-084
#[test]
fn an_open_that_fails_undoes_the_creation() {
    let w = world();
    // The driver is queried once where storage may be, before the first fence.
    w.native(0);
    w.driver.take();
    w.hooked.fail_next(Entry::OpenNativeFence, Status::NO_MEMORY);
    let refused = || w.native_with(|_| ()).err();
    assert_eq!(refused(), Some(Status::NO_MEMORY));
    let undone = ["CreateNativeFence", "OpenNativeFence", "DestroyNativeFence"];
    assert_eq!(w.driver.take_names(), undone);
    let (first, second) = (w.native(0), w.native(0));
    assert_eq!(second.current_value_gpu_va - first.current_value_gpu_va, 64, "the slot came back");
    w.hooked.fail_next(Entry::CreateNativeFence, Status::NO_MEMORY);
    w.driver.take();
    assert_eq!(refused(), Some(Status::NO_MEMORY));
    assert_eq!(w.driver.take_names(), ["CreateNativeFence"]);
}

// spec: NF-093, NF-090, MF-051
#[test]
fn destroying_closes_the_instance_and_then_the_fence_once() {
    let w = world();
    let (native, monitored) = (w.native(0), w.monitored(0));
    w.driver.take();
    for fence in [native.handle, monitored.handle] {
        assert_eq!(w.kernel.destroy_synchronization_object(fence), Ok(()));
        assert_eq!(w.kernel.destroy_synchronization_object(fence), Err(Status::INVALID_PARAMETER));
        let target = [FenceValue { fence, value: 1 }];
        let signal = w.kernel.signal_from_cpu(&target, SignalFlags::empty());
        assert_eq!(signal, Err(Status::INVALID_PARAMETER));
    }
    assert_eq!(w.driver.take_names(), ["CloseNativeFence", "DestroyNativeFence"]);
    // What is left goes with the device, each fence once.
    let _left: Vec<FenceInstance> = (0..3).map(|_| w.native(0)).collect();
    w.driver.take();
    w.kernel.destroy_device(w.device).unwrap();
    let mut names = w.driver.take_names();
    assert_eq!(names.pop(), Some("DestroyDevice"));
    assert_eq!(names, ["CloseNativeFence", "DestroyNativeFence"].repeat(3));
    assert_eq!(w.machine.driver().violations(), []);
}

#[test]
fn destroying_a_fence_frees_the_queue_that_waits_for_it_and_costs_no_device() {
    world().run(|w| {
        let queue = w.hw_queue();
        let (gate, after) = (w.native(0), w.native(0));
        w.on_queue(&queue).wait(&gate, 5);
        let destination = GpuVa(w.bytes(64).1);
        w.submit(&queue, 1, &[Command::Fill { destination, bytes: 64, value: 1 }]);
        w.on_queue(&queue).signal(&after, 1);
        let event = w.wait_event(&gate, 7);
        w.pass(1_000);
        assert!(!event.is_set() && after.value.load() == 0);
        w.kernel.destroy_synchronization_object(gate.handle).unwrap();
        w.wait(after.handle, 1).unwrap();
        assert!(event.is_set());
        assert_eq!(w.state(), Ok(DeviceState::Active));
    });
}
