//! Reports of runs in virtual time: they agree with the timeline, with the length of the work, with
//! the recoveries, and with what was executed.

use std::path::{Path, PathBuf};
use tidegate::runner::HangAt;
use tidegate::runner::cost::import_options_for;
use tidegate::runner::report::Report;
use tidegate::trace::{Kind, Record, Trace, chrome, perfetto};
use tidegate::workload::{load, load_bytes};
use tidegate::{RunResult, run_workload};
use tidegate_testbed::prelude::*;

const MODELS: [Submission; 3] = [Submission::Packet, Submission::Hardware, Submission::User];

fn workloads() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads")
}

fn from_file(name: &str) -> Arc<Workload> {
    let loaded = load(&workloads().join(name), &LoadOptions::default());
    Arc::new(loaded.unwrap_or_else(|error| panic!("{error}")).0)
}

fn from_text(text: &str, name: &str) -> Arc<Workload> {
    let loaded = load_bytes(text.as_bytes(), name, &LoadOptions::default());
    Arc::new(loaded.unwrap_or_else(|error| panic!("{error}")).0)
}

/// A request for a run with a timeline.
fn request(workload: &Arc<Workload>, submission: Submission) -> RunRequest {
    let submission = Some(submission);
    RunRequest { submission, tracing: true, ..RunRequest::new(workload.clone(), Clock::Virtual) }
}

fn run(request: &RunRequest) -> RunResult {
    run_workload(request).unwrap_or_else(|error| panic!("{}: {error}", request.workload.name))
}

/// Lane and counted busy time of each queue of the report.
fn counted(trace: &Trace, report: &Report) -> Vec<(LaneId, u64)> {
    let lane = |name: &str| {
        let mut lanes = trace.lanes.iter().filter(|l| l.kind == LaneKind::Queue && l.name == name);
        lanes.next().unwrap_or_else(|| panic!("queue '{name}' has no lane")).id
    };
    report.queues.iter().map(|queue| (lane(&queue.name), queue.busy_ns)).collect()
}

#[test]
fn no_timeline_contradicts_itself_or_its_report() {
    let files = std::fs::read_dir(workloads()).unwrap().map(|entry| entry.unwrap().file_name());
    let files: Vec<String> = files.map(|name| name.into_string().unwrap()).collect();
    for file in files.iter().filter(|name| name.ends_with(".toml")) {
        let workload = from_file(file);
        let mut operations = Vec::new();
        for submission in MODELS {
            // User-mode queues present nothing.
            if workload.display.is_some() && submission == Submission::User {
                continue;
            }
            let RunResult { outcome, trace, .. } = run(&request(&workload, submission));
            let (report, trace) = (outcome.report, trace.expect("a timeline"));
            let mut found = trace.contradictions();
            found.extend(trace.busy_contradictions(&counted(&trace, &report)));
            let found: Vec<String> =
                found.into_iter().map(|what| trace.explain(what).to_string()).collect();
            assert!(found.is_empty(), "{file} under {submission}:\n{}", found.join("\n"));
            operations.push((report.gpu_waits, report.gpu_signals));
        }
        operations.dedup();
        assert_eq!(operations.len(), 1, "{file}: waits and signals of each model");
    }
}

/// One launch on one stream, and a kernel of 5 s.
const LONG_KERNEL: &str = r#"{"schemaVersion": 1, "traceEvents": [
    {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":1000,"dur":5,"args":{"correlation":1}},
    {"ph":"X","cat":"kernel","name":"long","pid":0,"tid":7,"ts":1010,"dur":5000000,
     "args":{"device":0,"stream":7,"correlation":1}},
    {"ph":"X","cat":"cuda_runtime","name":"cudaDeviceSynchronize","pid":9,"tid":9,"ts":1020,"dur":4999995,"args":{"correlation":2}}
]}"#;

const LONG_WORK: &str = r#"
[[fence]]
name = "done"
[[queue]]
name = "long"
engine = "compute"
program = [{ work_us = 5000000 }, { signal = "done", value = 1 }]
[[thread]]
name = "main"
program = [{ cpu_wait = "done", value = 1 }]
"#;

#[test]
fn work_of_five_seconds_takes_five_seconds_under_every_model() {
    for workload in [from_text(LONG_WORK, "long.toml"), from_text(LONG_KERNEL, "long.json")] {
        for submission in MODELS {
            let report = run(&request(&workload, submission)).outcome.report;
            assert!(report.is_right(), "{submission}: {:?}", report.problem_lines());
            let (name, makespan_ns) = (&workload.name, report.makespan_ns);
            let off_ns = makespan_ns.abs_diff(5_000_000_000);
            assert!(off_ns <= 50_000_000, "{name} under {submission}: {makespan_ns} ns");
        }
    }
}

#[test]
fn recoveries_and_makespans_count_from_one_start() {
    let (hangs, neighbour) = (from_file("priorities.toml"), from_file("ring-buffer.toml"));
    for submission in MODELS {
        let request = RunRequest {
            tdr_delay_ns: Some(20_000_000),
            hangs: vec![HangAt { queue: "frames".into(), submission: 3 }],
            beside: Some(neighbour.clone()),
            ..request(&hangs, submission)
        };
        let RunResult { outcome, trace, .. } = run(&request);
        let (report, trace) = (outcome.report, trace.expect("a timeline"));
        let [recovery] = &report.recoveries[..] else {
            panic!("{submission}: {:?}", report.recoveries)
        };
        assert!(report.makespan_ns >= recovery.at_ns, "{submission}: {} ns", report.makespan_ns);
        let at_ns = report.started_ns + recovery.at_ns;
        let marks =
            trace.records.iter().filter(|record| trace.name_of(record).contains("recovery"));
        let starts: Vec<u64> = marks.map(|mark| mark.start_ns).collect();
        assert_eq!(starts, [at_ns], "{submission}: recoveries on the timeline");
        let beside = report.beside.expect("two workloads ran");
        assert_eq!(beside.started_ns, report.started_ns, "{submission}");
        assert_eq!(beside.recoveries[0].at_ns, recovery.at_ns, "{submission}");
    }
}

/// Makes one of two signals and is then parked for ever.
const PARKED: &str = r#"
[[fence]]
name = "never"
[[fence]]
name = "done"
[[queue]]
name = "parked"
engine = "compute"
program = [
    { signal = "done", value = 1 },
    { wait = "done", value = 1 },
    { wait = "never", value = 1 },
    { signal = "done", value = 2 },
]
[[thread]]
name = "main"
program = [{ cpu_wait = "done", value = 2 }]
"#;

/// More than what precedes the last wait of a queue takes.
const BEFORE_THE_WAIT_NS: u64 = 100_000;

#[test]
fn queues_that_stand_still_are_blocked_and_their_signals_are_not_made() {
    let expected =
        [(from_file("bad/deadlock.toml"), (0, 0)), (from_text(PARKED, "parked.toml"), (1, 1))];
    for (workload, done) in expected {
        let cases = MODELS.into_iter().flat_map(|model| [(model, false), (model, true)]);
        for (submission, tracing) in cases {
            let request = RunRequest { tracing, ..request(&workload, submission) };
            let report = run(&request).outcome.report;
            let which = format!("{} under {submission}", workload.name);
            assert!(!report.completed, "{which}");
            assert_eq!((report.gpu_waits, report.gpu_signals), done, "{which}");
            for queue in &report.queues {
                let (name, blocked_ns) = (&queue.name, queue.blocked_ns);
                let (whole_ns, least_ns) = (report.makespan_ns, BEFORE_THE_WAIT_NS);
                let to_the_end = blocked_ns > 0 && whole_ns <= blocked_ns + least_ns;
                assert!(to_the_end, "{which}: '{name}' blocked for {blocked_ns} of {whole_ns} ns");
            }
        }
    }
}

/// A written timeline is a recording. Read back and replayed, it has the work of the run that it
/// shows.
#[test]
fn a_written_timeline_can_be_replayed() {
    let first = run(&request(&from_file("ring-buffer.toml"), Submission::User));
    let trace = first.trace.expect("a timeline");
    let (mut json, mut packets) = (Vec::new(), Vec::new());
    chrome::write(&trace, &mut json).unwrap();
    perfetto::write(&trace, &mut packets).unwrap();
    for file in [json, packets] {
        let import = import_options_for(&CostModel::nominal(), Submission::User);
        let again =
            load_bytes(&file, "timeline", &LoadOptions { import, ..LoadOptions::default() })
                .unwrap()
                .0;
        let recorded = again.recorded.as_ref().unwrap();
        // 24 frames: a copy into the ring, and a fill, a draw, a timed command and a copy on the 3D
        // engine.
        let found = &recorded.report;
        assert_eq!((found.copies, found.fills, found.kernels), (48, 24, 48));
        assert_eq!((found.streams, found.host_threads), (2, 2));
        assert_eq!((found.launches, found.work_without_launch), (48, 0));
        // A wait may be submitted before the signal that it is for.
        assert_eq!((found.dependencies, found.dependencies_unpaired), (24 + 21, 0));
        assert_eq!(found.remarks, []);
        let busy: u64 = recorded.items.iter().map(|item| item.end_ns - item.start_ns).sum();
        let queues = first.outcome.report.queues.iter();
        assert_eq!(busy, queues.map(|queue| queue.busy_ns).sum::<u64>());
        let second = run(&request(&Arc::new(again), Submission::User)).outcome.report;
        let (one, two) = (first.outcome.report.makespan_ns, second.makespan_ns);
        assert!(one.abs_diff(two) * 20 < one, "{one} ns recorded, {two} ns replayed");
    }
}

#[test]
fn a_recovery_and_its_steps_are_records_and_work_that_was_cut_off_never_ran() {
    let workload = from_file("priorities.toml");
    for submission in MODELS {
        let hangs = vec![HangAt { queue: "frames".to_owned(), submission: 3 }];
        let result = run(&RunRequest { hangs, ..request(&workload, submission) });
        let trace = result.trace.expect("a timeline");
        let of_kind =
            |kind| trace.records.iter().filter(move |r| r.kind == kind).collect::<Vec<_>>();
        let [recovery] = of_kind(Kind::Recovery)[..] else { panic!("{submission}: one recovery") };
        assert_eq!((recovery.arg, trace.name_of(recovery)), (0x141, "recovery of node 0"));
        let steps =
            trace.records.iter().filter(|r| r.lane == recovery.lane && r.kind == Kind::Mark);
        let steps: Vec<&str> = steps
            .inspect(|r| assert!(r.start_ns >= recovery.start_ns))
            .map(|r| trace.name_of(r))
            .collect();
        assert!(steps[0].starts_with("detected: "), "{submission}: {steps:?}");
        let rest =
            ["engine suspended and reset", "work that was cut off is lost", "engine resumed"];
        assert_eq!(steps[1..], rest, "{submission}");
        // The list that hangs was queued and not done; the engine's slice of the hang leads to it,
        // and it to the call.
        let is_hang = |r: &Record| trace.name_of(r) == "injected hang" && r.queue().is_some();
        let hang = trace.records.iter().position(is_hang).expect("the hang has a slice");
        let chains = trace.chains();
        let chain = chains.iter().find(|chain| chain.slices.contains(&hang));
        let chain = chain.unwrap_or_else(|| panic!("{submission}: the hang has no submission"));
        let queued = trace.records[chain.queued.expect("it was queued")];
        assert_eq!(queued.kind, Kind::NeverRan, "{submission}");
        assert_eq!(trace.records[chain.call.expect("it was submitted")].kind, Kind::Submit);
        assert!(!trace.records.iter().any(|r| r.kind == Kind::ExecuteQueued));
    }
}

#[test]
fn every_slice_of_an_engine_leads_to_its_box_and_to_the_call() {
    for name in ["ring-buffer.toml", "high-priority-compute.toml"] {
        let workload = from_file(name);
        for submission in MODELS {
            let result = run(&request(&workload, submission));
            let trace = result.trace.expect("a timeline");
            let work =
                trace.records.iter().filter(|r| r.queue().is_some() && r.kind.is_work()).count();
            let chains = trace.chains();
            let slices: usize = chains.iter().map(|chain| chain.slices.len()).sum();
            assert_eq!(slices, work, "{name} {submission}");
            for chain in chains {
                let (call, queued) = (chain.call.expect("a call"), chain.queued.expect("a box"));
                let [call, queued] = [call, queued].map(|index| trace.records[index]);
                let of_call = (queued.name, Some(queued.lane));
                assert_eq!((call.name, call.queue()), of_call, "{name} {submission}");
                assert!(!trace.name_of(&queued).is_empty());
                for slice in chain.slices.iter().map(|index| trace.records[*index]) {
                    assert!(queued.start_ns <= slice.start_ns && slice.end_ns <= queued.end_ns);
                }
            }
            let marks = trace.records.iter().filter(|r| r.kind == Kind::Signal);
            let longest = marks.map(|r| r.duration_ns()).max().unwrap_or(0);
            assert_eq!(longest, 0, "{name} {submission}: a signal is a mark");
        }
    }
}

#[test]
fn a_submission_in_the_first_nanosecond_of_a_run_has_its_box() {
    let workload = from_text(LONG_WORK, "long.toml");
    let costs = CostModel::nominal().but(Step::UmdEncode, 0);
    for submission in MODELS {
        let result = run(&RunRequest { costs: costs.clone(), ..request(&workload, submission) });
        let trace = result.trace.expect("a timeline");
        assert!(!trace.records.iter().any(|r| r.kind == Kind::NeverRan), "{submission}");
        let chains = trace.chains();
        let whole = chains.iter().all(|chain| chain.call.is_some() && chain.queued.is_some());
        assert!(whole && !chains.is_empty(), "{submission}");
    }
}

/// The makespans of runs that take every step of the cost model.
fn makespans(costs: &CostModel) -> Vec<u64> {
    let notified = tidegate::variants::find("notify-submissions").unwrap();
    let runs = [
        ("ring-buffer.toml", Submission::Packet, None),
        ("ring-buffer.toml", Submission::User, None),
        ("priorities.toml", Submission::User, None),
        ("wait-before-signal.toml", Submission::User, None),
        ("streaming-upload.toml", Submission::Hardware, None),
        ("hello.toml", Submission::User, Some(notified)),
    ];
    let makespan = |&(file, submission, adapter): &(&str, Submission, _)| {
        let costs = costs.clone();
        let request = RunRequest { costs, adapter, ..request(&from_file(file), submission) };
        run(&request).outcome.report.makespan_ns
    };
    runs.iter().map(makespan).collect()
}

#[test]
fn every_step_that_has_a_price_is_paid() {
    let nominal = CostModel::nominal();
    let before = makespans(&nominal);
    let unpaid: Vec<&str> = Step::ALL
        .iter()
        .filter(|step| makespans(&nominal.but(**step, 10 * nominal.ns(**step))) == before)
        .map(|step| step.name())
        .collect();
    assert!(unpaid.is_empty(), "no run takes longer if these do: {}", unpaid.join(", "));
}
