//! The workload of three priorities on one engine, in virtual time: how long work of high priority
//! waits is bounded by how finely the engine is preempted, and what stays behind it comes to its
//! end.

use std::path::Path;
use tidegate::runner::report::Report;
use tidegate::workload::{load, load_bytes};
use tidegate::{PreemptionChoice, run_workload};
use tidegate_testbed::prelude::*;

fn priorities() -> Arc<Workload> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/priorities.toml");
    Arc::new(load(&path, &LoadOptions::default()).unwrap().0)
}

fn run(
    workload: &Arc<Workload>,
    submission: Submission,
    compute: Option<ComputePreemption>,
) -> Report {
    let request = RunRequest {
        submission: Some(submission),
        preemption: PreemptionChoice { compute, graphics: None },
        // The connect would make the first submission of each queue the longest.
        costs: CostModel::nominal().but(Step::ConnectDoorbell, 0),
        ..RunRequest::new(workload.clone(), Clock::Virtual)
    };
    let report = run_workload(&request).unwrap().outcome.report;
    assert!(report.is_right(), "{submission} {compute:?}: {:?}", report.problem_lines());
    report
}

fn metric(report: &Report, name: &str, queue: &str) -> u64 {
    let row = report.metrics.iter().find(|m| m.name == name && m.queues == [queue]);
    row.and_then(|row| row.value).unwrap_or_else(|| panic!("no {name} of {queue}"))
}

/// What the way to the engine takes at most on the modelled machine: call, doorbell, interrupt,
/// fetch.
const WAY_NS: u64 = 60_000;
/// The longest command of the workload, its longest submission, and all that a queue has at once.
const COMMAND_NS: u64 = 600_000;
const SUBMISSION_NS: u64 = 2_400_000;
const QUEUED_NS: u64 = 6 * 2_000_000 + 3 * SUBMISSION_NS;

// spec: PRE-003
#[test]
fn urgent_work_waits_for_no_more_than_the_granularity() {
    let workload = priorities();
    for submission in [Submission::Hardware, Submission::User] {
        let mut last_ns = 0;
        for (compute, longest_ns) in [
            (ComputePreemption::Shader, 0),
            (ComputePreemption::ThreadGroup, 0),
            (ComputePreemption::Dispatch, COMMAND_NS),
            (ComputePreemption::DmaBuffer, SUBMISSION_NS),
            (ComputePreemption::None, QUEUED_NS),
        ] {
            let report = run(&workload, submission, Some(compute));
            let waited_ns = metric(&report, "queue_latency_max_ns", "urgent");
            assert!(waited_ns <= WAY_NS + longest_ns, "{submission} {compute}: {waited_ns} ns");
            assert!(waited_ns >= last_ns, "{submission} {compute}: a coarser one is not faster");
            last_ns = waited_ns;
            let urgent = report.queues.iter().find(|q| q.name == "urgent").unwrap();
            let engine = report.engines.iter().find(|e| e.engine == "3D").unwrap();
            assert_eq!((urgent.priority, urgent.preempted), ("high", 0));
            assert_eq!(engine.compute_preemption, compute.to_string());
            let (count, max_ns) = (engine.preemptions.count(), engine.preemptions.max_ns());
            assert_eq!(count, engine.preemptions_requested, "a packet for each request");
            assert!(count > 0 && max_ns <= longest_ns, "{engine:?}");
            let left_in_the_middle: u64 = report.queues.iter().map(|q| q.preempted).sum();
            let fine = compute >= ComputePreemption::ThreadGroup;
            let inside = fine || compute == ComputePreemption::Dispatch;
            assert_eq!(left_in_the_middle > 0, inside, "{compute}");
        }
        assert!(last_ns > 2 * COMMAND_NS, "{submission}: the workload shows the difference");
    }
}

/// High-priority work without end beside a packet of normal and one of idle priority.
fn starving(high_ms: u64) -> Arc<Workload> {
    let queue = |name: &str, priority: &str, program: &str| {
        format!(
            "[[queue]]\nname = \"{name}\"\nengine = \"3d\"\npriority = \"{priority}\"\nprogram = [{program}]\n"
        )
    };
    let high = format!("{{ loop = \"k\", from = 1, to = {high_ms}, do = [{{ work_ms = 1 }}] }}");
    let expect = |queue: &str| {
        format!("[[expect]]\nmetric = \"queue_latency_max_ns\"\nqueue = \"{queue}\"\n")
    };
    let text = [
        "name = \"starving\"\n".to_owned(),
        queue("high", "high", &high),
        queue("normal", "normal", "{ work_us = 100 }"),
        queue("idle", "idle", "{ work_us = 100 }"),
        expect("normal"),
        expect("idle"),
    ]
    .concat();
    Arc::new(load_bytes(text.as_bytes(), "starving.toml", &LoadOptions::default()).unwrap().0)
}

// spec: PRE-003
#[test]
fn packets_of_every_priority_come_to_the_engine_within_their_bounds() {
    let quantum_ns = 10_000_000;
    let report = run(&starving(1_500), Submission::Packet, None);
    // The one that is running, and what the GPU and the interrupt take to make room.
    let slack_ns = 2 * quantum_ns;
    for (queue, quanta) in [("normal", 9), ("idle", 99)] {
        let waited_ns = metric(&report, "queue_latency_max_ns", queue);
        assert!(waited_ns <= quanta * quantum_ns + slack_ns, "{queue}: {waited_ns} ns");
    }
    let longest = |queue| metric(&report, "queue_latency_max_ns", queue);
    assert!(longest("normal") < longest("idle"));
}

/// What a thread group takes on the modelled machine.
const GROUP_NS: u64 = 500;

#[test]
fn a_ring_is_served_between_two_thread_groups() {
    let text = r#"
name = "groups"
[[buffer]]
name = "y"
bytes = 4_194_304
[[queue]]
name = "low"
engine = "compute"
program = [{ dispatch = "fill_pattern", args = { dst = "y", n = 1_048_576, first = 0, step = 1 } }]
[[fence]]
name = "answered"
[[queue]]
name = "urgent"
engine = "compute"
priority = "high"
[[thread]]
name = "application"
program = [{ loop = "k", from = 1, to = 8, do = [
    { sleep_ns = "10_000 + 377 * k" },
    { work_ns = 10, queue = "urgent" },
    { signal = "answered", queue = "urgent", value = "k" },
    { cpu_wait = "answered", value = "k" },
] }]
[[expect]]
metric = "queue_latency_ns"
queue = "urgent"
[[expect]]
metric = "queue_latency_max_ns"
queue = "urgent"
"#;
    let workload =
        Arc::new(load_bytes(text.as_bytes(), "groups.toml", &LoadOptions::default()).unwrap().0);
    let report = run(&workload, Submission::User, Some(ComputePreemption::ThreadGroup));
    let [median, max] =
        ["queue_latency_ns", "queue_latency_max_ns"].map(|name| metric(&report, name, "urgent"));
    // A turn would be eight groups; the rest of the difference is how cold the way was.
    assert!(max - median <= 3 * GROUP_NS, "{median} {max}");
    assert!(report.queues[0].preempted >= 4, "{report:?}");
}
