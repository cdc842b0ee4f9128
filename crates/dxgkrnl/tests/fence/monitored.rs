//! Monitored fences through the kernel's calls: creation, signals and waits of CPU and GPU,
//! destruction, and the loss of a device.

use std::ops::Deref;
use tidegate_testbed::prelude::*;

/// Work that keeps an engine for a while.
const LONG: Command = Command::Timed { ns: 1_000_000 };

fn wait_from_gpu(w: &World, context: Handle, fences: &[FenceValue]) {
    w.kernel.wait_from_gpu(context, fences).unwrap();
}

// spec: MF-001
#[test]
fn cpu_and_gpu_wait_for_what_cpu_or_gpu_signals() {
    world().run(|w| {
        let (first, second) = (w.context(0), w.context(1));
        for gpu_signals in [false, true] {
            let (fence, after) = (w.monitored(0), w.monitored(0));
            let event = w.wait_event(&fence, 3);
            w.on(first).wait(&fence, 3).signal(&after, 1);
            w.pass(1_000);
            assert!(!event.is_set() && after.value.load() == 0);
            match gpu_signals {
                true => {
                    w.on(second).signal(&fence, 3);
                }
                false => w.signal(&fence, 3),
            }
            w.wait(after.handle, 1).unwrap();
            assert!(event.is_set());
        }
    });
}

// spec: MF-005, MF-016
#[test]
fn the_flags_of_creation_govern_what_an_instance_may_do() {
    let w = world();
    let make = |flags| {
        let monitored = w.try_monitored(0, flags);
        let native = w.try_native(0, flags);
        assert_eq!(monitored.as_ref().err(), native.as_ref().err(), "{flags:?}");
        monitored.and_then(|m| native.map(|n| [m, n]))
    };
    let (no_signal, no_wait) = (SyncObjectFlags::NO_SIGNAL, SyncObjectFlags::NO_WAIT);
    for contradiction in [
        no_signal | no_wait,
        SyncObjectFlags::NT_SECURITY_SHARING,
        SyncObjectFlags::NT_SECURITY_SHARING | no_wait,
    ] {
        assert_eq!(make(contradiction).err(), Some(Status::INVALID_PARAMETER), "{contradiction:?}");
    }
    let (queue, context) = (w.hw_queue(), w.context(0));
    for (flags, waits, signals) in [
        (SyncObjectFlags::empty(), Ok(()), Ok(())),
        (no_wait, Err(Status::ACCESS_DENIED), Ok(())),
        (no_signal, Ok(()), Err(Status::ACCESS_DENIED)),
    ] {
        for fence in make(flags).unwrap() {
            let (one, event) = (at(&fence, 1), w.platform.event(true));
            assert_eq!(w.kernel.wait_from_cpu(&one, WaitMode::All, Some(event)), waits);
            assert_eq!(w.kernel.wait_from_gpu(context, &one), waits);
            assert_eq!(w.kernel.submit_wait_to_hw_queue(queue.handle, &one), waits);
            assert_eq!(w.kernel.signal_from_cpu(&one, SignalFlags::empty()), signals);
            assert_eq!(w.kernel.signal_from_gpu(context, &one), signals);
            assert_eq!(w.kernel.submit_signal_to_hw_queue(queue.handle, &one), signals);
        }
    }
}

// spec: MF-006
#[test]
fn a_fence_is_named_by_the_handle_that_creation_returned() {
    let w = world();
    let (first, second) = (w.monitored(0), w.monitored(0));
    assert_ne!(first.handle, second.handle);
    w.signal(&second, 2);
    assert_eq!((first.value.load(), second.value.load()), (0, 2));
    for device in [Handle(0), Handle(u32::MAX), first.handle] {
        let stranger = Client { device, ..w.deref().clone() };
        let refused = stranger.try_monitored(0, SyncObjectFlags::empty());
        assert_eq!(refused.err(), Some(Status::INVALID_PARAMETER));
    }
}

// spec: MF-012, MF-025
#[test]
fn a_store_by_the_gpu_releases_waiters_when_its_command_buffer_completes() {
    world().run(|w| {
        let (fence, gate, after) = (w.monitored(0), w.monitored(0), w.monitored(0));
        let (engine, waiting) = (w.context(0), w.context(1));
        let event = w.wait_event(&fence, 7);
        wait_from_gpu(w, waiting, &[at(&fence, 7)[0], at(&gate, 1)[0]]);
        w.on(waiting).signal(&after, 1);
        w.submit_packet(engine, &[store(fence.current_value_gpu_va, 7), LONG]);
        w.pass(1_000);
        let stored = (fence.value.load(), event.is_set());
        assert_eq!(stored, (7, false), "stored, and the buffer still runs");
        w.pass(2_000_000);
        assert!(event.is_set());
        assert_eq!(after.value.load(), 0, "a wait for two fences is met when both are");
        w.submit_packet(engine, &[store(gate.current_value_gpu_va, 1)]);
        w.wait(after.handle, 1).unwrap();
    });
}

// spec: MF-023
#[test]
fn a_software_signal_comes_after_all_earlier_work_of_its_context() {
    world().run(|w| {
        let (early, late) = (w.monitored(0), w.monitored(0));
        let context = w.context(0);
        w.on(context).signal(&early, 1);
        assert_eq!(early.value.load(), 1, "nothing is before it");
        for _ in 0..5 {
            w.submit_packet(context, &[LONG]);
        }
        w.on(context).signal(&late, 1);
        w.submit_packet(context, &[store(early.current_value_gpu_va, 2)]);
        w.pass(4_900_000);
        assert_eq!((late.value.load(), early.value.load()), (0, 1));
        w.wait(late.handle, 1).unwrap();
        assert!(w.platform.now().0 >= 5_000_000);
        w.pass(1_000);
        assert_eq!(early.value.load(), 2);
    });
}

// spec: MF-033
#[test]
fn a_gpu_wait_for_several_fences_needs_every_one() {
    let w = world();
    let (context, queue) = (w.context(0), w.hw_queue());
    let (a, b, c) = (w.monitored(0), w.native(0), w.monitored(3));
    let wanted = [at(&a, 1)[0], at(&b, 2)[0], at(&c, 3)[0]];
    let (packets, hardware) = (w.monitored(0), w.monitored(0));
    wait_from_gpu(&w, context, &wanted);
    w.on(context).signal(&packets, 1);
    w.kernel.submit_wait_to_hw_queue(queue.handle, &wanted).unwrap();
    w.on_queue(&queue).signal(&hardware, 1);
    let done = || (packets.value.load(), hardware.value.load());
    w.signal(&b, 2);
    assert_eq!(done(), (0, 0));
    // Each latches by itself.
    w.signal(&b, 0);
    w.signal(&c, 0);
    assert_eq!(done(), (0, 0));
    w.signal(&a, 1);
    assert_eq!(done(), (1, 1));
}

// spec: MF-034
#[test]
fn a_wait_that_is_never_met_parks_its_context_and_nothing_else() {
    world().run(|w| {
        let (never, mine, others) = (w.monitored(0), w.monitored(0), w.monitored(0));
        let (parked, running) = (w.context(0), w.context(0));
        w.on(parked).wait(&never, 1).signal(&mine, 1);
        w.submit_packet(running, &[LONG]);
        w.on(running).signal(&others, 1);
        w.wait(others.handle, 1).unwrap();
        // An hour is no time-out.
        w.pass(3_600_000_000_000);
        assert_eq!((mine.value.load(), w.state()), (0, Ok(DeviceState::Active)));
        w.signal(&never, 1);
        assert_eq!(mine.value.load(), 1);
    });
}

// spec: MF-036
#[test]
fn a_cpu_signal_releases_cpu_and_gpu_waiters_that_it_satisfies() {
    world().run(|w| {
        let fence = w.native(0);
        let done: Vec<_> = (0..6).map(|_| w.native(0)).collect();
        let user = [w.connected_queue(0), w.connected_queue(1)];
        let kernel_mode = [w.hw_queue_on(0), w.hw_queue_on(1)];
        let packets = [w.context(0), w.context(1)];
        for (index, value) in [(0, 5), (1, 6)] {
            user[index].wait(&fence, value).signal(&done[index], 1);
            let queue = kernel_mode[index].handle;
            w.kernel.submit_wait_to_hw_queue(queue, &at(&fence, value)).unwrap();
            w.kernel.submit_signal_to_hw_queue(queue, &at(&done[2 + index], 1)).unwrap();
            w.on(packets[index]).wait(&fence, value).signal(&done[4 + index], 1);
        }
        let events = [w.wait_event(&fence, 5), w.wait_event(&fence, 6)];
        w.pass(10_000);
        let values = || done.iter().map(|f| f.value.load()).collect::<Vec<_>>();
        assert_eq!(values(), [0; 6]);
        w.signal(&fence, 5);
        w.pass(10_000);
        assert_eq!((values(), events[1].is_set()), (vec![1, 0, 1, 0, 1, 0], false));
        assert!(events[0].is_set());
        w.signal(&fence, 9);
        w.pass(10_000);
        assert_eq!((values(), events[1].is_set()), (vec![1; 6], true));
    });
}

// spec: MF-050
#[test]
fn a_wait_ends_well_when_its_fence_is_destroyed() {
    world().run(|w| {
        for fence in [w.monitored(0), w.native(0)] {
            let event = w.wait_event(&fence, 5);
            let (client, handle) = (w.deref().clone(), fence.handle);
            let waiter = w.platform.spawn("waiter", move || client.wait(handle, 5).unwrap());
            w.pass(1_000);
            w.kernel.destroy_synchronization_object(fence.handle).unwrap();
            assert_eq!(waiter.join(), WaitEnd::Woken);
            assert!(event.is_set());
        }
    });
}

/// A machine's device whose GPU work has faulted.
pub(crate) fn lose(w: &World) {
    let queue = w.hw_queue();
    w.submit(&queue, 1, &[fill(0x10, 4, 0)]);
    w.pass(100_000);
    assert!(matches!(w.state(), Ok(DeviceState::Faulted(_))));
}

// spec: MF-048, MF-050
#[test]
fn the_fences_of_a_lost_device_go_to_their_maximum_and_release_their_waiters() {
    world().run(|w| {
        let kept = w.try_monitored(3, SyncObjectFlags::NO_SIGNAL_MAX_VALUE_ON_TDR).unwrap();
        let fences = [w.monitored(0), w.native(0)];
        let kept_event = w.wait_event(&kept, 5);
        let waits = fences.each_ref().map(|fence| {
            let (client, handle) = (w.deref().clone(), fence.handle);
            let blocked = w.platform.spawn("waiter", move || {
                assert_eq!(client.wait(handle, 5), Err(Status::DEVICE_REMOVED));
            });
            (blocked, w.wait_event(fence, u64::MAX))
        });
        let elsewhere = w.another_device().monitored(1);
        w.pass(1_000);
        lose(w);
        for (fence, (blocked, event)) in fences.iter().zip(&waits) {
            assert_eq!(blocked.join(), WaitEnd::Woken);
            assert_eq!((fence.value.load(), event.is_set()), (u64::MAX, true));
        }
        assert_eq!((kept.value.load(), kept_event.is_set()), (3, false));
        assert_eq!(elsewhere.value.load(), 1, "another device's fence is not concerned");
        w.signal(&elsewhere, 2);
    });
}

// spec: MF-048
#[test]
fn a_signal_of_a_fence_of_a_lost_device_stores_nothing_and_is_no_rewind() {
    const SHARED: SyncObjectFlags =
        SyncObjectFlags::SHARED.union(SyncObjectFlags::NT_SECURITY_SHARING);
    for strict in [false, true] {
        world_with(|config| config.kernel.strict_fence_rewind = strict).run(|w| {
            let other = w.another_device();
            let made = [w.try_monitored(0, SHARED).unwrap(), w.try_native(0, SHARED).unwrap()];
            let opened = made.each_ref().map(|fence| other.open_fence(&w.share_all(fence)));
            lose(w);
            for fence in &opened {
                let signalled = other.kernel.signal_from_cpu(&at(fence, 7), SignalFlags::empty());
                assert_eq!((signalled, fence.value.load()), (Ok(()), u64::MAX));
            }
            assert_eq!(w.adapter().fence_rewinds(), []);
        });
    }
}

// spec: MF-049
#[test]
fn calls_on_a_lost_device_say_so() {
    world().run(|w| {
        let (fence, native, context, queue) =
            (w.monitored(0), w.native(0), w.context(0), w.hw_queue());
        let hw_context = w.hw_context(0);
        let (commands_gpu_va, command_bytes) = w.commands(&[LONG]);
        let user = w.connected_queue(1);
        lose(w);
        let (one, two) = (at(&fence, 1), at(&native, 1));
        let (k, event) = (&w.kernel, w.platform.event(true));
        let outcomes = [
            k.wait_from_cpu(&one, WaitMode::All, None),
            k.wait_from_cpu(&two, WaitMode::Any, Some(event)),
            k.signal_from_cpu(&one, SignalFlags::empty()),
            k.wait_from_gpu(context, &one),
            k.signal_from_gpu(context, &one),
            k.submit_wait_to_hw_queue(queue.handle, &one),
            k.submit_signal_to_hw_queue(queue.handle, &one),
            k.submit_command(SubmitCommand { context, commands_gpu_va, command_bytes }),
            w.try_monitored(0, SyncObjectFlags::empty()).map(drop),
            w.try_native(0, SyncObjectFlags::empty()).map(drop),
            user.connect(),
            w.hw_queue_in(hw_context, false).map(drop),
        ];
        for (number, outcome) in outcomes.into_iter().enumerate() {
            assert_eq!(outcome, Err(Status::DEVICE_REMOVED), "call {number}");
        }
        // Letting go still works, and another device does too.
        assert_eq!(k.destroy_synchronization_object(fence.handle), Ok(()));
        assert_eq!(k.destroy_device(w.device), Ok(()));
        assert!(k.create_device().is_ok());
    });
}

// spec: MF-037
#[test]
fn a_cpu_signal_names_one_to_32_fences() {
    let w = world();
    let fences: Vec<FenceInstance> = (0..32).map(|_| w.monitored(0)).collect();
    let targets: Vec<FenceValue> =
        fences.iter().zip(1..).map(|(fence, n)| at(fence, n)[0]).collect();
    w.kernel.signal_from_cpu(&targets, SignalFlags::empty()).unwrap();
    assert!(fences.iter().map(|f| f.value.load()).eq(1..=32));
    let one_more = [&targets[..], &targets[..1]].concat();
    for other in [&[][..], &one_more] {
        let refused = w.kernel.signal_from_cpu(other, SignalFlags::empty());
        assert_eq!(refused, Err(Status::INVALID_PARAMETER));
    }
}

// spec: MF-021
#[test]
fn a_fence_without_gpu_access_has_no_gpu_address() {
    let w = world();
    let fence = w.try_monitored(0, SyncObjectFlags::NO_GPU_ACCESS).unwrap();
    assert_eq!((fence.current_value_gpu_va, fence.monitored_value_gpu_va), (0, 0));
    let context = w.context(0);
    let event = w.wait_event(&fence, 1 << 40);
    w.on(context).signal(&fence, 1 << 40);
    assert!(event.is_set(), "queued packets signal it, all 64 bits of it");
}
