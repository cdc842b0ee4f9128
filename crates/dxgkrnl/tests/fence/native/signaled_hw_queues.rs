//! The signalled interrupt that names hardware queues, one or several, or none: whose logs are
//! read, what a handle that names nothing leads to, and what is read beside the logs.

use tidegate_testbed::prelude::*;

fn mode(mode: InterruptMode) -> impl FnOnce(&mut MachineConfig) {
    move |config| {
        inline(config);
        config.driver.interrupt = mode;
    }
}

/// The form with an array.
fn naming_all(hw_queues: &[DriverHandle]) -> InterruptData {
    InterruptData::HwQueuesSignaled {
        engine: EngineId::of_node(0),
        hw_queues: hw_queues.to_vec(),
        evaluate_legacy_monitored_fences: false,
    }
}

/// A user-mode queue with the driver's handle of it.
struct Signaller {
    queue: UserQueue,
    driver: DriverHandle,
}

impl Signaller {
    fn on(w: &World, node: u32) -> Signaller {
        Signaller::of(w, w, node)
    }

    fn of(w: &World, client: &Client, node: u32) -> Signaller {
        let queue = client.connected_queue(node);
        Signaller { queue, driver: w.calls().queues.last().unwrap().1 }
    }

    fn destroy(&self, w: &World) {
        w.kernel.destroy_doorbell(self.queue.doorbell.handle).unwrap();
        w.kernel.destroy_hw_queue(self.queue.queue.handle).unwrap();
    }

    /// Signals to `value` with a log entry and without an interrupt, so that a test can raise it.
    fn quietly(&self, w: &World, fence: &FenceInstance, value: u64, log_entry: u32) {
        let RingPacket::Signal { current_value, fence_handle, .. } =
            signal_packet(fence, value, log_entry)
        else {
            panic!("a signal packet")
        };
        let monitored_value = GpuVa(0);
        self.queue.push(&RingPacket::Signal {
            current_value,
            monitored_value,
            value,
            fence_handle,
            log_entry,
        });
        w.pass(1_000_000);
        assert_eq!(fence.value.load(), value);
    }
}

fn reads(w: &World) -> u64 {
    w.stats().fence_reads
}

// spec: NF-231
#[test]
fn an_array_of_queues_has_their_logs_read_and_no_others() {
    world_with(mode(InterruptMode::HwQueueArray)).run(|w| {
        // Two on one engine, one on another.
        let queues = [0, 0, 1].map(|node| Signaller::on(w, node));
        let all = [(); 3].map(|()| w.native_awaited(5));
        let (unawaited, later) = (w.native(0), w.native_awaited(5));
        for (queue, (fence, _)) in queues.iter().zip(&all) {
            queue.quietly(w, fence, 5, 0);
        }
        // A repeated signal, one without a waiter and one below the awaited value: the first fence
        // is read once, the second is not read, the third is read once.
        queues[0].quietly(w, &all[0].0, 6, 1);
        queues[0].quietly(w, &unawaited, 9, 2);
        queues[0].quietly(w, &later.0, 4, 3);
        let before = reads(w);
        w.hooked.interrupt(naming_all(&[queues[0].driver, queues[2].driver]));
        assert_eq!([0, 1, 2].map(|n: usize| all[n].1.is_set()), [true, false, true]);
        assert!(!later.1.is_set());
        assert_eq!(reads(w) - before, 3, "of six that have waiters or were signalled");
        let flushed: Vec<_> = w.calls().flushed.into_iter().flatten().collect();
        assert_eq!(flushed, [queues[0].driver, queues[2].driver]);
        w.hooked.interrupt(naming_all(&[queues[1].driver]));
        assert!(all[1].1.is_set());
    });
}

// spec: NF-224, NF-234
#[test]
fn no_queue_means_all_queues_of_this_engine() {
    for mode_of_driver in [InterruptMode::HwQueue, InterruptMode::HwQueueArray] {
        world_with(mode(mode_of_driver)).run(move |w| {
            let queues = [0, 1, 0].map(|node| Signaller::on(w, node));
            let all = [(); 3].map(|()| w.native_awaited(5));
            for (queue, (fence, _)) in queues.iter().zip(&all) {
                queue.quietly(w, fence, 5, 0);
            }
            w.hooked.interrupt(match mode_of_driver {
                InterruptMode::HwQueueArray => naming_all(&[]),
                _ => hw_queue_signalled(0, None),
            });
            let set = all.each_ref().map(|(_, event)| event.is_set());
            assert_eq!(set, [true, false, true], "{mode_of_driver:?}");
            w.hooked.interrupt(hw_queue_signalled(1, None));
            assert!(all[1].1.is_set());
        });
    }
}

// spec: NF-227
#[test]
fn one_interrupt_serves_every_value_that_was_logged_before_it() {
    world_with(mode(InterruptMode::HwQueue)).run(|w| {
        let queue = Signaller::on(w, 0);
        let (f1, f2) = (w.native(0), w.native(0));
        let waits =
            [(&f1, 1), (&f1, 2), (&f2, 3), (&f2, 4), (&f2, 5)].map(|(f, v)| w.wait_event(f, v));
        for (entry, (fence, value)) in (0..).zip([(&f1, 1), (&f1, 2), (&f2, 3), (&f2, 4)]) {
            queue.quietly(w, fence, value, entry);
        }
        let before = reads(w);
        w.hooked.interrupt(hw_queue_signalled(0, Some(queue.driver)));
        assert_eq!(waits.map(|event| event.is_set()), [true, true, true, true, false]);
        assert_eq!(reads(w) - before, 2, "two fences, four entries");
    });
}

#[test]
fn an_array_of_fences_is_ignored_in_optimised_mode() {
    world_with(mode(InterruptMode::HwQueue)).run(|w| {
        let (queue, silent) = (Signaller::on(w, 0), Signaller::on(w, 0));
        let (fence, event) = w.native_awaited(5);
        let named = w.last_os_handle();
        queue.quietly(w, &fence, 5, 0);
        // Known handles are ignored, and unknown ones break no contract.
        for handles in [vec![named], vec![OsHandle(0xDEAD)], Vec::new()] {
            w.hooked.interrupt(InterruptData::NativeFenceSignaled {
                engine: EngineId::of_node(0),
                fences: Some(handles),
                hw_queue: Some(silent.driver),
                evaluate_legacy_monitored_fences: false,
            });
            assert!(!event.is_set());
        }
        w.hooked.interrupt(hw_queue_signalled(0, Some(queue.driver)));
        assert!(event.is_set());
    });
}

#[test]
fn monitored_fences_are_scanned_in_every_mode_when_the_interrupt_says_so() {
    for mode_of_driver in [InterruptMode::HwQueue, InterruptMode::HwQueueArray] {
        for legacy in [false, true] {
            world_with(mode(mode_of_driver)).run(move |w| {
                let (fence, writer, queue) =
                    (w.monitored(0), w.hw_queue_on(2), Signaller::on(w, 0));
                let event = w.wait_event(&fence, 5);
                w.on_queue(&writer).run(1, &[store(fence.current_value_gpu_va, 5)]).complete();
                assert!(!event.is_set(), "there was no interrupt yet");
                w.hooked.interrupt(match mode_of_driver {
                    InterruptMode::HwQueueArray => InterruptData::HwQueuesSignaled {
                        engine: EngineId::of_node(0),
                        hw_queues: vec![queue.driver],
                        evaluate_legacy_monitored_fences: legacy,
                    },
                    _ => InterruptData::NativeFenceSignaled {
                        engine: EngineId::of_node(0),
                        fences: None,
                        hw_queue: Some(queue.driver),
                        evaluate_legacy_monitored_fences: legacy,
                    },
                });
                assert_eq!(event.is_set(), legacy, "{mode_of_driver:?}");
            });
        }
    }
}

// spec: NF-225
#[test]
fn an_overrun_has_the_fences_of_the_queue_s_device_read() {
    let w = world_with(|config| {
        mode(InterruptMode::HwQueue)(config);
        config.kernel.log_entries = 2;
    });
    let queue = Signaller::on(&w, 0);
    let own = [(); 4].map(|()| w.native_awaited(5));
    // A device of the same process, whose fence was raised too.
    let second = w.another_device();
    let (other, elsewhere) = (Signaller::of(&w, &second, 0), second.native_awaited(5));
    w.run(move |w| {
        other.quietly(w, &elsewhere.0, 5, 0);
        for (entry, (fence, _)) in [0, 1, 0].into_iter().zip(&own) {
            queue.quietly(w, fence, 5, entry);
        }
        let before = reads(w);
        w.hooked.interrupt(hw_queue_signalled(0, Some(queue.driver)));
        assert_eq!([0, 1, 2, 3].map(|n: usize| own[n].1.is_set()), [true, true, true, false]);
        assert_eq!(reads(w) - before, 4, "those of the device that have a waiter");
        assert!(!elsewhere.1.is_set());
        w.hooked.interrupt(hw_queue_signalled(0, Some(other.driver)));
        assert!(elsewhere.1.is_set());
    });
}

// spec: NF-232
#[test]
fn a_queue_that_is_gone_or_never_was_is_a_bug_check() {
    for mode_of_driver in [InterruptMode::HwQueue, InterruptMode::HwQueueArray] {
        for case in 0..3 {
            let w = world_with(mode(mode_of_driver));
            let (queue, bystander) = (Signaller::on(&w, 0), w.native_awaited(5));
            let named = match case {
                0 => {
                    let doomed = Signaller::on(&w, 0);
                    doomed.destroy(&w);
                    doomed.driver
                }
                // The driver's handle of a fence.
                1 => w.calls().fences.last().unwrap().1,
                _ => DriverHandle(0xDEAD_BEEF),
            };
            w.hooked.interrupt(match mode_of_driver {
                InterruptMode::HwQueueArray => naming_all(&[queue.driver, named]),
                _ => hw_queue_signalled(0, Some(named)),
            });
            let bugs = w.adapter().bug_checks();
            assert_eq!(bugs, [BugCheck::UnknownQueue(named.0)], "{mode_of_driver:?} {case}");
            w.let_agents_work(1_000);
            assert!(bystander.1.is_set(), "every waiter is released");
        }
    }
}

#[test]
fn handles_of_the_mode_that_is_off_are_ignored() {
    let w = world_with(mode(InterruptMode::FenceArray));
    let (fence, _event) = w.native_awaited(5);
    w.hooked.interrupt(InterruptData::NativeFenceSignaled {
        engine: EngineId::of_node(0),
        fences: Some(vec![w.last_os_handle()]),
        hw_queue: Some(DriverHandle(0xDEAD)),
        evaluate_legacy_monitored_fences: false,
    });
    assert_eq!(w.adapter().bug_checks(), []);
    drop(fence);
}

// spec: NF-233
#[test]
fn an_array_of_queues_is_declared_or_a_broken_contract() {
    let refused = setup(|_| ()).caps(|caps| caps.signaled_hw_queue_array = true).try_start();
    let rests_on = "OptimizedNativeFenceSignaledInterrupt";
    let error = StartError::CapDependency("signaled_hw_queue_array", rests_on);
    assert_eq!(refused.err(), Some(MachineError::Start(error)));
    for undeclared in [InterruptMode::HwQueue, InterruptMode::FenceArray, InterruptMode::NullArray]
    {
        let w = world_with(mode(undeclared));
        let queue = Signaller::on(&w, 0);
        w.hooked.interrupt(naming_all(&[queue.driver]));
        assert_eq!(w.adapter().bug_checks(), [BugCheck::QueueArrayNotDeclared]);
    }
}

// spec: NF-232, NF-235
#[test]
fn the_end_of_a_queue_releases_the_waiters_of_its_logged_signals() {
    for reported in [true, false] {
        world_with(mode(InterruptMode::HwQueueArray)).run(move |w| {
            let (doomed, (fence, event)) = (Signaller::on(w, 0), w.native_awaited(5));
            doomed.quietly(w, &fence, 5, 0);
            if reported {
                w.hooked.raise(&[naming_all(&[doomed.driver])]);
            }
            assert!(!event.is_set());
            doomed.destroy(w);
            w.hooked.turn_ended();
            assert!(event.is_set(), "its logs are gone with it: {reported}");
        });
    }
}

// spec: NF-232
#[test]
fn an_interrupt_may_name_a_queue_until_the_driver_has_destroyed_it() {
    let w = world_with(mode(InterruptMode::HwQueue));
    let doomed = Signaller::on(&w, 0);
    let (hooked, driver) = (std::sync::Arc::downgrade(&w.hooked), doomed.driver);
    w.hooked.on(Entry::DestroyHwQueue, move || {
        hooked
            .upgrade()
            .expect("the driver is there")
            .interrupt(hw_queue_signalled(0, Some(driver)));
    });
    doomed.destroy(&w);
    assert_eq!(w.adapter().bug_checks(), []);
    w.hooked.interrupt(hw_queue_signalled(0, Some(driver)));
    assert_eq!(w.adapter().bug_checks(), [BugCheck::UnknownQueue(driver.0)]);
}

// spec: NF-220
#[test]
fn when_fences_are_named_the_logs_of_their_device_are_read_for_the_timeline() {
    for tracing in [false, true] {
        let w = world_with(mode(InterruptMode::FenceArray));
        if tracing {
            w.platform.enable_tracing();
        }
        let (first, second) = (Signaller::on(&w, 0), Signaller::on(&w, 1));
        let (fence, event) = w.native_awaited(5);
        let named = w.last_os_handle();
        let device = w.another_device();
        let (other, elsewhere) = (Signaller::of(&w, &device, 0), device.native_awaited(5));
        w.run(move |w| {
            other.quietly(w, &elsewhere.0, 5, 0);
            second.queue.push(&wait_packet(&fence, 0, 0));
            first.quietly(w, &fence, 5, 0);
            assert_eq!(w.calls().flushed, [[]; 0]);
            w.hooked.interrupt(signalled(&[named]));
            assert!(event.is_set() && !elsewhere.1.is_set());
            let flushed: Vec<_> = w.calls().flushed.into_iter().flatten().collect();
            let both = [first.driver, second.driver];
            let expected = if tracing { &both[..] } else { &[] };
            assert_eq!(flushed, expected, "only the timeline needs times: {tracing}");
        });
    }
}
