//! The signalled interrupt: which fences the kernel reads, when it releases waiters, and what it
//! does about a driver that names an absent object.

use tidegate_testbed::prelude::*;

/// A fence whose value a GPU has raised to 5 without an interrupt, with a waiter for 5.
struct Raised {
    fence: FenceInstance,
    os_handle: OsHandle,
    event: Event,
}

impl Raised {
    fn native(w: &World) -> Raised {
        let fence = w.native(0);
        let os_handle = w.last_os_handle();
        let (cell, event) = (w.current_word(&fence), w.wait_event(&fence, 5));
        cell.store(5);
        Raised { fence, os_handle, event }
    }

    fn released(&self) -> bool {
        self.event.is_set()
    }
}

/// A monitored fence that a GPU has raised to 5, with a waiter for 5. To be made in a run.
fn raised_monitored(w: &World) -> (FenceInstance, Event) {
    let (fence, queue) = (w.monitored(0), w.hw_queue_on(2));
    let event = w.wait_event(&fence, 5);
    w.on_queue(&queue).run(1, &[store(fence.current_value_gpu_va, 5)]).complete();
    assert!(!event.is_set() && fence.value.load() == 5, "there was no interrupt yet");
    (fence, event)
}

// spec: NF-219
#[test]
fn an_array_names_the_fences_that_are_read() {
    let w = inline_world();
    let [first, second, third] = [(); 3].map(|()| Raised::native(&w));
    w.hooked.interrupt(signalled(&[first.os_handle, third.os_handle, first.os_handle]));
    assert!(first.released() && third.released());
    assert!(!second.released(), "its fence was not named");
    // A name by itself releases no waiter: CurrentValue decides.
    let late = w.wait_event(&first.fence, 6);
    w.hooked.interrupt(signalled(&[first.os_handle]));
    assert!(!late.is_set());
    assert_eq!(w.adapter().bug_checks(), []);
}

// spec: NF-120
#[test]
fn fences_of_two_processes_at_one_address_are_both_reported() {
    // The routine begins long after both signals, so both are in the hardware's list by then.
    let costs = StepCosts::free().with(Step::InterruptDelivery, 10_000);
    setup(|_| ()).costs(costs).start().run(|w| {
        let other = w.client("other");
        let fences = [w.native(0), other.native(0)];
        let [place, other_place] = fences.each_ref().map(|fence| fence.current_value_gpu_va);
        assert_eq!(place, other_place, "each process has its fence at the same address");
        let queues = [w.connected_queue(0), other.connected_queue(1)];
        let events = [w.wait_event(&fences[0], 1), other.wait_event(&fences[1], 1)];
        for (queue, fence) in queues.iter().zip(&fences) {
            queue.push(&signal_packet(fence, 1, 0));
        }
        w.pass(100_000);
        assert_eq!(w.stats().interrupts, 1, "one interrupt for both");
        assert!(events.iter().all(Event::is_set), "both waiters are released");
    });
}

// spec: NF-125
#[test]
fn without_an_array_every_native_fence_with_waiters_is_read() {
    let w = inline_world();
    let raised = [(); 5].map(|()| Raised::native(&w));
    let lonely = w.native(0);
    let reads = w.stats().fence_reads;
    w.hooked.interrupt(native_signalled(None, false));
    assert!(raised.iter().all(Raised::released));
    assert_eq!(w.stats().fence_reads - reads, 5, "not the fence without a waiter");
    drop(lonely);
}

// spec: NF-127, NF-128, MF-026, NF-234
#[test]
fn monitored_fences_are_scanned_when_the_interrupt_says_so() {
    for (data, released) in [
        (native_signalled(None, false), false),
        (native_signalled(Some(Vec::new()), false), false),
        (native_signalled(None, true), true),
        (native_signalled(Some(Vec::new()), true), true),
        (InterruptData::MonitoredFenceSignaled { engine: EngineId::of_node(0) }, true),
    ] {
        inline_world().run(move |w| {
            let native = Raised::native(w);
            let (_fence, event) = raised_monitored(w);
            w.hooked.interrupt(data.clone());
            assert_eq!(event.is_set(), released, "{data:?}");
            // An array that names nothing is as good as none.
            let scans_native = matches!(data, InterruptData::NativeFenceSignaled { .. });
            assert_eq!(native.released(), scans_native, "{data:?}");
        });
    }
}

// spec: NF-022
#[test]
fn after_a_release_monitored_value_goes_to_the_next_waiter() {
    let w = inline_world();
    let raised = Raised::native(&w);
    let _later = w.wait_event(&raised.fence, 9);
    w.driver.take();
    w.hooked.interrupt(signalled(&[raised.os_handle]));
    assert!(raised.released());
    assert_eq!(w.armed(), [[8]]);
    w.signal(&raised.fence, 9);
    assert_eq!(w.armed(), [[u64::MAX]]);
}

// spec: NF-130, NF-131
#[test]
fn waiters_are_released_in_the_deferred_part_by_what_the_notification_said() {
    let w = inline_world();
    let (kept, gone) = (Raised::native(&w), Raised::native(&w));
    w.hooked.raise(&[signalled(&[kept.os_handle]), signalled(&[gone.os_handle])]);
    assert!(!kept.released(), "the interrupt routine only notifies");
    // What was reported is the kernel's own by now: a fence that goes meanwhile was reported
    // rightly.
    w.kernel.destroy_synchronization_object(gone.fence.handle).unwrap();
    w.hooked.turn_ended();
    assert!(kept.released());
    assert_eq!(w.adapter().bug_checks(), []);
}

// spec: NF-053
#[test]
fn an_interrupt_that_releases_no_waiter_is_harmless() {
    let w = inline_world();
    let fence = w.native(7);
    let (os_handle, waiting) = (w.last_os_handle(), w.wait_event(&fence, 9));
    w.driver.take();
    let before = w.stats();
    for _ in 0..3 {
        w.hooked.interrupt(signalled(&[os_handle]));
        w.hooked.interrupt(signalled(&[]));
        w.hooked.interrupt(native_signalled(None, true));
        w.hooked.interrupt(InterruptData::MonitoredFenceSignaled { engine: EngineId::of_node(1) });
        w.hooked.turn_ended();
    }
    assert!(!waiting.is_set());
    let stats = w.stats();
    assert_eq!(stats.fence_interrupts - before.fence_interrupts, 12);
    assert_eq!(stats.spurious_fence_interrupts - before.spurious_fence_interrupts, 12);
    assert_eq!((fence.value.load(), w.armed()), (7, Vec::new()));
    assert_eq!(w.adapter().bug_checks(), []);
    w.signal(&fence, 9);
    assert!(waiting.is_set());
}

// spec: NF-122, NF-123
#[test]
fn a_fence_that_is_gone_or_never_was_is_a_bug_check() {
    for destroyed in [true, false] {
        let w = inline_world();
        // A device is in error only when there is one that works on the adapter.
        let (_queue, bystander) = (w.hw_queue(), Raised::native(&w));
        let named = match destroyed {
            true => {
                let fence = w.native(0);
                let os_handle = w.last_os_handle();
                w.kernel.destroy_synchronization_object(fence.handle).unwrap();
                os_handle
            }
            false => OsHandle(0xDEAD_BEEF),
        };
        w.hooked.interrupt(signalled(&[bystander.os_handle, named]));
        assert_eq!(w.adapter().bug_checks(), [BugCheck::UnknownFence(named.0)]);
        w.let_agents_work(1_000);
        assert!(bystander.released(), "every waiter is released");
        assert_eq!(w.try_signal(&bystander.fence, 6), Err(Status::DEVICE_REMOVED));
    }
}

#[test]
fn packets_and_queues_that_are_not_there_are_bug_checks() {
    let (gpu_va, what) = (0x10, "a planted fault");
    let fault = PageFault { gpu_va, what, ..PageFault::default() };
    let (node_ordinal, hw_queue) = (1, OsHandle(0xDEAD_BEEF));
    let cases = [
        (
            InterruptData::DmaCompleted {
                engine: EngineId::of_node(node_ordinal),
                submission_fence_id: 7,
            },
            BugCheck::UnknownPacket { node: 1, adapter: 0, fence_id: 7 },
        ),
        (
            InterruptData::DmaPageFaulted {
                engine: EngineId::of_node(node_ordinal),
                faulted_fence_id: 3,
                fault,
            },
            BugCheck::UnknownPacket { node: 1, adapter: 0, fence_id: 3 },
        ),
        (
            InterruptData::HwQueuePageFaulted {
                engine: EngineId::of_node(node_ordinal),
                faulted: hw_queue,
                faulted_fence_id: 0,
                slot: 0,
                fault,
            },
            BugCheck::UnknownQueue(hw_queue.0),
        ),
        (hw_queue_signalled(3, None), BugCheck::UnknownNode(3)),
    ];
    for (data, bug) in cases {
        let w = inline_world();
        w.hooked.interrupt(data);
        assert_eq!(w.adapter().bug_checks(), [bug]);
    }
}

// spec: NF-006, NF-126
#[test]
fn a_gpu_interrupts_only_for_a_value_with_a_cpu_waiter() {
    world().run(|w| {
        let (fence, queue) = (w.native(0), w.connected_queue(0));
        for value in 1..=50 {
            queue.signal(&fence, value);
        }
        w.pass(1_000_000);
        assert_eq!((fence.value.load(), w.stats().interrupts), (50, 0));
        let event = w.wait_event(&fence, 60);
        for value in 51..=60 {
            queue.signal(&fence, value);
        }
        w.pass(1_000_000);
        assert!(event.is_set());
        assert_eq!(w.stats().interrupts, 1);
    });
}

// spec: PRE-054, PRE-120
#[test]
fn a_bug_check_stops_the_adapter_with_a_typed_error() {
    let w = inline_world();
    // A device with nothing on it but a fence, and one of another process.
    let fence = w.native(0);
    let other = w.client("other");
    w.hooked.interrupt(signalled(&[OsHandle(0xDEAD_BEEF)]));
    let [bug] = &w.adapter().bug_checks()[..] else { panic!("one contract was broken") };
    assert!(bug.to_string().contains("0xdeadbeef"), "{bug}");
    assert_eq!(w.state(), Ok(DeviceState::Stopped));
    assert_eq!(other.state(), Ok(DeviceState::Stopped));
    w.let_agents_work(1_000);
    assert_eq!(fence.value.load(), u64::MAX);
    assert_eq!(w.kernel.create_device(), Err(Status::DEVICE_REMOVED));
    // No process opens the adapter any more.
    assert_eq!(w.adapter().open("late").err(), Some(Status::DEVICE_REMOVED));
    assert_eq!(w.adapter().open_privileged("late").err(), Some(Status::DEVICE_REMOVED));
    // The process goes on, and ends what it has.
    w.kernel.destroy_device(w.device).unwrap();
    drop(other);
}
