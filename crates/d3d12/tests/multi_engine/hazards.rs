//! The hazard check on the ready workloads: silent as they stand, and naming the edge when one of
//! their waits is left out.

use Says::{Missing, Nothing};
use std::path::{Path, PathBuf};
use tidegate::platform::hazard::{Hazard, Report};
use tidegate::run_workload;
use tidegate::workload::load_bytes;
use tidegate_testbed::prelude::*;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads")
}

fn workloads() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    assert!(files.len() > 10);
    files
}

fn name_of(file: &Path) -> &str {
    file.file_name().unwrap().to_str().unwrap()
}

/// The text of a workload. The pictures of the frame graph are small.
fn text_of(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    text.replace("width = 1600", "width = 160").replace("height = 900", "height = 90")
}

fn load(text: &str, name: &str) -> Workload {
    let loaded = load_bytes(text.as_bytes(), name, &LoadOptions::default());
    loaded.unwrap_or_else(|error| panic!("{name}: {error}")).0
}

/// The models that a workload runs in. A user-mode queue presents nothing.
fn models(name: &str) -> impl Iterator<Item = Submission> {
    let presents = name == "presenting.toml";
    Submission::ALL.into_iter().filter(move |model| !presents || *model != Submission::User)
}

fn check(workload: Workload, submission: Submission) -> Report {
    let request = RunRequest {
        submission: Some(submission),
        validation: Validation::HAZARDS,
        ..RunRequest::new(Arc::new(workload), Clock::Virtual)
    };
    run_workload(&request).unwrap().hazards.expect("the check was on")
}

/// The true hints on the ready workloads.
const HINTS: [(&str, &str); 1] = [(
    "async-compute-graphics.toml",
    // The last compute frame waits for a signal behind the last graphics frame.
    "'application' waits for fence 'graphics_fence' where earlier waits imply it: 1 of 1 waits, \
     first for 30; leave it out",
)];

#[test]
fn the_ready_workloads_have_no_hazard_and_no_hint_that_is_not_true() {
    let mut wrong = Vec::new();
    for file in workloads() {
        let name = name_of(&file);
        for submission in models(name) {
            let report = check(load(&text_of(&file), name), submission);
            let hints: Vec<String> = report.hints.iter().map(ToString::to_string).collect();
            let expected: Vec<&str> =
                HINTS.iter().filter(|(of, _)| *of == name).map(|(_, hint)| *hint).collect();
            let is_right = report.is_clean() && report.unsignalled.is_empty();
            if !is_right || hints != expected {
                wrong.push(format!("{name} ({submission}): {hints:#?}\n{report}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// Recordings have no buffers: nothing of them may look like an access.
#[test]
fn imported_traces_have_no_hazard() {
    let Some(folder) = std::env::var_os("TIDEGATE_TRACES").map(PathBuf::from) else {
        println!("skipped: TIDEGATE_TRACES is not set, so there are no recorded traces to check");
        return;
    };
    let (mut checked, mut wrong) = (0, Vec::new());
    for folder in [folder.clone(), folder.join("../trace-samples")] {
        for file in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            // Some samples are of formats that no importer reads.
            let Ok((workload, _)) = tidegate::workload::load(&file, &LoadOptions::default()) else {
                println!("skipped: {} is no recording that is read", file.display());
                continue;
            };
            checked += 1;
            // A user-mode queue presents nothing.
            let presents = workload.display.is_some();
            let models = Submission::ALL.into_iter();
            for submission in models.filter(|model| !presents || *model != Submission::User) {
                let report = check(workload.clone(), submission);
                if !report.is_clean() {
                    wrong.push(format!("{} ({submission}):\n{report}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked >= 14, "{checked} recordings");
}

/// What the check must say when a wait is left out.
#[derive(Clone, Copy, Debug)]
enum Says {
    /// Each finding names a wait of the second for a signal of the first, on the fence of the wait.
    Missing(&'static str, &'static str),
    /// Nothing: no access depends on the wait, for this reason.
    Nothing(&'static str),
}

const PACE: &str = "it limits how far the thread runs ahead, and its own work touches no bytes";
const END: &str = "nothing comes behind it";
const MODELLED: &str = "modelled work touches no bytes";

/// Each wait of each ready workload, in the order of the files: its fence and value.
const WAITS: [(&str, &[(&str, Says)]); 16] = [
    (
        "async-compute-graphics.toml",
        &[
            ("compute_fence 1", Missing("compute", "graphics")),
            (
                "graphics_compute_fence compute_frame - compute_graphics_latency",
                Missing("graphics", "compute"),
            ),
            ("compute_fence compute_frame", Nothing(END)),
            ("graphics_fence graphics_frame", Nothing(END)),
        ],
    ),
    ("async-low-priority.toml", &[("rendered frame - 2", Nothing(PACE))]),
    ("background-compute.toml", &[("rendered frame", Nothing(PACE))]),
    ("decode-deep-queues.toml", &[("presented frame", Nothing(PACE))]),
    (
        "frame-graph.toml",
        &[
            ("copy_fence 101", Missing("copy", "render")),
            ("compute_fence 301", Missing("compute", "render")),
            ("copy_fence 102", Missing("copy", "render")),
            ("render_fence 201", Missing("render", "compute")),
        ],
    ),
    ("hello.toml", &[("done 1", Nothing(END))]),
    (
        "high-priority-compute.toml",
        &[("rendered frame - 3", Nothing(PACE)), ("answered k", Nothing(PACE))],
    ),
    (
        "larger-than-memory.toml",
        &[
            ("mirrored tiles", Missing("mirror", "fill")),
            ("filled k + 1", Missing("fill", "mirror")),
            ("filled 2 * tiles", Nothing("the copies behind it read what the same queue wrote")),
        ],
    ),
    (
        "pipelined-compute-graphics.toml",
        &[
            ("graphics_fence frame - compute_graphics_latency", Missing("graphics", "compute")),
            ("compute_fence frame - cpu_latency", Nothing(PACE)),
            ("compute_fence frame - compute_graphics_latency", Missing("compute", "graphics")),
        ],
    ),
    ("presenting.toml", &[("bursts burst", Nothing(PACE)), ("done 1", Nothing(END))]),
    ("priorities.toml", &[("drawn frame - 3", Nothing(PACE)), ("answered k", Nothing(PACE))]),
    (
        "ring-buffer.toml",
        &[
            ("fence1 i - length", Missing("render", "copy")),
            ("fence2 i", Missing("copy", "render")),
        ],
    ),
    (
        "streaming-upload.toml",
        &[
            ("uploaded t - slots", Missing("copy", "copy")),
            ("uploaded frame * (tiles / frames)", Nothing("the frames are timed work")),
        ],
    ),
    (
        "stress-many-queues.toml",
        &[
            ("link[index] round", Nothing("each queue has a word of its own")),
            ("link[0] rounds + 1", Nothing(END)),
        ],
    ),
    (
        "transcode.toml",
        &[
            ("encoded n - places", Nothing(MODELLED)),
            ("decoded n", Nothing(MODELLED)),
            ("filtered n", Nothing(MODELLED)),
        ],
    ),
    (
        "wait-before-signal.toml",
        &[
            // The signal of `third` with 30 then satisfies the wait of `second` for 10 too early.
            ("chained 20", Missing("first", "second")),
            ("chained 10", Missing("first", "second")),
            ("link 1", Missing("bystander", "first")),
            ("permission 1", Nothing("the thread that signals it touches no bytes")),
            ("free 1", Nothing("the signal behind it is of the queue that it waits for")),
            ("chained 30", Nothing(END)),
        ],
    ),
];

/// A wait in the text of a workload.
struct Wait {
    fence: String,
    value: String,
    /// Where its value is, with the quotes of an expression.
    at: std::ops::Range<usize>,
}

/// Finds the waits of queues and threads in a text. A wait for any of several fences is no certain
/// edge of one of them, and is left as it is.
fn waits(text: &str) -> Vec<Wait> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut any = false;
    for line in text.split_inclusive('\n') {
        let code = line.split_once('#').map_or(line, |(code, _)| code);
        any = (any || code.contains("cpu_wait_any")) && !code.contains("],");
        let key = ["wait = \"", "{ fence = \""].iter().find_map(|key| {
            let at = code.find(key)?;
            Some(at + key.len())
        });
        if let Some(at) = key.filter(|_| !any) {
            let fence = code[at..].split('"').next().unwrap().to_owned();
            let value_at = at + code[at..].find("value = ").unwrap() + "value = ".len();
            let rest = &code[value_at..];
            let length = match rest.strip_prefix('"') {
                Some(expression) => expression.find('"').unwrap() + 2,
                None => rest.find(|c: char| !c.is_ascii_digit()).unwrap(),
            };
            let value = rest[..length].trim_matches('"').to_owned();
            let at = start + value_at..start + value_at + length;
            found.push(Wait { fence, value, at });
        }
        start += line.len();
    }
    found
}

/// The timelines between which a finding misses a wait, and the fence that it would use.
fn edge_of(hazard: &Hazard) -> (&str, &str, Option<&str>) {
    let signal = hazard.signal.as_ref();
    let from = signal.map_or(&hazard.first.timeline, |signal| &signal.timeline);
    (from, &hazard.second.timeline, signal.map(|signal| &*signal.fence))
}

// spec: ME-073, ME-074
#[test]
fn each_wait_that_is_left_out_is_named_and_no_other() {
    let mut wrong = Vec::new();
    for file in workloads() {
        let (name, text) = (name_of(&file), text_of(&file));
        let of_file = WAITS.iter().find(|(of, _)| *of == name);
        let expected = of_file.unwrap_or_else(|| panic!("no waits of {name} are listed")).1;
        let found = waits(&text);
        let listed: Vec<String> =
            found.iter().map(|wait| format!("{} {}", wait.fence, wait.value)).collect();
        let names: Vec<&str> = expected.iter().map(|(wait, _)| *wait).collect();
        assert_eq!(listed, names, "{name}");
        for (wait, (_, says)) in found.iter().zip(expected) {
            // A wait for 0 is not an edge.
            let mut without = text.clone();
            without.replace_range(wait.at.clone(), "0");
            for submission in models(name) {
                let report = check(load(&without, name), submission);
                let (right, why) = match says {
                    Nothing(why) => (report.is_clean(), *why),
                    Missing(from, to) => {
                        let edge = (*from, *to, Some(&*wait.fence));
                        let all = report.hazards.iter().all(|of| edge_of(of) == edge);
                        (all && !report.is_clean(), "it is an edge")
                    }
                };
                if !right {
                    let (fence, value) = (&wait.fence, &wait.value);
                    let which = format!("{name} ({submission}) without {fence} {value}");
                    wrong.push(format!("{which}: {why}, {says:?}\n{report}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_missing_edge_is_on_the_timeline_between_the_two_commands() {
    let text = text_of(&folder().join("ring-buffer.toml"));
    let wait = waits(&text).into_iter().find(|wait| wait.fence == "fence2").unwrap();
    let mut without = text.clone();
    without.replace_range(wait.at, "0");
    let workload = Arc::new(load(&without, "ring-buffer.toml"));
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
                let kind = trace.lanes[record.lane.0 as usize].kind;
                assert_eq!(kind, LaneKind::Engine, "{submission}: a command, not its list");
                let queue = record.queue().unwrap_or(record.lane);
                assert_eq!(trace.lanes[queue.0 as usize].name, side.timeline, "{submission}");
            }
        }
    }
}

/// Reads back what a device has copied, with or without a wait for the copy. Returns the number of
/// hazards in the report of that device.
fn read_back(machine: &Machine, waits: bool) -> usize {
    let found = machine.run(|| {
        let options = DeviceOptions::new("reads back").validation(Validation::HAZARDS);
        let device = machine.device(options).unwrap();
        let queue = device.create_queue(QueueDesc::copy("copies")).unwrap();
        let fence = device.create_fence("copied", 0).unwrap();
        let from = device.create_buffer(BufferDesc::new("from", 4096)).unwrap();
        let to = device.create_buffer(BufferDesc::readback("to", 4096)).unwrap();
        device.execute(&queue, |list| list.copy(&to, 0, &from, 0, 4096));
        queue.signal(&fence, 1).unwrap();
        if waits {
            fence.wait(1).unwrap();
        }
        to.read(0, &mut [0; 4096]).unwrap();
        fence.wait(1).unwrap();
        device.hazards().unwrap().hazards.len()
    });
    found.unwrap()
}

#[test]
fn the_report_of_a_device_has_nothing_of_other_devices_and_machines() {
    let platform = Platform::virtual_time(StepCosts::free());
    let new_machine = || Machine::new(&platform, MachineConfig::standard(&platform)).unwrap();
    let machine = new_machine();
    assert_eq!([false, true, false, true].map(|waits| read_back(&machine, waits)), [1, 0, 1, 0]);
    assert_eq!(read_back(&new_machine(), true), 0, "on another machine of the platform");
    let of_all = platform.hazard_report().unwrap();
    assert_eq!(of_all.hazards.len(), 2, "the report of the platform has all of them");
}
