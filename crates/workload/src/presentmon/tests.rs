//! Small tables of each version made here. Recorded ones are read in
//! `tests/workload/other_traces.rs`.

use crate::imported::{self, report};
use crate::model::{EngineKind, OpKind, Submission, Workload};
use crate::recording::{Remark, Source};
use crate::{LoadOptions, load_bytes};

const COMMON: &str = "Application,ProcessID,SwapChainAddress,SyncInterval,PresentMode";
const GAME: &str = "game.exe,12,0xA0,1,Hardware: Independent Flip";

const TWO: &str = "CPUStartTime,CPUBusy,CPUWait,GPULatency,GPUTime,GPUBusy,DisplayLatency";

/// Three frames of version 2: 10 ms each, 9 of the CPU; the GPU starts after 4, works 2 of 7.
const FRAMES: [&str; 3] = ["5.0,9,1,4,7,2,14", "15.0,9,1,4,7,2,14", "25.0,9,1,4,7,2,14"];

fn table(columns: &str, rows: &[impl AsRef<str>]) -> String {
    let rows = rows.iter().map(|row| format!("{GAME},{}\r\n", row.as_ref()));
    format!("\u{feff}{COMMON},{columns}\r\n{}", rows.collect::<String>())
}

fn read(text: &str) -> Workload {
    imported::read(text.as_bytes(), "run", Source::PresentMon)
}

fn refused(text: &str) -> String {
    load_bytes(text.as_bytes(), "run.csv", &LoadOptions::default()).unwrap_err().to_string()
}

/// Start and end of each piece of work in microseconds, from the start of the recording.
fn work(workload: &Workload) -> Vec<(u64, u64)> {
    let items = &workload.recorded.as_ref().unwrap().items;
    items.iter().map(|item| (item.start_ns / 1_000, item.end_ns / 1_000)).collect()
}

/// The operations of a thread as words; times in microseconds.
fn words(workload: &Workload, thread: usize) -> Vec<String> {
    let word = |op: &crate::model::Op| match &op.kind {
        OpKind::Host { until_ns, work_ns } => {
            format!("host {}+{}", until_ns / 1_000, work_ns / 1_000)
        }
        OpKind::Submit { queue, .. } => format!("submit {}", queue.first.0),
        OpKind::Present { interval, returned_ns } => {
            let returned = returned_ns.map_or(String::new(), |at| format!(" until {}", at / 1_000));
            format!("present {}{returned}", interval.constant().unwrap())
        }
        OpKind::Resume { at_ns } => format!("resume {}", at_ns / 1_000),
        OpKind::Blocked { until_ns } => format!("blocked {}", until_ns / 1_000),
        OpKind::CpuWait { .. } => "wait".into(),
        OpKind::Signal { .. } => "signal".into(),
        other => format!("{other:?}"),
    };
    workload.threads[thread].body.iter().map(word).collect()
}

#[test]
fn a_frame_is_a_submission_work_and_a_present() {
    let workload = read(&table(TWO, &FRAMES));
    let report = report(&workload);
    assert_eq!((report.events, report.kernels, report.streams, report.launches), (3, 3, 1, 3));
    assert_eq!((report.presents, report.presents_shown, report.presents_replayed), (3, 3, 3));
    // The GPU's work ends 11 ms after the frame begins and lasts 2. The call that submits it takes
    // 20 us, and ends when the work starts or the frame is presented. The recording starts with the
    // first call.
    assert_eq!(work(&workload), [(20, 2_020), (10_020, 12_020), (20_020, 22_020)]);
    let submission =
        workload.threads[0].body.iter().position(|op| matches!(op.kind, OpKind::Submit { .. }));
    assert!(submission.is_some());
    assert_eq!(workload.threads[0].name, "game.exe (12)");
    assert_eq!(workload.queues[0].name, "game.exe");
    let recorded = workload.recorded.as_ref().unwrap();
    assert_eq!(
        recorded.names.iter().map(|name| &**name).collect::<Vec<_>>(),
        ["frame of game.exe"]
    );
    let presents = words(&workload, 0).iter().filter(|word| *word == "present 1").count();
    assert_eq!(presents, 3);
}

#[test]
fn the_display_has_the_recorded_refresh_vsync_and_latency() {
    let workload = read(&table(TWO, &FRAMES));
    let display = workload.display.as_ref().unwrap();
    assert_eq!((display.refresh_ns, display.latency, display.count), (10_000_000, 1, 4));
    // Frames are shown 14 ms after their starts, and the recording begins 8.98 ms after the first.
    assert_eq!(display.vsync_at_ns, Some(5_020_000));
    assert_eq!(workload.buffers.len(), 4);
    let queue = workload.queue(display.queue);
    assert_eq!((queue.engine, queue.submission), (EngineKind::ThreeD, Some(Submission::Hardware)));
    // Three frames are on their way when the third present returns.
    let late = ["5,9,1,4,7,2,34", "15,9,1,4,7,2,34", "25,9,1,4,7,2,34"];
    assert_eq!(read(&table(TWO, &late)).display.unwrap().latency, 3);
    // Frames at every second and third refresh.
    let slow = ["5,9,11,4,7,2,14", "25,9,21,4,7,2,14", "55,9,11,4,7,2,14", "75,9,1,4,7,2,14"];
    let slow = read(&table(TWO, &slow));
    assert_eq!(slow.display.as_ref().unwrap().refresh_ns, 20_000_000);
    // One frame shows no period.
    let one = read(&table(TWO, &FRAMES[..1]));
    assert_eq!(one.display.as_ref().unwrap().refresh_ns, 16_666_667);
    assert!(report(&one).remarks.contains(&Remark::RefreshUnknown));
}

/// The same frames in every spelling of columns and times.
#[test]
fn versions_and_units_agree() {
    let expected = read(&table(TWO, &FRAMES));
    let default =
        "CPUStartTime,MsCPUBusy,MsCPUWait,MsGPULatency,MsGPUTime,MsGPUBusy,MsUntilDisplayed";
    let starts = |times: [&str; 3]| times.map(|time| format!("{time},9,1,4,7,2,5"));
    let one = "Dropped,TimeInSeconds,msInPresentAPI,msBetweenPresents,msUntilRenderStart,\
               msUntilRenderComplete,msGPUActive,msUntilDisplayed";
    let presents = |times: [&str; 3]| times.map(|time| format!("0,{time},1,10,-5,2,2,5"));
    let tables = [
        table(default, &starts(["5", "15", "25"])),
        // Early releases wrote seconds.
        table(default, &starts(["0.005", "0.015", "0.025"])),
        table(
            &default.replace("CPUStartTime", "CPUStartQPCTime"),
            &starts(["9005", "9015", "9025"]),
        ),
        table(
            &default.replace("CPUStartTime", "CPUStartQPC"),
            &starts(["50000", "150000", "250000"]),
        ),
        // A counter of 3 MHz.
        table(
            &default.replace("CPUStartTime", "CPUStartQPC"),
            &starts(["15000", "45000", "75000"]),
        ),
        table(
            &default.replace("CPUStartTime", "CPUStartDateTime"),
            &starts([
                "2024-2-29 23:59:59.990000000",
                "2024-3-1 0:00:00.000000000",
                "2024-03-01T00:00:00.01Z",
            ]),
        ),
        table(one, &presents(["0.014", "0.024", "0.034"])),
        table(&one.replace("TimeInSeconds", "TimeInMs"), &presents(["14", "24", "34"])),
    ];
    for text in tables {
        let workload = read(&text);
        assert_eq!(work(&workload), work(&expected), "{text}");
        assert_eq!(words(&workload, 0), words(&expected, 0), "{text}");
        assert_eq!(workload.display, expected.display, "{text}");
    }
}

#[test]
fn dropped_generated_and_empty_frames() {
    let columns = format!("FrameType,{TWO}");
    let rows = [
        "Application,5,9,1,4,7,2,14",
        "Intel XeSS-FG,NA,NA,NA,NA,NA,NA,19",
        "Application,15,9,1,NA,NA,NA,NA",
        "Application,25,9,1,4,0,0,14",
    ];
    let workload = read(&table(&columns, &rows));
    let report = report(&workload);
    assert_eq!((report.events, report.kernels, report.damage.count), (4, 1, 0));
    assert_eq!((report.presents, report.presents_shown), (3, 2));
    assert!(report.remarks.contains(&Remark::GeneratedFrames { frames: 1 }));
    // Version 1 says it in a separate column, and writes 0 for what is not there.
    let one = "Dropped,TimeInSeconds,msInPresentAPI,msBetweenPresents,msUntilRenderStart,\
               msUntilRenderComplete,msGPUActive,msUntilDisplayed";
    let workload = read(&table(one, &["1,0.014,1,10,-5,2,2,5", "0,0.024,1,10,-5,2,2,0"]));
    assert_eq!((self::report(&workload).presents_shown, workload.display.is_none()), (0, true));
    assert!(self::report(&workload).remarks.contains(&Remark::NothingShown));
    assert!(workload.buffers.is_empty() && workload.queues[0].submission.is_none());
}

#[test]
fn the_swap_chain_with_most_frames_on_the_screen_has_the_display() {
    let mut text = table(TWO, &FRAMES);
    for row in ["6,9,1,4,7,2,14", "16,9,1,4,7,2,NA"] {
        text += &format!("dwm.exe,7,0xB0,1,x,{row}\ndwm.exe,7,0xC0,-1,x,{row}\n");
    }
    let workload = read(&text);
    let report = report(&workload);
    assert_eq!((report.streams, report.presents, report.presents_replayed), (3, 7, 3));
    assert!(report.remarks.contains(&Remark::ChainsWithoutDisplay { chains: 2 }));
    let names: Vec<&str> = workload.queues.iter().map(|queue| queue.name.as_str()).collect();
    let chains = ["process 12 game.exe", "process 7 dwm.exe 0xB0", "process 7 dwm.exe 0xC0"];
    assert_eq!(names, chains);
    assert_eq!(workload.display.as_ref().unwrap().queue.0, 0);
    assert_eq!(workload.queues[1].engine, EngineKind::Compute);
}

#[test]
fn a_long_present_call_waited_for_work_for_the_screen_or_for_something_else() {
    // The call of the second frame returns 50 us after the work of the first ends, at 19 ms. That
    // of the third returns when the second is shown, and the present of the fourth with nothing.
    let rows = [
        "0,5,0.5,4,15,2,100",
        "5.5,5,8.55,13,20,2,40",
        "19.05,5,21.5,13,40,2,120",
        "45.55,5,8,13,40,2,120",
    ];
    let workload = read(&table(TWO, &rows));
    let report = report(&workload);
    assert_eq!((report.presents_for_work, report.presents_for_display), (1, 1));
    assert_eq!((report.syncs_unresolved, report.syncs_unresolved_ns), (1, 8_000_000));
    let words = words(&workload, 0);
    let after = |present: usize| {
        let at = words.iter().enumerate().filter(|(_, word)| word.starts_with("present"));
        let at = at.map(|(at, _)| at).nth(present).unwrap();
        words[at + 1..].iter().take(3).cloned().collect::<Vec<_>>()
    };
    assert_eq!(after(1)[1], "wait", "{words:?}");
    assert!(words.iter().any(|word| word == "present 1 until 40570"), "{words:?}");
    assert!(after(3)[1].starts_with("blocked"), "{words:?}");
}

#[test]
fn malformed_rows_are_named_with_line_and_column() {
    let rows = ["5,9,1,4,7,2,14", "15,x,1,4,7,2,14", "25,9,-1,4,7,2,14", "35", "NA,9,1,4,7,2,14"];
    let workload = read(&table(TWO, &rows));
    assert_eq!(report(&workload).kernels, 1);
    assert_eq!(
        report(&workload).damage.lines(),
        [
            "4 damaged events are left out:",
            "  line 3, column 7, 'game.exe': CPUBusy x is not a finite number",
            "  line 4, column 8, 'game.exe': CPUWait -1 is below zero",
            "  line 5, column 8, 'game.exe': CPUWait is missing",
            "  line 6, column 6, 'game.exe': CPUStartTime is missing",
        ]
    );
    let process = table(TWO, &FRAMES).replace("game.exe,12", "game.exe,twelve");
    let text = refused(&process);
    assert!(text.contains("line 2, column 2, 'game.exe': ProcessID twelve"), "{text}");
    let long = table(TWO, &["5,9,1,4,99999999999,2,14"]);
    assert!(refused(&long).contains("GPUTime 99999999999 is longer than 24 h"));
}

#[test]
fn a_header_without_a_needed_column_is_refused_with_the_next_step() {
    let without_gpu = table("CPUStartTime,CPUBusy,CPUWait,DisplayLatency", &["5,9,1,14"]);
    let text = refused(&without_gpu);
    assert!(text.contains("no column GPULatency; record with PresentMon without --no_track_gpu"));
    let text = refused(&table("CPUBusy,CPUWait", &["9,1"]));
    assert!(text.contains("no column CPUStartTime or TimeInSeconds"), "{text}");
    let text = refused(&table(TWO, &[] as &[&str]));
    assert!(text.contains("no GPU work among 0 events") && text.contains("PresentMon"), "{text}");
}
