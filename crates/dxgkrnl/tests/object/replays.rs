//! Replays of recordings on machines with few doorbells: the queues are connected ahead of the
//! measured time, and each reconnect is paid.

use tidegate::run_workload;
use tidegate::runner::report::Report;
use tidegate::trace::Kind;
use tidegate::workload::load_bytes;
use tidegate::workload::recording::ImportOptions;
use tidegate_testbed::prelude::*;

/// Two streams take turns. The host launches faster than a doorbell is connected, so each connect
/// delays all later launches.
const KERNELS: usize = 12;

fn recording() -> Arc<Workload> {
    let kernel = |number: usize| {
        let (stream, launch, start) = (7 + number % 2, 3 * number, 40 + 4 * number);
        format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{launch},"dur":2,
                "args":{{"correlation":{number}}}}},
               {{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":{stream},"ts":{start},"dur":2,
                "args":{{"device":0,"stream":{stream},"correlation":{number}}}}}"#
        )
    };
    let kernels: Vec<String> = (0..KERNELS).map(kernel).collect();
    let text = format!(r#"{{"traceEvents":[{}]}}"#, kernels.join(","));
    Arc::new(load_bytes(text.as_bytes(), "turns.json", &LoadOptions::default()).unwrap().0)
}

/// How long its replay takes without a connect.
const MAKESPAN_NS: u64 = 100_000;

/// Replays it where a connect takes `connect_ns`.
fn replay(workload: &Arc<Workload>, doorbells: DoorbellModel, connect_ns: u64) -> Report {
    let request = RunRequest {
        submission: Some(Submission::User),
        doorbells: Some(doorbells),
        costs: CostModel::nominal().but(Step::ConnectDoorbell, connect_ns),
        ..RunRequest::new(workload.clone(), Clock::Virtual)
    };
    let report = run_workload(&request).unwrap().outcome.report;
    assert!(report.completed && report.problems.is_empty(), "{:?}", report.problems);
    report
}

#[test]
fn each_reconnect_of_a_replay_is_paid() {
    let one = DoorbellModel::Dedicated { physical: 1 };
    let workload = recording();
    let (short, long) = (replay(&workload, one, 20_000), replay(&workload, one, 30_000));
    let connects = long.machine.doorbell_connects;
    assert_eq!(connects, KERNELS as u64, "stream 7 begins, and stream 8 was connected last");
    assert_eq!(short.machine.doorbell_connects, connects);
    assert_eq!(long.queues.iter().map(|queue| queue.doorbell_connects).sum::<u64>(), connects);
    assert_eq!(long.makespan_ns - short.makespan_ns, connects * 10_000);
}

#[test]
fn a_replay_with_a_doorbell_for_each_queue_connects_none() {
    let workload = recording();
    for enough in [DoorbellModel::Dedicated { physical: 2 }, DoorbellModel::Global] {
        for connect_ns in [0, 15_000, 50_000] {
            let report = replay(&workload, enough, connect_ns);
            assert_eq!(report.makespan_ns, MAKESPAN_NS, "{enough:?}, {connect_ns} ns");
            assert_eq!(report.machine.doorbell_connects, 0, "{enough:?}");
            assert!(report.queues.iter().all(|queue| queue.doorbell_connects == 0));
            assert_eq!((report.doorbell_rings, report.doorbell_retries), (KERNELS as u64, 0));
        }
    }
}

/// A recording of `gpus` GPUs with `streams` streams each, and its makespan in nanoseconds. Each
/// stream has short kernels with long gaps between them, at times of its own; none waits for
/// another.
fn many_streams(gpus: u64, streams: u64) -> (Arc<Workload>, u64) {
    const KERNELS: u64 = 20;
    let mut events = Vec::new();
    let (mut first_us, mut last_us) = (u64::MAX, 0);
    for gpu in 0..gpus {
        for stream in 0..streams {
            for kernel in 0..KERNELS {
                let number = (gpu * streams + stream) * KERNELS + kernel;
                // Streams begin 30 us apart and work for 100 us in each 10 ms.
                let start = 1_000 + 30 * (gpu + stream) + 10_000 * kernel;
                let launch = start - 500 + 3 * gpu;
                let tid = 1 + gpu;
                (first_us, last_us) = (first_us.min(launch), last_us.max(start + 100));
                events.push(format!(
                    r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":{tid},"ts":{launch},"dur":1,
                        "args":{{"correlation":{number}}}}},
                       {{"ph":"X","cat":"kernel","name":"k","pid":{gpu},"tid":{stream},"ts":{start},"dur":100,
                        "args":{{"device":{gpu},"stream":{stream},"correlation":{number}}}}}"#
                ));
            }
        }
    }
    let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
    let loaded = load_bytes(text.as_bytes(), "streams.json", &LoadOptions::default());
    (Arc::new(loaded.unwrap().0), 1_000 * (last_us - first_us))
}

// There are 32 compute engines and 15 copy engines: beyond 47 streams, streams share.
#[test]
fn a_replay_of_more_streams_than_engines_takes_as_long_as_its_recording() {
    for (gpus, streams) in [(1, 40), (3, 20), (8, 12)] {
        let (workload, recorded_ns) = many_streams(gpus, streams);
        let request = RunRequest {
            submission: Some(Submission::Hardware),
            ..RunRequest::new(workload, Clock::Virtual)
        };
        let report = run_workload(&request).unwrap().outcome.report;
        assert!(report.completed && report.problems.is_empty(), "{:?}", report.problems);
        let apart_ns = report.makespan_ns.abs_diff(recorded_ns);
        let what = format!("{gpus} GPUs of {streams} streams: {} ns", report.makespan_ns);
        assert!(apart_ns * 50 <= recorded_ns, "{what}, recorded {recorded_ns} ns");
    }
}

/// A host that polls returns from its wait when the work has ended, and not a wake-up later.
#[test]
fn a_wait_that_was_polled_is_polled() {
    const EVENTS: [&str; 5] = [
        r#"{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":0,"dur":2,"args":{"correlation":1}}"#,
        r#"{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":10,"dur":100,"args":{"device":0,"stream":7,"correlation":1}}"#,
        r#"{"ph":"X","cat":"cuda_runtime","name":"cudaDeviceSynchronize","pid":1,"tid":1,"ts":5,"dur":106,"args":{"correlation":2}}"#,
        r#"{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":120,"dur":2,"args":{"correlation":3}}"#,
        r#"{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":130,"dur":10,"args":{"device":0,"stream":7,"correlation":3}}"#,
    ];
    let text = format!(r#"{{"traceEvents":[{}]}}"#, EVENTS.join(","));
    let import = ImportOptions { wake_ns: 20_000, seen_ns: 1_000, ..ImportOptions::default() };
    let options = LoadOptions { import, ..LoadOptions::default() };
    let (workload, _) = load_bytes(text.as_bytes(), "polled.json", &options).unwrap();
    let request =
        RunRequest { tracing: true, ..RunRequest::new(Arc::new(workload), Clock::Virtual) };
    let run = run_workload(&request).unwrap();
    let trace = run.trace.unwrap();
    let waits: Vec<_> = trace.records.iter().filter(|r| r.kind == Kind::CpuWait).collect();
    let ended_ns = trace.records.iter().find(|r| r.kind == Kind::Timed).expect("work").end_ns;
    assert!((0..5_000).contains(&(waits[0].end_ns - ended_ns)), "{waits:?}, {ended_ns}");
    let off = run.outcome.report.makespan_ns.abs_diff(140_000);
    // The recorded times hold the host's own time, which is spent again here.
    assert!(off < 10_000, "{} ns", run.outcome.report.makespan_ns);
}
