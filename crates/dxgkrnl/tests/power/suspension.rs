//! Power and suspension of contexts together: work runs after the resume, whatever lost its power
//! before the ring, beside it or after it (decision 149).

use tidegate_testbed::prelude::*;

const SETTLED_NS: u64 = 100_000;

/// A little more than one period of the kernel's progress checks.
const CHECK_NS: u64 = 2_100_000_000;

fn managed() -> World {
    world_with(|config| config.kernel.power = PowerManagement::Managed)
}

/// An engine is offered for F1 when it was idle for a microsecond.
fn with_idle_engines() -> World {
    world_with(|config| {
        config.kernel.power = PowerManagement::Managed;
        config.driver.idle.engine_after_ns = 1_000;
    })
}

fn engine(w: &World) -> ComponentState {
    w.adapter().engine_power_state(EngineId::of_node(0))
}

fn offer(w: &World) {
    w.hooked.raise(&[engine_state_change(0, EngineState::TransitionToF1)]);
    w.pass(SETTLED_NS);
}

/// Rings as a user-mode driver does: connects and rings again until the status is CONNECTED.
fn ring(queue: &UserQueue) {
    queue.ring();
    while !queue.status().is_connected() {
        queue.connect().unwrap();
        queue.ring();
    }
}

// spec: UMS-047, UMS-202
#[test]
fn a_signal_rung_while_its_context_is_suspended_keeps_its_engine_powered() {
    with_idle_engines().run(|w| {
        let (queue, fence) = (w.connected_queue(0), w.native(0));
        let held = w.adapter().suspend_contexts().unwrap();
        queue.signal(&fence, 1);
        w.pass(SETTLED_NS);
        // The engine was idle, so the kernel has disconnected the doorbell. The ring announces
        // nothing.
        offer(w);
        assert_eq!(engine(w), ComponentState::F0);
        assert_eq!(queue.status(), DoorbellStatus::DisconnectedRetry);
        held.resume();
        w.wait(fence.handle, 1).unwrap();
        w.pass(SETTLED_NS);
        assert_eq!(engine(w), ComponentState::F1);
    });
}

#[test]
fn a_wait_of_a_suspended_context_keeps_its_engine_powered() {
    managed().run(|w| {
        let (queue, gate, done) = (w.connected_queue(0), w.native(0), w.native(0));
        queue.wait(&gate, 1).signal(&done, 1);
        w.pass(SETTLED_NS);
        let held = w.adapter().suspend_contexts().unwrap();
        offer(w);
        assert_eq!(engine(w), ComponentState::F0);
        w.signal(&gate, 1);
        held.resume();
        w.wait(done.handle, 1).unwrap();
    });
}

#[test]
fn announced_work_of_a_suspended_context_is_never_stale() {
    managed().run(|w| {
        let queue = w.connected_queue(0);
        let held = w.adapter().suspend_contexts().unwrap();
        queue.doorbell.last_queued.store(1);
        queue.push(&w.execute_packet(&[Command::Timed { ns: 10 }], 1));
        w.pass(10 * CHECK_NS);
        assert_eq!(engine(w), ComponentState::F0);
        held.resume();
        w.wait(queue.queue.progress_fence, 1).unwrap();
        w.pass(3 * CHECK_NS);
        assert_eq!(engine(w), ComponentState::F1);
    });
}

// spec: UMS-152, UMS-202
#[test]
fn a_notification_brings_an_engine_back() {
    with_idle_engines().run(|w| {
        let (queue, fence) = (w.connected_queue(0), w.native(0));
        w.pass(SETTLED_NS);
        offer(w);
        assert_eq!(engine(w), ComponentState::F1);
        // The user-mode driver notifies when its connects are lost again and again.
        queue.put(&signal_packet(&fence, 1, u32::MAX));
        w.kernel.notify_work_submission(queue.doorbell.handle).unwrap();
        w.wait(fence.handle, 1).unwrap();
        assert_eq!(queue.status(), DoorbellStatus::DisconnectedRetry);
        w.pass(SETTLED_NS);
        assert_eq!(engine(w), ComponentState::F1);
    });
}

/// What happens once in each program, in an order of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    Suspend,
    Resume,
    Ring,
    Power,
}

/// The orders of the events in which the suspension comes before its resume.
fn orders() -> Vec<Vec<Event>> {
    let mut orders = vec![vec![Event::Suspend, Event::Resume]];
    for event in [Event::Ring, Event::Power] {
        let longer = |order: &Vec<Event>| {
            let order = order.clone();
            (0..=order.len()).map(move |at| {
                let mut order = order.clone();
                order.insert(at, event);
                order
            })
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    orders
}

/// How power is taken.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// The driver offers the engine for F1.
    Offer,
    /// The kernel finds the engine without progress three times.
    Check,
    /// The device is idle.
    IdleDevice,
    /// The system sleeps.
    Sleep,
    /// The engine goes to F1 if it can, and then the system sleeps.
    OfferAndSleep,
}

fn take_power(w: &World, loss: Loss) {
    let sleep = || w.adapter().set_power_state(DevicePowerState::D3).map(|_| ());
    match loss {
        Loss::Offer => offer(w),
        Loss::Check => w.pass(4 * CHECK_NS),
        Loss::IdleDevice => w.adapter().power_down_if_idle().map(|_| ()).unwrap(),
        Loss::Sleep => sleep().unwrap(),
        Loss::OfferAndSleep => {
            offer(w);
            sleep().unwrap();
        }
    }
}

/// The packets of a ring. Each ends with a signal of the fence.
fn packets(w: &World, what: usize, fence: &FenceInstance, gate: &FenceInstance) -> Vec<RingPacket> {
    let signal = signal_packet(fence, 1, u32::MAX);
    match what {
        0 => vec![signal],
        1 => vec![w.execute_packet(&[Command::Timed { ns: 10 }], 1), signal],
        _ => vec![wait_packet(gate, 1, u32::MAX), signal],
    }
}

// spec: UMS-047, UMS-054, UMS-059
#[test]
fn work_runs_after_every_order_of_ring_suspension_and_loss_of_power() {
    let orders = orders();
    assert_eq!(orders.len(), 12);
    let losses = [Loss::Offer, Loss::Check, Loss::IdleDevice, Loss::Sleep, Loss::OfferAndSleep];
    for (loss, what) in losses.into_iter().flat_map(|loss| (0..3).map(move |what| (loss, what))) {
        for order in orders.clone() {
            managed().run(move |w| {
                let (queue, gate, fence) = (w.connected_queue(0), w.native(0), w.native(0));
                let packets = packets(w, what, &fence, &gate);
                let mut held = None;
                for event in order {
                    match event {
                        Event::Suspend => held = Some(w.adapter().suspend_contexts().unwrap()),
                        Event::Resume => drop(held.take()),
                        Event::Power => take_power(w, loss),
                        Event::Ring => {
                            queue.doorbell.last_queued.store(u64::from(what == 1));
                            packets.iter().for_each(|packet| queue.put(packet));
                            ring(&queue);
                        }
                    }
                    w.pass(SETTLED_NS);
                }
                w.signal(&gate, 1);
                // The sleep of a system lasts until it is ended.
                w.adapter().set_power_state(DevicePowerState::D0).unwrap();
                w.wait(fence.handle, 1).unwrap();
            });
        }
    }
}

/// Timeouts are ignored for a debugger, so the device whose context hangs is not lost. Its context
/// may still be on the GPU, so the device keeps its power.
#[test]
fn a_device_keeps_its_power_while_a_context_that_hangs_is_not_recovered() {
    world_with(|config| {
        config.kernel.power = PowerManagement::Managed;
        config.kernel.tdr.debug_mode = TdrDebugMode::Ignore;
    })
    .run(|w| {
        let (queue, fence) = (w.connected_queue(0), w.native(0));
        w.hooked.plant(|answers| answers.suspends_later = true);
        let state = w.adapter().set_power_state(DevicePowerState::D3);
        assert_eq!((state, w.state()), (Ok(DevicePowerState::D0), Ok(DeviceState::Active)));
        let outcomes = w.adapter().recoveries().into_iter().map(|report| report.outcome);
        assert_eq!(outcomes.collect::<Vec<_>>(), [RecoveryOutcome::Ignored]);
        w.hooked.plant(|answers| answers.suspends_later = false);
        queue.put(&signal_packet(&fence, 1, u32::MAX));
        ring(&queue);
        w.wait(fence.handle, 1).unwrap();
    });
}
