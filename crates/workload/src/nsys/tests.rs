//! Small exports made here, in the layouts of 2021 and 2025. Recorded ones are read in
//! `tests/workload/other_traces.rs`.

use rusqlite::Connection;

use super::copy_name;
use crate::imported::{self, report};
use crate::model::{OpKind, Ready, Workload};
use crate::recording::{Remark, Source};
use crate::{LoadOptions, load_bytes};

/// No version table, no mangled names, no event rows, no event ids.
const SCHEMA_2021: &str = "
    create table StringIds (id integer primary key, value text not null);
    create table TARGET_INFO_GPU (id integer, name text);
    create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer, end integer, eventClass integer, globalTid integer,
        correlationId integer, nameId integer, returnValue integer);
    create table CUPTI_ACTIVITY_KIND_KERNEL (start integer, end integer, deviceId integer, contextId integer,
        streamId integer, correlationId integer, globalPid integer, demangledName integer, shortName integer);
    create table CUPTI_ACTIVITY_KIND_MEMCPY (start integer, end integer, deviceId integer, contextId integer,
        streamId integer, correlationId integer, globalPid integer, bytes integer, copyKind integer);
    create table CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start integer, end integer, deviceId integer,
        contextId integer, streamId integer, correlationId integer, globalPid integer, syncType integer,
        eventId integer);";

/// What 2025 added.
const SCHEMA_2025: &str = "
    create table META_DATA_EXPORT (name text, value text);
    alter table CUPTI_ACTIVITY_KIND_SYNCHRONIZATION add column eventSyncId integer;
    alter table CUPTI_ACTIVITY_KIND_MEMCPY add column srcKind integer;
    alter table CUPTI_ACTIVITY_KIND_MEMCPY add column dstKind integer;
    create table CUPTI_ACTIVITY_KIND_CUDA_EVENT (timestamp integer, deviceId integer, contextId integer,
        streamId integer, correlationId integer, globalPid integer, eventId integer, eventSyncId integer);
    create table CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start integer, end integer, deviceId integer, contextId integer,
        streamId integer, correlationId integer, globalPid integer, graphId integer, graphExecId integer);
    create table ThreadNames (nameId integer, globalTid integer);
    create table TARGET_INFO_CUDA_STREAM (streamId integer, processId integer, contextId integer, flag integer);";

const NAMES: &str = "insert into StringIds values (1, 'cudaLaunchKernel_v7000'), (2, 'cudaStreamWaitEvent_ptsz_v7000'),
    (3, 'cudaEventRecord_v3020'), (4, 'cudaEventSynchronize_v3020'), (5, 'cudaDeviceSynchronize_v3020'),
    (6, 'cudaEventQuery_v3020'), (7, 'cudaMemcpyAsync_v3020'), (8, 'cudaGraphLaunch_v10000'),
    (9, 'cudaStreamSynchronize_v3020'), (10, 'cudaFree_v3020'), (20, 'add<int>(int*)'), (21, 'add'), (30, 'main');";

const NONE: i64 = 4_294_967_295;

/// Process 9 of virtual machine 1, and its thread 11.
const PID: i64 = 1 << 48 | 9 << 24;
const TID: i64 = PID | 11;

fn export(schema: &[&str], rows: &str) -> Vec<u8> {
    let mut connection = Connection::open_in_memory().unwrap();
    for part in schema {
        connection.execute_batch(part).unwrap();
    }
    let rows = rows.replace("$PID", &PID.to_string()).replace("$TID", &TID.to_string());
    let rows = rows.replace("$NONE", &NONE.to_string());
    connection.execute_batch(&rows).unwrap();
    connection.serialize("main").unwrap().to_vec()
}

fn read(bytes: &[u8]) -> Workload {
    imported::read(bytes, "run.sqlite", Source::Nsight)
}

fn call(start: i64, end: i64, correlation: i64, name: i64) -> String {
    format!(
        "insert into CUPTI_ACTIVITY_KIND_RUNTIME values ({start}, {end}, 0, $TID, {correlation}, {name}, 0);"
    )
}

fn kernel(start: i64, end: i64, stream: i64, correlation: i64) -> String {
    format!(
        "insert into CUPTI_ACTIVITY_KIND_KERNEL values ({start}, {end}, 0, 1, {stream}, {correlation}, $PID, 20, 21);"
    )
}

/// Two kernels on two streams, of which the second waits for an event of the first.
fn two_streams() -> String {
    [
        call(1_000, 1_500, 1, 1),
        kernel(2_000, 9_000, 7, 1),
        call(1_600, 1_700, 2, 3),
        call(1_800, 1_900, 3, 2),
        call(2_000, 2_500, 4, 1),
        kernel(9_700, 12_000, 8, 4),
        call(2_600, 12_500, 5, 4),
    ]
    .concat()
}

#[test]
fn the_layout_of_2021_is_read_and_what_it_lacks_is_said() {
    let syncs = "insert into CUPTI_ACTIVITY_KIND_SYNCHRONIZATION values (2600, 12500, 0, 1, $NONE, 5, $PID, 2, 26);
                 insert into CUPTI_ACTIVITY_KIND_SYNCHRONIZATION values (13000, 13100, 0, 1, $NONE, 6, $PID, 1, $NONE);";
    let rows = [two_streams(), call(13_000, 13_100, 6, 5), syncs.to_owned()].concat();
    let workload = read(&export(&[SCHEMA_2021, NAMES], &rows));
    let report = report(&workload);
    assert_eq!((report.events, report.kernels, report.streams, report.launches), (10, 2, 2, 2));
    assert_eq!((report.event_syncs, report.event_syncs_unpaired, report.device_syncs), (0, 1, 1));
    assert_eq!(
        (report.stream_waits, report.stream_waits_unpaired, report.event_records),
        (0, 1, 1)
    );
    assert_eq!(report.remarks, [Remark::RecordsWithoutStream { calls: 1 }]);
    assert!(
        report.lines().iter().any(|line| line.contains("--cuda-event-trace=true")),
        "{:?}",
        report.lines()
    );
    let items = &workload.recorded.as_ref().unwrap().items;
    assert_eq!((items[0].start_ns, items[0].end_ns), (1_000, 8_000));
}

#[test]
fn event_rows_join_records_and_waits() {
    // The event is recorded twice: a sequence number says which record is meant, else the last
    // before the wait.
    let syncs = "insert into CUPTI_ACTIVITY_KIND_CUDA_EVENT values (null, 0, 1, 7, 2, $PID, 40, 100);
        insert into CUPTI_ACTIVITY_KIND_SYNCHRONIZATION values (1800, 1900, 0, 1, 8, 3, $PID, 2, 40, 100);
        insert into CUPTI_ACTIVITY_KIND_SYNCHRONIZATION values (2600, 12500, 0, 1, $NONE, 5, $PID, 1, 40, 0);";
    let workload = read(&export(
        &[SCHEMA_2021, SCHEMA_2025, NAMES],
        &[two_streams(), syncs.to_owned()].concat(),
    ));
    let report = report(&workload);
    assert_eq!((report.stream_waits, report.stream_waits_unpaired), (1, 0));
    assert_eq!((report.event_syncs, report.event_syncs_unpaired), (1, 0));
    assert_eq!((report.event_records, report.event_records_awaited), (1, 1));
    assert_eq!(report.remarks, []);
    let items = &workload.recorded.as_ref().unwrap().items;
    assert_eq!((items[1].ready, items[1].gap_ns), (Ready::Dependency, 700));
}

#[test]
fn a_query_is_no_wait_and_a_contradiction_is_dropped() {
    let syncs =
        "insert into CUPTI_ACTIVITY_KIND_SYNCHRONIZATION values (1, 2, 0, 1, $NONE, 60, $PID, 1, 26, 0);
        insert into CUPTI_ACTIVITY_KIND_SYNCHRONIZATION values (1, 2, 0, 1, $NONE, 61, $PID, 3, 26, 0);
        insert into CUPTI_ACTIVITY_KIND_SYNCHRONIZATION values (1, 2, 0, 1, $NONE, 62, $PID, 4, $NONE, 0);
        insert into CUPTI_ACTIVITY_KIND_SYNCHRONIZATION values (1, 2, 0, 1, 7, 999, $PID, 3, $NONE, 0);";
    let rows = [
        call(1_000, 1_500, 1, 1),
        kernel(2_000, 9_000, 7, 1),
        call(3_000, 3_100, 60, 6),
        call(3_200, 3_300, 61, 9),
        call(3_400, 3_500, 62, 10),
        syncs.to_owned(),
    ];
    let workload = read(&export(&[SCHEMA_2021, SCHEMA_2025, NAMES], &rows.concat()));
    let report = report(&workload);
    assert_eq!((report.queries, report.event_syncs, report.event_syncs_unpaired), (1, 0, 0));
    assert_eq!((report.stream_syncs, report.stream_syncs_unpaired), (0, 1));
    let remarks = [
        Remark::SyncsWithoutCall { rows: 1 },
        Remark::SyncsContradicted { rows: 1 },
        Remark::SyncsInsideOtherCalls { rows: 1 },
    ];
    assert_eq!(report.remarks, remarks);
    let waits =
        workload.threads[0].body.iter().filter(|op| matches!(op.kind, OpKind::CpuWait { .. }));
    assert_eq!(waits.count(), 0);
}

#[test]
fn correlations_belong_to_a_process_and_streams_to_a_context() {
    let other = |rows: String| {
        rows.replace("$PID", &(PID + (1 << 24)).to_string())
            .replace("$TID", &(TID + (1 << 24)).to_string())
    };
    let names = "insert into ThreadNames values (30, $TID);";
    let rows = [
        call(1_000, 1_500, 1, 1),
        kernel(2_000, 9_000, 7, 1),
        other(call(1_200, 1_700, 1, 1)),
        other(kernel(3_000, 4_000, 7, 1)),
        kernel(9_500, 9_900, 7, 77),
        names.to_owned(),
    ];
    let workload = read(&export(&[SCHEMA_2021, SCHEMA_2025, NAMES], &rows.concat()));
    let report = report(&workload);
    assert_eq!(
        (report.streams, report.launches, report.host_threads, report.work_without_launch),
        (2, 2, 2, 1)
    );
    let queues: Vec<&str> = workload.queues.iter().map(|queue| queue.name.as_str()).collect();
    assert!(queues[0].contains("process 9") && queues[1].contains("process 10"), "{queues:?}");
    assert_eq!(workload.threads[0].name, "process 9 thread 11 (main)");
}

#[test]
fn copies_graphs_and_implicit_order_are_named() {
    let rows = [
        call(1_000, 1_500, 1, 7),
        "insert into CUPTI_ACTIVITY_KIND_MEMCPY values (2000, 3000, 0, 1, 7, 1, $PID, 64, 2, 2, 0);".into(),
        call(1_600, 1_700, 2, 8),
        "insert into CUPTI_ACTIVITY_KIND_GRAPH_TRACE values (3500, 4500, 0, 1, 8, 2, $PID, 5, 6);".into(),
        "insert into CUPTI_ACTIVITY_KIND_GRAPH_TRACE values (4700, null, 0, 1, 8, 2, $PID, 5, 6);".into(),
        "insert into TARGET_INFO_CUDA_STREAM values (7, 9, 1, 3), (8, 9, 1, 1), (9, 9, 1, 1);".into(),
    ];
    let workload = read(&export(&[SCHEMA_2021, SCHEMA_2025, NAMES], &rows.concat()));
    let report = report(&workload);
    assert_eq!(
        (report.copies, report.kernels, report.graph_launches, report.blocking_copies),
        (1, 1, 1, 1)
    );
    let remarks = [
        Remark::ImplicitOrder { streams: 1 },
        Remark::WholeGraphs { launches: 1 },
        Remark::Unusable { rows: 1 },
    ];
    assert_eq!(report.remarks, remarks);
}

#[test]
fn an_export_without_gpu_work_or_with_a_column_missing_is_refused() {
    let bad = |bytes: &[u8]| {
        load_bytes(bytes, "run.sqlite", &LoadOptions::default()).unwrap_err().to_string()
    };
    let text = bad(&export(&[SCHEMA_2021, NAMES], ""));
    assert!(text.contains("no GPU work") && text.contains("nsys profile -t cuda"), "{text}");
    let cut = "create table StringIds (id integer, value text);
               create table CUPTI_ACTIVITY_KIND_KERNEL (start integer, deviceId integer);";
    let text = bad(&export(&[cut], ""));
    assert!(text.contains("CUPTI_ACTIVITY_KIND_KERNEL has no column end"), "{text}");
    let text = bad(&export(&["create table songs (id integer);"], ""));
    assert!(text.contains("1 tables (songs)"), "{text}");
}

const WDDM: &str = "
    create table StringIds (id integer primary key, value text not null);
    create table META_DATA_EXPORT (name text, value text);
    create table ENUM_WDDM_ENGINE_TYPE (id integer, name text, label text);
    create table WDDM_QUEUE_PACKET_START_EVENTS (start integer, globalTid integer, gpu integer, context integer,
        packetType integer, submitSequence integer, engineType integer);
    create table WDDM_QUEUE_PACKET_STOP_EVENTS (start integer, globalTid integer, gpu integer, context integer,
        submitSequence integer);
    create table WDDM_DMA_PACKET_START_EVENTS (start integer, globalTid integer, gpu integer, context integer,
        uliSubmissionId integer, ulQueueSubmitSequence integer, engineType integer);
    create table WDDM_DMA_PACKET_STOP_EVENTS (start integer, globalTid integer, context integer, uliCompletionId integer);
    insert into ENUM_WDDM_ENGINE_TYPE values (1, 'x', '3D'), (6, 'y', 'Copy');
    insert into WDDM_QUEUE_PACKET_START_EVENTS values (1000, $TID, 0, 77, 0, 5, 1), (2000, $TID, 0, 77, 0, 6, 1),
        (2500, $TID, 0, 78, 0, 1, 6), (2600, $TID, 0, 77, 4, 7, 1);
    insert into WDDM_QUEUE_PACKET_STOP_EVENTS values (9000, $TID, 0, 77, 5), (12000, $TID, 0, 77, 6), (5000, $TID, 0, 78, 1);";

const DMA_PACKETS: &str = "
    insert into WDDM_DMA_PACKET_START_EVENTS values (1500, $TID, 0, 77, 100, 5, 1), (2100, $TID, 0, 77, 101, 6, 1),
        (2550, $TID, 0, 78, 100, 1, 6), (3000, $TID, 0, 77, 102, 0, 1), (20000, $TID, 0, 77, 103, 9, 1);
    insert into WDDM_DMA_PACKET_STOP_EVENTS values (8000, $TID, 77, 100), (11000, $TID, 77, 101), (4000, $TID, 78, 100),
        (3500, $TID, 77, 102);";

/// The queue, start, end and launch of each piece of work.
fn packets(workload: &Workload) -> Vec<(&str, u64, u64, Option<u64>)> {
    let items = &workload.recorded.as_ref().unwrap().items;
    let item = |item: &crate::model::RecordedItem| {
        let name = workload.queue(item.queue).name.as_str();
        (name, item.start_ns, item.end_ns, item.launched_ns)
    };
    items.iter().map(item).collect()
}

#[test]
fn packets_of_the_graphics_kernel_are_work_of_their_engines() {
    let schema = WDDM.replace("$TID", &TID.to_string());
    // The second packet enters the engine's queue at 2100 and begins when the first ends. The
    // packet with sequence 0 preempts, and the last has no end.
    let workload = read(&export(&[&schema], DMA_PACKETS));
    let expected = [
        ("3D context 0x4d", 500, 7_000, Some(0)),
        ("3D context 0x4d", 7_000, 10_000, Some(1_000)),
        ("Copy context 0x4e", 1_550, 3_000, Some(1_500)),
    ];
    assert_eq!(packets(&workload), expected);
    assert_eq!((report(&workload).kernels, report(&workload).copies), (2, 1));
    assert_eq!(report(&workload).remarks, [Remark::Unusable { rows: 1 }]);
    // With hardware scheduling only queue packets are recorded. A packet that waits is not work.
    let workload = read(&export(&[&schema], ""));
    let starts =
        packets(&workload).iter().map(|(_, start, end, _)| (*start, *end)).collect::<Vec<_>>();
    assert_eq!(starts, [(0, 8_000), (8_000, 11_000), (1_500, 4_000)]);
    // Beside work of CUDA they are counted.
    let cuda = SCHEMA_2021
        .replace("create table StringIds (id integer primary key, value text not null);", "");
    let workload = read(&export(&[&schema, &cuda, NAMES], &kernel(100, 200, 7, 1)));
    assert_eq!(report(&workload).kernels, 1);
    assert!(report(&workload).remarks.contains(&Remark::PacketsBesideWork { packets: 3 }));
}

#[test]
fn a_refusal_has_the_host_calls_of_the_file() {
    let calls: String = (1..=3).map(|id| call(id * 10, id * 10 + 5, id, 1)).collect();
    let file = export(&[SCHEMA_2021, NAMES], &calls);
    let text = load_bytes(&file, "run.sqlite", &LoadOptions::default()).unwrap_err().to_string();
    assert!(text.contains("no GPU work among 3 events (3 host calls)"), "{text}");
}

/// ENUM_CUDA_MEMCPY_OPER and ENUM_CUDA_MEM_KIND, by their numbers.
#[test]
fn copies_have_the_names_of_the_profiling_interface() {
    let kinds = [
        "HtoD",
        "DtoH",
        "HtoA",
        "AtoH",
        "AtoA",
        "AtoD",
        "DtoA",
        "DtoD",
        "HtoH",
        "PtoP",
        "unified HtoD",
        "unified DtoH",
        "unified DtoD",
    ];
    for (kind, direction) in (1..).zip(kinds) {
        assert_eq!(copy_name(Some(kind), None, None), format!("Memcpy {direction}"));
    }
    assert_eq!([Some(14), Some(0), None].map(|kind| copy_name(kind, None, None)), ["Memcpy"; 3]);
    let memory = [
        "Pageable",
        "Pinned",
        "Device",
        "Array",
        "Managed",
        "Device Static",
        "Managed Static",
        "Unknown",
    ];
    for (kind, name) in (0..).zip(memory) {
        let copy = copy_name(Some(1), Some(kind), Some(2));
        assert_eq!(copy, format!("Memcpy HtoD ({name} -> Device)"));
    }
    assert_eq!(copy_name(Some(1), Some(1), None), "Memcpy HtoD", "one end is not known");
}
