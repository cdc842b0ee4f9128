//! Small traces encoded here, field by field. Recorded traces and the traces of the format's own
//! project are read in `tests/workload/other_traces.rs`.

use crate::imported::{self, report};
use crate::model::Workload;
use crate::recording::{Remark, Source};
use crate::{LoadOptions, load_bytes};

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

pub(crate) fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

pub(crate) fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

pub(crate) fn message(field: u64, parts: &[Vec<u8>]) -> Vec<u8> {
    bytes(field, &parts.concat())
}

/// A packet of sequence 1 that needs its state.
fn packet(at: u64, flags: u64, parts: &[Vec<u8>]) -> Vec<u8> {
    message(1, &[number(8, at), number(10, 1), number(13, flags), parts.concat()])
}

fn named(field: u64, iid: u64, name: &str) -> Vec<u8> {
    message(field, &[number(1, iid), bytes(2, name.as_bytes())])
}

fn read(trace: &[u8], source: Source) -> Workload {
    imported::read(trace, "run", source)
}

/// A render stage in the form of the Mesa drivers: queue and stage by their places in a list.
fn old_stage(at: u64, length: u64, queue: u64, stage: u64, submission: u64) -> Vec<u8> {
    let parts = [number(2, length), number(3, queue), number(4, stage), number(10, submission)];
    packet(at, 0, &[message(53, &parts)])
}

#[test]
fn listed_stages_submissions_and_clocks_are_read() {
    let description = |field, name: &str| message(field, &[bytes(1, name.as_bytes())]);
    let lists =
        message(7, &[description(2, "gpu"), description(3, "surface"), description(3, "draw")]);
    let clock = |id, at| message(1, &[number(1, id), number(2, at)]);
    let submit = message(2, &[number(1, 30), number(2, 42), number(3, 43), number(6, 9)]);
    // Clock 200 is 1,000 ns behind.
    let trace = [
        packet(0, 1, &[message(53, &[lists])]),
        packet(0, 0, &[message(6, &[clock(6, 1_000), clock(200, 0)])]),
        packet(1_010, 0, &[message(65, &[submit])]),
        packet(
            100,
            0,
            &[
                number(58, 200),
                message(53, &[number(2, 400), number(3, 0), number(4, 0), number(10, 9)]),
            ],
        ),
        old_stage(1_120, 50, 0, 1, 9),
        old_stage(1_600, 10, 0, 1, 0),
    ]
    .concat();
    let workload = read(&trace, Source::Perfetto);
    let report = report(&workload);
    assert_eq!((report.kernels, report.streams), (2, 1));
    assert_eq!(report.remarks, [Remark::NestedStages { stages: 1 }]);
    let items: Vec<(u64, u64)> = workload
        .recorded
        .as_ref()
        .unwrap()
        .items
        .iter()
        .map(|item| (item.start_ns, item.end_ns))
        .collect();
    // Without the process of its context the first stage is not joined to the submission of process
    // 42.
    assert_eq!(items.iter().map(|(start, end)| end - start).collect::<Vec<_>>(), [400, 10]);
    assert_eq!(items[1].0 - items[0].0, 500);
}

#[test]
fn queues_without_a_name_are_told_apart_by_their_numbers() {
    let interned = |queue| message(53, &[number(2, 10), number(13, queue), number(14, 1)]);
    let trace = [
        packet(0, 1, &[]),
        old_stage(1_000, 50, 3, 0, 0),
        old_stage(1_000, 50, 4, 0, 0),
        packet(1_000, 2, &[interned(6)]),
        packet(1_000, 2, &[interned(7)]),
    ]
    .concat();
    let workload = read(&trace, Source::Perfetto);
    let mut queues: Vec<&str> = workload.queues.iter().map(|queue| &*queue.name).collect();
    queues.sort_unstable();
    assert_eq!(queues, ["queue 3", "queue 4", "queue 6", "queue 7"]);
}

#[test]
fn fields_that_a_submission_leaves_out_are_zero() {
    let of = |parts: &[Vec<u8>]| {
        let trace = packet(1_010, 0, &[message(65, &[message(2, parts)])]);
        let read = super::packets::read(&trace).unwrap();
        let submit = &read.submits[0];
        (submit.start, submit.end, submit.process, submit.thread, submit.submission)
    };
    let whole = [number(1, 30), number(2, 42), number(3, 43), number(6, 9)];
    assert_eq!(of(&whole), (1_010, 1_040, 42, 43, 9));
    assert_eq!(of(&[]), (1_010, 1_010, 0, 0, 0));
}

#[test]
fn names_may_come_in_several_packets_and_late() {
    let list = |field, name: &str| {
        message(53, &[message(7, &[message(field, &[bytes(1, name.as_bytes())])])])
    };
    let (queues, more) = (packet(0, 0, &[list(2, "vertex")]), packet(0, 0, &[list(2, "fragment")]));
    let stages = packet(0, 0, &[list(3, "binning")]);
    let events = [old_stage(1_000, 50, 0, 0, 0), old_stage(1_100, 50, 1, 0, 0)].concat();
    for trace in [
        [&queues[..], &more, &stages, &events].concat(),
        [&stages[..], &queues, &more, &events].concat(),
        [&events[..], &queues, &stages, &more].concat(),
        // The whole list again, as drivers write it when their state is cleared.
        [&queues[..], &more, &stages, &packet(0, 1, &[]), &queues, &stages, &more, &events]
            .concat(),
    ] {
        let workload = read(&trace, Source::Perfetto);
        let queues: Vec<&str> = workload.queues.iter().map(|queue| queue.name.as_str()).collect();
        assert_eq!(queues, ["vertex", "fragment"]);
        assert_eq!(
            workload.recorded.unwrap().names.iter().map(|n| &**n).collect::<Vec<_>>(),
            ["binning"]
        );
    }
}

#[test]
fn interned_specifications_are_merged_by_number() {
    let named_later = message(12, &[message(24, &[number(1, 1), number(4, 2)])]);
    let stage = |at, queue| {
        let parts = [number(2, 50), number(13, queue), number(14, 3)];
        packet(at, 2, &[message(53, &parts)])
    };
    let first = message(12, &[named(24, 1, "compute"), named(24, 3, "kernel")]);
    let second = message(12, &[named(24, 2, "copy")]);
    let trace = [
        packet(0, 1, &[first]),
        stage(100, 1),
        stage(200, 2),
        packet(300, 2, &[second]),
        // Without a name the category changes nothing.
        packet(310, 2, &[named_later]),
        stage(400, 1),
        stage(500, 2),
    ]
    .concat();
    let workload = read(&trace, Source::Perfetto);
    let queues: Vec<&str> = workload.queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(queues, ["compute", "copy"]);
    assert_eq!(report(&workload).kernels, 4);
}

// A number belongs to its sequence, and the specifications of a sequence may come in two packets:
// one for the queues, one for the stages.
#[test]
fn interned_specifications_of_two_sequences_are_apart() {
    let of = |sequence, at, flags, parts: &[Vec<u8>]| {
        message(1, &[number(8, at), number(10, sequence), number(13, flags), parts.concat()])
    };
    let names = |names: &[(u64, &str)]| {
        let names: Vec<Vec<u8>> = names.iter().map(|(iid, name)| named(24, *iid, name)).collect();
        message(12, &names)
    };
    let stage = |sequence, at, queue, stage| {
        let parts = [number(2, 50), number(13, queue), number(14, stage)];
        of(sequence, at, 2, &[message(53, &parts)])
    };
    let trace = [
        of(1, 0, 1, &[]),
        of(1, 0, 0, &[names(&[(1, "vertex"), (2, "fragment")])]),
        of(1, 0, 0, &[names(&[(3, "binning"), (4, "render")])]),
        of(2, 300, 1, &[names(&[(1, "transfer"), (2, "resolve")])]),
        stage(1, 100, 1, 3),
        stage(1, 200, 2, 4),
        stage(2, 300, 1, 2),
    ]
    .concat();
    let workload = read(&trace, Source::Perfetto);
    let queues: Vec<&str> = workload.queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(queues, ["vertex", "fragment", "transfer"]);
    let recorded = workload.recorded.unwrap();
    let names: Vec<&str> = recorded.names.iter().map(|name| &**name).collect();
    assert_eq!(names, ["binning", "render", "resolve"]);
}

/// The name of a stage, of each place that has one: the event before its kernel's table, its
/// stage's specification last.
#[test]
fn a_stage_has_the_name_of_its_event_before_the_one_of_its_kind() {
    let kernel = message(1_000, &[number(1, 5), bytes(2, b"by kernel")]);
    let names = [named(24, 1, "queue"), named(24, 3, "by kind"), named(2, 4, "by number"), kernel];
    let stage = |at, parts: &[Vec<u8>]| {
        let every = [number(2, 50), number(13, 1), number(14, 3), parts.concat()];
        packet(at, 2, &[message(53, &every)])
    };
    let trace = [
        packet(0, 1, &[message(12, &names)]),
        stage(100, &[]),
        stage(200, &[number(20, 4)]),
        stage(300, &[bytes(17, b"by text")]),
        stage(400, &[number(19, 5), bytes(17, b"no")]),
        // A number without an entry leaves the name of the kind.
        stage(500, &[number(20, 9)]),
        stage(600, &[number(19, 9)]),
    ]
    .concat();
    let recorded = read(&trace, Source::Perfetto).recorded.unwrap();
    let names: Vec<&str> =
        recorded.items.iter().map(|item| &*recorded.names[item.name as usize]).collect();
    assert_eq!(names, ["by kind", "by number", "by text", "by kernel", "by kind", "by kind"]);
}

#[test]
fn waits_between_queues_and_launches_by_the_host_are_read() {
    let interned = message(
        12,
        &[named(24, 1, "one"), named(24, 2, "two"), named(24, 3, "kernel"), named(2, 1, "submit")],
    );
    let stage = |at, length, event: u64, queue, waits: &[u64]| {
        let mut parts = vec![number(1, event), number(2, length), number(13, queue), number(14, 3)];
        parts.extend(waits.iter().map(|wait| number(18, *wait)));
        packet(at, 2, &[message(53, &parts)])
    };
    let host = |at, launches| {
        let begin = [number(9, 1), number(10, 1), message(3_000, &[number(1, launches)])];
        [packet(at, 2, &[message(11, &begin)]), packet(at + 2, 2, &[message(11, &[number(9, 2)])])]
            .concat()
    };
    let trace = [
        packet(0, 1, &[interned]),
        host(10, 1),
        host(14, 2),
        stage(100, 50, 1, 1, &[]),
        stage(200, 40, 2, 2, &[1, 77]),
    ]
    .concat();
    let workload = read(&trace, Source::Perfetto);
    let report = report(&workload);
    assert_eq!(
        (report.kernels, report.streams, report.launches, report.dependencies),
        (2, 2, 2, 1)
    );
    assert_eq!(report.remarks, [Remark::WaitsUnknown { waits: 1 }]);
    let names: Vec<&str> = workload.queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
}

#[test]
fn kernels_of_rocprof_are_on_streams_and_joined_by_correlation() {
    let interned = message(
        12,
        &[
            named(1, 1, "kernel_dispatch"),
            named(1, 2, "hip_api"),
            named(2, 1, "add(int*)"),
            named(2, 2, "hipLaunchKernel"),
            named(3, 1, "corr_id"),
            named(3, 2, "stream_ID"),
            named(3, 3, "tid"),
        ],
    );
    let track = |uuid, name: &str| {
        packet(0, 0, &[message(60, &[number(1, uuid), bytes(2, name.as_bytes())])])
    };
    let note = |iid, value| message(4, &[number(1, iid), number(3, value)]);
    let slice = |at: u64, end: u64, track, category, name, notes: &[Vec<u8>]| {
        let begin = [
            number(3, category),
            number(9, 1),
            number(10, name),
            number(11, track),
            notes.concat(),
        ];
        let end = packet(end, 2, &[message(11, &[number(9, 2), number(11, track)])]);
        [packet(at, 2, &[message(11, &begin)]), end].concat()
    };
    let trace = [
        packet(0, 1, &[interned]),
        track(70, "STREAM [ 4 ] "),
        track(71, "THREAD 1 (55)"),
        slice(1_000, 1_500, 71, 2, 2, &[note(1, 8), note(3, 55)]),
        slice(2_000, 3_000, 70, 1, 1, &[note(1, 8), note(2, 4)]),
    ]
    .concat();
    let workload = read(&trace, Source::RocprofPerfetto);
    assert_eq!((report(&workload).launches, report(&workload).work_without_launch), (1, 0));
    assert_eq!(report(&workload).remarks, [Remark::OverlapRemoved]);
    assert_eq!(
        (workload.queues[0].name.as_str(), workload.threads[0].name.as_str()),
        ("stream 4", "thread 55")
    );
}

#[test]
fn a_trace_without_gpu_work_is_told_what_would_record_it() {
    let bad =
        |trace: &[u8]| load_bytes(trace, "run", &LoadOptions::default()).unwrap_err().to_string();
    let text = bad(&packet(0, 1, &[named(12, 1, "x")]));
    assert!(
        text.contains("without GPU work (1 packets, 0 slices)")
            && text.contains("gpu.renderstages"),
        "{text}"
    );
    let whole = [packet(5, 1, &[]), packet(6, 0, &[])].concat();
    assert!(bad(&whole[..whole.len() - 2]).contains("in the middle of a packet, after 1 packets"));
}

#[test]
fn packets_that_need_lost_state_are_left_out() {
    let stage = message(53, &[number(2, 10), number(13, 1), number(14, 1)]);
    let interned = message(12, &[named(24, 1, "one")]);
    let trace = [
        packet(1, 2, std::slice::from_ref(&stage)),
        packet(2, 1, &[interned]),
        packet(3, 2, std::slice::from_ref(&stage)),
        packet(20, 2, &[number(42, 1), stage.clone()]),
        packet(40, 2, std::slice::from_ref(&stage)),
    ]
    .concat();
    let workload = read(&trace, Source::Perfetto);
    assert_eq!(report(&workload).kernels, 1);
    assert_eq!(
        report(&workload).remarks,
        [Remark::PacketsLost { packets: 3 }, Remark::NoHostCalls]
    );
}

#[test]
fn a_slice_that_never_ends_is_counted_as_lost() {
    let stage = message(53, &[number(2, 10), number(13, 1), number(14, 1)]);
    let interned = message(12, &[named(24, 1, "one"), named(2, 1, "submit")]);
    let begin = |at| packet(at, 2, &[message(11, &[number(9, 1), number(10, 1)])]);
    let end = |at| packet(at, 2, &[message(11, &[number(9, 2)])]);
    let trace = [
        packet(2, 1, &[interned]),
        begin(3),
        end(4),
        begin(5),
        begin(6),
        packet(40, 2, std::slice::from_ref(&stage)),
    ]
    .concat();
    let workload = read(&trace, Source::Perfetto);
    assert!(report(&workload).remarks.contains(&Remark::PacketsLost { packets: 2 }));
}

#[test]
fn a_packet_that_names_no_clock_has_the_default_of_its_sequence() {
    let clock = |id, at| message(1, &[number(1, id), number(2, at)]);
    let stage = |clock: Option<u64>, at| {
        let clock = clock.map_or_else(Vec::new, |id| number(58, id));
        packet(at, 2, &[clock, message(53, &[number(2, 10), number(13, 1), number(14, 1)])])
    };
    // Clock 200 is 1,000 ns behind.
    let trace = [
        packet(0, 1, &[message(12, &[named(24, 1, "one")]), message(59, &[number(58, 200)])]),
        packet(0, 0, &[message(6, &[clock(6, 1_000), clock(200, 0)])]),
        stage(None, 100),
        stage(Some(6), 1_600),
    ]
    .concat();
    let workload = read(&trace, Source::Perfetto);
    let items = &workload.recorded.as_ref().unwrap().items;
    assert_eq!(items[1].start_ns - items[0].start_ns, 500);
}
