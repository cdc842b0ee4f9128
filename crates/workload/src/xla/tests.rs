//! Small profiles encoded here, field by field. A recorded one is read in
//! `tests/workload/other_traces.rs`.

use crate::imported::{self, report};
use crate::model::Workload;
use crate::perfetto::tests::{bytes, message, number};
use crate::recording::{Source, WorkKind};
use crate::{LoadOptions, load_bytes};

/// An entry of a plane's tables.
fn named(field: u64, id: u64, name: &str) -> Vec<u8> {
    let value = message(2, &[number(1, id), bytes(2, name.as_bytes())]);
    message(field, &[number(1, id), value])
}

/// An event at an offset in picoseconds, with a correlation id and another stat.
fn event(name: u64, [offset, length]: [u64; 2], correlation: u64, stat: u64) -> Vec<u8> {
    let correlation = message(4, &[number(1, 1), number(3, correlation)]);
    let stat = message(4, &[number(1, stat), bytes(5, b"details")]);
    message(4, &[number(1, name), number(2, offset), number(3, length), correlation, stat])
}

fn names() -> Vec<u8> {
    let events = ["gemm", "copy", "MemcpyH2D", "hipLaunchKernel", "hipStreamSynchronize", "python"];
    let stats = ["correlation_id", "hlo_op", "memcpy_details", "memset_details"];
    let events = (1..).zip(events).map(|(id, name)| named(4, id, name));
    events.chain((1..).zip(stats).map(|(id, name)| named(5, id, name))).flatten().collect()
}

fn line(id: u64, name: &str, at_ns: u64, events: &[Vec<u8>]) -> Vec<u8> {
    message(3, &[number(1, id), bytes(2, name.as_bytes()), number(3, at_ns), events.concat()])
}

fn plane(name: &str, parts: &[Vec<u8>]) -> Vec<u8> {
    message(1, &[number(1, 1), bytes(2, name.as_bytes()), parts.concat()])
}

/// A kernel, two copies and a fill on two streams of GPU 3, launched by a thread that then waits.
fn profile() -> Vec<u8> {
    let kernels = [event(1, [700_999, 18_000_001], 5, 2), event(2, [30_000_000, 1_000_000], 6, 3)];
    let others = [event(3, [0, 2_500_000], 7, 2), event(2, [4_000_000, 1_000_000], 8, 4)];
    let launches = [(0, 5), (200_000, 6), (400_000, 7), (600_000, 8)];
    let launches = launches.map(|(offset, id)| event(4, [offset, 100_000], id, 2));
    let rest = [event(5, [900_000, 30_200_000], 9, 2), event(6, [0, 90_000_000], 10, 2)];
    let calls = [launches.concat(), rest.concat()];
    // Tables may come after the lines that use them.
    let device = [
        line(16, "Stream #16(Kernel)", 1_000, &kernels),
        line(17, "Stream #17(MemcpyH2D,Memset)", 2_000, &others),
        line(1, "XLA Ops", 1_000, &[event(1, [0, 90_000_000], 5, 2)]),
        names(),
    ];
    let host = [names(), line(604, "Host Threads/604", 1_000, &calls)];
    [plane("/device:GPU:3", &device), plane("/host:CPU", &host), bytes(4, b"host")].concat()
}

fn read(file: &[u8], name: &str) -> Workload {
    imported::read(file, name, Source::Xla)
}

/// Queue, name, kind, start and end of each piece of work, in nanoseconds from the first call.
fn work(workload: &Workload) -> Vec<(String, String, WorkKind, u64, u64)> {
    let recorded = workload.recorded.as_ref().unwrap();
    let item = |item: &crate::model::RecordedItem| {
        let name = item.name as usize;
        let queue = workload.queue(item.queue).name.clone();
        let (text, kind) = (recorded.names[name].to_string(), recorded.kinds[name]);
        (queue, text, kind, item.start_ns, item.end_ns)
    };
    recorded.items.iter().map(item).collect()
}

#[test]
fn streams_work_calls_and_their_correlations() {
    let workload = read(&profile(), "host.xplane.pb");
    let report = report(&workload);
    assert_eq!((report.kernels, report.copies, report.fills, report.streams), (1, 2, 1, 2));
    assert_eq!((report.launches, report.work_without_launch, report.host_threads), (4, 0, 1));
    assert_eq!((report.stream_syncs_unpaired, report.syncs_by_time), (1, 1));
    let of = |queue: &str, name: &str, kind, start, end| {
        (queue.to_owned(), name.to_owned(), kind, start, end)
    };
    assert_eq!(
        work(&workload),
        [
            of("stream 16", "gemm", WorkKind::Kernel, 700, 18_701),
            of("stream 16", "Memcpy", WorkKind::Copy, 30_000, 31_000),
            of("stream 17", "Memcpy HtoD", WorkKind::Copy, 1_000, 3_500),
            of("stream 17", "copy", WorkKind::Fill, 5_000, 6_000),
        ]
    );
    assert_eq!(workload.threads[0].name, "thread 604");
}

#[test]
fn json_made_of_a_profile_is_the_same_recording() {
    let process = |pid, name: &str| {
        format!(r#"{{"ph":"M","pid":{pid},"name":"process_name","args":{{"name":"{name}"}}}}"#)
    };
    let thread = |pid, tid, name: &str| {
        format!(
            r#"{{"ph":"M","pid":{pid},"tid":{tid},"name":"thread_name","args":{{"name":"{name}"}}}}"#
        )
    };
    let event = |pid, tid, ts: &str, dur: &str, name: &str, correlation| {
        format!(
            r#"{{"ph":"X","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"name":"{name}","args":{{"correlation_id":"{correlation}"}}}}"#
        )
    };
    let events = [
        process(4, "/device:GPU:3"),
        process(701, "/host:CPU"),
        thread(4, 16, "Stream #16(Kernel)"),
        thread(4, 17, "Stream #17(MemcpyH2D)"),
        thread(4, 1, "XLA Ops"),
        thread(701, 604, "Host Threads/604"),
        event(4, 16, "1.7", "18", "gemm", 5),
        event(4, 17, "2", "2.5", "MemcpyH2D", 7),
        event(4, 1, "1", "90", "gemm", 5),
        event(701, 604, "1", "0.1", "hipLaunchKernel", 5),
        event(701, 604, "1.4", "0.1", "hipLaunchKernel", 7),
        event(701, 604, "1", "90", "python", 10),
        "{}".to_owned(),
    ];
    let text = format!(
        r#"{{"displayTimeUnit":"ns","metadata":{{"highres-ticks":true}},"traceEvents":[{}]}}"#,
        events.join(",\n")
    );
    let workload = read(text.as_bytes(), "host.trace.json");
    let report = report(&workload);
    assert_eq!((report.kernels, report.copies, report.launches), (1, 1, 2));
    let work = work(&workload);
    assert_eq!((work[0].3, work[0].4, work[0].2), (700, 18_700, WorkKind::Kernel));
    assert_eq!((work[1].3, work[1].4, work[1].2), (1_000, 3_500, WorkKind::Copy));
    assert_eq!(workload.threads[0].name, "Host Threads/604");
}

#[test]
fn truncated_damaged_and_other_profiles_are_refused() {
    let refused =
        |file: &[u8]| load_bytes(file, "x.pb", &LoadOptions::default()).unwrap_err().to_string();
    let whole = profile();
    for length in 1..whole.len() {
        // Every cut is refused, or reads as the planes before it.
        let _ = load_bytes(&whole[..length], "x.pb", &LoadOptions::default());
    }
    let text = refused(&whole[..whole.len() - 8]);
    assert!(text.contains("in the middle of a plane, after 1 planes"), "{text}");
    let text = refused(&plane("/device:TPU:0", &[]));
    assert!(text.contains("an XLA profile of TPU:0, and only streams of GPUs are read"), "{text}");
    let mut damaged = whole.clone();
    let at = whole.windows(6).position(|window| window == b"Stream").unwrap();
    damaged[at - 1] = 0xff;
    assert!(refused(&damaged).contains("plane '/device:GPU:3' is damaged"));
}

#[test]
fn sums_and_lengths_below_zero_are_counted() {
    let sum = message(4, &[number(1, 1), number(5, 3)]);
    let events = [event(1, [0, 1_000], 1, 2), event(1, [0, u64::MAX], 2, 2), sum];
    let parts = [names(), line(1, "Stream #1(Kernel)", 5, &events)];
    let workload = read(&plane("/device:GPU:0", &parts), "x.pb");
    assert_eq!((report(&workload).kernels, report(&workload).events), (1, 3));
    let lines = report(&workload).lines().join("\n");
    assert!(lines.contains("left out, no usable start and end: 2 rows"), "{lines}");
}
