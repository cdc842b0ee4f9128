//! The kernel through its call surface, with the reference driver and the software GPU behind it:
//! what the documents promise of fences, their interrupts, and the calls of a driver.

use tidegate_testbed::prelude::*;

const INVALID: Result<(), Status> = Err(Status::INVALID_PARAMETER);

// spec: NF-014, NF-015, NF-022, NF-037
#[test]
fn monitored_value_follows_the_smallest_waiter() {
    let w = world();
    let fence = w.native(41);
    w.driver.take();
    let (second, first) = (w.wait_event(&fence, 50), w.wait_event(&fence, 42));
    assert_eq!(w.armed(), [[49], [41]]);
    w.signal(&fence, 42);
    assert!(first.is_set() && !second.is_set());
    assert_eq!(w.armed(), [[49]]);
    w.signal(&fence, 60);
    assert!(second.is_set());
    assert_eq!(w.armed(), [[u64::MAX]]);
}

// spec: NF-008, NF-023
#[test]
fn a_wait_that_is_satisfied_never_arms() {
    let w = world();
    let fence = w.native(41);
    w.driver.take();
    for value in [0, 1, 41] {
        assert!(w.wait_event(&fence, value).is_set());
    }
    assert_eq!(w.armed(), Vec::<Vec<u64>>::new());
    assert!(!w.wait_event(&fence, 42).is_set());
    assert_eq!(w.armed(), [[41]]);
}

// spec: NF-024
#[test]
fn a_wait_for_the_maximum_differs_from_no_waiter() {
    let w = world();
    let fence = w.native(0);
    w.driver.take();
    let event = w.wait_event(&fence, u64::MAX);
    assert_eq!(w.armed(), [[u64::MAX - 1]]);
    w.signal(&fence, u64::MAX - 1);
    assert!(!event.is_set());
    w.signal(&fence, u64::MAX);
    assert!(event.is_set());
}

// spec: NF-085, NF-086, NF-089, NF-090
#[test]
fn a_fence_is_created_opened_closed_destroyed_in_this_order() {
    let w = world();
    // The driver is queried once where storage may be, before the first fence.
    w.native(0);
    w.driver.take();
    let fence = w.native(3);
    assert_eq!(w.driver.take_names(), ["CreateNativeFence", "OpenNativeFence"]);
    assert_eq!((fence.value.load(), fence.native), (3, true));
    w.kernel.destroy_synchronization_object(fence.handle).unwrap();
    assert_eq!(w.driver.take_names(), ["CloseNativeFence", "DestroyNativeFence"]);
    assert_eq!(w.kernel.destroy_synchronization_object(fence.handle), INVALID);
    assert_eq!(w.driver.take_names(), Vec::<&str>::new());
}

// spec: NF-107
#[test]
fn destroying_a_fence_releases_its_waiters() {
    let w = world();
    let (fence, event) = w.native_awaited(5);
    w.kernel.destroy_synchronization_object(fence.handle).unwrap();
    assert!(event.is_set());
}

// spec: NF-025, NF-026, NF-027
#[test]
fn private_fences_are_packed_by_the_stride_with_their_two_cells_apart() {
    let w = world();
    let fences: Vec<_> = (0..3).map(|_| w.native(0)).collect();
    for pair in fences.windows(2) {
        assert_eq!(pair[1].current_value_gpu_va - pair[0].current_value_gpu_va, 64);
        assert_eq!(pair[1].monitored_value_gpu_va - pair[0].monitored_value_gpu_va, 64);
    }
    let apart = fences[0].monitored_value_gpu_va.abs_diff(fences[0].current_value_gpu_va);
    assert!(apart >= 4096, "one page holds only one kind of cell");
}

// spec: MF-035, MF-036, MF-041
#[test]
fn a_cpu_signal_is_visible_at_once_and_releases_satisfied_waiters() {
    let w = world();
    let fence = w.monitored(0);
    let (five, six) = (w.wait_event(&fence, 5), w.wait_event(&fence, 6));
    w.signal(&fence, 5);
    assert_eq!(fence.value.load(), 5);
    assert!(five.is_set() && !six.is_set());
    w.signal(&fence, 100);
    assert!(six.is_set());
    w.signal(&fence, 3);
    assert_eq!(fence.value.load(), 3, "a value that falls is stored as well");
}

// spec: MF-042, MF-043, ME-042
#[test]
fn all_latches_each_and_any_takes_the_others_back() {
    let w = world();
    let (a, b) = (w.native(0), w.native(0));
    let wanted = [at(&a, 1)[0], at(&b, 1)[0]];
    let (all, any) = (w.platform.event(true), w.platform.event(true));
    w.kernel.wait_from_cpu(&wanted, WaitMode::All, Some(all.clone())).unwrap();
    w.kernel.wait_from_cpu(&wanted, WaitMode::Any, Some(any.clone())).unwrap();
    w.signal(&a, 1);
    assert!(any.is_set() && !all.is_set());
    w.signal(&a, 0);
    w.signal(&b, 1);
    assert!(all.is_set(), "a condition that came true stays true over a rewind");
    w.driver.take();
    w.wait_event(&a, 1);
    assert_eq!(w.armed(), [[0]], "the rewound fence is waited for anew");
}

// spec: MF-044
#[test]
fn an_instance_that_must_not_wait_or_signal_is_refused() {
    let w = world();
    let make = |flags| w.try_monitored(0, flags);
    let no_wait = make(SyncObjectFlags::NO_WAIT).unwrap();
    let no_signal = make(SyncObjectFlags::NO_SIGNAL).unwrap();
    assert_eq!(w.wait(no_wait.handle, 1), Err(Status::ACCESS_DENIED));
    assert_eq!(w.try_signal(&no_signal, 1), Err(Status::ACCESS_DENIED));
    let both = SyncObjectFlags::NO_WAIT | SyncObjectFlags::NO_SIGNAL;
    for refused in [both, SyncObjectFlags::NT_SECURITY_SHARING] {
        assert_eq!(make(refused).err(), Some(Status::INVALID_PARAMETER));
    }
}

// spec: UMS-016, UMS-017
#[test]
fn kernel_submission_to_a_user_mode_queue_is_refused() {
    let w = world();
    let (hw_queue, fence) = (w.try_hw_queue(0, true).unwrap().handle, w.native(0));
    let command = SubmitCommandToHwQueue {
        hw_queue,
        progress_fence_id: 1,
        commands_gpu_va: 0x1000,
        command_bytes: 8,
    };
    let refused = [
        w.kernel.submit_command_to_hw_queue(command),
        w.kernel.submit_wait_to_hw_queue(hw_queue, &at(&fence, 1)),
        w.kernel.submit_signal_to_hw_queue(hw_queue, &at(&fence, 1)),
    ];
    assert_eq!(refused, [INVALID; 3]);
}

// spec: NF-172, NF-173, NF-176
#[test]
fn user_mode_queues_get_two_logs_and_kernel_mode_queues_none() {
    let w = world();
    let kernel_mode = w.hw_queue();
    let logs = |w: &World| {
        let log = |call| match call {
            DdiCall::SetNativeFenceLogBuffer { args } => {
                Some((args.log_type, args.number_of_entries))
            }
            _ => None,
        };
        w.driver.take().into_iter().filter_map(log).collect::<Vec<_>>()
    };
    assert_eq!(logs(&w), []);
    let detail = w.kernel.native_fence_log_detail(kernel_mode.handle).unwrap();
    assert_eq!((detail.wait_entries, detail.signal_entries), (0, 0));
    let user_mode = w.try_hw_queue(0, true).unwrap();
    assert_eq!(logs(&w), [(LogType::Waits, 84), (LogType::Signals, 84)]);
    let detail = w.kernel.native_fence_log_detail(user_mode.handle).unwrap();
    assert_eq!((detail.wait_entries, detail.signal_entries), (84, 84));
}

// spec: MF-030, MF-031, MF-032
#[test]
fn a_queued_wait_returns_at_once_and_holds_what_comes_after() {
    let w = world();
    let (context, gate, after) = (w.context(0), w.monitored(0), w.monitored(0));
    w.on(context).wait(&gate, 1).signal(&after, 9);
    assert_eq!(after.value.load(), 0);
    w.signal(&gate, 1);
    assert_eq!(after.value.load(), 9);
}

// spec: ME-043
#[test]
fn a_queued_wait_latches_while_it_stands_behind_a_blocked_head() {
    let w = world();
    let queue = w.hw_queue();
    let (first, pulse, after) = (w.native(0), w.native(0), w.native(0));
    w.on_queue(&queue).wait(&first, 1).wait(&pulse, 5).signal(&after, 1);
    w.signal(&pulse, 5);
    w.signal(&pulse, 0);
    assert_eq!(after.value.load(), 0);
    w.signal(&first, 1);
    assert_eq!(after.value.load(), 1, "the pulse was seen although the head was blocked");
}

#[test]
fn hostile_handles_and_numbers_change_nothing() {
    let w = world();
    for handle in [0, 1, 0x40, u32::MAX, w.device.0 + 0x40, w.device.0 | 1] {
        let handle = Handle(handle);
        let refused = [
            w.kernel.destroy_synchronization_object(handle),
            w.wait(handle, 1),
            w.kernel.connect_doorbell(handle).map(drop),
            w.kernel.destroy_hw_queue(handle),
        ];
        assert_eq!(refused, [INVALID; 4], "{handle:?}");
    }
    assert_eq!(w.kernel.wait_from_cpu(&[], WaitMode::All, None), INVALID);
    assert_eq!(w.try_hw_context(99).map(drop), INVALID);
    assert_eq!(w.adapter().bug_checks(), []);
}

#[test]
fn a_wait_that_is_never_met_is_named_when_the_machine_stands_still() {
    let w = world();
    let fence = w.native(2);
    let (_, report) = w.run_to_report(move |w| {
        assert_eq!(w.wait(fence.handle, 7), Err(Status::CANCELLED));
    });
    let waits = "fence 'f' to reach 7 (it is at 2)".to_owned();
    assert_eq!(report.blocked, [("main".to_owned(), waits)]);
}
