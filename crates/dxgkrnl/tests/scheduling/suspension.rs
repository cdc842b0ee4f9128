//! Hardware contexts off the run list and back: what goes on meanwhile, how the driver
//! acknowledges, and what becomes of a context whose suspension is late; and engines that are
//! reported as hung.

use tidegate_testbed::prelude::*;

const SETTLED_NS: u64 = 100_000;

/// The kernel's handle of the context made last.
fn last_context(w: &World) -> OsHandle {
    w.calls().contexts.last().unwrap().0.os_handle
}

fn acknowledge(w: &World, context: OsHandle, suspend_fence: u64) {
    w.hooked.raise(&[InterruptData::SuspendContextCompleted { context, suspend_fence }]);
}

// spec: UMS-044, UMS-047
#[test]
fn what_is_rung_while_suspended_runs_on_resume_without_another_ring() {
    let w = world().run(|w| {
        let (queue, fence) = (w.connected_queue(0), w.native(0));
        queue.signal_and_wait(&fence, 1);
        let suspended = w.adapter().suspend_contexts().unwrap();
        assert!(suspended.is_complete());
        queue.signal(&fence, 2).signal(&fence, 3);
        w.pass(SETTLED_NS);
        assert_eq!((fence.value.load(), queue.status()), (1, DoorbellStatus::Connected));
        suspended.resume();
        w.wait(fence.handle, 3).unwrap();
    });
    assert_eq!(w.stats().suspensions, 1);
}

// spec: UMS-045
#[test]
fn a_suspended_queue_can_lose_its_doorbell_and_get_it_back() {
    let one = |config: &mut MachineConfig| {
        config.driver.doorbells = DoorbellModel::Dedicated { physical: 1 };
    };
    world_with(one).run(|w| {
        let (victim, fence) = (w.connected_queue(0), w.native(0));
        let suspended = w.adapter().suspend_contexts().unwrap();
        victim.signal(&fence, 1);
        let (other, other_fence) = (w.connected_queue(0), w.native(0));
        assert_eq!(victim.status(), DoorbellStatus::DisconnectedRetry);
        other.signal(&other_fence, 1);
        // A context that was made later is not held.
        w.wait(other_fence.handle, 1).unwrap();
        victim.connect().unwrap();
        victim.signal(&fence, 2);
        w.pass(SETTLED_NS);
        assert_eq!(fence.value.load(), 0);
        drop(suspended);
        w.wait(fence.handle, 2).unwrap();
    });
}

#[test]
fn a_wait_that_comes_true_while_its_queue_is_suspended_has_come_true() {
    world().run(|w| {
        let (queue, gate, done) = (w.connected_queue(0), w.native(0), w.native(0));
        queue.wait(&gate, 1).signal(&done, 1);
        w.pass(SETTLED_NS);
        let suspended = w.adapter().suspend_contexts().unwrap();
        w.signal(&gate, 1);
        w.pass(SETTLED_NS);
        assert_eq!(done.value.load(), 0);
        suspended.resume();
        w.wait(done.handle, 1).unwrap();
    });
}

#[test]
fn a_kernel_mode_queue_stands_still_too() {
    world().run(|w| {
        let queue = w.hw_queue();
        let suspended = w.adapter().suspend_contexts().unwrap();
        w.submit(&queue, 1, &[Command::Timed { ns: 10 }]);
        w.pass(SETTLED_NS);
        assert_eq!(queue.progress_value.load(), 0);
        suspended.resume();
        w.wait(queue.progress_fence, 1).unwrap();
    });
}

// spec: UMS-043, UMS-046, UMS-048
#[test]
fn the_suspend_fence_rises_and_the_last_hold_resumes() {
    world().run(|w| {
        let contexts = [w.hw_context(0), w.hw_context(1)].len();
        w.driver.take();
        for round in 1..=3 {
            let first = w.adapter().suspend_contexts().unwrap();
            let second = w.adapter().suspend_contexts().unwrap();
            assert_eq!(w.driver.take_names(), vec!["SuspendContext"; contexts]);
            first.resume();
            let called = w.driver.take_names();
            assert_eq!(called, Vec::<&str>::new(), "the second suspension still holds them");
            second.resume();
            assert_eq!(w.driver.take_names(), vec!["ResumeContext"; contexts]);
            let suspensions = w.calls().suspensions;
            let last = &suspensions[suspensions.len() - contexts..];
            assert!(last.iter().all(|(_, fence)| *fence == round));
        }
    });
}

// spec: UMS-048
#[test]
fn a_pending_suspension_is_over_with_the_acknowledgement_of_its_own_request() {
    let w = world().run(|w| {
        w.hw_context(0);
        let context = last_context(w);
        w.hooked.plant(|answers| answers.suspends_later = true);
        let suspend = |w: &World| {
            let (adapter, done) = (w.adapter().clone(), w.platform.event(true));
            let (held, suspended_event) = (w.platform.event(true), done.clone());
            let release = held.clone();
            w.platform.spawn("suspender", move || {
                let suspended = adapter.suspend_contexts().unwrap();
                assert!(suspended.is_complete());
                suspended_event.set(Step::ThreadWake);
                assert_eq!(held.wait(), WaitEnd::Woken);
                suspended.resume();
            });
            (done, release)
        };
        let (done, release) = suspend(w);
        w.pass(SETTLED_NS);
        assert!(!done.is_set());
        acknowledge(w, context, 1);
        w.pass(SETTLED_NS);
        assert!(done.is_set());
        release.set(Step::ThreadWake);
        w.pass(SETTLED_NS);
        let (done, release) = suspend(w);
        w.pass(SETTLED_NS);
        acknowledge(w, context, 1);
        w.pass(SETTLED_NS);
        assert!(!done.is_set(), "that was about the request before");
        acknowledge(w, context, 2);
        w.pass(SETTLED_NS);
        assert!(done.is_set());
        release.set(Step::ThreadWake);
        w.pass(SETTLED_NS);
        // An acknowledgement without a pending suspension.
        acknowledge(w, context, 2);
        w.pass(SETTLED_NS);
    });
    assert_eq!(w.stats().stale_suspend_acknowledgements, 2);
}

#[test]
fn an_acknowledgement_may_come_before_the_driver_s_call_returns() {
    world().run(|w| {
        w.hw_context(0);
        w.hooked.plant(|answers| answers.suspends_later = true);
        let (hooked, context, platform) =
            (Arc::clone(&w.hooked), last_context(w), w.platform.clone());
        w.hooked.on(Entry::SuspendContext, move || {
            hooked.raise(&[InterruptData::SuspendContextCompleted { context, suspend_fence: 1 }]);
            platform.sleep_until(platform.now().after(SETTLED_NS));
        });
        assert!(w.adapter().suspend_contexts().unwrap().is_complete());
    });
}

#[test]
fn a_device_whose_suspension_is_not_acknowledged_in_time_is_lost() {
    let later = |config: &mut MachineConfig| config.kernel.tdr.delay_ns = 1_000_000;
    world_with(later).run(|w| {
        let queue = w.connected_queue(0);
        w.hooked.plant(|answers| answers.suspends_later = true);
        let before = w.platform.now();
        let suspended = w.adapter().suspend_contexts().unwrap();
        assert_eq!(w.platform.now().since(before), 1_000_000);
        assert!(!suspended.is_complete());
        w.driver.take();
        suspended.resume();
        assert_eq!(w.driver.take_names(), Vec::<&str>::new(), "what is lost does not run again");
        assert_eq!(queue.status(), DoorbellStatus::DisconnectedAbort);
        assert!(matches!(w.state(), Ok(DeviceState::Hung(hang)) if hang.what.contains("node 0")));
        assert_eq!(queue.queue.progress_value.load(), u64::MAX);
    });
}

/// The second wait of a context that hangs times out while the first one's recovery resets the
/// engine.
// spec: PRE-165
#[test]
fn a_context_that_two_holds_wait_for_has_its_engine_reset_once() {
    world().run(|w| {
        let n = w.client("innocent");
        let (guilty, innocent) = (w.hw_queue_on(0), n.hw_queue_on(0));
        w.submit(&guilty, 1, &[Command::Hang]);
        w.pass(SETTLED_NS);
        n.submit(&innocent, 1, &[Command::Timed { ns: SETTLED_NS }]);
        let platform = w.platform.clone();
        w.hooked.on(Entry::ResetHwEngine, move || {
            platform.sleep_until(platform.now().after(SETTLED_NS));
        });
        let holders = ["first", "second"].map(|name| {
            let adapter = w.adapter().clone();
            w.platform.spawn(name, move || drop(adapter.suspend_contexts().unwrap()))
        });
        holders.into_iter().for_each(|holder| _ = holder.join());
        n.finish(&innocent, 1);
        assert!(matches!(w.state(), Ok(DeviceState::Hung(_))), "{:?}", w.state());
        assert_eq!(n.state(), Ok(DeviceState::Active));
        let reports = w.adapter().recoveries();
        assert_eq!(reports.len(), 1, "{reports:?}");
    });
}

#[test]
fn a_driver_that_refuses_loses_the_device_too() {
    world().run(|w| {
        w.hw_context(0);
        w.hooked.fail_next(Entry::SuspendContext, Status::INVALID_PARAMETER);
        assert!(!w.adapter().suspend_contexts().unwrap().is_complete());
        assert!(matches!(w.state(), Ok(DeviceState::Hung(_))));
    });
}

#[test]
fn acknowledgements_of_nothing_break_the_contract() {
    for known in [true, false] {
        let (w, _) = world().run_to_report(move |w| {
            w.hw_context(0);
            let context = if known { last_context(w) } else { OsHandle(7) };
            acknowledge(w, context, 1);
            w.pass(SETTLED_NS);
            assert!(w.adapter().suspend_contexts().is_err());
        });
        let broken = w.adapter().bug_checks();
        let fence = |b: &BugCheck| {
            matches!(b, BugCheck::UnknownSuspendFence { acknowledged: 1, requested: 0, .. })
        };
        match known {
            true => assert!(broken.len() == 1 && fence(&broken[0]), "{broken:?}"),
            false => assert_eq!(broken, [BugCheck::UnknownContext(7)]),
        }
    }
}

// spec: UMS-053
#[test]
fn an_engine_that_hangs_costs_those_whose_work_it_holds() {
    world().run(|w| {
        let other = w.another_device();
        let (idle, busy) = (w.connected_queue(0), w.connected_queue(1));
        let fence = w.native(0);
        idle.signal_and_wait(&fence, 1);
        let hung = |w: &World, node_ordinal: u32| {
            w.hooked.raise(&[engine_state_change(node_ordinal, EngineState::Hung)]);
            w.pass(SETTLED_NS);
        };
        busy.doorbell.last_queued.store(1);
        hung(w, 0);
        assert_eq!(w.state(), Ok(DeviceState::Active), "engine 0 holds nothing");
        hung(w, 1);
        assert!(matches!(w.state(), Ok(DeviceState::Hung(hang)) if hang.what.contains("node 1")));
        assert_eq!([&idle, &busy].map(UserQueue::status), [DoorbellStatus::DisconnectedAbort; 2]);
        assert_eq!(other.state(), Ok(DeviceState::Active));
    });
}

// spec: UMS-053
#[test]
fn packets_and_kernel_mode_queues_hang_too() {
    for packets in [true, false] {
        world().run(move |w| {
            if packets {
                w.submit_packet(w.context(0), &[Command::Timed { ns: 10_000_000 }]);
            } else {
                w.submit(&w.hw_queue(), 1, &[Command::Timed { ns: 10_000_000 }]);
            }
            w.hooked.raise(&[engine_state_change(0, EngineState::Hung)]);
            w.pass(SETTLED_NS);
            assert!(matches!(w.state(), Ok(DeviceState::Hung(_))));
        });
    }
}
