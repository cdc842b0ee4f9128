//! Waits latch: a wait whose value was reached after its call is satisfied, whatever the fence
//! becomes, on every kind of queue and on the CPU. A pulse here is a signal of the value and a
//! rewind to 0 right behind it.

use tidegate_testbed::prelude::*;

const SETTLED_NS: u64 = 100_000;

/// What a queue is fed by.
enum Kind {
    Context(Handle),
    Kernel(HwQueue),
    Ring(Box<UserQueue>),
}

impl Kind {
    /// One of each, on node 0.
    fn each(w: &World) -> [Kind; 3] {
        [
            Kind::Context(w.context(0)),
            Kind::Kernel(w.hw_queue_on(0)),
            Kind::Ring(Box::new(w.connected_queue(0))),
        ]
    }

    fn wait(&self, w: &World, fence: &FenceInstance, value: u64) {
        match self {
            Kind::Context(context) => w.kernel.wait_from_gpu(*context, &at(fence, value)).unwrap(),
            Kind::Kernel(queue) => {
                w.on_queue(queue).wait(fence, value);
            }
            Kind::Ring(queue) => queue.push(&wait_packet(fence, value, NO_LOG_ENTRY)),
        }
    }

    fn signal(&self, w: &World, fence: &FenceInstance, value: u64) {
        match self {
            Kind::Context(context) => {
                w.kernel.signal_from_gpu(*context, &at(fence, value)).unwrap()
            }
            Kind::Kernel(queue) => {
                w.on_queue(queue).signal(fence, value);
            }
            Kind::Ring(queue) => queue.push(&signal_packet(fence, value, NO_LOG_ENTRY)),
        }
    }
}

/// The source of a pulse.
enum Pulser {
    Cpu,
    /// A ring on another engine; how many entries its log has, 0 if it writes none, and how many it
    /// has written.
    Ring(Box<UserQueue>, u32, Word),
    /// Plain stores of a kernel-mode queue on another engine, and its last progress value.
    Stores(HwQueue),
}

impl Pulser {
    fn each(w: &World) -> [Pulser; 3] {
        [Pulser::Cpu, Pulser::ring(w, 0), Pulser::Stores(w.hw_queue_on(2))]
    }

    fn ring(w: &World, log_entries: u32) -> Pulser {
        Pulser::Ring(Box::new(w.connected_queue(1)), log_entries, w.platform.page(1).word(0))
    }

    /// Returns when the fence is at 0 again.
    fn pulse(&self, w: &World, fence: &FenceInstance, value: u64) {
        match self {
            Pulser::Cpu => {
                w.signal(fence, value);
                w.signal(fence, 0);
            }
            Pulser::Ring(queue, log_entries, written) => {
                for value in [value, 0] {
                    let entry = written.fetch_add(1).checked_rem(u64::from(*log_entries));
                    let entry = entry.map_or(NO_LOG_ENTRY, |entry| entry as u32);
                    queue.put(&signal_packet(fence, value, entry));
                }
                queue.ring();
                w.pass(SETTLED_NS);
            }
            Pulser::Stores(queue) => {
                let next = queue.progress_value.load() + 1;
                let va = fence.current_value_gpu_va;
                w.submit(queue, next, &[store(va, value), store(va, 0)]);
                w.wait(queue.progress_fence, next).unwrap();
            }
        }
        assert_eq!(fence.value.load(), 0);
    }
}

fn interrupts(mode: InterruptMode, log_entries: u32) -> World {
    world_with(|config| {
        config.driver.interrupt = mode;
        config.kernel.log_entries = log_entries;
    })
}

fn without_history() -> World {
    world_with(|config| config.driver.fence_history = false)
}

/// The driver's handle of the context of the hardware queue made last.
fn context_of_last_queue(w: &World) -> DriverHandle {
    w.calls().queues.last().unwrap().0.context
}

// spec: ME-042
#[test]
fn a_cpu_wait_latches_in_every_interrupt_mode_with_logs_and_without_room_in_them() {
    let cases = [
        (InterruptMode::FenceArray, 84, false),
        (InterruptMode::FenceArray, 1, true),
        (InterruptMode::NullArray, 84, false),
        (InterruptMode::NullArray, 1, true),
        (InterruptMode::HwQueue, 84, true),
        (InterruptMode::HwQueue, 84, false),
        // Each pulse runs over the entry of its own first signal.
        (InterruptMode::HwQueue, 1, true),
    ];
    for (mode, entries, logged) in cases {
        interrupts(mode, entries).run(move |w| {
            let fence = w.native(0);
            let queue = Pulser::ring(w, if logged { entries } else { 0 });
            for round in 0..50 {
                let (five, six) = (w.wait_event(&fence, 5), w.wait_event(&fence, 6));
                queue.pulse(w, &fence, 5);
                assert!(five.is_set(), "{mode:?} with {entries} entries, round {round}");
                let late = w.wait_event(&fence, 5);
                w.pass(SETTLED_NS);
                assert!(!late.is_set() && !six.is_set(), "{mode:?}: 5 was before, and 6 never");
                queue.pulse(w, &fence, 6);
                let both = late.is_set() && six.is_set();
                assert!(both, "{mode:?} with {entries} entries, round {round}");
            }
        });
    }
}

#[test]
fn a_cpu_wait_latches_a_pulse_of_the_cpu_and_of_a_ring() {
    world().run(|w| {
        for pulser in [Pulser::Cpu, Pulser::ring(w, 0)] {
            let fence = w.native(0);
            let (blocked, five) = (w.platform.event(true), w.wait_event(&fence, 5));
            let (kernel, waits, over) = (w.kernel.clone(), at(&fence, 4), blocked.clone());
            let waiter = w.platform.spawn("waiter", move || {
                kernel.wait_from_cpu(&waits, WaitMode::All, None).unwrap();
                over.set(Step::ThreadWake);
            });
            w.pass(SETTLED_NS);
            pulser.pulse(w, &fence, 5);
            waiter.join();
            assert!(blocked.is_set() && five.is_set());
        }
        // Plain stores release no waiter. The next scan of the waiters finds the pulse.
        let (fence, five) = w.native_awaited(5);
        Pulser::Stores(w.hw_queue_on(2)).pulse(w, &fence, 5);
        assert!(!five.is_set());
        w.signal(&fence, 0);
        assert!(five.is_set());
    });
}

// spec: ME-043
#[test]
fn a_queue_passes_a_wait_that_was_pulsed_behind_a_blocked_head_and_at_the_head() {
    world().run(|w| {
        for pulser in Pulser::each(w) {
            for queue in Kind::each(w) {
                let [head, gate, done] = [(); 3].map(|()| w.native(0));
                queue.wait(w, &head, 1);
                queue.wait(w, &gate, 5);
                queue.signal(w, &done, 1);
                let plain = matches!(pulser, Pulser::Stores(_));
                pulser.pulse(w, &gate, 5);
                assert_eq!(done.value.load(), 0, "the head holds the queue");
                if plain {
                    // Plain stores raise no interrupt. This signal brings the scan.
                    w.signal(&gate, 0);
                }
                w.signal(&head, 1);
                w.wait(done.handle, 1).unwrap();
                // At the head.
                queue.wait(w, &gate, 5);
                queue.signal(w, &done, 2);
                w.pass(SETTLED_NS);
                assert_eq!(done.value.load(), 1, "this wait was called after the pulse");
                pulser.pulse(w, &gate, 5);
                if plain {
                    w.signal(&gate, 0);
                }
                w.wait(done.handle, 2).unwrap();
            }
        }
    });
}

#[test]
fn a_context_latches_pulses_of_monitored_fences() {
    world().run(|w| {
        let context = Kind::Context(w.context(0));
        let [head, gate, done] = [(); 3].map(|()| w.monitored(0));
        context.wait(w, &head, 1);
        context.wait(w, &gate, 5);
        context.signal(w, &done, 1);
        let five = w.wait_event(&gate, 5);
        // A packet of another context pulses; its completion brings the scan.
        let va = gate.current_value_gpu_va;
        w.submit_packet(w.context(1), &[store(va, 5), store(va, 0)]);
        w.pass(SETTLED_NS);
        assert!(five.is_set() && done.value.load() == 0);
        w.signal(&head, 1);
        w.wait(done.handle, 1).unwrap();
    });
}

// spec: NF-107
#[test]
fn a_suspended_queue_loses_no_pulse() {
    world().run(|w| {
        for pulser in Pulser::each(w) {
            let queue = Kind::Ring(Box::new(w.connected_queue(0)));
            let context = context_of_last_queue(w);
            let [parked, unseen, done] = [(); 3].map(|()| w.native(0));
            queue.wait(w, &parked, 5);
            w.pass(SETTLED_NS);
            w.hooked.suspend_context(&Passive::enter(), context, 0).unwrap();
            // Published while suspended: the hardware has not seen it.
            queue.wait(w, &unseen, 7);
            queue.signal(w, &done, 1);
            pulser.pulse(w, &parked, 5);
            pulser.pulse(w, &unseen, 7);
            w.pass(SETTLED_NS);
            assert_eq!(done.value.load(), 0, "it is suspended");
            w.hooked.resume_context(&Passive::enter(), context).unwrap();
            w.wait(done.handle, 1).unwrap();
        }
    });
}

#[test]
fn a_queue_without_its_doorbell_loses_no_pulse() {
    let w = world_with(|config| {
        config.driver.doorbells = DoorbellModel::Dedicated { physical: 1 };
    });
    w.run(|w| {
        let [parked, unseen, done] = [(); 3].map(|()| w.native(0));
        let victim = w.connected_queue(0);
        victim.wait(&parked, 5);
        w.pass(SETTLED_NS);
        // The only doorbell goes to another queue, which pulses.
        let pulser = Pulser::ring(w, 0);
        assert_eq!(w.stats().doorbell_victims, 1);
        victim.put(&wait_packet(&unseen, 7, NO_LOG_ENTRY));
        victim.put(&signal_packet(&done, 1, NO_LOG_ENTRY));
        victim.ring();
        pulser.pulse(w, &parked, 5);
        pulser.pulse(w, &unseen, 7);
        assert_eq!(done.value.load(), 0, "the ring reached no engine");
        victim.connect().unwrap();
        victim.ring();
        w.wait(done.handle, 1).unwrap();
    });
}

#[test]
fn a_wait_after_a_rewind_sees_only_the_lower_value() {
    world().run(|w| {
        for pulser in Pulser::each(w) {
            for queue in Kind::each(w) {
                let [gate, done] = [(); 2].map(|()| w.native(0));
                pulser.pulse(w, &gate, 5);
                queue.wait(w, &gate, 5);
                queue.signal(w, &done, 1);
                let event = w.wait_event(&gate, 5);
                w.signal(&gate, 4);
                w.pass(SETTLED_NS);
                assert!(done.value.load() == 0 && !event.is_set());
                w.signal(&gate, 5);
                w.wait(done.handle, 1).unwrap();
                assert!(event.is_set());
            }
        }
    });
}

// spec: MF-043
#[test]
fn each_condition_of_a_wait_for_all_latches_on_its_own() {
    world().run(|w| {
        for pulser in [Pulser::Cpu, Pulser::ring(w, 0)] {
            let [first, second, done, packets] = [(); 4].map(|()| w.native(0));
            let both = [&first, &second].map(|fence| FenceValue { fence: fence.handle, value: 5 });
            let event = w.platform.event(true);
            w.kernel.wait_from_cpu(&both, WaitMode::All, Some(event.clone())).unwrap();
            let (context, queue) = (w.context(0), w.hw_queue_on(0));
            w.kernel.wait_from_gpu(context, &both).unwrap();
            w.on(context).signal(&packets, 1);
            w.kernel.submit_wait_to_hw_queue(queue.handle, &both).unwrap();
            w.on_queue(&queue).signal(&done, 1);
            pulser.pulse(w, &first, 6);
            pulser.pulse(w, &first, 5);
            assert!(!event.is_set() && done.value.load() + packets.value.load() == 0);
            pulser.pulse(w, &second, 5);
            w.wait(done.handle, 1).unwrap();
            w.wait(packets.handle, 1).unwrap();
            assert!(event.is_set(), "never were both at 5");
        }
    });
}

// spec: ME-032
#[test]
fn the_largest_value_can_be_waited_for_and_0_is_always_reached() {
    world().run(|w| {
        for pulser in Pulser::each(w) {
            for queue in Kind::each(w) {
                let [gate, done] = [(); 2].map(|()| w.native(0));
                queue.wait(w, &gate, 0);
                queue.signal(w, &done, 1);
                w.wait(done.handle, 1).unwrap();
                queue.wait(w, &gate, u64::MAX);
                queue.signal(w, &done, 2);
                let event = w.wait_event(&gate, u64::MAX);
                pulser.pulse(w, &gate, u64::MAX - 1);
                w.pass(SETTLED_NS);
                assert!(done.value.load() == 1 && !event.is_set());
                pulser.pulse(w, &gate, u64::MAX);
                if matches!(pulser, Pulser::Stores(_)) {
                    w.signal(&gate, 0);
                }
                w.wait(done.handle, 2).unwrap();
                assert!(event.is_set());
            }
        }
    });
}

// spec: NF-107
#[test]
fn waits_that_outlive_their_fence_pass_and_leave_the_next_one_alone() {
    world().run(|w| {
        let [head, dying, done, held] = [(); 4].map(|()| w.native(0));
        // One queue holds the wait behind another, one is held by it.
        let (behind, parked) = (w.connected_queue(0), w.connected_queue(1));
        behind.wait(&head, 1).wait(&dying, 5).signal(&done, 1);
        parked.wait(&dying, 6).signal(&held, 1);
        w.pass(SETTLED_NS);
        w.kernel.destroy_synchronization_object(dying.handle).unwrap();
        let next = w.native(2);
        let places = [&next, &dying].map(|fence| fence.current_value_gpu_va);
        assert_eq!(places[0], places[1], "it has the place of the destroyed fence");
        w.wait(held.handle, 1).unwrap();
        let (three, seven) = (w.wait_event(&next, 3), w.wait_event(&next, 7));
        assert_eq!(done.value.load(), 0);
        w.signal(&head, 1);
        w.wait(done.handle, 1).unwrap();
        w.pass(SETTLED_NS);
        assert!(next.value.load() == 2 && !three.is_set() && !seven.is_set());
        // The new fence latches as any.
        behind.wait(&next, 3).signal(&done, 2);
        w.pass(SETTLED_NS);
        assert_eq!(done.value.load(), 1);
        Pulser::ring(w, 0).pulse(w, &next, 3);
        w.wait(done.handle, 2).unwrap();
        assert!(three.is_set() && !seven.is_set());
    });
}

#[test]
fn ten_thousand_pulses_lose_no_waiter() {
    world().run(|w| {
        let (fence, passed) = (w.native(0), w.native(0));
        let (pulsing, waiting) = (w.connected_queue(1), w.connected_queue(0));
        for round in 1..=10_000 {
            let event = w.wait_event(&fence, 5);
            waiting.wait(&fence, 4).signal(&passed, round);
            if round % 2 == 0 {
                w.signal(&fence, 5);
                w.signal(&fence, 0);
            } else {
                pulsing.signal(&fence, 5).signal(&fence, 0);
            }
            until(&event);
            w.wait(passed.handle, round).unwrap();
            if round % 2 == 1 {
                // The next round's waits are called when this one's pulse is over.
                while fence.value.load() != 0 {
                    w.pass(100);
                }
            }
        }
        w.kernel.destroy_synchronization_object(fence.handle).unwrap();
        assert_eq!(w.stats().fence_history_lost, 0);
    });
}

fn until(event: &Event) {
    event.wait_for(None, "a value that is pulsed");
}

#[test]
fn hardware_without_histories_tests_the_level_and_the_kernel_latches_what_it_sees() {
    without_history().run(|w| {
        assert!(w.native(0).epoch.is_none(), "there is nothing to be loaded before a wait");
        for queue in Kind::each(w) {
            let [head, gate, done] = [(); 3].map(|()| w.native(0));
            queue.wait(w, &head, 1);
            queue.wait(w, &gate, 5);
            queue.signal(w, &done, 1);
            let event = w.wait_event(&gate, 5);
            Pulser::Cpu.pulse(w, &gate, 5);
            assert!(event.is_set(), "the kernel stored the value itself");
            w.signal(&head, 1);
            w.pass(SETTLED_NS);
            let ring = matches!(queue, Kind::Ring(_));
            let passed = done.value.load();
            assert_eq!(passed, u64::from(!ring), "a ring's wait is tested at the head");
            w.signal(&gate, 5);
            w.wait(done.handle, 1).unwrap();
        }
    });
}

// spec: NF-341
#[test]
fn peaks_that_find_no_room_are_counted_when_they_are_dropped() {
    let w = world();
    let fences = [w.native(0), w.monitored(0)];
    let lost = |w: &World| w.stats().fence_history_lost;
    for (number, fence) in (0..).zip(&fences) {
        // Each peak is below the one before, so none stands for another: 30 are in the page, the
        // others in the annex.
        let most = 30 + MAX_ANNEX_PEAKS as u64;
        let oldest = w.wait_event(fence, 1_000_000);
        for value in (900_000 - most..=900_001).rev() {
            w.signal(fence, value);
        }
        let reached = w.wait_event(fence, 900_000 - most);
        assert!(!oldest.is_set() && reached.is_set());
        assert_eq!(lost(&w), (number + 1) * most / 2, "the fence is there");
        let named = w.adapter().lost_histories().pop().unwrap();
        assert_eq!(named.values, most / 2, "{}", named.fence);
        w.kernel.destroy_synchronization_object(fence.handle).unwrap();
        assert_eq!(lost(&w), (number + 1) * most / 2, "one peak more than there is room for");
    }
}

/// A queue that waits behind a blocked head, and 17,000 falling pulses meanwhile.
// spec: NF-342
#[test]
fn a_wait_from_before_all_pulses_passes_however_many_there_are() {
    world().run(|w| {
        let (gate, head, done) = (w.native(0), w.native(0), w.native(0));
        let ring = w.connected_queue(0);
        ring.wait(&head, 1).wait(&gate, 20_000).signal(&done, 1);
        w.pass(SETTLED_NS);
        for value in (3_000..=20_000).rev() {
            w.signal(&gate, value);
            w.signal(&gate, 0);
        }
        assert!(w.stats().fence_history_lost > 0);
        w.signal(&head, 1);
        w.wait(done.handle, 1).unwrap();
        assert_eq!(state_of(w), DeviceState::Active);
    });
}

/// An adapter whose histories have no room beyond the page. The waits of two processes are for a
/// value that is kept and for one that is dropped.
// spec: NF-343
#[test]
fn a_queue_whose_wait_was_dropped_from_the_history_loses_its_device_and_names_the_fence() {
    world_with(|config| config.driver.fence_history_peaks = 0).run(|w| {
        let flags = SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING;
        let (gate, other) = (w.try_native(0, flags).unwrap(), w.client("other"));
        let opened = other.open_fence(&w.share_all(&gate));
        let [head, done] = [(); 2].map(|()| w.native(0));
        let (other_head, other_done) = (other.native(0), other.native(0));
        let (ring, kept) = (w.connected_queue(0), other.connected_queue(1));
        ring.wait(&head, 1);
        kept.wait(&other_head, 1);
        // A fence of its own pages has room for 2046 values.
        let (first, last) = (10_000, 10_000 - 2 * 2_046);
        for value in (last..=first).rev().step_by(2) {
            if value == first {
                kept.wait(&opened, value).signal(&other_done, 1);
            }
            // The second value is the first one that is dropped.
            if value == first - 2 {
                ring.wait(&gate, value).signal(&done, 1);
            }
            w.signal(&gate, value);
            w.signal(&gate, 0);
        }
        assert!(w.stats().fence_history_lost > 0);
        w.signal(&head, 1);
        other.signal(&other_head, 1);
        other.wait(other_done.handle, 1).unwrap();
        assert_eq!(state_of(&other), DeviceState::Active, "its wait was for a kept value");
        w.pass(SETTLED_NS);
        let DeviceState::Faulted(report) = state_of(w) else { panic!("{:?}", state_of(w)) };
        assert_eq!(report.queue, w.kernel.queue_number(ring.queue.handle).unwrap());
        assert_eq!(report.gpu_va, gate.current_value_gpu_va);
        assert!(report.what.contains("history dropped"), "{}", report.what);
    });
}

/// The queues are parked, and each of them waits for more than any later value.
// spec: NF-343
#[test]
fn a_parked_queue_whose_wait_is_lost_loses_its_device_whatever_drops_the_value() {
    let short = |config: &mut MachineConfig| {
        (config.driver.fence_stride_bytes, config.driver.fence_history_peaks) = (8, 0);
    };
    for by in 0..3 {
        world_with(short).run(move |w| {
            let [gate, done] = [(); 2].map(|()| w.native(0));
            let (other, pulser) = (w.client("other"), Pulser::each(w).into_iter().nth(by).unwrap());
            pulser.pulse(w, &gate, 9);
            let ring = w.connected_queue(0);
            ring.wait(&gate, 7).signal(&done, 1);
            pulser.pulse(w, &gate, 5);
            w.pass(SETTLED_NS);
            assert_eq!(state_of(w), DeviceState::Active, "5 is kept, and it is not 7");
            let number = w.kernel.queue_number(ring.queue.handle);
            let at = gate.current_value_gpu_va;
            match &pulser {
                Pulser::Cpu => [3, 0].into_iter().for_each(|value| w.signal(&gate, value)),
                Pulser::Ring(queue, ..) => {
                    [3, 0].into_iter().for_each(|value| {
                        queue.put(&signal_packet(&gate, value, NO_LOG_ENTRY));
                    });
                    queue.ring();
                }
                Pulser::Stores(queue) => w.submit(queue, 3, &[store(at, 3), store(at, 0)]),
            }
            w.pass(SETTLED_NS);
            let state = state_of(w);
            let DeviceState::Faulted(report) = &state else { panic!("{state:?}") };
            assert_eq!((Some(report.queue), report.gpu_va), (number, at));
            assert!(report.what.contains("history dropped"), "{}", report.what);
            assert_eq!(state_of(&other), DeviceState::Active);
        });
    }
}

fn state_of(client: &Client) -> DeviceState {
    client.kernel.device_state(client.device).unwrap()
}

#[test]
fn a_copy_onto_a_fence_is_a_signal_that_latches() {
    world().run(|w| {
        let [head, gate, done] = [(); 3].map(|()| w.native(0));
        let (ring, copies) = (w.connected_queue(0), w.hw_queue_on(2));
        ring.wait(&head, 1).wait(&gate, 5).signal(&done, 1);
        let (bytes, source) = w.bytes(16);
        bytes.write(0, &5_u64.to_le_bytes()).unwrap();
        let onto = gate.current_value_gpu_va;
        w.on_queue(&copies)
            .run(1, &[copy_word(onto, source), copy_word(onto, source + 8)])
            .complete();
        assert_eq!(gate.value.load(), 0);
        w.signal(&head, 1);
        w.wait(done.handle, 1).unwrap();
        // Memory that is not a fence has no history: a wait for a word of it is judged by the word.
        let _plain = w.allocate(64, AllocationKind::Protocol);
    });
}

/// The engine drops the peaks, and no call of the kernel is made. A queue that waits since before
/// them is named, and on every adapter that has the fence open.
// spec: NF-341
#[test]
fn peaks_that_an_engine_drops_are_counted_and_name_the_queues_that_may_have_missed_one() {
    world().run(|w| {
        let (gate, head) = (w.native(0), w.native(0));
        let (ring, stores) = (w.connected_queue(0), w.hw_queue_on(2));
        ring.wait(&head, 1).wait(&gate, 950_000);
        w.pass(SETTLED_NS);
        let (at, mut value) = (gate.current_value_gpu_va, 1_000_000);
        for number in 1..=9 {
            let falling: Vec<_> = (0..2_000)
                .map(|_| {
                    value -= 1;
                    store(at, value)
                })
                .collect();
            w.submit(&stores, number, &falling);
            w.finish(&stores, number);
        }
        let lost = w.stats().fence_history_lost;
        assert!(lost > 8_000, "{lost} peaks were dropped");
        assert_eq!(w.adapter().lost_histories().len(), 1);
        w.signal(&head, 1);
        w.pass(SETTLED_NS);
        let context = w.context(1);
        w.kernel
            .wait_from_gpu(context, &[FenceValue { fence: gate.handle, value: 2_000_000 }])
            .unwrap();
        let pending = w.adapter().pending_waits();
        let said = pending.iter().find_map(|wait| wait.lost.clone());
        assert!(said.is_some_and(|text| text.contains("history dropped")), "{pending:?}");
        assert_eq!(w.stats().fence_history_lost, lost, "each is counted once");
        w.signal(&gate, 2_000_000);
    });
}

/// An engine of another process stores to the fence while the driver is told of the maximum.
// spec: ME-047
#[test]
fn a_fence_of_a_lost_device_reads_its_maximum_whatever_an_engine_stores_meanwhile() {
    world().run(|w| {
        let flags = SyncObjectFlags::SHARED | SyncObjectFlags::NT_SECURITY_SHARING;
        let (fence, other) = (w.try_native(0, flags).unwrap(), w.client("other"));
        let (opened, queue) = (other.open_fence(&w.share_all(&fence)), other.hw_queue());
        let late = [Command::Timed { ns: SETTLED_NS }, store(opened.current_value_gpu_va, 2)];
        other.submit(&queue, 1, &late);
        let platform = w.platform.clone();
        w.hooked.on(Entry::UpdateCurrentValuesFromCpu, move || {
            platform.sleep_until(platform.now().after(5 * SETTLED_NS));
        });
        let waits = other.wait_event(&opened, 9);
        let reason = DeviceErrorReason::DriverError;
        w.kernel.mark_device_as_error(w.device, reason).unwrap();
        assert!(waits.is_set());
        assert_eq!(fence.value.load(), u64::MAX);
        // A queue that began to wait in between saw the engine's value.
        let (again, mode) = w.calls().current.pop().unwrap();
        assert_eq!((again.value, mode), (u64::MAX, UpdateCurrentMode::NotificationOnly));
        other.finish(&queue, 1);
    });
}
