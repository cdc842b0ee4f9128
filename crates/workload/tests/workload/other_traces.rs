//! Recorded files of other profilers, when they are at hand: the folder `trace-samples` beside
//! `TIDEGATE_TRACES`.
//!
//! The figures were computed from the files with Python's sqlite3, json and csv modules, without
//! this crate.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tidegate_workload::model::{CommandKind, OpKind, Workload};
use tidegate_workload::recording::{ImportReport, Remark};
use tidegate_workload::{LoadOptions, load};

fn path(name: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("TIDEGATE_TRACES") else {
        println!(
            "skipped: set TIDEGATE_TRACES to the folder beside trace-samples, which has {name}"
        );
        return None;
    };
    Some(PathBuf::from(folder).join("../trace-samples").join(name))
}

fn sample(name: &str) -> Option<Workload> {
    let path = path(name)?;
    let before = std::fs::read(&path).unwrap();
    let (workload, _) = load(&path, &LoadOptions::default()).expect("a readable recording");
    assert!(std::fs::read(&path).unwrap() == before, "{name} was changed");
    Some(workload)
}

fn report(workload: &Workload) -> &ImportReport {
    &workload.recorded.as_ref().unwrap().report
}

/// Pieces of work, their busy time, the sum of their starts counted from the first, and the time
/// from the first start to the last end.
fn times(workload: &Workload) -> (usize, u64, u64, u64) {
    let items = &workload.recorded.as_ref().unwrap().items;
    let first = items.iter().map(|item| item.start_ns).min().unwrap();
    let last = items.iter().map(|item| item.end_ns).max().unwrap();
    (
        items.len(),
        items.iter().map(|item| item.end_ns - item.start_ns).sum(),
        items.iter().map(|item| item.start_ns - first).sum(),
        last - first,
    )
}

/// How often each name occurs.
fn names(workload: &Workload) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for op in workload.threads.iter().flat_map(|thread| thread.body.iter()) {
        let OpKind::Submit { commands, .. } = &op.kind else { continue };
        for command in commands {
            if let CommandKind::Work { label: Some(label), .. } = &command.kind {
                *names.entry(label.to_string()).or_default() += 1;
            }
        }
    }
    names
}

/// Pieces of work of each queue, by the queue's name.
fn per_queue(workload: &Workload) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for item in &workload.recorded.as_ref().unwrap().items {
        *counts.entry(workload.queues[item.queue.0 as usize].name.as_str()).or_default() += 1;
    }
    counts
}

#[test]
fn nsight_2021() {
    let Some(workload) = sample("nsys-2021-mordred.sqlite") else { return };
    let report = report(&workload);
    assert_eq!((report.kernels, report.copies, report.fills, report.streams), (12, 48, 12, 1));
    assert_eq!((report.launches, report.work_without_launch, report.host_threads), (72, 0, 1));
    assert_eq!((report.blocking_copies, report.device_syncs, report.event_records), (48, 9, 12));
    // No table says which stream an event was recorded on: nothing is guessed.
    assert_eq!((report.event_syncs, report.event_syncs_unpaired), (0, 6));
    assert_eq!(report.remarks, [Remark::RecordsWithoutStream { calls: 12 }]);
    assert_eq!(times(&workload), (72, 8_680_380, 461_330_998, 15_034_676));
    let names = names(&workload);
    let kernel = "void build_GPU2<128, 4>(int*, int*, int*, int, int, int, int*, int*, int, int*, int, int, int, short*)";
    assert_eq!(names[kernel], 9);
    assert_eq!((names["Memcpy HtoD (Pageable -> Device)"], names["Memset (Device)"]), (45, 12));
}

#[test]
fn nsight_2025() {
    let Some(workload) = sample("nsys-2025.1-fuser.sqlite") else { return };
    let report = report(&workload);
    assert_eq!((report.kernels, report.copies, report.fills, report.streams), (18, 3, 3, 1));
    assert_eq!((report.launches, report.work_without_launch), (24, 0));
    assert_eq!((report.stream_syncs, report.device_syncs), (2, 1));
    assert_eq!((report.stream_syncs_unpaired, report.device_syncs_unpaired), (0, 0));
    assert_eq!(report.remarks, []);
    assert_eq!(times(&workload), (24, 31_559_046, 61_888_675_300, 3_190_337_735));
    assert_eq!(names(&workload).len(), 16 + 2 + 1, "16 kernels, 2 kinds of copies, 1 of fills");
}

#[test]
fn nsight_2026_with_two_processes() {
    let Some(workload) = sample("nsys-2026.2-two-gpus.sqlite") else { return };
    let report = report(&workload);
    assert_eq!(
        (report.kernels, report.copies, report.fills, report.streams),
        (4_010, 1_020, 269, 2)
    );
    assert_eq!((report.launches, report.work_without_launch, report.host_threads), (5_268, 31, 2));
    assert_eq!((report.queries, report.event_syncs, report.event_syncs_unpaired), (133, 0, 0));
    assert_eq!(
        (report.stream_syncs, report.stream_waits, report.stream_waits_unpaired),
        (33, 0, 200)
    );
    assert_eq!(report.event_records, 332);
    assert_eq!(report.remarks, [Remark::RecordsWithoutStream { calls: 332 }]);
    assert_eq!(times(&workload), (5_299, 541_106_145, 792_169_631_464, 299_877_006));
    assert_eq!(names(&workload).values().max(), Some(&1_289));
    let queues = per_queue(&workload);
    assert_eq!(queues.values().copied().collect::<Vec<_>>(), [2_636, 2_663], "{queues:?}");
}

#[test]
fn rocprof_json() {
    let Some(workload) = sample("rocprofv3-mi355x-cut_results.json.gz") else { return };
    let report = report(&workload);
    assert_eq!(
        (report.kernels, report.streams, report.launches, report.work_without_launch),
        (3_000, 6, 0, 3_000)
    );
    assert_eq!(report.remarks, [Remark::NoHostCalls]);
    assert_eq!(times(&workload), (3_000, 135_058_017, 193_187_893_460, 131_706_001));
    let names = names(&workload);
    assert_eq!((names.len(), names.values().max()), (80, Some(&369)));
    let queues = per_queue(&workload);
    assert_eq!((queues["stream 567"], queues["stream 570"], queues["stream 0"]), (2_737, 67, 6));
}

#[test]
fn rocprof_csv() {
    let Some(workload) = sample("rocprofv3-decode_kernel_trace.csv") else { return };
    let report = report(&workload);
    assert_eq!((report.kernels, report.streams, report.events), (144, 1, 144 + 920));
    assert_eq!((report.stream_syncs, report.stream_syncs_unpaired), (0, 4));
    assert!(
        matches!(&report.remarks[..], [Remark::AlsoRead { file }, Remark::NoArguments] if file.ends_with("decode_hip_api_trace.csv"))
    );
    assert_eq!(times(&workload), (144, 1_857_381, 17_666_905_769, 180_266_420));
    assert_eq!((names(&workload).len(), names(&workload).values().max().copied()), (17, Some(29)));

    // Three files of one name that were recorded days apart.
    let Some(workload) = sample("rocprofv3-docs_kernel_trace.csv") else { return };
    assert_eq!(times(&workload), (9, 96_160, 550_640, 144_400));
    let remarks = &workload.recorded.as_ref().unwrap().report.remarks;
    assert!(matches!(
        &remarks[..],
        [Remark::OtherRun { .. }, Remark::OtherRun { .. }, Remark::NoHostCalls]
    ));
    let Some(workload) = sample("rocprofv3-docs_memory_copy_trace.csv") else { return };
    assert_eq!(workload.recorded.as_ref().unwrap().report.copies, 4);
}

#[test]
fn perfetto_render_stages() {
    let Some(workload) = sample("perfetto-gpu-flow.pftrace") else { return };
    let report = report(&workload);
    assert_eq!((report.events, report.kernels, report.streams), (9, 2, 2));
    assert_eq!((report.launches, report.work_without_launch, report.dependencies), (1, 1, 1));
    assert_eq!(report.remarks, [Remark::HostWaitsForWork { waits: 1 }]);
    assert_eq!(times(&workload), (2, 90, 100, 140));
    assert_eq!(names(&workload).into_keys().collect::<Vec<_>>(), ["matmul", "softmax"]);
    assert_eq!(per_queue(&workload), BTreeMap::from([("compute_0", 1), ("compute_1", 1)]));

    let Some(workload) = sample("perfetto-gpu-compute-launch.pftrace") else { return };
    assert_eq!(times(&workload), (1, 50, 0, 50));
    assert_eq!(
        names(&workload).into_keys().collect::<Vec<_>>(),
        ["vectorAdd(float*, float*, float*, int)"]
    );

    let Some(workload) = sample("perfetto-gpu-stages.pftrace") else { return };
    assert_eq!(times(&workload), (4, 40, 500, 210));
    assert_eq!(workload.recorded.as_ref().unwrap().report.streams, 4);
    assert_eq!(names(&workload).values().sum::<usize>(), 4);
}

#[test]
fn presentmon_frames_of_several_programs() {
    let Some(workload) = sample("presentmon-0.csv") else { return };
    let report = report(&workload);
    assert_eq!((report.events, report.kernels, report.streams), (357, 356, 10));
    assert_eq!((report.presents, report.presents_shown, report.presents_replayed), (357, 349, 197));
    // Of 58 calls longer than 1 ms, 2 returned with GPU work and 43 with a frame of their chain.
    assert_eq!((report.presents_for_work, report.presents_for_display), (2, 43));
    assert_eq!(report.damage.count, 0);
    assert_eq!(times(&workload), (356, 83_411_500, 934_769_762_400, 5_154_896_100));
    assert_eq!(per_queue(&workload)["process 1268 dwm.exe"], 196);
    let display = workload.display.as_ref().unwrap();
    assert_eq!(workload.queue(display.queue).name, "process 1268 dwm.exe");
    assert!((16_600_000..16_700_000).contains(&display.refresh_ns), "{}", display.refresh_ns);
    assert!(report.remarks.contains(&Remark::ChainsWithoutDisplay { chains: 9 }));

    let Some(workload) = sample("presentmon-5.csv") else { return };
    let report = workload.recorded.as_ref().unwrap().report.clone();
    assert_eq!((report.events, report.kernels, report.streams), (647, 647, 7));
    assert_eq!((report.presents_shown, report.presents_replayed), (561, 174));
    assert_eq!(times(&workload), (647, 492_142_100, 950_665_210_700, 3_000_176_000));
    let queues = per_queue(&workload);
    assert_eq!(queues["process 24892 PresentBench.exe 0x2A70D2CAC00"], 258, "{queues:?}");
    let display = workload.display.as_ref().unwrap();
    assert!((16_650_000..16_680_000).contains(&display.refresh_ns), "{}", display.refresh_ns);
}

#[test]
fn xla_profile_of_eight_gpus() {
    let Some(workload) = sample("tl-jax-conv.xplane.pb") else { return };
    let report = report(&workload);
    assert_eq!((report.kernels, report.copies, report.fills, report.streams), (235, 0, 0, 11));
    assert_eq!((report.launches, report.work_without_launch, report.host_threads), (234, 0, 15));
    assert_eq!(report.remarks, [Remark::NoArguments]);
    assert_eq!(times(&workload), (235, 28_137_077, 19_304_176_871, 138_470_832));
    let names = names(&workload);
    assert_eq!((names["Im3d2Col.kd"], names["__amd_rocclr_copyBuffer.kd"]), (40, 35));
    let queues = per_queue(&workload);
    assert_eq!((queues["gpu 0 stream 16"], queues["gpu 7 stream 37"]), (34, 25), "{queues:?}");
}

#[test]
fn rpd_of_a_matrix_multiplication() {
    let Some(workload) = sample("rpd-legacy-matmul.rpd") else { return };
    let report = report(&workload);
    assert_eq!((report.kernels, report.copies, report.fills, report.streams), (29, 55, 1, 1));
    assert_eq!((report.launches, report.work_without_launch, report.host_threads), (85, 0, 1));
    assert_eq!(report.blocking_copies, 55);
    assert_eq!(times(&workload), (85, 183_918_056, 245_146_517_670, 2_964_070_817));
    let names = names(&workload);
    assert_eq!((names["Memcpy DtoH"], names["Memcpy HtoD"], names["FillBuffer"]), (53, 2, 1));
}

#[test]
fn what_is_not_read_is_named_with_the_next_step() {
    let Some(path) = path("rpd-legacy-matmul.rpd") else { return };
    let text = load(path.parent().unwrap(), &LoadOptions::default()).unwrap_err().to_string();
    assert!(
        text.contains("a folder; give one of its files, such as nsys-2021-mordred.sqlite"),
        "{text}"
    );
}
