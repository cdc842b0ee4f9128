//! Peak memory of the import of a large trace, and its two arrangements. The only test of its
//! process: the peak is the whole process's.

use std::io::BufWriter;

mod generated;

use generated::Trace;
use tidegate_workload::recording::ImportOptions;
use tidegate_workload::{LoadOptions, load, load_fitted};

/// Most bytes of memory per event of the file, peak of the import.
const MOST_BYTES: u64 = 300;
const EVENTS: u64 = 120_000;

/// The largest resident size of this process so far, in bytes.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux says it");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    let kib =
        line.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok()).expect("a number");
    kib << 10
}

#[test]
fn an_import_takes_at_most_300_bytes_an_event() {
    let folder = std::env::temp_dir().join(format!("tidegate-large-trace-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("large.json");
    let mut trace = Trace::new(EVENTS);
    let mut file = BufWriter::new(std::fs::File::create(&path).unwrap());
    std::io::copy(&mut trace, &mut file).unwrap();
    drop(file);
    let before = peak_bytes();
    let mut launch_ns = 0;
    // As the command line reads: the first arrangement measures the recorded machine.
    let read = load_fitted(&path, &LoadOptions::default(), &mut |report| {
        launch_ns = report.median_launch_ns;
        ImportOptions { launch_ns, call_ns: 700, ..ImportOptions::default() }
    });
    let per_event = (peak_bytes() - before) / trace.events;
    let import = ImportOptions { launch_ns, call_ns: 700, ..ImportOptions::default() };
    let again = load(&path, &LoadOptions { import, ..LoadOptions::default() });
    std::fs::remove_dir_all(&folder).unwrap();
    let (workload, _) = read.unwrap();
    let recorded = workload.recorded.as_ref().unwrap();
    assert!((3_501..=4_400).contains(&launch_ns), "work starts {launch_ns} ns after its launch");
    assert!(workload == again.unwrap().0, "a reading with the chosen options is another workload");
    assert_eq!((recorded.report.events, recorded.report.kernels), (trace.events, trace.kernels));
    println!("{per_event} bytes an event at the peak of the import");
    assert!(
        per_event <= MOST_BYTES,
        "{per_event} bytes an event, and at most {MOST_BYTES} are right"
    );
}
