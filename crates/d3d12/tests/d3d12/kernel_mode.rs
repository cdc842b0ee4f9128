//! Packet and hardware queues: one ordered stream of kernel calls.

use crate::bench::{bench, bench_with, desc, ran};
use tidegate_calls::Status;
use tidegate_d3d12::*;
use tidegate_trace::Kind;

#[test]
// spec: ME-021, ME-026, ME-027, MF-022, MF-029
fn a_packet_queue_submits_one_packet_for_each_execute_in_call_order() {
    let options = DeviceOptions { fences: FenceChoice::Monitored, ..DeviceOptions::default() };
    let trace = bench_with(options, |b| {
        let (queue, fence) = (b.queue(Submission::Packet), b.device.create_fence("f", 0).unwrap());
        assert!(!fence.is_native());
        let own = b.kernel.fences()[0].value.clone();
        let (one, two) = (b.list(1), b.list(2));
        b.kernel.take();
        queue.execute(&[&one, &two]).unwrap();
        queue.wait(&fence, 7).unwrap();
        queue.execute(&[&two]).unwrap();
        queue.signal(&fence, 9).unwrap();
        let calls = b.kernel.take();
        let names = ["submit_command", "wait_from_gpu", "submit_command", "signal_from_gpu2"];
        assert!(calls.iter().map(|call| call.name).eq(names), "{calls:?}");
        assert!(calls[1].args.contains("value: 7") && calls[3].args.contains("value: 9"));

        b.work();
        assert_eq!(own.load(), 1, "what follows the wait stays behind it");
        fence.signal(7).unwrap();
        b.work();
        assert_eq!((own.load(), fence.completed_value()), (2, 9));
    });
    assert_eq!(ran(&trace), [3, 2]);
}

#[test]
// spec: MF-024
fn a_packet_ends_with_a_store_to_the_drivers_own_fence() {
    let trace = bench(|b| {
        let queue = b.queue(Submission::Packet);
        let own = b.kernel.fences().pop().unwrap().value;
        let list = b.list(5);
        b.kernel.take();
        for (value, lists) in [(1, &[&list, &list][..]), (2, &[&list])] {
            queue.execute(lists).unwrap();
            assert_eq!(own.load(), value - 1);
            b.work();
            // The value comes with the packet: no call signals the fence.
            assert_eq!(b.kernel.take_names(), ["submit_command"]);
            assert_eq!(own.load(), value);
        }
    });
    assert_eq!(ran(&trace), [10, 5]);
}

#[test]
// spec: ME-015, ME-017
fn hardware_progress_values_rise_and_priorities_are_passed_on() {
    bench(|b| {
        let high = QueueDesc {
            priority: Priority::High,
            ..desc(CommandListType::Compute, Submission::Hardware)
        };
        b.kernel.take();
        let queue = b.device.create_queue(high.clone()).unwrap();
        let made = b.kernel.take();
        let call = |name| made.iter().find(|call| call.name == name).expect("a call").args.as_str();
        assert!(call("create_hw_context").contains("node_ordinal: 1"));
        let args = call("create_hw_queue");
        assert!(args.contains("user_mode_submission: false, priority: High"), "{args}");
        let list = b.device.create_command_list(CommandListType::Compute).close().unwrap();
        queue.execute(&[&list, &list]).unwrap();
        queue.execute(&[&list]).unwrap();
        let submitted = b.kernel.take();
        assert_eq!(submitted.len(), 3, "{submitted:?}");
        for (progress, call) in (1..).zip(&submitted) {
            assert_eq!(call.name, "submit_command_to_hw_queue");
            assert!(call.args.contains(&format!("progress_fence_id: {progress},")), "{call:?}");
        }
        // A priority that cannot be had is an error, never a lower one, and leaves nothing behind.
        let refused =
            b.device.create_queue(QueueDesc { priority: Priority::Realtime, ..high }).unwrap_err();
        assert!(matches!(refused, Error::PrivilegeNotHeld { .. }), "{refused}");
        assert_eq!(b.kernel.take_names().last(), Some(&"destroy_hw_context"));
    });
}

/// Checks the calls of a wait, a list behind it and a signal, and their order on the GPU.
fn check_fence_calls(options: DeviceOptions, calls: &'static [&'static str]) {
    bench_with(options, move |b| {
        let (go, done) =
            (b.device.create_fence("go", 0).unwrap(), b.device.create_fence("done", 0).unwrap());
        let queue = b.queue(Submission::Hardware);
        let list = b.list(1);
        b.kernel.take();
        queue.wait(&go, 1).unwrap();
        queue.execute(&[&list]).unwrap();
        queue.signal(&done, 1).unwrap();
        assert_eq!(b.kernel.take_names(), calls);
        b.work();
        assert_eq!(done.completed_value(), 0, "the list and the signal are behind the wait");
        go.signal(1).unwrap();
        done.wait(1).unwrap();
        b.device.wait_idle().unwrap();
    });
}

// spec: HS-023, HS-026
#[test]
fn waits_and_signals_of_native_fences_are_commands_of_a_hardware_queue() {
    const SUBMIT: &str = "submit_command_to_hw_queue";
    const SCHEDULED: &[&str] = &["submit_wait_to_hw_queue", SUBMIT, "submit_signal_to_hw_queues"];
    check_fence_calls(DeviceOptions::default(), &[SUBMIT, SUBMIT]);
    let scheduler = DeviceOptions::default().hardware_fences(HardwareFences::Scheduler);
    check_fence_calls(scheduler, SCHEDULED);
    check_fence_calls(DeviceOptions::default().fences(FenceChoice::Monitored), SCHEDULED);
}

// spec: HS-023
#[test]
fn waits_that_are_held_back_are_submitted_before_what_needs_them() {
    bench(|b| {
        let queue = b.queue(Submission::Hardware);
        let [go, gone, done] = ["go", "gone", "done"].map(|n| b.device.create_fence(n, 0).unwrap());
        b.kernel.take();
        // A signal carries them. A wait whose fence has ended is over.
        queue.wait(&go, 1).unwrap();
        queue.wait(&gone, 1).unwrap();
        drop(gone);
        queue.signal(&done, 1).unwrap();
        b.work();
        assert_eq!(done.completed_value(), 0);
        go.signal(1).unwrap();
        done.wait(1).unwrap();
        // So does a wait for an idle queue.
        queue.wait(&go, 2).unwrap();
        assert!(!b.kernel.take_names().contains(&"submit_wait_to_hw_queue"));
        go.signal(2).unwrap();
        queue.wait_idle().unwrap();
        b.kernel.take();
        // Many waits in a row get a command buffer of their own.
        for value in 1..=40 {
            queue.wait(&go, value % 3).unwrap();
        }
        assert_eq!(b.kernel.take_names(), ["submit_command_to_hw_queue"; 2]);
        queue.wait_idle().unwrap();
    });
}

#[test]
// spec: HS-023
fn a_refused_command_buffer_loses_no_wait_and_takes_no_log_entries() {
    const SUBMIT: &str = "submit_command_to_hw_queue";
    let trace = bench(|b| {
        let queue = b.queue(Submission::Hardware);
        let [go, done] = ["go", "done"].map(|name| b.device.create_fence(name, 0).unwrap());
        queue.wait(&go, 1).unwrap();
        b.kernel.refuse(SUBMIT, Status::NO_MEMORY);
        for _ in 0..3 {
            queue.signal(&done, 1).unwrap_err();
            queue.execute(&[&b.list(1)]).unwrap_err();
        }
        b.kernel.refuse_nothing();
        queue.signal(&done, 1).unwrap();
        b.work();
        assert_eq!(done.completed_value(), 0, "the wait was lost");
        go.signal(1).unwrap();
        queue.wait_idle().unwrap();
        assert_eq!(done.completed_value(), 1);
        queue.wait(&go, 1).unwrap();
        queue.signal(&done, 2).unwrap();
        queue.wait_idle().unwrap();
    });
    let of = |wanted: Kind| {
        let own = trace.records.iter().filter(move |record| record.kind == wanted);
        own.map(|record| record.fence().expect("of a fence").1).collect::<Vec<_>>()
    };
    // What the engine wrote into the logs, and what was queued.
    assert_eq!((of(Kind::Wait), of(Kind::Signal)), (vec![1, 1], vec![1, 2]));
    assert_eq!((of(Kind::WaitQueued), of(Kind::SignalQueued)), (vec![], vec![]));
}

#[test]
// spec: ME-019
fn waiting_for_a_queue_covers_trailing_waits_and_signals_in_every_model() {
    for submission in Submission::ALL {
        let trace = bench(move |b| {
            let (queue, fence) = (b.queue(submission), b.device.create_fence("f", 0).unwrap());
            b.device.wait_idle().unwrap();
            queue.execute(&[&b.list(1)]).unwrap();
            queue.wait_idle().unwrap();
            queue.signal(&fence, 3).unwrap();
            b.device.wait_idle().unwrap();
            assert_eq!(fence.completed_value(), 3, "{submission}");
            queue.wait(&fence, 4).unwrap();
            let (device, idle) = (b.device.clone(), b.platform.page(1).word(0));
            let seen = idle.clone();
            let waiter = b.platform.spawn("waiter", move || {
                device.wait_idle().unwrap();
                idle.store(1);
            });
            b.work();
            assert_eq!(seen.load(), 0, "{submission}: 4 is not signalled");
            fence.signal(4).unwrap();
            waiter.join();
            assert_eq!(seen.load(), 1);
            b.device.wait_idle().unwrap();
            b.kernel.take();
            b.device.wait_idle().unwrap();
            assert_eq!(b.kernel.take(), [], "{submission}: idle already");
        });
        assert_eq!(ran(&trace), [1], "{submission}");
    }
}
