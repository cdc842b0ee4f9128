//! Rings of user-mode queues whose host thread runs far ahead: what a ring holds, and for how long
//! the rest is in the backlog.

use tidegate::run_workload;
use tidegate::runner::report::Report;
use tidegate::workload::load_bytes;
use tidegate_testbed::prelude::*;

/// Launches that the recorded thread was ahead of its first stream.
const AHEAD: u64 = 3_000;

/// A recording: one thread launches kernels of 10 us every 2 us on stream 7, then one of 30 ms on
/// stream 8.
fn far_ahead() -> Arc<Workload> {
    let call = |ts: u64, correlation: u64| {
        format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":{ts},"dur":2,"args":{{"correlation":{correlation}}}}}"#
        )
    };
    let kernel = |ts: u64, us: u64, stream: u64, correlation: u64| {
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":{stream},"ts":{ts},"dur":{us},"args":{{"device":0,"stream":{stream},"correlation":{correlation}}}}}"#
        )
    };
    let mut events = Vec::new();
    for n in 0..AHEAD {
        events.extend([call(1_000 + 2 * n, n + 1), kernel(1_010 + 12 * n, 10, 7, n + 1)]);
    }
    let last = 1_000 + 2 * AHEAD;
    events.extend([call(last, AHEAD + 1), kernel(last + 10, 30_000, 8, AHEAD + 1)]);
    let text = format!("{{\"traceEvents\":[{}]}}", events.join(","));
    Arc::new(load_bytes(text.as_bytes(), "ahead.json", &LoadOptions::default()).unwrap().0)
}

fn report(workload: &Arc<Workload>, submission: Submission, ring_slots: Option<u64>) -> Report {
    let request = RunRequest {
        submission: Some(submission),
        costs: CostModel::high(),
        ring_slots,
        ..RunRequest::new(workload.clone(), Clock::Virtual)
    };
    let report = run_workload(&request).unwrap().outcome.report;
    assert!(report.is_right(), "{:?}", report.problems);
    report
}

#[test]
fn a_ring_is_as_deep_as_the_recorded_thread_ran_ahead() {
    let workload = far_ahead();
    let packet = report(&workload, Submission::Packet, None);
    let user = report(&workload, Submission::User, None);
    let depth = user.import.as_ref().unwrap().deepest_run_ahead;
    assert!((2_000..AHEAD).contains(&depth), "{depth}");
    assert!(
        user.ring_slots >= 2 * depth && user.ring_slots.is_power_of_two(),
        "{}",
        user.ring_slots
    );
    assert_eq!((user.ring_waits, user.ring_wait_ns), (0, 0));
    assert!(user.makespan_ns < packet.makespan_ns, "{} {}", user.makespan_ns, packet.makespan_ns);
    assert_eq!((packet.ring_slots, packet.ring_wait_ns), (0, 0), "a packet queue has no ring");
}

#[test]
fn a_full_ring_is_measured_and_holds_no_thread() {
    let workload = far_ahead();
    let deep = report(&workload, Submission::User, None);
    let shallow = report(&workload, Submission::User, Some(1024));
    assert_eq!(shallow.ring_slots, 1024);
    let packet = report(&workload, Submission::Packet, None);
    assert!(
        shallow.makespan_ns < packet.makespan_ns,
        "the size of a ring does not turn the ranking round"
    );
    // The thread reaches the other stream as early as with a deep ring.
    let later = shallow.makespan_ns.abs_diff(deep.makespan_ns);
    assert!(later < 1_000_000, "{later}");
    assert!(shallow.ring_waits > 0 && shallow.ring_wait_ns > 5_000_000, "{}", shallow.ring_wait_ns);
    let of_queues: Vec<u64> = shallow.queues.iter().map(|queue| queue.ring_wait_ns).collect();
    assert_eq!(of_queues, [shallow.ring_wait_ns, 0]);
    let twice = report(&workload, Submission::User, Some(1024));
    assert_eq!(twice.ring_wait_ns, shallow.ring_wait_ns, "virtual time repeats itself");
}
