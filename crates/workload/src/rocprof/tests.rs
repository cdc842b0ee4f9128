//! Small files of each form made here. Recorded ones are read in `tests/workload/other_traces.rs`.

use rusqlite::Connection;

use crate::imported::{self, report};
use crate::model::{Ready, Workload};
use crate::recording::{Remark, Source};
use crate::{LoadOptions, load_bytes};

fn read(bytes: &[u8], source: Source) -> Workload {
    imported::read(bytes, "run", source)
}

fn json(records: &str, config: &str) -> String {
    format!(
        r#"{{"rocprofiler-sdk-tool": [{{
            "metadata": {{"pid": 77, "config": {{{config}}}}},
            "agents": [{{"id": {{"handle": 1}}, "type": 1}}, {{"id": {{"handle": 5}}, "type": 2, "logical_node_type_id": 0}}],
            "buffer_records": {{{records}}},
            "strings": {{"buffer_records": [
                {{"kind": "NONE", "operations": []}},
                {{"kind": "MEMORY_COPY", "operations": ["NONE", "MEMORY_COPY_HOST_TO_HOST", "MEMORY_COPY_HOST_TO_DEVICE", "MEMORY_COPY_DEVICE_TO_HOST"]}},
                {{"kind": "HIP_RUNTIME_API_EXT", "operations": ["hipLaunchKernel", "hipEventRecord", "hipStreamWaitEvent", "hipEventSynchronize", "hipStreamSynchronize", "hipMemcpyAsync"]}}
            ]}},
            "kernel_symbols": [{{"kernel_id": 0, "formatted_kernel_name": "0"}}, {{"kernel_id": 3, "formatted_kernel_name": "add(int*)", "kernel_name": "_Z3addPi.kd"}}]
        }}]}}"#
    )
}

fn api(operation: u32, correlation: u32, start: u32, end: u32, args: &str) -> String {
    format!(
        r#"{{"kind": 2, "operation": {operation}, "correlation_id": {{"internal": {correlation}}}, "start_timestamp": {start},
            "end_timestamp": {end}, "thread_id": 78, "args": [{args}], "retval": 0}}"#
    )
}

fn arg(name: &str, value: &str) -> String {
    format!(r#"{{"type": "void*", "name": "{name}", "value": "{value}"}}"#)
}

fn dispatch(correlation: u32, start: u32, end: u32, stream: u32) -> String {
    format!(
        r#"{{"correlation_id": {{"internal": {correlation}}}, "start_timestamp": {start}, "end_timestamp": {end}, "thread_id": 78,
            "dispatch_info": {{"agent_id": {{"handle": 5}}, "queue_id": {{"handle": {}}}, "kernel_id": 3}}, "stream_id": {{"handle": {stream}}}}}"#,
        stream % 2 + 20
    )
}

/// Two streams, known to the host as 0xa1 and 0xa2; the second waits for event 0xe of the first,
/// the host for both.
fn two_streams() -> String {
    let (event, one, two) = (arg("event", "0xe"), arg("stream", "0xa1"), arg("stream", "0xa2"));
    let calls = [
        api(0, 1, 1_000, 1_500, &one),
        api(1, 2, 1_600, 1_700, &[event.clone(), one].join(",")),
        api(2, 3, 1_800, 1_900, &[two.clone(), event.clone()].join(",")),
        api(0, 4, 2_000, 2_500, &two),
        api(3, 5, 2_600, 9_100, &event),
        api(4, 6, 9_200, 12_100, &two),
    ];
    let kernels = [dispatch(1, 2_000, 9_000, 1), dispatch(4, 9_600, 12_000, 2)];
    format!(
        r#""kernel_dispatch": [{}], "hip_api": [{}], "memory_copy": []"#,
        kernels.join(","),
        calls.join(",")
    )
}

#[test]
fn arguments_join_records_waits_and_streams() {
    let workload = read(json(&two_streams(), "").as_bytes(), Source::RocprofJson);
    let report = report(&workload);
    assert_eq!((report.kernels, report.streams, report.launches, report.events), (2, 2, 2, 8));
    assert_eq!((report.stream_waits, report.event_syncs, report.stream_syncs), (1, 1, 1));
    assert_eq!((report.event_records, report.event_records_awaited), (1, 1));
    assert_eq!(report.remarks, []);
    let items = &workload.recorded.as_ref().unwrap().items;
    assert_eq!((items[1].ready, items[1].gap_ns), (Ready::Dependency, 600));
    assert_eq!(workload.queues[0].name, "stream 1");
}

#[test]
fn queues_stand_for_streams_when_grouped_by_queue() {
    let workload =
        read(json(&two_streams(), r#""group_by_queue": true"#).as_bytes(), Source::RocprofJson);
    let names: Vec<&str> = workload.queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["queue 20", "queue 21"]);
}

#[test]
fn copies_without_a_stream_get_one_per_direction() {
    let copy = |operation: u32, source: u32, destination: u32, start: u32| {
        format!(
            r#"{{"kind": 1, "operation": {operation}, "correlation_id": {{"internal": {start}}}, "start_timestamp": {start},
                "end_timestamp": {}, "src_agent_id": {{"handle": {source}}}, "dst_agent_id": {{"handle": {destination}}}, "bytes": 4}}"#,
            start + 50
        )
    };
    let copies = [
        copy(2, 1, 5, 100),
        copy(3, 5, 1, 200),
        copy(2, 1, 5, 300),
        copy(2, 1, 5, 0).replace(": 50", ": null"),
    ];
    let text = json(&format!(r#""memory_copy": [{}]"#, copies.join(",")), "");
    let workload = read(text.as_bytes(), Source::RocprofJson);
    let report = report(&workload);
    assert_eq!((report.copies, report.streams, report.kernels), (3, 2, 0));
    let remarks = [
        Remark::Unusable { rows: 1 },
        Remark::CopiesWithoutStream { copies: 3 },
        Remark::NoHostCalls,
    ];
    assert_eq!(report.remarks, remarks);
    let names: Vec<&str> = workload.queues.iter().map(|queue| queue.name.as_str()).collect();
    assert!(
        names.contains(&"Memcpy HtoD of gpu 0") && names.contains(&"Memcpy DtoH of gpu 0"),
        "{names:?}"
    );
}

#[test]
fn broken_json_is_told_where() {
    let whole = json(&two_streams(), "");
    let bad = |text: &str| {
        load_bytes(text.as_bytes(), "run", &LoadOptions::default()).unwrap_err().to_string()
    };
    assert!(bad(&whole[..whole.len() / 2]).contains("cut short"));
    assert!(
        bad(&whole.replace("\"kernel_dispatch\": [", "\"kernel_dispatch\": 3, \"x\": ["))
            .contains("line")
    );
    assert!(bad(&json("", "")).contains("no GPU work"));
}

const KERNELS: &str = "Guid,Kind,Agent_Id,Queue_Id,Stream_Id,Thread_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp\n";

#[test]
fn tables_of_several_releases_are_read() {
    let new = format!(
        "{KERNELS}x,KERNEL_DISPATCH,Agent 4,1,2,9,\"void f<int, int>(int*, int)\",1,1000,2000\n"
    );
    let workload = read(new.as_bytes(), Source::RocprofCsv);
    assert_eq!(workload.queues[0].name, "stream 2");
    assert_eq!(report(&workload).remarks, [Remark::NoHostCalls]);
    // October 2024: no streams, agents as plain numbers.
    let old = "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Kernel_Name\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\"\n\
               \"KERNEL_DISPATCH\",\"4\",\"1\",\"f(int)\",\"1\",\"1000\",\"2000\"\n\"KERNEL_DISPATCH\",\"4\",\"1\",\"f(int)\",\"2\",\"\",\"\"\n";
    let workload = read(old.as_bytes(), Source::RocprofCsv);
    assert_eq!((workload.queues[0].name.as_str(), report(&workload).kernels), ("queue 1", 1));
    assert_eq!(report(&workload).remarks, [Remark::Unusable { rows: 1 }, Remark::NoHostCalls]);
}

#[test]
fn the_files_of_a_run_are_read_together() {
    let folder = std::env::temp_dir().join(format!("tidegate-rocprof-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write(
        "1_kernel_trace.csv",
        &format!("{KERNELS}x,KERNEL_DISPATCH,Agent 4,1,2,9,f,7,3000,4000\n"),
    );
    let calls =
        "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp\n";
    write(
        "1_hip_api_trace.csv",
        &format!(
            "{calls}HIP_RUNTIME_API_EXT,hipLaunchKernel,9,9,7,1000,1500\nHIP_RUNTIME_API_EXT,hipStreamSynchronize,9,9,8,1600,4100\nHSA_CORE_API,hsa_init,9,9,9,1,2\n"
        ),
    );
    write(
        "1_memory_copy_trace.csv",
        "Kind,Direction,Source_Agent_Id,Destination_Agent_Id,Correlation_Id,Start_Timestamp,End_Timestamp\nMEMORY_COPY,MEMORY_COPY_HOST_TO_DEVICE,Agent 0,Agent 4,1,900000000000000,900000000000001\n",
    );
    let (workload, _) =
        crate::load(&folder.join("1_kernel_trace.csv"), &LoadOptions::default()).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let report = report(&workload);
    assert_eq!(
        (report.kernels, report.copies, report.launches, report.stream_syncs_unpaired),
        (1, 0, 1, 1)
    );
    let what = |remark: &Remark| match remark {
        Remark::AlsoRead { file } => format!("read {}", file.rsplit('/').next().unwrap()),
        Remark::OtherRun { file } => format!("left {}", file.rsplit('/').next().unwrap()),
        other => format!("{other:?}"),
    };
    let remarks: Vec<String> = report.remarks.iter().map(what).collect();
    assert_eq!(
        remarks,
        ["left 1_memory_copy_trace.csv", "read 1_hip_api_trace.csv", "NoArguments"]
    );
}

#[test]
fn a_rocpd_database_is_read_from_its_base_tables() {
    let suffix = "_00000a";
    let schema = "
        create table rocpd_string$S (id integer, guid text, string text);
        create table rocpd_info_process$S (id integer, pid integer);
        create table rocpd_info_thread$S (id integer, tid integer);
        create table rocpd_info_agent$S (id integer, type text, type_index integer);
        create table rocpd_info_kernel_symbol$S (id integer, kernel_name text, display_name text);
        create table rocpd_event$S (id integer, category_id integer, stack_id integer, correlation_id integer);
        create table rocpd_arg$S (event_id integer, position integer, type text, name text, value text);
        create table rocpd_region$S (id integer, pid integer, tid integer, start integer, end integer, name_id integer, event_id integer);
        create table rocpd_kernel_dispatch$S (id integer, pid integer, tid integer, agent_id integer, kernel_id integer,
            queue_id integer, stream_id integer, start integer, end integer, event_id integer);
        create table rocpd_memory_copy$S (id integer, pid integer, start integer, end integer, name_id integer,
            dst_agent_id integer, src_agent_id integer, queue_id integer, stream_id integer, event_id integer);
        create view rocpd_kernel_dispatch as select * from rocpd_kernel_dispatch$S;
        insert into rocpd_string$S values (1, 'g', 'HIP_RUNTIME_API_EXT'), (2, 'g', 'hipLaunchKernel'), (3, 'g', 'hipEventRecord'),
            (4, 'g', 'hipStreamWaitEvent'), (5, 'g', 'MEMORY_COPY_HOST_TO_DEVICE'), (6, 'g', 'hipMemcpyAsync');
        insert into rocpd_info_process$S values (50, 50);
        insert into rocpd_info_thread$S values (51, 51);
        insert into rocpd_info_agent$S values (1, 'CPU', 0), (2, 'GPU', 0);
        insert into rocpd_info_kernel_symbol$S values (3, '_Z3addPi.kd', 'add(int*)');
        insert into rocpd_event$S values (1, 1, 101, 0), (2, 1, 102, 0), (3, 1, 103, 0), (4, 1, 104, 0), (5, 1, 101, 0), (6, 1, 104, 0);
        insert into rocpd_arg$S values (1, 0, 'hipStream_t', 'stream', '0x1'), (2, 0, 'hipEvent_t', 'event', '0xe'),
            (2, 1, 'hipStream_t', 'stream', '0x1'), (3, 0, 'hipStream_t', 'stream', '0x2'), (3, 1, 'hipEvent_t', 'event', '0xe'),
            (4, 4, 'hipStream_t', 'stream', '0x2');
        insert into rocpd_region$S values (1, 50, 51, 1000, 1500, 2, 1), (2, 50, 51, 1600, 1700, 3, 2), (3, 50, 51, 1800, 1900, 4, 3),
            (4, 50, 51, 2000, 2100, 6, 4);
        insert into rocpd_kernel_dispatch$S values (1, 50, 51, 2, 3, 9, 1, 2000, 5000, 5);
        insert into rocpd_memory_copy$S values (1, 50, 5400, 5600, 5, 2, 1, null, 2, 6);";
    let mut connection = Connection::open_in_memory().unwrap();
    connection.execute_batch(&schema.replace("$S", suffix)).unwrap();
    let bytes = connection.serialize("main").unwrap().to_vec();
    let workload = read(&bytes, Source::Rocpd);
    let report = report(&workload);
    assert_eq!((report.kernels, report.copies, report.launches, report.stream_waits), (1, 1, 2, 1));
    assert_eq!((report.event_records_awaited, report.work_without_launch), (1, 0));
    assert_eq!(report.remarks, []);
    assert_eq!(workload.recorded.as_ref().unwrap().items[1].ready, Ready::Dependency);
    assert_eq!(workload.threads[0].name, "thread 51");
}

#[test]
fn an_rpd_database_joins_operations_and_calls() {
    let schema = "
        create table rocpd_string (id integer, string text);
        create table rocpd_api (id integer, pid integer, tid integer, start integer, end integer, apiName_id integer, args_id integer);
        create table rocpd_op (id integer, gpuId integer, queueId integer, start integer, end integer, description_id integer,
            opType_id integer);
        create table rocpd_api_ops (id integer, api_id integer, op_id integer);
        create table rocpd_kernelapi (api_ptr_id integer, stream text);
        create table rocpd_copyapi (api_ptr_id integer, stream text);
        insert into rocpd_string values (1, ''), (2, 'hipLaunchKernel'), (3, 'hipEventRecord'), (4, 'hipStreamWaitEvent'),
            (5, 'hipMemcpyAsync'), (6, 'UserMarker'), (7, 'event=0xe | stream=0x1'), (8, 'stream=0x2 | event=0xe'),
            (9, 'KernelExecution'), (10, 'CopyHostToDevice'), (11, 'FillBuffer'), (12, 'Barrier'), (13, 'add(int*)');
        insert into rocpd_api values (101, 50, 51, 1000, 1500, 2, 1), (102, 50, 51, 1600, 1700, 3, 7), (103, 50, 51, 1800, 1900, 4, 8),
            (104, 50, 51, 2000, 2100, 5, 1), (105, 50, 51, 900, 9000, 6, 1), (106, 60, 61, 2200, 2300, 2, 1);
        insert into rocpd_op values (1, 2, 0, 2000, 5000, 13, 9), (2, 2, 1, 5400, 5600, 1, 10), (3, 2, 1, 5600, 5700, 1, 12),
            (4, 2, 0, 6000, 6100, 1, 11), (5, 2, 1, 7000, 6900, 13, 9);
        insert into rocpd_api_ops values (1, 101, 1), (2, 104, 2), (3, 106, 4);
        insert into rocpd_kernelapi values (101, '0x1'); insert into rocpd_copyapi values (104, '0x2');";
    let mut connection = Connection::open_in_memory().unwrap();
    connection.execute_batch(schema).unwrap();
    let workload = read(&connection.serialize("main").unwrap(), Source::Rpd);
    let report = report(&workload);
    assert_eq!((report.kernels, report.copies, report.fills, report.launches), (1, 1, 1, 3));
    assert_eq!((report.stream_waits, report.event_records_awaited), (1, 1));
    assert_eq!(report.remarks, [Remark::Unusable { rows: 1 }]);
    let names: Vec<&str> = workload.queues.iter().map(|queue| queue.name.as_str()).collect();
    // An operation belongs to the process of its call.
    assert_eq!(names, ["process 50 queue 0", "process 50 queue 1", "process 60 queue 0"]);
    assert_eq!(workload.recorded.as_ref().unwrap().items[1].ready, Ready::Dependency);
}
