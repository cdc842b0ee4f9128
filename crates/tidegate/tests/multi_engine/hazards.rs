//! The hazard check on the ready workloads: silent as they stand, and naming the edge when one of
//! their waits is left out.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate::platform::hazard::Report;
use tidegate::workload::expect::Clock;
use tidegate::workload::model::Workload;
use tidegate::workload::{LoadOptions, load_bytes};
use tidegate::{RunRequest, Submission, d3d12::Validation, run_workload};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads")
}

fn load(file: &Path) -> Workload {
    let bytes = std::fs::read(file).unwrap();
    let name = file.file_name().unwrap().to_string_lossy();
    let loaded = load_bytes(&bytes, &name, &LoadOptions::default());
    loaded.unwrap_or_else(|error| panic!("{}: {error}", file.display())).0
}

fn check(workload: Workload, submission: Option<Submission>) -> Report {
    let request = RunRequest {
        submission,
        validation: Validation::HAZARDS,
        ..RunRequest::new(Arc::new(workload), Clock::Virtual)
    };
    run_workload(&request).unwrap().hazards.expect("the check was on")
}

#[test]
fn the_ready_workloads_have_no_hazard() {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    assert!(files.len() > 10);
    for file in files {
        let report = check(load(&file), None);
        eprintln!("{}: {} hints: {:#?}", file.display(), report.hazards.len(), report.hints);
        assert!(report.is_clean(), "{}:\n{report}", file.display());
    }
}

/// A workload, one of its waits, and the timelines of the edge that the wait makes.
type Removed = (&'static str, &'static str, Option<[&'static str; 2]>);

const WAITS: [Removed; 12] = [
    ("frame-graph.toml", "wait = \"copy_fence\", value = 101", Some(["copy", "render"])),
    ("frame-graph.toml", "wait = \"compute_fence\", value = 301", Some(["compute", "render"])),
    ("frame-graph.toml", "wait = \"copy_fence\", value = 102", Some(["copy", "render"])),
    ("frame-graph.toml", "wait = \"render_fence\", value = 201", Some(["render", "compute"])),
    (
        "pipelined-compute-graphics.toml",
        "wait = \"graphics_fence\", queue = \"compute\", value = \"frame - compute_graphics_latency\"",
        Some(["graphics", "compute"]),
    ),
    (
        "pipelined-compute-graphics.toml",
        "wait = \"compute_fence\", queue = \"graphics\", value = \"frame - compute_graphics_latency\"",
        Some(["compute", "graphics"]),
    ),
    // It limits how far the thread runs ahead, and orders no access.
    (
        "pipelined-compute-graphics.toml",
        "cpu_wait = \"compute_fence\", value = \"frame - cpu_latency\"",
        None,
    ),
    (
        "async-compute-graphics.toml",
        "wait = \"graphics_compute_fence\", queue = \"compute\", value = \"compute_frame - compute_graphics_latency\"",
        Some(["graphics", "compute"]),
    ),
    ("ring-buffer.toml", "wait = \"fence1\", value = \"i - length\"", Some(["render", "copy"])),
    ("ring-buffer.toml", "wait = \"fence2\", value = \"i\"", Some(["copy", "render"])),
    (
        "streaming-upload.toml",
        "cpu_wait = \"uploaded\", value = \"t - slots\"",
        Some(["copy", "copy"]),
    ),
    (
        "streaming-upload.toml",
        "wait = \"uploaded\", value = \"frame * (tiles / frames)\"",
        None, // The renderer's work is timed: it accesses nothing.
    ),
];

/// The workload with a wait for 0, which is no edge, in the place of one of its waits.
fn without(file: &str, wait: &str) -> Workload {
    let mut text = std::fs::read_to_string(folder().join(file)).unwrap();
    if let Some(value) = wait.rfind("value = ") {
        assert_eq!(text.matches(wait).count(), 1, "{file}: {wait}");
        text = text.replace(wait, &format!("{}value = 0", &wait[..value]));
    }
    let text = text.replace("width = 1600", "width = 160").replace("height = 900", "height = 90");
    load_bytes(text.as_bytes(), file, &LoadOptions::default()).unwrap().0
}

// spec: ME-073, ME-074
#[test]
fn each_wait_that_is_left_out_is_named_and_no_other_queue() {
    let mut wrong = Vec::new();
    for (file, wait, edge) in WAITS {
        for submission in Submission::ALL {
            let report = check(without(file, wait), Some(submission));
            let found: Vec<[&str; 2]> = report
                .hazards
                .iter()
                .map(|hazard| [&*hazard.first.timeline, &*hazard.second.timeline])
                .collect();
            let right = match edge {
                None => found.is_empty(),
                // Without the wait a writer may run several rounds ahead, so a pair of the two queues
                // is also reported with the other direction.
                Some([from, to]) => {
                    found.contains(&[from, to])
                        && found.iter().all(|f| *f == [from, to] || *f == [to, from])
                }
            };
            if !right {
                wrong.push(format!("{file} ({submission}) without {wait}: {found:?}\n{report}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_missing_edge_is_on_the_timeline_between_the_two_commands() {
    let workload = Arc::new(without("ring-buffer.toml", "wait = \"fence2\", value = \"i\""));
    for submission in Submission::ALL {
        let request = RunRequest {
            submission: Some(submission),
            validation: Validation::HAZARDS,
            tracing: true,
            ..RunRequest::new(Arc::clone(&workload), Clock::Virtual)
        };
        let run = run_workload(&request).unwrap();
        let (report, trace) = (run.hazards.unwrap(), run.trace.unwrap());
        assert_eq!(trace.findings.len(), report.hazards.len(), "{submission}");
        for (finding, hazard) in trace.findings.iter().zip(&report.hazards) {
            assert_eq!(finding.text, hazard.to_string());
            let [edge] = finding.edges[..] else { panic!("{submission}: {finding:?}") };
            for (index, side) in [(edge.from, &hazard.first), (edge.to, &hazard.second)] {
                let record = &trace.records[index];
                assert_eq!(record.link.0, side.link, "{submission}: {finding:?}");
                let queue = record.queue.unwrap_or(record.lane);
                assert_eq!(trace.lanes[queue.0 as usize].name, side.timeline, "{submission}");
            }
        }
    }
}
