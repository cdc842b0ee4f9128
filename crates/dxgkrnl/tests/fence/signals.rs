//! Signals through the kernel's calls: packets that are in several queues, CPU events, flags, and
//! values that go down.

use tidegate::calls::{BroadcastExclusions, CreateHwQueue};
use tidegate::dxgkrnl::FenceRewind;
use tidegate_testbed::prelude::*;

/// Work that keeps an engine for a while.
const LONG: Command = Command::Timed { ns: 1_000_000 };
const NONE: SignalFlags = SignalFlags::empty();
const REWIND: SignalFlags = SignalFlags::ALLOW_FENCE_REWIND;
const BAD: Result<(), Status> = Err(Status::INVALID_PARAMETER);

/// The two kinds of queues that the kernel keeps. What holds of one holds of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Context,
    HwQueue,
}

const KINDS: [Kind; 2] = [Kind::Context, Kind::HwQueue];

impl Kind {
    fn queue(self, w: &World, node: u32) -> Handle {
        match self {
            Kind::Context => w.context(node),
            Kind::HwQueue => w.hw_queue_on(node).handle,
        }
    }

    fn destroy(self, w: &World, queue: Handle) {
        match self {
            Kind::Context => w.kernel.destroy_context(queue),
            Kind::HwQueue => w.kernel.destroy_hw_queue(queue),
        }
        .unwrap();
    }

    fn wait(self, w: &World, queue: Handle, fences: &[FenceValue]) -> Result<(), Status> {
        match self {
            Kind::Context => w.kernel.wait_from_gpu(queue, fences),
            Kind::HwQueue => w.kernel.submit_wait_to_hw_queue(queue, fences),
        }
    }

    fn signal(self, w: &World, queue: Handle, fences: &[FenceValue]) -> Result<(), Status> {
        match self {
            Kind::Context => w.kernel.signal_from_gpu(queue, fences),
            Kind::HwQueue => w.kernel.submit_signal_to_hw_queue(queue, fences),
        }
    }

    fn broadcast(
        self,
        client: &Client,
        queues: &[Handle],
        fences: &[FenceValue],
        flags: SignalFlags,
    ) -> Result<(), Status> {
        match self {
            Kind::Context => {
                let (contexts, cpu_event) = (queues, None);
                let args = SignalFromGpu2 { contexts, fences, flags, cpu_event };
                client.kernel.signal_from_gpu2(args)
            }
            Kind::HwQueue => {
                let args = SubmitSignalToHwQueues { hw_queues: queues, fences, flags };
                client.kernel.submit_signal_to_hw_queues(args)
            }
        }
    }

    /// Keeps the engine of a queue busy for 1 ms with the queue's `number`th command.
    fn work(self, w: &World, queue: Handle, number: u64) {
        let (commands_gpu_va, command_bytes) = w.commands(&[LONG]);
        match self {
            Kind::Context => {
                let context = queue;
                w.kernel.submit_command(SubmitCommand { context, commands_gpu_va, command_bytes })
            }
            Kind::HwQueue => w.kernel.submit_command_to_hw_queue(SubmitCommandToHwQueue {
                hw_queue: queue,
                progress_fence_id: number,
                commands_gpu_va,
                command_bytes,
            }),
        }
        .unwrap();
    }
}

fn enqueue(w: &World, contexts: &[Handle], event: &Event) -> Result<(), Status> {
    w.kernel.signal_from_gpu2(SignalFromGpu2 {
        contexts,
        fences: &[],
        flags: SignalFlags::ENQUEUE_CPU_EVENT,
        cpu_event: Some(WaitNotice::Event(event.clone())),
    })
}

/// A fence of either kind.
fn fence(client: &Client, native: bool) -> FenceInstance {
    if native { client.native(0) } else { client.monitored(0) }
}

fn values<const N: usize>(fences: [&FenceInstance; N]) -> [u64; N] {
    fences.map(|fence| fence.value.load())
}

// spec: MF-027
#[test]
fn a_broadcast_is_made_when_every_queue_has_reached_it() {
    for kind in KINDS {
        world().run(move |w| {
            let queues = [kind.queue(w, 0), kind.queue(w, 1), kind.queue(w, 0)];
            let (gate, fence, native, behind) =
                (w.monitored(0), w.monitored(0), w.native(0), w.monitored(0));
            let both = [at(&fence, 7)[0], at(&native, 8)[0]];
            kind.work(w, queues[1], 1);
            kind.wait(w, queues[2], &at(&gate, 1)).unwrap();
            kind.broadcast(w, &queues, &both, NONE).unwrap();
            // A queue is first in, first out: one that has reached the packet is held until it is
            // made.
            kind.signal(w, queues[0], &at(&behind, 1)).unwrap();
            w.pass(5_000_000);
            let made = values([&fence, &native, &behind]);
            assert_eq!(made, [0, 0, 0], "{kind:?}: one queue is behind its wait");
            w.signal(&gate, 1);
            assert_eq!(values([&fence, &native, &behind]), [7, 8, 1], "{kind:?}");
            // What is last to be reached is a command that must complete.
            kind.work(w, queues[1], 2);
            kind.broadcast(w, &queues, &at(&fence, 9), NONE).unwrap();
            w.pass(900_000);
            assert_eq!(fence.value.load(), 7, "{kind:?}: the command still runs");
            w.pass(200_000);
            assert_eq!(fence.value.load(), 9, "{kind:?}");
        });
    }
}

#[test]
fn broadcasts_of_many_queues_from_many_threads_all_come_through() {
    for kind in KINDS {
        world().run(move |w| {
            let queues: Vec<Handle> = (0..6).map(|n| kind.queue(w, n % 2)).collect();
            let fences: Vec<FenceInstance> = (0..4).map(|_| w.monitored(0)).collect();
            let threads: Vec<_> = (0..4u64)
                .map(|thread| {
                    let (client, mut order) = ((**w).clone(), queues.clone());
                    order.rotate_left(thread as usize);
                    let fence = fences[thread as usize].handle;
                    w.platform.spawn("signaller", move || {
                        for value in 1..=20 {
                            let fences = &[FenceValue { fence, value }];
                            kind.broadcast(&client, &order, fences, NONE).unwrap();
                        }
                    })
                })
                .collect();
            for thread in threads {
                assert_eq!(thread.join(), WaitEnd::Woken);
            }
            w.pass(1_000);
            assert!(fences.iter().all(|fence| fence.value.load() == 20), "{kind:?}");
            assert_eq!(w.stats().fence_rewinds, 0, "each in order");
        });
    }
}

/// A context or hardware queue of another device.
fn foreign(w: &World, kind: Kind) -> Handle {
    let other = w.another_device();
    match kind {
        Kind::Context => other.context(0),
        Kind::HwQueue => other.hw_queue().handle,
    }
}

// spec: MF-066
#[test]
fn a_broadcast_that_is_refused_is_queued_nowhere() {
    for kind in KINDS {
        let w = world();
        let fence = w.monitored(0);
        let queues: Vec<Handle> = (0..65).map(|n| kind.queue(&w, n % 2)).collect();
        let gone = kind.queue(&w, 0);
        kind.destroy(&w, gone);
        let other_kind = KINDS.into_iter().find(|other| *other != kind).unwrap().queue(&w, 0);
        let (one, user) = (queues[0], w.user_queue(0));
        let lists: Vec<Vec<Handle>> = vec![
            vec![],
            queues.clone(),
            vec![one, queues[1], one],
            vec![one, Handle(0)],
            vec![one, Handle(u32::MAX)],
            vec![one, gone],
            vec![one, fence.handle],
            vec![one, other_kind],
            vec![one, w.hw_context(0)],
            vec![one, w.device],
            vec![one, user.queue.handle],
            vec![one, foreign(&w, kind)],
        ];
        for list in &lists {
            assert_eq!(kind.broadcast(&w, list, &at(&fence, 1), NONE), BAD, "{kind:?} {list:?}");
        }
        let unknown = [at(&fence, 1)[0], FenceValue { fence: one, value: 1 }];
        assert_eq!(kind.broadcast(&w, &queues[..2], &unknown, NONE), BAD);
        assert_eq!(kind.broadcast(&w, &queues[..2], &[], NONE), BAD);
        let no_signal = w.try_monitored(0, SyncObjectFlags::NO_SIGNAL).unwrap();
        let refused = [at(&fence, 1)[0], at(&no_signal, 1)[0]];
        assert_eq!(kind.broadcast(&w, &queues[..2], &refused, NONE), Err(Status::ACCESS_DENIED));
        assert_eq!(w.stats().queued_signals, 0, "{kind:?}");
        // No queue is held by anything, and 64 are not too many.
        kind.broadcast(&w, &queues[..64], &at(&fence, 2), NONE).unwrap();
        assert_eq!(fence.value.load(), 2, "{kind:?}");
    }
}

/// D3DDDI_CREATEHWQUEUEFLAGS (d3dukmdt.h): a queue with NoBroadcastSignal is no part of the signals
/// of its command queue, and one with NoBroadcastWait is not held by the waits of its command
/// queue. A call that names the queue itself is about this queue. The driver gets both flags.
// spec: MF-066
#[test]
fn a_queue_outside_of_broadcasts_takes_the_calls_that_name_it_only() {
    world().run(|w| {
        let queue = |signals, waits| {
            let args = CreateHwQueue {
                hw_context: w.hw_context(0),
                user_mode_submission: false,
                priority: Priority::Normal,
                native_fence_commands: false,
                exclusions: BroadcastExclusions { signals, waits },
            };
            let queue = w.kernel.create_hw_queue(args).unwrap().handle;
            assert_eq!(w.calls().queues.last().unwrap().0.exclusions, args.exclusions);
            queue
        };
        let [plain, no_waits, no_signals] =
            [(false, false), (false, true), (true, true)].map(|(s, w)| queue(s, w));
        let (gate, fence) = (w.monitored(0), w.monitored(0));
        let kind = Kind::HwQueue;
        kind.broadcast(w, &[plain, no_waits], &at(&fence, 1), NONE).unwrap();
        assert_eq!(kind.broadcast(w, &[plain, no_signals], &at(&fence, 2), NONE), BAD);
        assert_eq!(kind.broadcast(w, &[no_signals, no_waits], &at(&fence, 2), NONE), BAD);
        assert_eq!(fence.value.load(), 1);
        // An operation of one queue is not a broadcast, and the wait of the queue delays it.
        for (value, queue) in [(2, no_waits), (3, no_signals)] {
            kind.wait(w, queue, &at(&gate, value)).unwrap();
            kind.broadcast(w, &[queue], &at(&fence, value), NONE).unwrap();
            w.pass(1_000);
            assert_eq!(fence.value.load(), value - 1);
            w.signal(&gate, value);
            assert_eq!(fence.value.load(), value);
        }
    });
}

// spec: MF-065
#[test]
fn a_queue_that_is_destroyed_holds_no_other() {
    for kind in KINDS {
        world().run(move |w| {
            let [first, second, doomed] = [0, 1, 0].map(|node| kind.queue(w, node));
            let (never, fence, behind, alone) =
                (w.native(0), w.monitored(0), w.monitored(0), w.monitored(0));
            kind.wait(w, doomed, &at(&never, 1)).unwrap();
            kind.broadcast(w, &[first, second, doomed], &at(&fence, 1), NONE).unwrap();
            kind.broadcast(w, &[doomed, first], &at(&fence, 2), NONE).unwrap();
            kind.signal(w, first, &at(&behind, 1)).unwrap();
            kind.signal(w, doomed, &at(&alone, 1)).unwrap();
            w.pass(1_000);
            assert_eq!(values([&fence, &behind, &alone]), [0, 0, 0], "{kind:?}");
            kind.destroy(w, doomed);
            let made = values([&fence, &behind, &alone]);
            assert_eq!(made, [2, 1, 0], "{kind:?}: the signal of its own is dropped");
            // One that has reached the packet and goes leaves it to the others.
            kind.wait(w, second, &at(&never, 1)).unwrap();
            kind.broadcast(w, &[first, second], &at(&fence, 3), NONE).unwrap();
            kind.destroy(w, first);
            assert_eq!(fence.value.load(), 2, "{kind:?}");
            w.signal(&never, 1);
            assert_eq!(fence.value.load(), 3, "{kind:?}");
            kind.signal(w, second, &at(&fence, 4)).unwrap();
            assert_eq!(fence.value.load(), 4, "{kind:?}");
        });
    }
}

// spec: MF-065
#[test]
fn a_lost_device_makes_no_broadcast_and_sets_its_events() {
    world().run(|w| {
        let kept = w.another_device().monitored(0);
        let never = w.monitored(0);
        let event = w.platform.event(true);
        for kind in KINDS {
            for parked in [0, 1] {
                let queues = [kind.queue(w, 0), kind.queue(w, 1)];
                kind.wait(w, queues[parked], &at(&never, 1)).unwrap();
                kind.broadcast(w, &queues, &at(&kept, 1), NONE).unwrap();
                if kind == Kind::Context {
                    enqueue(w, &queues, &event).unwrap();
                }
            }
        }
        let last = w.hw_queue();
        w.submit(&last, 1, &[fill(0x10, 4, 0)]);
        w.pass(1_000_000);
        assert!(matches!(w.state(), Ok(DeviceState::Faulted(_))));
        assert_eq!((kept.value.load(), event.is_set()), (0, true));
    });
}

// spec: MF-028
#[test]
fn a_queued_cpu_event_is_set_when_its_contexts_reach_it() {
    world().run(|w| {
        let contexts = [w.context(0), w.context(1)];
        let (fence, gate) = (w.monitored(0), w.monitored(0));
        let [early, late, shared, after] = [(); 4].map(|()| w.platform.event(true));
        enqueue(w, &contexts[..1], &early).unwrap();
        assert!(early.is_set(), "nothing is before it");
        let writes = w.calls().current.len();
        w.kernel.wait_from_gpu(contexts[1], &at(&gate, 1)).unwrap();
        Kind::Context.work(w, contexts[0], 1);
        enqueue(w, &contexts[..1], &late).unwrap();
        enqueue(w, &contexts, &shared).unwrap();
        enqueue(w, &contexts[1..], &after).unwrap();
        w.pass(900_000);
        assert!(!late.is_set());
        w.pass(200_000);
        assert!(late.is_set() && !shared.is_set() && !after.is_set());
        w.kernel.signal_from_cpu(&at(&gate, 1), NONE).unwrap();
        assert!(shared.is_set() && after.is_set());
        let touched = (fence.value.load(), w.calls().current.len());
        assert_eq!(touched, (0, writes), "no fence is touched");
        let stats = w.stats();
        assert_eq!((stats.queued_events, stats.queued_signals), (4, 0));
        // The event's context is destroyed before it reaches the event: the event is set, so that
        // its waiters are released.
        let last = w.platform.event(true);
        let context = w.context(0);
        w.on(context).wait(&fence, 1);
        enqueue(w, &[context], &last).unwrap();
        assert!(!last.is_set());
        w.kernel.destroy_context(context).unwrap();
        assert!(last.is_set());
    });
}

// spec: MF-063
#[test]
fn every_signal_call_takes_its_own_flags_and_no_others() {
    let w = world();
    let (context, queue, fence) = (w.context(0), w.hw_queue(), w.monitored(0));
    let (one, event) = (at(&fence, 1), w.platform.event(true));
    let gpu2 = |fences: &[FenceValue], flags, cpu_event: Option<&Event>| {
        let cpu_event = cpu_event.cloned().map(WaitNotice::Event);
        w.kernel.signal_from_gpu2(SignalFromGpu2 { contexts: &[context], fences, flags, cpu_event })
    };
    let cpu_event = SignalFlags::ENQUEUE_CPU_EVENT;
    for flags in (3..32).map(|bit| SignalFlags::from_bits_retain(1 << bit)) {
        assert_eq!(w.kernel.signal_from_cpu(&one, flags), BAD);
        assert_eq!(gpu2(&one, flags, None), BAD);
        assert_eq!(gpu2(&[], flags | cpu_event, Some(&event)), BAD);
        assert_eq!(Kind::HwQueue.broadcast(&w, &[queue.handle], &one, flags), BAD);
    }
    // There is no submission and no queue in a CPU signal, and no event in a call for hardware
    // queues.
    assert_eq!(w.kernel.signal_from_cpu(&one, SignalFlags::SIGNAL_AT_SUBMISSION), BAD);
    assert_eq!(w.kernel.signal_from_cpu(&[], cpu_event), BAD);
    assert_eq!(Kind::HwQueue.broadcast(&w, &[queue.handle], &[], cpu_event), BAD);
    assert_eq!(Kind::HwQueue.broadcast(&w, &[queue.handle], &one, cpu_event), BAD);
    // An event or fences, and the flag says which.
    assert_eq!(gpu2(&one, cpu_event, Some(&event)), BAD);
    assert_eq!(gpu2(&one, cpu_event, None), BAD);
    assert_eq!(gpu2(&[], cpu_event, None), BAD);
    assert_eq!(gpu2(&[], NONE, None), BAD);
    assert_eq!(gpu2(&[], NONE, Some(&event)), BAD);
    assert_eq!(gpu2(&one, NONE, Some(&event)), BAD);
    let stats = w.stats();
    assert_eq!((fence.value.load(), event.is_set()), (0, false));
    assert_eq!((stats.queued_signals, stats.queued_events, stats.cpu_signals), (0, 0, 0));
    let with_event = cpu_event | REWIND | SignalFlags::SIGNAL_AT_SUBMISSION;
    assert_eq!(gpu2(&[], with_event, Some(&event)), Ok(()));
    assert!(event.is_set());
}

// spec: MF-064
#[test]
fn a_signal_at_submission_comes_when_the_work_before_it_has_begun() {
    for kind in KINDS {
        world().run(move |w| {
            let queues = [kind.queue(w, 0), kind.queue(w, 1)];
            let [begun, both, done, gate] = [(); 4].map(|()| w.monitored(0));
            let at_submission = SignalFlags::SIGNAL_AT_SUBMISSION;
            kind.wait(w, queues[0], &at(&gate, 1)).unwrap();
            kind.work(w, queues[0], 1);
            kind.broadcast(w, &queues[..1], &at(&begun, 1), at_submission).unwrap();
            kind.broadcast(w, &queues, &at(&both, 1), at_submission).unwrap();
            kind.signal(w, queues[0], &at(&done, 1)).unwrap();
            w.pass(1_000);
            assert_eq!(
                values([&begun, &both, &done]),
                [0, 0, 0],
                "{kind:?}: a wait holds them all"
            );
            w.signal(&gate, 1);
            w.pass(1_000);
            assert_eq!(values([&begun, &both, &done]), [1, 1, 0], "{kind:?}");
            w.pass(1_100_000);
            assert_eq!(done.value.load(), 1, "{kind:?}");
        });
    }
}

// spec: MF-038
#[test]
fn a_lower_value_is_stored_counted_and_reported() {
    let w = world();
    let rewinds = || (w.stats().fence_rewinds, w.adapter().fence_rewinds());
    for (fence, name) in [(w.monitored(9), "m"), (w.native(9), "f")] {
        let (context, queue) = (w.context(0), w.hw_queue().handle);
        let before = rewinds().0;
        w.kernel.signal_from_cpu(&at(&fence, 8), REWIND).unwrap();
        Kind::Context.broadcast(&w, &[context], &at(&fence, 7), REWIND).unwrap();
        Kind::HwQueue.broadcast(&w, &[queue], &at(&fence, 6), REWIND).unwrap();
        w.kernel.signal_from_cpu(&at(&fence, 6), NONE).unwrap();
        assert_eq!((fence.value.load(), rewinds().0), (6, before), "announced, or no rewind");
        w.kernel.signal_from_cpu(&at(&fence, 5), NONE).unwrap();
        w.on(context).signal(&fence, 4);
        w.kernel.submit_signal_to_hw_queue(queue, &at(&fence, 3)).unwrap();
        let (count, report) = rewinds();
        let named: Vec<FenceRewind> = [(6, 5), (5, 4), (4, 3)]
            .map(|(from, to)| FenceRewind { fence: name.into(), from, to })
            .into();
        assert_eq!((fence.value.load(), count - before), (3, 3));
        assert_eq!(report[report.len() - 3..], named);
    }
    // The report is bounded: the latest are kept.
    let fence = w.monitored(1_000);
    (0..1_000).rev().for_each(|value| w.signal(&fence, value));
    let (count, report) = rewinds();
    assert_eq!((count, report.len()), (1_006, 64));
    assert_eq!(report[63], FenceRewind { fence: "m".into(), from: 1, to: 0 });
}

// spec: MF-038
#[test]
fn a_strict_adapter_refuses_a_lower_value_and_changes_nothing() {
    let w = world_with(|config| config.kernel.strict_fence_rewind = true);
    let (first, second) = (w.monitored(0), w.native(5));
    let (context, queue) = (w.context(0), w.hw_queue().handle);
    let event = w.wait_event(&first, 1);
    let down = [at(&first, 1)[0], at(&second, 4)[0]];
    let down_inside = [at(&first, 3)[0], at(&first, 2)[0]];
    let down_at_last = [at(&first, 3)[0], at(&first, 6)[0], at(&first, 5)[0]];
    for fences in [&down[..], &down_inside[..], &down_at_last[..]] {
        assert_eq!(w.kernel.signal_from_cpu(fences, NONE), BAD);
        assert_eq!(w.kernel.signal_from_gpu(context, fences), BAD);
        assert_eq!(w.kernel.submit_signal_to_hw_queue(queue, fences), BAD);
    }
    assert_eq!((values([&first, &second]), event.is_set()), ([0, 5], false));
    // Announced, equal, or rising inside the call: all the same to it.
    let up = [at(&first, 1)[0], at(&first, 1)[0], at(&second, 5)[0]];
    w.kernel.signal_from_cpu(&up, NONE).unwrap();
    w.kernel.signal_from_cpu(&down, REWIND).unwrap();
    Kind::Context.broadcast(&w, &[context], &at(&second, 3), REWIND).unwrap();
    Kind::HwQueue.broadcast(&w, &[queue], &at(&second, 2), REWIND).unwrap();
    assert_eq!(values([&first, &second]), [1, 2]);
    assert_eq!(w.stats().fence_rewinds, 0);
    // When a queued signal turns out to be a rewind only when it is made, its caller is gone: it is
    // made and counted.
    let gate = w.monitored(0);
    w.on(context).wait(&gate, 1).signal(&second, 7);
    w.signal(&second, 9);
    w.signal(&gate, 1);
    assert_eq!((second.value.load(), w.stats().fence_rewinds), (7, 1));
}

// spec: MF-096
#[test]
fn every_wait_and_signal_call_bounds_its_arrays() {
    let w = world();
    let fence = w.monitored(1);
    let (context, queue) = (w.context(0), w.hw_queue().handle);
    let many = |count| vec![at(&fence, 1)[0]; count];
    // A CPU wait; what is queued, and CPU signals.
    for (count, wait, queued) in [
        (0, BAD, BAD),
        (1, Ok(()), Ok(())),
        (32, Ok(()), Ok(())),
        (33, Ok(()), BAD),
        (4096, Ok(()), BAD),
        (4097, BAD, BAD),
    ] {
        let fences = many(count);
        for (mode, event) in [(WaitMode::All, None), (WaitMode::Any, Some(w.platform.event(true)))]
        {
            assert_eq!(w.kernel.wait_from_cpu(&fences, mode, event), wait, "{mode:?} {count}");
        }
        assert_eq!(w.kernel.signal_from_cpu(&fences, NONE), queued, "{count}");
        for (kind, of) in [(Kind::Context, context), (Kind::HwQueue, queue)] {
            assert_eq!(kind.wait(&w, of, &fences), queued, "{kind:?} {count}");
            assert_eq!(kind.signal(&w, of, &fences), queued, "{kind:?} {count}");
        }
    }
    // A handle that is none, or not one of a fence, or not one of a queue.
    let gone = w.monitored(0);
    w.kernel.destroy_synchronization_object(gone.handle).unwrap();
    for handle in [Handle(0), Handle(u32::MAX), w.device, context, queue, gone.handle] {
        let fences = [at(&fence, 1)[0], FenceValue { fence: handle, value: 1 }];
        assert_eq!(w.kernel.wait_from_cpu(&fences, WaitMode::Any, None), BAD);
        assert_eq!(w.kernel.signal_from_cpu(&fences, NONE), BAD);
        for (kind, of) in [(Kind::Context, context), (Kind::HwQueue, queue)] {
            assert_eq!((kind.wait(&w, of, &fences), kind.signal(&w, of, &fences)), (BAD, BAD));
            if handle != of {
                let one = at(&fence, 1);
                assert_eq!(kind.wait(&w, handle, &one), BAD);
                assert_eq!(kind.signal(&w, handle, &one), BAD);
            }
        }
    }
    assert_eq!(w.adapter().pending_waits(), []);
}

#[test]
fn zero_is_always_there_and_the_maximum_is_waited_for_on_every_kind_of_queue() {
    for native in [false, true] {
        world().run(move |w| {
            let (fence, rewound) = (fence(w, native), fence(w, native));
            w.signal(&rewound, 0);
            let done: [FenceInstance; 2] = [(); 2].map(|()| w.monitored(0));
            let queues = KINDS.map(|kind| (kind, kind.queue(w, 0)));
            for ((kind, queue), done) in queues.iter().zip(&done) {
                kind.wait(w, *queue, &[at(&fence, 0)[0], at(&rewound, 0)[0]]).unwrap();
                kind.signal(w, *queue, &at(done, 1)).unwrap();
                assert_eq!(done.value.load(), 1, "{kind:?}");
                kind.wait(w, *queue, &at(&fence, u64::MAX)).unwrap();
                kind.signal(w, *queue, &at(done, 2)).unwrap();
            }
            assert_eq!(w.wait(fence.handle, 0), Ok(()));
            let event = w.wait_event(&fence, u64::MAX);
            w.signal(&fence, u64::MAX - 1);
            assert_eq!((values([&done[0], &done[1]]), event.is_set()), ([1, 1], false));
            w.signal(&fence, u64::MAX);
            assert_eq!((values([&done[0], &done[1]]), event.is_set()), ([2, 2], true));
            assert_eq!(w.wait(fence.handle, u64::MAX), Ok(()));
        });
    }
}

// spec: MF-067
#[test]
fn an_event_that_is_registered_several_times_wakes_once() {
    for native in [false, true] {
        world().run(move |w| {
            let (first, second) = (w.monitored(0), fence(w, native));
            let event = w.platform.event(false);
            let register = |fences: &[FenceValue], mode| {
                w.kernel.wait_from_cpu(fences, mode, Some(event.clone())).unwrap();
            };
            register(&at(&second, 2), WaitMode::All);
            register(&at(&second, 2), WaitMode::All);
            register(&at(&second, 1), WaitMode::All);
            register(&[at(&first, 1)[0], at(&second, 1)[0], at(&second, 2)[0]], WaitMode::Any);
            let (own, platform) = (event.clone(), w.platform.clone());
            let waiter = w.platform.spawn("waiter", move || {
                assert_eq!(own.wait(), WaitEnd::Woken);
                let deadline = platform.now().after(1_000_000);
                assert_eq!(own.wait_for(Some(deadline), "a second wake"), WaitEnd::TimedOut);
            });
            w.pass(1_000);
            w.signal(&second, 2);
            assert_eq!(waiter.join(), WaitEnd::Woken);
            assert!(!event.is_set());
        });
    }
}

/// Registrations of one event: so many that its waiter is back long before the last of them is
/// released.
const REGISTRATIONS: u64 = 1_000;

/// Number of polls for a set that must not come.
const POLLS: u32 = 20_000;

/// On threads: `satisfy` satisfies all waits of one event for the fences, and the waiter of the
/// event wakes once.
fn is_taken_once(
    native: bool,
    satisfy: impl Fn(&World, &[FenceInstance; 2]) + Send + Sync + 'static,
) {
    host_world().run(move |w| {
        let event = w.platform.event(false);
        let taken = w.platform.page(2);
        let (count, over) = (taken.word(0), taken.word(1));
        let (own, counted, ends) = (event.clone(), count.clone(), over.clone());
        let waiter = w.platform.spawn("waiter", move || {
            while own.wait() == WaitEnd::Woken && ends.load() == 0 {
                counted.fetch_add(1);
            }
        });
        for round in 1..=10 {
            let fences = [0, 1].map(|_| fence(w, native));
            for number in 0..REGISTRATIONS {
                let wait = at(&fences[number as usize % 2], number % 3 + 1);
                w.kernel.wait_from_cpu(&wait, WaitMode::All, Some(event.clone())).unwrap();
            }
            satisfy(w, &fences);
            while count.load() < round {
                w.pass(10_000);
            }
            // A second set would follow soon.
            for _ in 0..POLLS {
                assert_eq!((count.load(), event.is_set()), (round, false));
            }
        }
        over.store(1);
        event.set(Step::ThreadWake);
        assert_eq!(waiter.join(), WaitEnd::Woken);
    });
}

// spec: MF-067
#[test]
fn on_threads_an_event_is_taken_once_for_all_that_one_signal_satisfies() {
    for native in [false, true] {
        is_taken_once(native, |w, fences| {
            let both = fences.each_ref().map(|fence| at(fence, 3)[0]);
            w.kernel.signal_from_cpu(&both, NONE).unwrap();
        });
    }
}

#[test]
fn a_wait_that_is_satisfied_after_the_event_was_set_sets_it_again() {
    world().run(|w| {
        let (fence, event) = (w.monitored(0), w.platform.event(false));
        for value in [1, 2] {
            w.kernel.wait_from_cpu(&at(&fence, value), WaitMode::All, Some(event.clone())).unwrap();
        }
        for value in [1, 2] {
            w.signal(&fence, value);
            assert!(event.try_take() && !event.is_set(), "{value}");
        }
    });
}

// spec: MF-062
#[test]
fn reserved_creation_flags_are_refused() {
    let w = world();
    let all = (0..32).map(|bit| SyncObjectFlags::from_bits_retain(1 << bit));
    for flags in all.filter(|flags| !SyncObjectFlags::all().contains(*flags)) {
        let refused = [w.try_monitored(0, flags), w.try_native(0, flags)].map(Result::err);
        assert_eq!(refused, [Some(Status::INVALID_PARAMETER); 2], "{flags:?}");
    }
    assert_eq!(w.driver.take_names(), Vec::<&str>::new());
}

/// Both kinds of fence with this engine affinity.
fn with_affinity(w: &World, engine_affinity: u32) -> [Result<FenceInstance, Status>; 2] {
    let (w, flags) = (w.affine(engine_affinity), SyncObjectFlags::empty());
    [w.try_monitored(0, flags), w.try_native(0, flags)]
}

// spec: MF-014, NF-105, NF-106
#[test]
fn engine_affinity_names_physical_adapters_and_0_is_all_of_them() {
    world().run(|w| {
        let adapters = w.adapter().physical_adapters();
        assert_eq!(adapters, 1);
        for (affinity, value) in [(0, 1), (1, 2)] {
            for fence in with_affinity(w, affinity).map(Result::unwrap) {
                for node in 0..w.kernel.query_adapter_info().nodes.len() as u32 {
                    let (context, value) = (w.context(node), value + u64::from(node));
                    w.submit_packet(context, &[store(fence.current_value_gpu_va, value)]);
                    w.pass(10_000);
                    assert_eq!(fence.value.load(), value, "an engine of node {node} reaches it");
                }
            }
        }
        w.driver.take();
        for absent in [1 << 1, 1 << 31, u32::MAX, 0b11] {
            let refused = with_affinity(w, absent).map(Result::err);
            assert_eq!(refused, [Some(Status::INVALID_PARAMETER); 2], "{absent:#b}");
        }
        assert_eq!(w.driver.take_names(), Vec::<&str>::new());
    });
}

// spec: NF-100
#[test]
fn private_data_of_a_native_fence_goes_to_the_driver_and_comes_back_as_it_left_it() {
    let w = world();
    let (mut sent, mut answer) = ([0; 64], [0; 64]);
    (0..64).for_each(|n| (sent[n], answer[n]) = (n as u8 + 1, 200 - n as u8));
    let create = || w.native_with(|args| args.private_data = sent);
    assert_eq!(create().unwrap().private_data, sent, "this driver leaves it as it is");
    assert_eq!(w.calls().fence_data, [sent]);
    w.hooked.plant(|answers| answers.fence_data = Some(answer));
    assert_eq!(create().unwrap().private_data, answer);
    assert_eq!(w.monitored(0).private_data, [0; 64]);
    let no_gpu = w.try_native(0, SyncObjectFlags::NO_GPU_ACCESS).unwrap();
    assert_eq!((no_gpu.current_value_gpu_va, no_gpu.monitored_value_gpu_va), (0, 0));
}

/// The queue API lets an application signal a lower value: its calls announce it.
#[test]
fn the_queue_api_announces_its_rewinds() {
    for submission in [Submission::Packet, Submission::Hardware] {
        let options = DeviceOptions { fences: FenceChoice::Monitored, ..DeviceOptions::default() };
        let strict = App::new(options, |config| config.kernel.strict_fence_rewind = true);
        let app = strict.case(submission).run(move |app| {
            let (queue, fence) = (app.queue(CommandListType::Compute, submission), app.fence(5));
            queue.signal(&fence, 3).unwrap();
            queue.wait_idle().unwrap();
            assert_eq!(fence.completed_value(), 3);
            fence.signal(2).unwrap();
            assert_eq!(fence.completed_value(), 2);
        });
        assert_eq!(app.machine.adapter().stats().fence_rewinds, 0, "{submission}");
    }
}
