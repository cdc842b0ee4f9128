//! Fences of several adapters: one value, propagation by the kernel, every pair of waiter and
//! signaller.

use tidegate::d3d12::Event;
use tidegate::ddi::fence::UpdateCurrentMode::{AlwaysSignaled, NotificationOnly, Write};
use tidegate_testbed::prelude::*;

const CROSS: SyncObjectFlags = SyncObjectFlags::SHARED
    .union(SyncObjectFlags::NT_SECURITY_SHARING)
    .union(SyncObjectFlags::CROSS_ADAPTER);

fn virtual_time() -> Platform {
    Platform::virtual_time(StepCosts::free())
}

/// One end of a wait or signal.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Endpoint {
    /// The CPU, through the fence as the adapter has it.
    Cpu,
    /// A queue.
    Queue(Submission),
}

const ON_CAPABLE: [Endpoint; 4] = [
    Endpoint::Cpu,
    Endpoint::Queue(Submission::User),
    Endpoint::Queue(Submission::Hardware),
    Endpoint::Queue(Submission::Packet),
];
const ON_PLAIN: [Endpoint; 2] = [Endpoint::Cpu, Endpoint::Queue(Submission::Packet)];

fn endpoints_on(kind: Kind) -> &'static [Endpoint] {
    if kind.native { &ON_CAPABLE } else { &ON_PLAIN }
}

fn signal(world: &Adapters, adapter: usize, endpoint: Endpoint, fence: &Fence, value: u64) {
    match endpoint {
        Endpoint::Cpu => fence.signal(value).unwrap(),
        Endpoint::Queue(submission) => {
            let queue = world.queue(adapter, submission);
            queue.signal(fence, value).unwrap();
            let drained = world.devices[adapter].create_fence("drained", 0).unwrap();
            queue.signal_and_wait(&drained, 1);
        }
    }
}

/// One wait on adapter 1 and one signal on adapter 0, of a fence that `creator` made; the waiter
/// comes first if it is `early`.
fn pair_on(
    world: Adapters,
    kinds: [Kind; 2],
    [signaller, waiter]: [Endpoint; 2],
    creator: usize,
    early: bool,
) {
    let run = move |world: &Adapters| {
        let (fences, _handle) = world.fence_from(creator, 0);
        assert_eq!([fences[0].is_native(), fences[1].is_native()], kinds.map(|k| k.native));
        if !early {
            signal(world, 0, signaller, &fences[0], 10);
        }
        let done = world.devices[1].create_fence("done", 0).unwrap();
        let event = world.devices[1].create_event(EventDesc::manual_reset());
        let queue = match waiter {
            Endpoint::Cpu => {
                fences[1].set_event_on_completion(10, &event).unwrap();
                None
            }
            Endpoint::Queue(submission) => {
                let queue = world.queue(1, submission);
                queue.wait(&fences[1], 10).unwrap();
                queue.signal(&done, 1).unwrap();
                Some(queue)
            }
        };
        if early {
            signal(world, 0, signaller, &fences[0], 10);
        }
        match waiter {
            Endpoint::Cpu => assert_eq!(event.wait(), Ok(())),
            Endpoint::Queue(_) => done.wait(1).unwrap(),
        }
        assert_eq!((fences[0].completed_value(), fences[1].completed_value()), (10, 10));
        drop(queue);
    };
    world.run(run);
}

/// All pairs of a signaller on the first kind of adapter and a waiter on the second.
fn endpoints(kinds: [Kind; 2]) -> impl Iterator<Item = [Endpoint; 2]> {
    let [signallers, waiters] = kinds.map(endpoints_on);
    waiters.iter().flat_map(move |&waiter| signallers.iter().map(move |&of| [of, waiter]))
}

fn every_pair(kinds: [Kind; 2], platform: impl Fn() -> Platform) {
    for pair in endpoints(kinds) {
        for (creator, early) in [(0, true), (0, false), (1, true), (1, false)] {
            pair_on(Adapters::new(&platform(), &kinds), kinds, pair, creator, early);
        }
    }
}

// spec: NF-152, NF-153, NF-154, NF-156
#[test]
fn every_waiter_is_released_by_every_signaller_whichever_adapters_are_native() {
    for kinds in [
        [Kind::CAPABLE, Kind::CAPABLE],
        [Kind::CAPABLE, Kind::PLAIN],
        [Kind::PLAIN, Kind::CAPABLE],
        [Kind::PLAIN, Kind::PLAIN],
    ] {
        every_pair(kinds, virtual_time);
    }
}

/// Waits until all other agents are idle.
fn wait_until_idle(w: &Adapters) {
    pass(w, 1_000_000);
}

fn pass(w: &Adapters, ns: u64) {
    w.machine.platform().sleep_until(w.machine.platform().now().after(ns));
}

/// CurrentValue, to be stored as a GPU does whose interrupt never comes: from the driver of the
/// native adapter `native`, which is handed the cell with a CPU signal of 0.
fn cell_of(w: &Adapters, native: usize, fences: &[Fence]) -> FenceCell {
    fences[native].signal(0).unwrap();
    let (handed, _) = w.drivers[native].calls().current.pop().unwrap();
    handed.current_value.expect("the kernel reaches the value")
}

/// The queues that the GPU of an adapter holds back, and those that its scheduler does.
fn held(w: &Adapters, adapter: usize) -> (usize, usize) {
    (
        w.machine.gpu_at(adapter).parked_waits().len(),
        w.machine.adapter_at(adapter).pending_waits().len(),
    )
}

/// A queue of adapter 1 that waits for 10 and then signals the fence that is returned with it.
fn waiting_queue(w: &Adapters, submission: Submission, fences: &[Fence]) -> (Queue, Fence) {
    let (queue, done) = (w.queue(1, submission), w.devices[1].create_fence("done", 0).unwrap());
    queue.wait(&fences[1], 10).unwrap();
    queue.signal(&done, 1).unwrap();
    wait_until_idle(w);
    (queue, done)
}

// spec: NF-155
#[test]
fn both_native_a_gpu_wait_parks_in_its_gpu_until_the_kernel_has_the_run_list_scanned() {
    Adapters::new(&virtual_time(), &[Kind::CAPABLE; 2]).run(|w| {
        let (fences, _handle) = w.fence_from(0, 0);
        let cell = cell_of(w, 0, &fences);
        let (_queue, done) = waiting_queue(w, Submission::User, &fences);
        assert_eq!(held(w, 1), (1, 0), "the GPU holds the queue");
        let (before, interrupts) = (w.updates(1).len(), w.machine.adapter_at(0).stats().interrupts);
        // The value by itself releases no wait: the waiting GPU is not notified of the store.
        cell.store(10);
        wait_until_idle(w);
        assert_eq!((held(w, 1), w.updates(1).len()), ((1, 0), before));
        signal(w, 0, Endpoint::Queue(Submission::User), &fences[0], 10);
        done.wait(1).unwrap();
        assert!(w.machine.adapter_at(0).stats().interrupts > interrupts, "the signal interrupts");
        let updates = &w.updates(1)[before..];
        assert_eq!(updates, [(NotificationOnly, 10)], "the waiting driver is notified");
        assert_eq!(held(w, 1), (0, 0));
    });
}

/// A report of signalled monitored fences.
const MONITORED: InterruptData =
    InterruptData::MonitoredFenceSignaled { engine: EngineId::of_node(0) };

/// Two things release a CPU waiter of adapter 1. One is a report of signalled fences, but only of
/// the kind in whose list the waiter is held. The other is the propagated signal of a GPU.
fn cpu_waiter_is_held_in_the_list_of(
    kinds: [Kind; 2],
    right: InterruptData,
    wrong: Option<InterruptData>,
) {
    Adapters::new(&virtual_time(), &kinds).run(move |w| {
        let (fences, _handle) = w.fence_from(0, 0);
        let cell = cell_of(w, 0, &fences);
        let [silent, heard] = [10, 20].map(|value| {
            let event = w.devices[1].create_event(EventDesc::manual_reset());
            fences[1].set_event_on_completion(value, &event).unwrap();
            event
        });
        cell.store(10);
        wait_until_idle(w);
        assert!(!silent.is_set(), "the kernel has not read the value");
        if let Some(wrong) = &wrong {
            w.drivers[1].interrupt(wrong.clone());
            assert!(!silent.is_set(), "the waiter is in no other list");
        }
        w.drivers[1].interrupt(right.clone());
        assert!(silent.is_set() && !heard.is_set());
        signal(w, 0, Endpoint::Queue(Submission::User), &fences[0], 20);
        assert_eq!(heard.wait(), Ok(()), "the propagated signal sets the event");
    });
}

// spec: NF-157
#[test]
fn both_native_a_cpu_waiter_is_held_in_the_native_list() {
    let native = native_signalled(None, false);
    cpu_waiter_is_held_in_the_list_of([Kind::CAPABLE; 2], native, Some(MONITORED));
}

// spec: NF-160
#[test]
fn only_the_signaller_native_a_cpu_waiter_is_held_in_the_monitored_list() {
    cpu_waiter_is_held_in_the_list_of([Kind::CAPABLE, Kind::PLAIN], MONITORED, None);
}

// spec: NF-158
#[test]
fn both_native_a_cpu_signal_is_stored_by_the_signalling_driver_before_the_event_is_set() {
    Adapters::new(&virtual_time(), &[Kind::CAPABLE; 2]).run(|w| {
        let (fences, _handle) = w.fence_from(0, 0);
        let event = w.devices[1].create_event(EventDesc::manual_reset());
        fences[1].set_event_on_completion(10, &event).unwrap();
        let (seen, value) = (event.clone(), fences[1].clone());
        // The end of the machine stores the maximum by the same call.
        let signalling = Arc::new(w.machine.platform().mutex("the signal is under way", true));
        for (adapter, stored) in [(0, 0), (1, 10)] {
            let (seen, value, signalling) = (seen.clone(), value.clone(), signalling.clone());
            w.drivers[adapter].on(Entry::UpdateCurrentValuesFromCpu, move || {
                let signalling = *signalling.lock();
                if signalling {
                    assert_eq!((value.completed_value(), seen.is_set()), (stored, false));
                }
            });
        }
        fences[0].signal(10).unwrap();
        *signalling.lock() = false;
        assert_eq!((w.updates(0), w.updates(1)), (vec![(Write, 10)], vec![(NotificationOnly, 10)]));
        assert_eq!(event.wait(), Ok(()));
    });
}

// spec: NF-159
#[test]
fn only_the_signaller_native_a_gpu_wait_is_held_by_the_scheduler() {
    Adapters::new(&virtual_time(), &[Kind::CAPABLE, Kind::PLAIN]).run(|w| {
        let (fences, _handle) = w.fence_from(0, 0);
        let cell = cell_of(w, 0, &fences);
        let (_queue, done) = waiting_queue(w, Submission::Packet, &fences);
        assert_eq!(held(w, 1), (0, 1), "the scheduler holds the context");
        cell.store(10);
        wait_until_idle(w);
        assert_eq!(done.completed_value(), 0, "the kernel has not read the value");
        signal(w, 0, Endpoint::Queue(Submission::User), &fences[0], 10);
        done.wait(1).unwrap();
        assert_eq!(held(w, 1), (0, 0));
    });
}

// spec: NF-161
#[test]
fn only_the_waiter_native_a_gpu_signal_is_stored_by_the_cpu_when_it_heads_its_context() {
    Adapters::new(&virtual_time(), &[Kind::PLAIN, Kind::CAPABLE]).run(|w| {
        let (fences, _handle) = w.fence_from(0, 0);
        let (queue, gate) =
            (w.queue(0, Submission::Packet), w.devices[0].create_fence("gate", 0).unwrap());
        queue.wait(&gate, 1).unwrap();
        queue.signal(&fences[0], 10).unwrap();
        wait_until_idle(w);
        let stored = (fences[1].completed_value(), w.updates(1));
        assert_eq!(stored, (0, vec![]), "a wait is before the signal");
        gate.signal(1).unwrap();
        wait_until_idle(w);
        assert_eq!((fences[1].completed_value(), w.updates(1)), (10, vec![(NotificationOnly, 10)]));
        assert_eq!(w.machine.gpu_at(0).stats().signals, 0, "no engine stored it");
    });
}

// spec: NF-162, NF-163
#[test]
fn only_the_waiter_native_a_cpu_signal_is_stored_at_once_and_notifies_the_waiting_driver() {
    Adapters::new(&virtual_time(), &[Kind::PLAIN, Kind::CAPABLE]).run(|w| {
        let (fences, _handle) = w.fence_from(0, 0);
        let event = w.devices[1].create_event(EventDesc::manual_reset());
        fences[1].set_event_on_completion(10, &event).unwrap();
        let (_queue, done) = waiting_queue(w, Submission::User, &fences);
        assert_eq!((held(w, 1), w.updates(1)), ((1, 0), vec![]));
        fences[0].signal(10).unwrap();
        assert_eq!(fences[1].completed_value(), 10, "stored when the call returns");
        done.wait(1).unwrap();
        assert_eq!(event.wait(), Ok(()));
        assert_eq!((held(w, 1), w.updates(1)), ((0, 0), vec![(NotificationOnly, 10)]));
    });
}

#[test]
fn interrupts_may_have_agents_of_their_own_and_may_name_less() {
    for mode in [InterruptMode::FenceArray, InterruptMode::NullArray, InterruptMode::HwQueue] {
        let worker = Kind { interrupts: InterruptDelivery::Worker, mode, ..Kind::CAPABLE };
        every_pair([worker, Kind { mode, ..Kind::CAPABLE }], virtual_time);
        every_pair([Kind { mode, ..Kind::CAPABLE }, worker], virtual_time);
        every_pair([worker, Kind { native: false, ..worker }], virtual_time);
    }
}

#[test]
fn the_pairs_meet_on_threads_too() {
    for kinds in
        [[Kind::CAPABLE, Kind::CAPABLE], [Kind::PLAIN, Kind::CAPABLE], [Kind::CAPABLE, Kind::PLAIN]]
    {
        for interrupts in [InterruptDelivery::Inline, InterruptDelivery::Worker] {
            let kinds = kinds.map(|kind| Kind { interrupts, ..kind });
            for pair in endpoints(kinds) {
                pair_on(Adapters::new(&Platform::closed_host(), &kinds), kinds, pair, 0, true);
            }
        }
    }
}

// spec: NF-148, NF-149, NF-150, NF-151
#[test]
fn a_gpu_signal_interrupts_always_and_is_propagated_once() {
    let world = Adapters::new(&virtual_time(), &[Kind::CAPABLE; 3]).run(|w| {
        let (fences, _handle) = w.fence_from(0, 0);
        let (one, two) = (w.queue(0, Submission::User), w.queue(0, Submission::User));
        let idle = w.devices[0].create_fence("idle", 0).unwrap();
        // The first has no waiter. The second has a waiter on its own GPU, which needs no kernel.
        one.signal(&fences[0], 1).unwrap();
        two.wait(&fences[0], 2).unwrap();
        two.signal(&idle, 1).unwrap();
        one.signal(&fences[0], 2).unwrap();
        idle.wait(1).unwrap();
        pass(w, 1);
        assert_eq!(w.updates(0), [], "the signalling adapter's driver gets no call");
        assert_eq!(w.updates(1), [(NotificationOnly, 1), (NotificationOnly, 2)]);
        assert_eq!(w.updates(2), w.updates(1));
        let calls = w.drivers[1].calls();
        assert_eq!(calls.monitored.len(), 0, "nothing is armed");
    });
    let stats = [0, 1, 2].map(|i| world.machine.adapter_at(i).stats());
    assert_eq!(stats.map(|s| s.relays), [4, 0, 0], "what was relayed is not relayed again");
    assert_eq!((stats[1].interrupts, stats[2].interrupts), (0, 0));
}

// spec: NF-156, NF-162, NF-164
#[test]
fn a_cpu_signal_is_stored_by_the_native_driver_and_others_are_notified() {
    Adapters::new(&virtual_time(), &[Kind::CAPABLE, Kind::CAPABLE, Kind::PLAIN]).run(|w| {
        let (fences, _handle) = w.fence_from(0, 7);
        assert_eq!(fences[1].completed_value(), 7, "the initial value is the creator's");
        fences[0].signal(10).unwrap();
        assert_eq!((w.updates(0), w.updates(1)), (vec![(Write, 10)], vec![(NotificationOnly, 10)]));
        fences[1].signal(11).unwrap();
        assert_eq!(w.updates(0)[1..], [(NotificationOnly, 11)]);
        assert_eq!(w.updates(1)[1..], [(Write, 11)]);
        fences[2].signal(12).unwrap();
        assert_eq!(w.updates(0)[2..], [(NotificationOnly, 12)]);
        fences[0].signal(0).unwrap();
        assert_eq!((w.updates(0)[3], w.updates(1)[3]), ((Write, 0), (NotificationOnly, 0)));
        assert_eq!(fences.iter().map(Fence::completed_value).collect::<Vec<_>>(), [0, 0, 0]);
        assert_eq!((w.updates(2), w.notifications(1)), (vec![], 3));
    });
}

// spec: NF-165
#[test]
fn the_last_store_stays_from_any_endpoint() {
    Adapters::new(&virtual_time(), &[Kind::CAPABLE, Kind::PLAIN]).run(|w| {
        let (fences, _handle) = w.fence_from(1, 0);
        for (adapter, endpoint, value) in [
            (0, Endpoint::Queue(Submission::User), 9),
            (1, Endpoint::Queue(Submission::Packet), 4),
            (0, Endpoint::Queue(Submission::Hardware), 6),
            (1, Endpoint::Cpu, 5),
        ] {
            signal(w, adapter, endpoint, &fences[adapter], value);
            assert_eq!((fences[0].completed_value(), fences[1].completed_value()), (value, value));
        }
    });
}

// spec: ME-046
#[test]
fn the_application_chooses_the_use_of_a_fence() {
    Adapters::new(&virtual_time(), &[Kind::CAPABLE; 2]).run(|w| {
        let [one, two] = [&w.devices[0], &w.devices[1]];
        let shared = [FenceFlags::SHARED, FenceFlags::SHARED_CROSS_ADAPTER];
        assert_eq!(shared.map(|flags| flags.bits()), [1, 2]);
        assert_eq!([FenceFlags::NONE, FenceFlags::NON_MONITORED].map(|flags| flags.bits()), [0, 4]);
        let make = |flags| one.create_fence_with(FenceDesc::new("f").initial_value(4).flags(flags));
        assert!(make(FenceFlags::SHARED_CROSS_ADAPTER).is_err(), "it must be shared");
        let private = make(FenceFlags::NONE).unwrap();
        assert_eq!(private.completed_value(), 4);
        assert!(one.create_shared_handle(&private).is_err());
        let shared = make(FenceFlags::SHARED).unwrap();
        assert!(two.create_shared_handle(&shared).is_err(), "it is not that device's");
        let handle = one.create_shared_handle(&shared).unwrap();
        assert!(two.open_shared_handle("f", &handle).is_err(), "it is one adapter's");
        let same = one.open_shared_handle("f", &handle).unwrap();
        same.signal(5).unwrap();
        assert_eq!(shared.completed_value(), 5);
        let both = FenceFlags::SHARED | FenceFlags::SHARED_CROSS_ADAPTER;
        let everywhere = make(both).unwrap();
        let named = one.create_named_shared_handle(&everywhere, "of the machine").unwrap();
        let found = two.open_shared_handle_by_name("of the machine").unwrap();
        let opened = two.open_shared_handle("f", &found).unwrap();
        drop((named, found));
        everywhere.signal(6).unwrap();
        opened.wait(6).unwrap();
        let queues_only = make(FenceFlags::NON_MONITORED).unwrap();
        assert!(queues_only.signal(5).is_err() && queues_only.wait(4).is_err());
        let (queue, done) = (w.queue(0, Submission::User), make(FenceFlags::NONE).unwrap());
        queue.signal(&queues_only, 7).unwrap();
        queue.wait(&queues_only, 7).unwrap();
        queue.signal_and_wait(&done, 8);
        assert_eq!(queues_only.completed_value(), 7);
    });
}

#[test]
fn a_pulse_on_one_adapter_releases_the_waiters_of_the_other() {
    for kinds in
        [[Kind::CAPABLE, Kind::CAPABLE], [Kind::PLAIN, Kind::CAPABLE], [Kind::CAPABLE, Kind::PLAIN]]
    {
        for &waiter in endpoints_on(kinds[1]) {
            Adapters::new(&virtual_time(), &kinds).run(move |w| {
                let (fences, _handle) = w.fence_from(0, 0);
                let done = w.devices[1].create_fence("done", 0).unwrap();
                let event = w.devices[1].create_event(EventDesc::manual_reset());
                let queue =
                    w.queue(1, if kinds[1].native { Submission::User } else { Submission::Packet });
                if let Endpoint::Queue(_) = waiter {
                    queue.wait(&fences[1], 5).unwrap();
                    queue.signal(&done, 1).unwrap();
                } else {
                    fences[1].set_event_on_completion(5, &event).unwrap();
                }
                let pulse =
                    w.queue(0, if kinds[0].native { Submission::User } else { Submission::Packet });
                pulse.signal(&fences[0], 5).unwrap();
                pulse.signal(&fences[0], 0).unwrap();
                match waiter {
                    Endpoint::Cpu => assert_eq!(event.wait(), Ok(())),
                    Endpoint::Queue(_) => done.wait(1).unwrap(),
                }
            });
        }
    }
}

/// Two adapters answer each other.
fn ping_pong(platform: &Platform, kinds: [Kind; 2], submissions: [Submission; 2], rounds: u64) {
    Adapters::new(platform, &kinds).run(move |w| {
        let (ping, _ping) = w.fence_from(0, 0);
        let (pong, _pong) = w.fence_from(1, 0);
        let queues = [w.queue(0, submissions[0]), w.queue(1, submissions[1])];
        for round in 1..=rounds {
            queues[1].wait(&ping[1], round).unwrap();
            queues[1].signal(&pong[1], round).unwrap();
            queues[0].wait(&pong[0], round).unwrap();
            queues[0].signal(&ping[0], round + 1).unwrap();
        }
        ping[0].signal(1).unwrap();
        pong[0].wait(rounds).unwrap();
        ping[1].wait(rounds + 1).unwrap();
    });
}

#[test]
fn adapters_that_answer_each_other_do_not_nest() {
    use Submission::{Hardware, Packet, User};
    let worker = Kind { interrupts: InterruptDelivery::Worker, ..Kind::CAPABLE };
    for (kinds, submissions) in [
        ([Kind::CAPABLE; 2], [Hardware, Hardware]),
        ([Kind::CAPABLE; 2], [User, Hardware]),
        ([Kind::CAPABLE; 2], [User, User]),
        ([worker; 2], [Hardware, User]),
        ([Kind::PLAIN; 2], [Packet, Packet]),
        ([Kind::PLAIN, worker], [Packet, User]),
    ] {
        ping_pong(&virtual_time(), kinds, submissions, 400);
        ping_pong(&Platform::closed_host(), kinds, submissions, 100);
    }
}

/// GPUs that signal each other, by common doorbells, without or with shared fence storage too.
const LINKED: [PeerSignalCaps; 2] = [
    PeerSignalCaps { common_doorbell: true, shared_fence_storage: false },
    PeerSignalCaps { common_doorbell: true, shared_fence_storage: true },
];

fn linked(platform: &Platform, kinds: &[Kind], caps: PeerSignalCaps) -> Adapters {
    Adapters::with(platform, kinds, move |_, config| config.driver.peer_signal = caps)
}

#[test]
fn linked_gpus_release_every_waiter_for_every_signaller() {
    for caps in LINKED {
        for mode in [InterruptMode::FenceArray, InterruptMode::NullArray, InterruptMode::HwQueue] {
            for interrupts in [InterruptDelivery::Inline, InterruptDelivery::Worker] {
                let kinds = [Kind { mode, interrupts, native: true }; 2];
                for pair in endpoints(kinds) {
                    for early in [true, false] {
                        pair_on(linked(&virtual_time(), &kinds, caps), kinds, pair, 0, early);
                    }
                    let host = linked(&Platform::closed_host(), &kinds, caps);
                    pair_on(host, kinds, pair, 1, true);
                }
            }
        }
    }
}

/// What a chain of signals between two GPUs costs when no CPU waits: interrupts, and virtual
/// nanoseconds for each step.
fn chain(caps: PeerSignalCaps) -> (u64, u64) {
    const ROUNDS: u64 = 50;
    let platform = Platform::virtual_time(CostModel::nominal().steps);
    let kind = Kind { interrupts: InterruptDelivery::Worker, ..Kind::CAPABLE };
    let world = linked(&platform, &[kind; 2], caps).run(|w| {
        let (ping, _ping) = w.fence_from(0, 0);
        let (pong, _pong) = w.fence_from(1, 0);
        let (one, two) = (w.queue(0, Submission::User), w.queue(1, Submission::User));
        for round in 1..=ROUNDS {
            two.wait(&ping[1], round).unwrap();
            two.signal(&pong[1], round).unwrap();
            one.signal(&ping[0], round).unwrap();
            one.wait(&pong[0], round).unwrap();
        }
        pass(w, 10_000_000);
        assert_eq!(pong[0].completed_value(), ROUNDS);
    });
    let stalled =
        world.machine.gpu_at(1).stats().queues.values().map(|queue| queue.blocked_ns).sum::<u64>();
    let interrupts = [0, 1].map(|i| world.machine.adapter_at(i).stats().interrupts);
    (interrupts.iter().sum(), stalled / ROUNDS)
}

// spec: NF-166
#[test]
fn a_chain_of_gpus_that_signal_each_other_needs_no_interrupt_and_is_faster() {
    let (relayed, slow_ns) = chain(PeerSignalCaps::default());
    println!("propagated by the CPU: {relayed} interrupts, {slow_ns} ns for each answer");
    for caps in LINKED {
        let (interrupts, ns) = chain(caps);
        println!("{caps:?}: {interrupts} interrupts, {ns} ns for each answer");
        assert_eq!(interrupts, 0);
        assert!(ns < slow_ns);
    }
    assert_eq!(relayed, 100, "each signal interrupts when the kernel must propagate it");
}

#[test]
fn shared_storage_sends_no_signal_to_a_gpu_without_waiters() {
    let peer_signals = LINKED.map(|caps| {
        let world = linked(&virtual_time(), &[Kind::CAPABLE; 2], caps).run(|w| {
            let (fences, _handle) = w.fence_from(0, 0);
            let queue = w.queue(0, Submission::User);
            for value in 1..=20 {
                queue.signal(&fences[0], value).unwrap();
                pass(w, 1);
            }
        });
        world.machine.gpu_at(1).stats().peer_signals
    });
    assert_eq!(peer_signals, [20, 0], "doorbells alone, and shared storage");
}

#[test]
fn linked_gpus_interrupt_for_their_own_cpu_waiters_alone() {
    for caps in LINKED {
        let world = linked(&virtual_time(), &[Kind::CAPABLE; 2], caps).run(|w| {
            let (fences, _handle) = w.fence_from(0, 0);
            let queue = w.queue(0, Submission::User);
            let event = w.devices[1].create_event(EventDesc::manual_reset());
            fences[1].set_event_on_completion(3, &event).unwrap();
            let armed = w.drivers[1].calls().monitored.last().unwrap().value;
            assert_eq!(armed, 2, "armed as on a private fence");
            assert!(w.drivers[0].calls().monitored.is_empty());
            for value in [1, 2, 3, 4] {
                queue.signal(&fences[0], value).unwrap();
            }
            // A pulse is no less a signal.
            event.wait().unwrap();
            let pulse = w.devices[1].create_event(EventDesc::manual_reset());
            fences[1].set_event_on_completion(9, &pulse).unwrap();
            queue.signal(&fences[0], 9).unwrap();
            queue.signal(&fences[0], 0).unwrap();
            pulse.wait().unwrap();
            assert_eq!(w.updates(1), [], "the CPU did not notify adapter 1");
        });
        let stats = [0, 1].map(|i| world.machine.adapter_at(i).stats());
        assert_eq!((stats[0].interrupts, stats[1].interrupts > 0, stats[0].relays), (0, true, 0));
    }
}

/// A fence as adapters 0 and 1 have it, and its handle. Adapter 1 waits for the value 2, with the
/// event.
fn awaited_fence(w: &Adapters) -> ([Fence; 2], NtHandle, Event) {
    let flags = FenceFlags::SHARED | FenceFlags::SHARED_CROSS_ADAPTER;
    let fence = w.devices[0].create_fence_with(FenceDesc::new("shared").flags(flags)).unwrap();
    let handle = w.devices[0].create_shared_handle(&fence).unwrap();
    let opened = w.devices[1].open_shared_handle("shared", &handle).unwrap();
    let event = w.devices[1].create_event(EventDesc::manual_reset());
    opened.set_event_on_completion(2, &event).unwrap();
    ([fence, opened], handle, event)
}

#[test]
fn an_adapter_that_no_gpu_can_signal_ends_the_link() {
    for caps in LINKED {
        let kinds = [Kind::CAPABLE, Kind::CAPABLE, Kind::PLAIN];
        linked(&virtual_time(), &kinds, caps).run(|w| {
            let ([one, _two], handle, event) = awaited_fence(w);
            let three = w.devices[2].open_shared_handle("shared", &handle).unwrap();
            assert_eq!(w.drivers[1].calls().monitored.last().unwrap().value, 0);
            let plain = w.devices[2].create_event(EventDesc::manual_reset());
            three.set_event_on_completion(1, &plain).unwrap();
            let queue = w.queue(0, Submission::User);
            queue.signal(&one, 1).unwrap();
            plain.wait().unwrap();
            queue.signal(&one, 2).unwrap();
            event.wait().unwrap();
            assert_eq!(w.notifications(1), 3, "one for the unlinking, one for each signal");
        });
    }
}

/// Each call of a join that a driver can refuse, and the adapter whose driver refuses it.
const REFUSED_JOINS: [(usize, Entry); 4] = [
    (2, Entry::CommonDoorbell),
    (0, Entry::ConnectPeer),
    (2, Entry::LinkNativeFence),
    (0, Entry::LinkNativeFence),
];

#[test]
fn a_driver_that_refuses_a_new_member_ends_the_link_of_all() {
    for caps in LINKED {
        for (refusing, entry) in REFUSED_JOINS {
            linked(&virtual_time(), &[Kind::CAPABLE; 3], caps).run(move |w| {
                let ([one, _two], handle, event) = awaited_fence(w);
                w.drivers[refusing].fail_next(entry, Status::INSUFFICIENT_RESOURCES);
                let three = w.devices[2].open_shared_handle("shared", &handle).unwrap();
                let armed = w.drivers[1].calls().monitored.last().unwrap().value;
                assert_eq!(armed, 0, "{entry:?} of {refusing}: every signal interrupts");
                let late = w.devices[2].create_event(EventDesc::manual_reset());
                three.set_event_on_completion(1, &late).unwrap();
                let queue = w.queue(0, Submission::User);
                queue.signal(&one, 1).unwrap();
                late.wait().unwrap();
                queue.signal(&one, 2).unwrap();
                event.wait().unwrap();
                let back = w.queue(2, Submission::User);
                let done = w.devices[0].create_event(EventDesc::manual_reset());
                one.set_event_on_completion(3, &done).unwrap();
                back.signal(&three, 3).unwrap();
                done.wait().unwrap();
            });
        }
    }
}

#[test]
fn a_link_ends_with_its_members_and_comes_back_with_new_ones() {
    for caps in LINKED {
        linked(&virtual_time(), &[Kind::CAPABLE; 2], caps).run(|w| {
            let (mut fences, handle) = w.fence_from(0, 0);
            drop(fences.pop());
            let queue = w.queue(0, Submission::User);
            queue.signal(&fences[0], 1).unwrap();
            let again = w.devices[1].open_shared_handle("again", &handle).unwrap();
            let waiting = w.queue(1, Submission::User);
            let done = w.devices[1].create_fence("done", 0).unwrap();
            waiting.wait(&again, 2).unwrap();
            waiting.signal(&done, 1).unwrap();
            queue.signal(&fences[0], 2).unwrap();
            done.wait(1).unwrap();
            assert_eq!(w.notifications(1), 0);
        });
    }
}

const ANY: SyncObjectFlags = SyncObjectFlags::empty();

/// A process on an adapter, for calls that the queue API does not offer.
fn open_process(machine: &Machine, adapter: usize) -> Client {
    let kernel = machine.open_on(adapter, "surface").unwrap();
    let device = kernel.create_device().unwrap();
    Client::of(machine.platform(), kernel, device)
}

// spec: NF-144
#[test]
fn creation_rules() {
    Adapters::new(&virtual_time(), &[Kind::CAPABLE, Kind::PLAIN]).run(|w| {
        let surface = open_process(&w.machine, 0);
        let made = surface.try_native(0, CROSS).unwrap();
        assert!(made.native);
        let (alone, default) = (SyncObjectFlags::CROSS_ADAPTER, NativeFenceType::Default);
        for (fence_type, flags) in [
            (NativeFenceType::IntraGpu, CROSS),
            (default, alone),
            (default, alone | SyncObjectFlags::NT_SECURITY_SHARING),
        ] {
            let refused =
                surface.native_with(|args| (args.fence_type, args.flags) = (fence_type, flags));
            assert_eq!(refused.unwrap_err(), Status::INVALID_PARAMETER, "{fence_type:?} {flags:?}");
        }
        assert_eq!(surface.try_monitored(0, alone).unwrap_err(), Status::INVALID_PARAMETER);
        surface.try_monitored(0, CROSS).unwrap();
        let plain = open_process(&w.machine, 1);
        assert_eq!(plain.try_native(0, CROSS).unwrap_err(), Status::NOT_SUPPORTED);
        plain.try_monitored(0, CROSS).unwrap();
    });
}

// spec: NF-142, NF-152, NF-153
#[test]
fn opening_on_another_adapter() {
    Adapters::new(&virtual_time(), &[Kind::CAPABLE, Kind::PLAIN]).run(|w| {
        let (capable, plain) = (open_process(&w.machine, 0), open_process(&w.machine, 1));
        let made = capable.try_native(0, CROSS).unwrap();
        let handle = capable.share_all(&made);
        assert_eq!(
            plain.open_native(&handle, ANY).unwrap_err(),
            Status::NOT_SUPPORTED,
            "no native fences there"
        );
        let opened = plain.open_shared(&handle, ANY).unwrap();
        assert!(!opened.native && opened.monitored_value_gpu_va == 0);
        let made = plain.try_monitored(0, CROSS).unwrap();
        let handle = plain.share_all(&made);
        w.calls[0].take();
        let opened = capable.open_native(&handle, ANY).unwrap();
        assert!(opened.native && opened.monitored_value_gpu_va != 0);
        assert_eq!(w.calls[0].take_names(), ["CreateNativeFence", "OpenNativeFence"]);
        assert!(capable.open_shared(&handle, ANY).unwrap().native);
        assert_eq!(w.calls[0].take_names(), ["OpenNativeFence"], "one member for each adapter");
        // A monitored fence stays one on the adapter that made it so; and what is not for several
        // adapters stays on one.
        let monitored = capable.try_monitored(0, CROSS).unwrap();
        let again = capable.open_native(&capable.share_all(&monitored), ANY);
        assert_eq!(again.unwrap_err(), Status::OBJECT_TYPE_MISMATCH);
        let shared = SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING;
        let one = capable.try_native(0, shared).unwrap();
        assert_eq!(
            plain.open_shared(&capable.share_all(&one), ANY).unwrap_err(),
            Status::NOT_SUPPORTED
        );
    });
}

// spec: NF-031, NF-145, NF-146, NF-147
#[test]
fn one_current_value_in_system_memory_and_a_monitored_value_of_0_for_each_adapter() {
    Adapters::new(&virtual_time(), &[Kind::CAPABLE; 2]).run(|w| {
        let mapped = |adapter: usize| w.drivers[adapter].calls().pages.len();
        let before = [mapped(0), mapped(1)];
        let (fences, _handle) = w.fence_from(0, 3);
        let pages = [0, 1].map(|i| w.drivers[i].calls().pages[before[i]..].to_vec());
        // CurrentValue may be stored to, MonitoredValue may not.
        let values = pages.clone().map(|p| p.iter().rfind(|(_, writable)| *writable).unwrap().0);
        let monitored =
            pages.clone().map(|p| p.iter().rfind(|(_, writable)| !*writable).unwrap().0);
        assert_eq!(values[0], values[1]);
        assert!(values[0].0 < 1 << 40, "system memory lies below all local memory");
        assert_ne!(monitored[0], monitored[1]);
        let event = w.devices[0].create_event(EventDesc::manual_reset());
        fences[0].set_event_on_completion(9, &event).unwrap();
        fences[1].set_event_on_completion(8, &event).unwrap();
        // Nothing was armed, and so the cells are what they were made with.
        assert!(w.drivers.iter().all(|driver| driver.calls().monitored.is_empty()));
        let queue = w.queue(1, Submission::User);
        queue.signal(&fences[1], 1).unwrap();
        pass(w, 1);
        let interrupts = w.machine.adapter_at(1).stats().interrupts;
        assert_eq!(interrupts, 1, "1 is above 0, though 8 is waited for");
    });
}

#[test]
fn a_member_ends_with_its_last_hold_and_the_value_with_the_last_member() {
    Adapters::new(&virtual_time(), &[Kind::CAPABLE; 2]).run(|w| {
        let surfaces = [open_process(&w.machine, 0), open_process(&w.machine, 1)];
        let made = surfaces[0].try_native(0, CROSS).unwrap();
        let handle = surfaces[0].share_all(&made);
        let opened = surfaces[1].open_native(&handle, ANY).unwrap();
        let value = opened.value.clone();
        w.calls.iter().for_each(|c| drop(c.take()));
        // The creator's instance and its handle are closed. The member of adapter 0 ends, which
        // does not affect adapter 1.
        let kept = surfaces[1].wait_event(&opened, 5);
        surfaces[0].destroy(&made);
        assert_eq!(w.calls[0].take_names(), ["CloseNativeFence"]);
        drop(handle);
        assert_eq!(w.calls[0].take_names(), ["DestroyNativeFence"]);
        assert_eq!(w.calls[1].take_names(), Vec::<&str>::new());
        assert!(!kept.is_set());
        // It can come back, as a new member.
        let handle = surfaces[1].share_all(&opened);
        let back = surfaces[0].open_native(&handle, ANY).unwrap();
        assert_eq!(w.calls[0].take_names(), ["CreateNativeFence", "OpenNativeFence"]);
        surfaces[0].signal(&back, 5);
        assert!(kept.is_set() && value.load() == 5);
        surfaces[0].destroy(&back);
        drop(handle);
        surfaces[1].signal(&opened, 2);
        assert_eq!(value.load(), 2);
        let last = surfaces[1].wait_event(&opened, 9);
        surfaces[1].destroy(&opened);
        assert!(last.is_set() && value.load() == u64::MAX, "the last one takes the value with it");
    });
}

// spec: NF-107
#[test]
fn a_queued_wait_is_released_with_the_last_handle_on_its_adapter() {
    Adapters::new(&virtual_time(), &[Kind::CAPABLE; 2]).run(|w| {
        let (mut fences, handle) = w.fence_from(0, 0);
        let queue = w.queue(1, Submission::User);
        let done = w.devices[1].create_fence("done", 0).unwrap();
        queue.wait(&fences[1], 5).unwrap();
        queue.signal(&done, 1).unwrap();
        pass(w, 1);
        assert_eq!((w.machine.gpu_at(1).parked_waits().len(), done.completed_value()), (1, 0));
        drop((fences.pop(), handle));
        pass(w, 1);
        assert_eq!((w.machine.gpu_at(1).parked_waits().len(), done.completed_value()), (0, 1));
        assert!(w.devices[1].removed_reason().is_none());
        // The member of the other adapter is there.
        assert_eq!(fences[0].completed_value(), 0);
        fences[0].signal(5).unwrap();
        assert_eq!(fences[0].completed_value(), 5);
    });
}

#[test]
fn a_lost_device_raises_the_fence_for_all_adapters() {
    let options = || DeviceOptions { process_name: "faulty".into(), ..DeviceOptions::default() };
    Adapters::new(&virtual_time(), &[Kind::CAPABLE; 2]).run(move |w| {
        let faulty: Device = w.machine.device_on(0, options()).unwrap();
        let flags = FenceFlags::SHARED | FenceFlags::SHARED_CROSS_ADAPTER;
        let made = faulty.create_fence_with(FenceDesc::new("shared").flags(flags)).unwrap();
        let handle = faulty.create_shared_handle(&made).unwrap();
        let opened = w.devices[1].open_shared_handle("s", &handle).unwrap();
        let queue = w.queue(1, Submission::User);
        let done = w.devices[1].create_fence("done", 0).unwrap();
        queue.wait(&opened, 5).unwrap();
        queue.signal(&done, 1).unwrap();
        // A fill at an unmapped address.
        let bad = faulty.queue(CommandListType::Copy, Submission::User);
        faulty.execute(&bad, |list| list.fill_unchecked(0x10, 8, 1));
        done.wait(1).unwrap();
        assert_eq!(opened.completed_value(), u64::MAX);
        assert_eq!(w.updates(0)[0], (AlwaysSignaled, u64::MAX));
        assert!(faulty.removed_reason().is_some() && w.devices[1].removed_reason().is_none());
        drop(bad);
    });
}

#[test]
fn adapters_have_lanes_names_and_memory_of_their_own() {
    let platform = virtual_time();
    let config = || MachineConfig::standard(&platform);
    assert_eq!(Machine::builder(&platform).start().err(), Some(MachineError::NoAdapter));
    let machine = Machine::builder(&platform).reference(config()).reference(config());
    let machine = machine.start().unwrap();
    assert_eq!(machine.adapter_count(), 2);
    assert!(machine.open_on(2, "no adapter").is_err());
    use tidegate::gpu_abi::Device as _;
    let memory = [0, 1].map(|i| machine.gpu_at(i).local_memory(0).unwrap());
    let at = memory.map(|m| m.bulk(8).0);
    assert!(at[0] < at[1] && memory[0].resolve(at[1]).is_none());
}
