//! Small traces of every shape, written here: names of two vendors, old and new categories, what is
//! missing, what is broken. Recorded traces are read in `tests/workload/real_traces.rs`.

use crate::imported::report;
use crate::model::{CommandKind, EngineKind, OpKind, Ready, Workload};
use crate::recording::{Foreign, Gaps, ImportOptions, Remark};
use crate::{Error, LoadOptions, load_bytes};

fn import(bytes: &[u8], file: &str, options: &ImportOptions) -> Result<Workload, Error> {
    load_bytes(bytes, file, &LoadOptions { import: *options, ..LoadOptions::default() })
        .map(|(workload, _)| workload)
}

/// A trace around these events.
fn object(events: &str) -> String {
    format!("{{\"schemaVersion\": 1, \"traceEvents\": [{events}], \"traceName\": \"x\"}}")
}

fn good(text: &str) -> Workload {
    import(text.as_bytes(), "t.json", &ImportOptions::default())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn bad(bytes: &[u8]) -> String {
    import(bytes, "t.json", &ImportOptions::default()).expect_err("this is no trace").to_string()
}

fn call(name: &str, ts: &str, dur: &str, correlation: u64) -> String {
    format!(
        r#"{{"ph":"X","cat":"cuda_runtime","name":"{name}","pid":9,"tid":9,"ts":{ts},"dur":{dur},"args":{{"correlation":{correlation}}}}}"#
    )
}

fn kernel(name: &str, ts: &str, dur: &str, stream: u64, correlation: u64) -> String {
    format!(
        r#"{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":{stream},"ts":{ts},"dur":{dur},"args":{{"device":0,"stream":{stream},"correlation":{correlation}}}}}"#
    )
}

fn sync(kind: &str, stream: i64, on: i64, record: i64, correlation: u64) -> String {
    format!(
        r#"{{"ph":"X","cat":"cuda_sync","name":"{kind}","pid":0,"tid":0,"ts":1,"dur":1,"args":{{"cuda_sync_kind":"{kind}","stream":{stream},"wait_on_stream":{on},"wait_on_cuda_event_record_corr_id":{record},"correlation":{correlation},"device":0}}}}"#
    )
}

/// Two streams, the second waits for the first, the host for the second.
fn two_streams(prefix: &str) -> String {
    object(
        &[
            kernel("a", "1000020", "10", 7, 1),
            call(&format!("{prefix}LaunchKernel"), "1000000", "5", 1),
            call(&format!("{prefix}EventRecord"), "1000006", "1", 2),
            call(&format!("{prefix}StreamWaitEvent"), "1000008", "1", 3),
            sync("Stream Wait Event", 8, 7, 2, 3),
            call(&format!("{prefix}LaunchKernel"), "1000010", "5", 4),
            kernel("b", "1000031", "10", 8, 4),
            call(&format!("{prefix}StreamSynchronize"), "1000016", "30", 5),
            sync("Stream Sync", 8, -1, -1, 5),
        ]
        .join(","),
    )
}

#[test]
fn cuda_and_hip_names_mean_the_same() {
    for prefix in ["cuda", "hip", "cu"] {
        let workload = good(&two_streams(prefix));
        let report = report(&workload);
        assert_eq!((report.streams, report.kernels, report.launches), (2, 2, 2), "{prefix}");
        assert_eq!(
            (report.stream_waits, report.stream_syncs, report.event_records_awaited),
            (1, 1, 1),
            "{prefix}"
        );
        let items = &workload.recorded.as_ref().unwrap().items;
        assert_eq!(items[1].ready, Ready::Dependency);
        assert_eq!(items[1].gap_ns, 1_000);
        assert!(workload.queues.iter().all(|queue| queue.engine == EngineKind::Compute));
    }
}

#[test]
fn the_operations_of_a_thread_come_in_the_order_of_its_calls() {
    let workload = good(&two_streams("cuda"));
    let word = |op: &crate::model::Op| match &op.kind {
        OpKind::Host { .. } => "host",
        OpKind::Submit { .. } => "submit",
        OpKind::Signal { .. } => "signal",
        OpKind::Wait { .. } => "wait",
        OpKind::CpuWait { .. } => "cpu wait",
        OpKind::Resume { .. } => "resume",
        _ => "other",
    };
    let words: Vec<&str> = workload.threads[0].body.iter().map(word).collect();
    assert_eq!(
        words,
        [
            "host", "submit", "host", "signal", "host", "wait", "host", "submit", "signal", "host",
            "cpu wait", "resume"
        ]
    );
}

#[test]
fn fractions_of_microseconds_are_exact() {
    let text = object(
        &[
            call("cudaLaunchKernel", "1695835583881571.123", "5.001", 1),
            kernel("a", "1695835583881580.5", "0.25", 7, 1),
        ]
        .join(","),
    );
    let workload = good(&text);
    let item = workload.recorded.as_ref().unwrap().items[0];
    assert_eq!((item.start_ns, item.end_ns), (9_377, 9_627));
    assert_eq!(item.gap_ns, 9_377 - 5_001);
}

#[test]
fn a_bare_array_texts_for_numbers_and_missing_lengths_are_read() {
    let text = r#"[
        {"ph":"X","cat":"Runtime","name":"hipLaunchKernel","pid":"9","tid":"main","ts":"100","args":{"correlation":"1"}},
        {"ph":"X","cat":"Kernel","name":"k","pid":"0","tid":"3","ts":"110","dur":"2","args":{"correlation":"1","queue":"3"}},
        {"ph":"i","name":"mark","ts":1}
    ]"#;
    let workload = good(text);
    assert_eq!((report(&workload).launches, report(&workload).events), (1, 3));
    assert_eq!(workload.threads[0].name, "thread main");
    assert_eq!(workload.queues[0].name, "stream 3");
}

#[test]
fn old_flow_arrows_join_work_without_correlations() {
    for category in ["async_gpu", "async_cpu_to_gpu", "ac2g"] {
        let text = object(&format!(
            r#"{{"ph":"X","cat":"Runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":100,"dur":5,"args":{{}}}},
               {{"ph":"s","id":77,"cat":"{category}","name":"launch","pid":9,"tid":9,"ts":100}},
               {{"ph":"f","id":77,"cat":"{category}","name":"launch","pid":0,"tid":7,"ts":120,"bp":"e"}},
               {{"ph":"X","cat":"Kernel","name":"k","pid":0,"tid":7,"ts":120,"dur":5,"args":{{"stream":7}}}}"#
        ));
        let workload = good(&text);
        assert_eq!(
            (report(&workload).launches, report(&workload).work_without_launch),
            (1, 0),
            "{category}"
        );
    }
}

#[test]
fn what_is_not_recorded_is_counted_and_not_invented() {
    let text = object(
        &[
            call("cudaLaunchKernel", "100", "5", 1),
            kernel("a", "110", "10", 7, 1),
            call("cudaStreamWaitEvent", "120", "1", 2),
            call("cudaStreamSynchronize", "130", "1", 3),
            call("cudaEventSynchronize", "140", "1", 4),
            call("cudaEventQuery", "150", "1", 5),
            // A wait whose record lies before the recording.
            call("cudaStreamWaitEvent", "160", "1", 6),
            sync("Stream Wait Event", 7, 8, 999, 6),
            // An event synchronisation that belongs to a look.
            call("cudaEventQuery", "170", "1", 8),
            sync("Event Sync", -1, 7, 999, 8),
            call("cudaGraphLaunch", "180", "1", 9),
            kernel("lost", "300", "10", 7, 12345),
        ]
        .join(","),
    );
    let workload = good(&text);
    let report = report(&workload);
    assert_eq!((report.stream_waits, report.stream_waits_unpaired), (0, 2));
    assert_eq!((report.stream_syncs, report.stream_syncs_unpaired), (0, 1));
    assert_eq!((report.event_syncs, report.event_syncs_unpaired), (0, 1));
    assert_eq!((report.queries, report.graph_launches, report.work_without_launch), (2, 1, 1));
    assert_eq!((report.gaps, report.gaps_ns), (1, 180_000));
    let gaps =
        "1 starts are not explained by the trace, 0.180 ms of gaps, kept as delays (--gaps keep)";
    assert_eq!(report.lines().last().unwrap(), gaps);
    let waits = workload.threads[0]
        .body
        .iter()
        .filter(|op| matches!(op.kind, OpKind::Wait { .. } | OpKind::CpuWait { .. }));
    assert_eq!(waits.count(), 0);
    assert!(report.lines().iter().any(|line| line.ends_with("stream waits: 2")));
}

#[test]
fn a_wait_for_a_later_record_is_not_believed() {
    let text = object(
        &[
            call("cudaLaunchKernel", "100", "5", 1),
            kernel("a", "110", "10", 7, 1),
            call("cudaStreamWaitEvent", "120", "1", 2),
            sync("Stream Wait Event", 7, 8, 3, 2),
            call("cudaEventRecord", "130", "1", 3),
        ]
        .join(","),
    );
    assert_eq!(report(&good(&text)).stream_waits_unpaired, 1);
}

#[test]
fn gaps_are_kept_or_dropped() {
    let text = object(
        &[
            call("cudaLaunchKernel", "100", "5", 1),
            call("cudaLaunchKernel", "106", "5", 2),
            kernel("a", "110", "10", 7, 1),
            kernel("b", "500", "10", 7, 2),
        ]
        .join(","),
    );
    let delays = |options: &ImportOptions| -> Vec<i128> {
        let workload = import(text.as_bytes(), "t.json", options).unwrap();
        let mut delays = Vec::new();
        for op in workload.threads[0].body.iter() {
            let OpKind::Submit { commands, .. } = &op.kind else { continue };
            for command in commands {
                if let CommandKind::Delay { ns } = &command.kind {
                    delays.push(ns.constant().unwrap());
                }
            }
        }
        delays
    };
    let keep = ImportOptions::default();
    assert_eq!(delays(&keep), [5_000, 380_000]);
    assert_eq!(
        delays(&ImportOptions { turnaround_ns: 2_000, launch_ns: 6_000, ..keep }),
        [378_000]
    );
    assert!(delays(&ImportOptions { gaps: Gaps::Drop, ..keep }).is_empty());
}

#[test]
fn two_threads_on_one_stream_keep_their_recorded_order() {
    let other = call("cudaLaunchKernel", "120", "5", 2).replace("\"tid\":9", "\"tid\":-10");
    let text = object(
        &[
            call("cudaLaunchKernel", "100", "5", 1),
            other,
            call("cudaLaunchKernel", "140", "5", 3),
            kernel("a", "110", "5", 7, 1),
            kernel("b", "130", "5", 7, 2),
            kernel("c", "150", "5", 7, 3),
        ]
        .join(","),
    );
    let workload = good(&text);
    assert_eq!((workload.threads.len(), workload.marks), (2, 2));
    assert!(
        workload.threads[1]
            .body
            .iter()
            .any(|op| matches!(op.kind, OpKind::AwaitMark { mark: 0, .. }))
    );
    assert!(
        workload.threads[0]
            .body
            .iter()
            .any(|op| matches!(op.kind, OpKind::AwaitMark { mark: 1, .. }))
    );
}

#[test]
fn streams_that_only_copy_use_copy_engines_and_devices_are_told_apart() {
    let copy = kernel("Memcpy HtoD (Pinned -> Device)", "110", "5", 7, 1)
        .replace("\"kernel\"", "\"gpu_memcpy\"");
    let second = kernel("k", "110", "5", 7, 2).replace("\"device\":0", "\"device\":1");
    let text = object(
        &[
            call("cudaMemcpyAsync", "100", "5", 1),
            call("cudaLaunchKernel", "106", "2", 2),
            copy,
            second,
        ]
        .join(","),
    );
    let workload = good(&text);
    let queues: Vec<(&str, EngineKind)> =
        workload.queues.iter().map(|q| (q.name.as_str(), q.engine)).collect();
    assert_eq!(
        queues,
        [("gpu 0 stream 7", EngineKind::Copy), ("gpu 1 stream 7", EngineKind::Compute)]
    );
}

#[test]
fn a_blocking_copy_blocks_the_host() {
    let copy = kernel("Memcpy DtoH (Device -> Pageable)", "110", "50", 7, 1)
        .replace("\"kernel\"", "\"gpu_memcpy\"");
    let workload = good(&object(&[call("cudaMemcpyAsync", "100", "70", 1), copy].join(",")));
    assert_eq!(report(&workload).blocking_copies, 1);
    assert!(workload.threads[0].body.iter().any(|op| matches!(op.kind, OpKind::CpuWait { .. })));
}

#[test]
fn tokens_that_are_no_json_are_mended() {
    let text = object(&kernel("a", "110", "0", 7, 1))
        .replace("\"device\":0", "\"bandwidth\": inf, \"device\":0");
    assert_eq!(report(&good(&text)).kernels, 1);
}

/// The reader of usual events refuses the token, so the events are mended and read again.
#[test]
fn an_event_that_is_mended_keeps_each_of_its_fields() {
    let names = r#"{"ph":"M","name":"thread_name","pid":9,"tid":9,"args":{"name":"trainer"}}"#;
    let flows = r#"{"ph":"X","cat":"Runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":1000050,"dur":5},
        {"ph":"s","id":77,"cat":"ac2g","name":"launch","pid":9,"tid":9,"ts":1000050},
        {"ph":"f","id":77,"cat":"ac2g","name":"launch","pid":0,"tid":7,"ts":1000060},
        {"ph":"X","cat":"Kernel","name":"k","pid":0,"tid":7,"ts":1000060,"dur":5,"args":{"stream":7}}"#;
    let usual = two_streams("cuda")
        .replace(r#""traceEvents": ["#, &format!(r#""traceEvents": [{names},{flows},"#));
    let mended = usual.replace(r#"{"ph""#, r#"{"bandwidth": inf, "ph""#);
    let of = |text: &str| {
        let workload = good(text);
        let names: Vec<String> = workload.threads.iter().map(|t| t.name.clone()).collect();
        let bodies: Vec<String> =
            workload.threads.iter().map(|t| format!("{:?}", t.body)).collect();
        let report = report(&workload);
        (names, bodies, (report.kernels, report.launches, report.work_without_launch))
    };
    let read = of(&usual);
    assert_eq!((&read.0[0][..], read.2), ("trainer", (3, 3, 0)));
    assert_eq!(of(&mended), read);
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    let text = format!("\u{feff}{}", two_streams("cuda"));
    assert_eq!(report(&good(&text)).kernels, 2);
}

#[test]
fn broken_files_are_told_where_and_what_to_do() {
    let whole = two_streams("cuda");
    for cut in [1, 20, whole.len() / 2, whole.len() - 2] {
        let text = bad(&whole.as_bytes()[..cut]);
        assert!(text.contains("cut short") && text.contains("byte"), "{cut}: {text}");
        assert_eq!(text.lines().count(), 1);
    }
    assert!(bad(b"{\"traceEvents\": 3}").contains("an array of events"));
    assert!(bad(b"{\"traceEvents\": [3]}").contains("an event { … }"));
    assert!(bad(b"{}").contains("no \"traceEvents\""));
    assert!(bad(b"").contains("cut short"));
    assert!(bad(b"hello").contains("line 1, column 1"));
    assert!(bad(object("").as_bytes()).contains("no GPU work among 0 events"));
    assert!(bad(&[0x1f, 0x8b, 8, 0, 0]).contains("damaged or cut short"));
}

#[test]
fn packed_files_are_recognised_by_their_content() {
    use std::io::Write;
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(two_streams("cuda").as_bytes()).unwrap();
    let packed = packer.finish().unwrap();
    let workload =
        import(&packed, "folder/run.pt.trace.json.gz", &ImportOptions::default()).unwrap();
    assert_eq!(workload.name, "run.pt.trace");
    assert!(bad(&packed[..packed.len() / 2]).contains("cut short"));
}

/// A launch and its kernel, and between them one damaged event: the text in front of the message's
/// fault.
fn with_damaged(event: &str) -> Vec<String> {
    let text = object(
        &[
            call("cudaLaunchKernel", "100", "5", 1),
            event.to_owned(),
            kernel("a", "110", "10", 7, 1),
        ]
        .join(","),
    );
    let workload = good(&text);
    let report = report(&workload);
    assert_eq!((report.events, report.kernels, report.launches), (3, 1, 1), "{event}");
    let recorded = workload.recorded.as_ref().unwrap();
    assert_eq!(recorded.makespan_ns, 20_000, "{event}");
    assert_eq!(report.damage.count, report.damage.first.len() as u64);
    let lines = report.lines();
    report.damage.first.iter().for_each(|event| assert!(lines.contains(&format!("  {event}"))));
    report.damage.first.iter().map(ToString::to_string).collect()
}

#[test]
fn damaged_events_are_counted_shown_and_left_out() {
    let kernel = |ts: &str, dur: &str| kernel("broken", ts, dur, 7, 2);
    let call = |ts: &str, dur: &str| call("cudaLaunchKernel", ts, dur, 2);
    let id = |field: &str, value: &str| {
        kernel("120", "1")
            .replace(&format!("\"{field}\":2"), &format!("\"{field}\":{value}"))
            .replace(&format!("\"{field}\":7"), &format!("\"{field}\":{value}"))
    };
    for (event, wrong) in [
        (kernel("120", "1e30"), "'broken': dur 1e30 does not fit in 64 bits"),
        (kernel("120", "9e12"), "'broken': dur 9e12 is longer than 24 h"),
        (kernel("120", "9000000000000"), "'broken': dur 9000000000000 is longer than 24 h"),
        (kernel("120", "-0.001"), "'broken': dur -0.001 is below zero"),
        (kernel("120", "NaN"), "'broken': dur NaN is not a finite number"),
        (kernel("120", "\"long\""), "'broken': dur long is not a finite number"),
        (kernel("-Infinity", "1"), "'broken': ts -Infinity is not a finite number"),
        (kernel("inf", "1"), "'broken': ts inf is not a finite number"),
        (kernel("1e300", "1"), "'broken': ts 1e300 does not fit in 64 bits"),
        (kernel("\"1e300\"", "1"), "'broken': ts 1e300 does not fit in 64 bits"),
        (kernel("null", "1"), "'broken': ts is missing"),
        (kernel("120", "1").replace("\"ts\":120,", ""), "'broken': ts is missing"),
        (kernel("9223372036854775", "9e9"), "'broken': dur 9e9 does not fit in 64 bits"),
        (
            id("stream", "99999999999999999999"),
            "'broken': stream 99999999999999999999 does not fit in 64 bits",
        ),
        (id("correlation", "1e20"), "'broken': correlation 1e20 does not fit in 64 bits"),
        (call("120", "-1"), "'cudaLaunchKernel': dur -1 is below zero"),
        (call("nan", "1"), "'cudaLaunchKernel': ts nan is not a finite number"),
        (call("120", "1e30"), "'cudaLaunchKernel': dur 1e30 does not fit in 64 bits"),
    ] {
        assert_eq!(
            with_damaged(&event),
            [format!("event 2 (line 1, byte 153), {wrong}")],
            "{event}"
        );
    }
    // Events that no replay needs are not parsed.
    let operator = kernel("nan", "1e30").replace("\"cat\":\"kernel\"", "\"cat\":\"cpu_op\"");
    assert!(with_damaged(&operator).is_empty());
}

#[test]
fn of_many_damaged_events_the_first_few_are_shown() {
    let mut events = vec![kernel("good", "100", "1", 7, 1)];
    events.extend((0..8).map(|k| kernel("broken", &format!("{k}"), "-1", 7, 2)));
    let workload = good(&object(&events.join(",\n")));
    let lines = report(&workload).lines();
    let at = lines
        .iter()
        .position(|line| line == "8 damaged events are left out, the first 5:")
        .unwrap();
    assert!(lines[at + 5].starts_with("  event 6 (line 6, byte"), "{}", lines[at + 5]);
    assert!(!lines[at + 6].contains("event 7"));
    let none = bad(object(&events[1..].join(",")).as_bytes());
    assert!(
        none.contains("no GPU work") && none.contains("8 damaged events are left out"),
        "{none}"
    );
}

#[test]
fn a_recording_longer_than_a_day_is_refused_with_its_outlier() {
    let good_ones = |at: u64| {
        (0..3u64)
            .map(move |k| kernel("a", &format!("{}", at + 10 * k), "5", 7, k))
            .collect::<Vec<_>>()
    };
    let day_us = 24 * 3600 * 1_000_000u64;
    let mut early = good_ones(1_700_000_000_000_000);
    early.insert(1, kernel("b", "0", "5", 7, 9));
    let text = bad(object(&early.join(",\n")).as_bytes());
    assert!(text.contains("event 2 (line 2, byte"), "{text}");
    assert!(text.contains("spans 472222.2 h, and at most 24 h are read"), "{text}");
    let mut late = good_ones(0);
    late.push(kernel("b", &format!("{day_us}"), "5", 7, 9));
    assert!(bad(object(&late.join(",\n")).as_bytes()).contains("event 4 (line 4"));
    // To the last microsecond of the day.
    late.pop();
    late.push(kernel("b", &format!("{}", day_us - 5), "5", 7, 9));
    assert_eq!(report(&good(&object(&late.join(",\n")))).damage.count, 0);
}

#[test]
fn a_handful_of_events_far_outside_is_left_out_and_named() {
    let at = 1_700_000_000_000_000u64;
    let recording = |outside: &[&str], good: u64| {
        let mut events: Vec<String> = outside
            .iter()
            .enumerate()
            .map(|(k, ts)| kernel(&format!("lost{k}"), ts, "5", 7, 1_000 + k as u64))
            .collect();
        for k in 0..good {
            events.push(call("cudaLaunchKernel", &format!("{}", at + 20 * k), "5", k));
            events.push(kernel("a", &format!("{}", at + 20 * k + 10), "5", 7, k));
        }
        object(&events.join(",\n"))
    };
    let kept = good(&recording(&["0", "0", "1900000000000000"], 30));
    let report = report(&kept);
    assert_eq!((report.kernels, report.damage.count), (30, 3));
    let lines = report.damage.lines().join("\n");
    for said in ["event 1 (line 1, ", "'lost0': start 0 ns", "event 2", "event 3", "'lost2': start"]
    {
        assert!(lines.contains(said), "{said}: {lines}");
    }
    assert_eq!(kept.recorded.as_ref().unwrap().makespan_ns, 595_000);
    // More than a handful is a recording that is too long.
    assert!(bad(recording(&["0"; 4], 30).as_bytes()).contains("at most 24 h are read"));
    // A clock that counts from the start of the host: ten minutes later, still far outside.
    let early = recording(&["0"], 30).replace("17000000000", "6000");
    assert_eq!(super::tests::report(&good(&early)).damage.count, 1);
    // A clock that counts from the start of the recording.
    let from_zero = recording(&["0"], 30).replace("1700000000000", "1");
    assert_eq!(super::tests::report(&good(&from_zero)).damage.count, 0);
}

#[test]
fn the_order_of_the_events_in_the_file_says_nothing() {
    let events: Vec<String> = (0..6u64)
        .flat_map(|k| {
            let (at, start) = (format!("{}", 100 + 20 * k), format!("{}", 110 + 20 * k));
            [
                call("cudaLaunchKernel", &at, "5", k),
                kernel(&format!("k{k}"), &start, "10", 7 + k % 2, k),
            ]
        })
        .collect();
    let forwards = good(&object(&events.join(",")));
    let mut turned = events.clone();
    turned.reverse();
    turned.swap(2, 7);
    let turned = good(&object(&turned.join(",")));
    assert_eq!(turned.recorded, forwards.recorded);
    assert_eq!(turned.threads, forwards.threads);
}

#[test]
fn hip_categories_and_fields_are_read_as_those_of_cuda() {
    for category in ["hip_sync", "synchronization", "cuda_sync"] {
        let text = two_streams("hip")
            .replace("cuda_runtime", "hip_runtime")
            .replace("\"cuda_sync\"", &format!("\"{category}\""))
            .replace("cuda_sync_kind", "hip_sync_kind")
            .replace("wait_on_cuda_event_record_corr_id", "wait_on_hip_event_record_corr_id");
        assert!(!text.contains("cuda") || category == "cuda_sync");
        let workload = good(&text);
        let report = report(&workload);
        assert_eq!((report.stream_waits, report.stream_syncs), (1, 1), "{category}");
        assert_eq!(
            (report.stream_waits_unpaired, report.stream_syncs_unpaired),
            (0, 0),
            "{category}"
        );
        let waits = |kind: fn(&OpKind) -> bool| {
            workload
                .threads
                .iter()
                .flat_map(|thread| thread.body.iter())
                .filter(|op| kind(&op.kind))
                .count()
        };
        assert_eq!(waits(|kind| matches!(kind, OpKind::Wait { .. })), 1, "{category}");
        assert_eq!(waits(|kind| matches!(kind, OpKind::CpuWait { .. })), 1, "{category}");
    }
}

/// The host waits until 46 µs for work that ended at 41 µs.
#[test]
fn a_wait_that_ended_sooner_than_a_sleeper_wakes_was_polled_and_ends_as_recorded() {
    for (wake_ns, is_polled) in [(5_000, false), (5_001, true)] {
        let options = ImportOptions { wake_ns, seen_ns: 20_000, ..ImportOptions::default() };
        let workload = import(two_streams("cuda").as_bytes(), "t.json", &options).unwrap();
        let body = &workload.threads[0].body;
        let polls = body.iter().filter(|op| matches!(op.kind, OpKind::PollWait { .. })).count();
        assert_eq!(polls, usize::from(is_polled), "{wake_ns}");
        assert_eq!(report(&workload).median_wake_ns, 5_000, "{wake_ns}");
        let Some(OpKind::Resume { at_ns }) = body.last().map(|op| &op.kind) else {
            panic!("{body:?}")
        };
        assert_eq!(*at_ns, 46_000, "{wake_ns}");
    }
}

#[test]
fn a_stream_written_as_the_largest_number_of_32_bits_is_none() {
    for none in [-1, i64::from(u32::MAX)] {
        let text = object(
            &[
                call("cudaLaunchKernel", "100", "5", 1),
                kernel("a", "110", "10", 7, 1),
                call("cudaStreamSynchronize", "106", "30", 2),
                sync("Stream Sync", none, -1, -1, 2),
            ]
            .join(","),
        );
        let workload = good(&text);
        let report = report(&workload);
        assert_eq!((report.stream_syncs, report.stream_syncs_unpaired), (0, 1), "{none}");
    }
}

/// The waits of the first thread as words: fences of CPU waits, and unresolved calls.
fn host_waits(workload: &Workload) -> Vec<String> {
    let word = |op: &crate::model::Op| match &op.kind {
        OpKind::CpuWait { of, .. } | OpKind::PollWait { of, .. } => {
            let fences: Vec<String> =
                of.iter().map(|wait| wait.fence.first.0.to_string()).collect();
            Some(fences.join("+"))
        }
        OpKind::Blocked { until_ns } => Some(format!("until {until_ns}")),
        _ => None,
    };
    workload.threads[0].body.iter().filter_map(word).collect()
}

#[test]
fn a_blocked_call_without_a_stream_waits_for_the_only_one() {
    for (name, until, waits) in [
        ("cudaStreamSynchronize", "90", vec!["0"]),
        ("hipStreamSynchronize", "500", vec!["0"]),
        // It returned while the stream was at work: it was for something else.
        ("cudaStreamSynchronize", "40", vec!["until 50000"]),
        ("cudaStreamSynchronize", "10", vec![]),
        // An event is recorded somewhere on the stream.
        ("cudaEventSynchronize", "90", vec!["0"]),
        ("cudaEventSynchronize", "500", vec!["until 510000"]),
        ("cudaEventSynchronize", "3", vec![]),
        ("cudaFree", "90", vec!["0"]),
        ("cudaFree", "500", vec![]),
        ("cudaMemcpy", "90", vec!["0"]),
    ] {
        let text = object(
            &[
                call("cudaLaunchKernel", "100", "2", 1),
                kernel("a", "110", "88", 7, 1),
                call(name, "110", until, 2),
            ]
            .join(","),
        );
        let workload = good(&text);
        let report = report(&workload);
        let unresolved = u64::from(waits.iter().any(|wait| wait.starts_with("until")));
        assert_eq!(host_waits(&workload), waits, "{name} {until}");
        assert_eq!(report.syncs_unresolved, unresolved, "{name} {until}: {report:?}");
        let length: u64 = until.parse().unwrap();
        assert_eq!(report.syncs_unresolved_ns, unresolved * length * 1_000, "{name} {until}");
    }
}

#[test]
fn of_several_streams_a_blocked_call_waits_for_the_work_that_ended_just_before() {
    let events = |end: u64| {
        vec![
            call("cudaLaunchKernel", "100", "2", 1),
            call("cudaLaunchKernel", "103", "2", 2),
            kernel("a", "110", "100", 7, 1),
            kernel("b", "110", "200", 8, 2),
            call("cudaStreamSynchronize", "120", &format!("{}", end - 120), 3),
            // Launched by another thread during the call: no stream was waited for until it ended.
            call("cudaLaunchKernel", "130", "2", 4).replace("\"tid\":9", "\"tid\":10"),
            kernel("c", "140", "68", 9, 4),
        ]
    };
    for (end, wait) in [(212, "0"), (315, "1"), (700, "until 600000")] {
        let workload = good(&object(&events(end).join(",")));
        assert_eq!(host_waits(&workload), [wait], "{end}");
        let report = report(&workload);
        let by_time = u64::from(!wait.starts_with("until"));
        assert_eq!((report.syncs_by_time, report.syncs_unresolved), (by_time, 1 - by_time));
    }
    // A launch of several pieces ends with its last.
    let mut graph = events(212);
    graph.push(kernel("d", "211", "300", 7, 1));
    assert_eq!(host_waits(&good(&object(&graph.join(",")))), ["until 112000"]);
}

#[test]
fn what_names_no_device_is_of_the_only_one() {
    let read = |devices: [u32; 2]| {
        let [first, second] = [(devices[0], 9, 1), (devices[1], 7, 2)].map(|(of, stream, id)| {
            let device = format!("\"device\":{of}");
            kernel("k", "110", "5", stream, id).replace("\"device\":0", &device)
        });
        let text = object(
            &[
                call("cudaLaunchKernel", "100", "2", 1),
                call("cudaLaunchKernel", "103", "2", 2),
                first,
                second,
                call("cudaDeviceSynchronize", "106", "30", 3),
                call("cudaStreamSynchronize", "140", "30", 4),
                sync("Stream Sync", 7, -1, -1, 4).replace(",\"device\":0", ""),
            ]
            .join(","),
        );
        let workload = good(&text);
        let report = report(&workload);
        (report.device_syncs, report.device_syncs_unpaired, report.streams_without_work)
    };
    assert_eq!(read([1, 1]), (1, 0, 0));
    // Of two devices none is the one: a stream is then of device 0.
    assert_eq!(read([1, 0]), (0, 1, 0));
}

/// 49 streams, of which each has a kernel at the start and one a second later.
#[test]
fn gaps_of_streams_that_share_an_engine_occupy_nothing() {
    let of = |stream: u64| {
        let at = |second: u64| format!("{}", 1_000_000 * (second + 1) + 100 * stream);
        [kernel("a", &at(0), "50", stream, 1), kernel("b", &at(1), "50", stream, 2)]
    };
    let workload = good(&object(&(1..=49).flat_map(of).collect::<Vec<_>>().join(",")));
    let report = report(&workload);
    assert_eq!((report.streams, report.streams_sharing_an_engine), (49, 0));
    // Two streams share an engine with one other each.
    assert_eq!(report.gaps_timed_by_host, 7, "before each kernel but the first of all");
    let engines: std::collections::BTreeSet<_> =
        workload.queues.iter().map(|queue| (queue.engine as u8, queue.node)).collect();
    assert_eq!(engines.len(), 47);
    let thread = workload.threads.last().unwrap();
    assert_eq!(thread.name, "gaps of streams that share an engine");
    let ends: Vec<u64> = (thread.body.iter())
        .filter_map(|op| match op.kind {
            OpKind::Host { until_ns, .. } => Some(until_ns / 1_000_000_000),
            _ => None,
        })
        .collect();
    assert_eq!(ends, [0, 0, 0, 1, 1, 1, 1]);
    let delays = workload.threads.iter().flat_map(|thread| thread.body.iter()).filter(|op| {
        let OpKind::Submit { commands, .. } = &op.kind else { return false };
        commands.iter().any(|command| matches!(command.kind, CommandKind::Delay { .. }))
    });
    assert_eq!(delays.count(), 45, "streams with an engine of their own keep their gaps");
}

/// One stream more than there are engines; all are busy for 100 µs.
#[test]
fn work_inside_of_longer_work_of_its_stream_is_no_end_of_it() {
    let mut events = vec![call("cudaLaunchKernel", "100", "5", 1)];
    // Each stream has both, since the least busy ones may not be those that share an engine.
    events.extend((1..=48).map(|stream| kernel("long", "200", "100", stream, 1)));
    events.extend((1..=48).map(|stream| kernel("short", "210", "10", stream, 1)));
    let workload = good(&object(&events.join(",")));
    let shared = &report(&workload).shared_engines;
    assert_eq!(shared.iter().map(|s| s.overlapped_ns).collect::<Vec<_>>(), [100_000]);
}

#[test]
fn other_devices_are_named_with_what_can_be_recorded_instead() {
    let event = |cat: &str| {
        format!(r#"{{"ph":"X","cat":"{cat}","name":"e","pid":0,"tid":1,"ts":1,"dur":2}}"#)
    };
    let refused = |events: &[String]| bad(object(&events.join(",")).as_bytes());
    let text =
        refused(&[event("mtia_ccp_events"), event("mtia_ccp_events"), event("mtia_runtime")]);
    assert!(text.contains("(1 host calls, 2 of MTIA accelerators)"), "{text}");
    assert!(text.contains("record the program on a GPU with ProfilerActivity.CUDA"), "{text}");
    let text = refused(&[event("cuda_profiler_range")]);
    assert!(
        text.contains("ranges of CUPTI") && text.contains("without profiler_metrics"),
        "{text}"
    );
    assert!(refused(&[event("hpu_op")]).contains("Gaudi"));
    let name = r#"{"ph":"M","name":"process_name","pid":7,"args":{"name":"Ascend Hardware"}}"#;
    let npu = r#"{"ph":"X","name":"MatMul","pid":7,"tid":2,"ts":"1.5","dur":2}"#;
    let text = refused(&[name.into(), npu.into(), event("cpu_op")]);
    assert!(text.contains("1 of Ascend accelerators (torch_npu)"), "{text}");
    // Beside work of a GPU they are counted.
    let both = two_streams("cuda").replacen(
        "\"traceEvents\": [",
        &format!("\"traceEvents\": [{},", event("mtia_insight")),
        1,
    );
    let workload = good(&both);
    let of = Remark::Foreign { of: Foreign::Mtia, events: 1 };
    assert!(report(&workload).remarks.contains(&of), "{both}");
}
