//! A process that is stopped (SIGSTOP, a debugger, a paused virtual machine): its time without a
//! processor counts towards no timeout, whenever the stop begins and however long it lasts.

use tidegate::platform::AgentHandle;
use tidegate_testbed::prelude::*;

const S: u64 = 1_000_000_000;
/// Times and lengths of a stop, in tenths of a second. The longest is over each delay.
const STOPS: [(u64, u64); 8] =
    [(0, 21), (1, 3), (1, 19), (1, 22), (1, 90), (5, 15), (9, 11), (9, 300)];

/// What the driver needs without the stop. Up to two eighths of TdrDelay count of a stop.
const NEEDED_NS: u64 = 14 * S / 10;

/// Stops the process at a time and for a time, both in tenths of a second from now on.
fn stop(w: &World, (at, lasts): (u64, u64)) -> AgentHandle {
    let platform = w.platform.clone();
    let at = platform.now().after(at * S / 10);
    w.platform.spawn("stop", move || {
        platform.sleep_until(at);
        platform.stop_process(lasts * S / 10);
    })
}

// spec: PRE-171
#[test]
fn a_context_has_its_whole_delay_to_leave_the_run_list() {
    for (at, lasts) in STOPS {
        world().run(move |w| {
            w.hw_context(0);
            w.hooked.plant(|answers| answers.suspends_later = true);
            let context = w.calls().contexts.last().unwrap().0.os_handle;
            let (adapter, begin) = (w.adapter().clone(), w.platform.now());
            let suspender = w.platform.spawn("suspender", move || {
                let suspended = adapter.suspend_contexts().unwrap();
                assert!(suspended.is_complete(), "{at} {lasts}");
            });
            stop(w, (at, lasts)).join();
            w.platform.sleep_until(begin.after(lasts * S / 10 + NEEDED_NS));
            w.hooked.raise(&[InterruptData::SuspendContextCompleted { context, suspend_fence: 1 }]);
            suspender.join();
        });
    }
}

// spec: PRE-169
#[test]
fn an_engine_has_its_whole_delay_to_give_back_a_packet() {
    for (at, lasts) in STOPS {
        world().run(move |w| {
            let (low, high) = (w.context(0), w.context_of(0, Priority::High));
            w.hooked.plant(|answers| answers.keeps_packets = true);
            let begin = w.platform.now();
            w.submit_packet(low, &[Command::Timed { ns: 1 }]);
            w.submit_packet(high, &[Command::Timed { ns: 1 }]);
            stop(w, (at, lasts)).join();
            w.platform.sleep_until(begin.after(lasts * S / 10 + NEEDED_NS));
            let (engine, submission_fence_id) = (EngineId::of_node(0), 3);
            w.hooked.raise(&[InterruptData::DmaPreempted {
                engine,
                preemption_fence_id: 2,
                last_completed_fence_id: 1,
            }]);
            w.pass(S / 1_000);
            w.hooked.raise(&[InterruptData::DmaCompleted { engine, submission_fence_id }]);
            w.pass(S / 1_000);
            assert!(w.adapter().recoveries().is_empty(), "{at} {lasts}");
        });
    }
}

// spec: PRE-171
#[test]
fn a_reset_waits_for_a_thread_in_the_driver_while_the_process_has_a_processor() {
    for (at, lasts) in STOPS {
        world().run(move |w| {
            let (platform, other) = (w.platform.clone(), w.client("in the driver"));
            let leaves = platform.now().after((lasts + 40) * S / 10);
            w.hooked.once(Entry::CreateHwQueue, move || _ = platform.sleep_until(leaves));
            let inside = w.platform.spawn("in the driver", move || _ = other.hw_queue_on(0));
            let stopped = stop(w, (at, lasts));
            w.kernel.debug_timeouts(TdrTest::ForceTdr).unwrap();
            stopped.join();
            inside.join();
        });
    }
}

#[test]
fn a_hang_is_found_although_the_process_is_stopped_again_and_again() {
    world().run(|w| {
        let n = w.client("innocent");
        w.submit_packet(w.context(0), &[Command::Hang]);
        let innocent = n.context(0);
        n.submit_packet(innocent, &[Command::Timed { ns: 1000 }]);
        let platform = w.platform.clone();
        let stopper = w.platform.spawn("stops", move || {
            for _ in 0..40 {
                platform.sleep_until(platform.now().after(S / 20));
                platform.stop_process(S);
            }
        });
        let done = n.monitored(0);
        n.on(innocent).signal(&done, 1);
        n.wait(done.handle, 1).unwrap();
        // An eighth of the delay counts of each stop.
        assert!(w.platform.now().0 < 12 * S, "{:?}", w.platform.now());
        assert!(matches!(w.state(), Ok(DeviceState::Hung(_))));
        stopper.join();
    });
}
