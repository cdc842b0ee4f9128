//! The workloads that come with the project, and the bad ones that must be refused well.

use std::path::{Path, PathBuf};

use tidegate_workload::expect::{Expectation, Metric};
use tidegate_workload::model::{EngineKind, OpKind, Priority, Workload};
use tidegate_workload::{LoadOptions, Loaded, load};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads")
}

fn read(name: &str) -> Workload {
    let (workload, kind) = load(&folder().join(name), &LoadOptions::default())
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(kind, Loaded::Toml);
    workload
}

/// The problems of a bad file, without its folder.
fn refused(name: &str) -> String {
    let path = folder().join("bad").join(name);
    let error = load(&path, &LoadOptions::default()).expect_err(name).to_string();
    assert!(error.lines().count() <= 21, "more than one screen:\n{error}");
    error.replace(&format!("{}/", folder().join("bad").display()), "")
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".toml"))
        .collect();
    names.sort();
    names
}

#[test]
fn every_workload_can_be_read_says_its_point_and_expects_something() {
    let names = files(&folder());
    assert_eq!(names.len(), 16, "{names:?}");
    for name in names {
        let workload = read(&name);
        assert!(!workload.description.is_empty(), "{name}");
        assert!(!workload.expects.is_empty(), "{name}");
        assert!(workload.warnings.is_empty(), "{name}: {:?}", workload.warnings);
        let text = std::fs::read_to_string(folder().join(&name)).unwrap();
        assert!(text.starts_with("# "), "{name} begins with its point");
        assert!(text.contains("# The point:"), "{name} says its point");
    }
}

#[test]
fn the_frame_graph_uses_three_engines_and_the_documents_values() {
    let workload = read("frame-graph.toml");
    let engines: Vec<EngineKind> = workload.queues.iter().map(|queue| queue.engine).collect();
    assert_eq!(engines, [EngineKind::Copy, EngineKind::ThreeD, EngineKind::Compute]);
    assert_eq!(workload.frames.len(), 1);
    assert_eq!(workload.frames[0].file, "frame.png");
    let mut signals = Vec::new();
    for op in workload.threads.iter().flat_map(|thread| thread.body.iter()) {
        if let OpKind::Signal { value, .. } = &op.kind {
            signals.push(value.constant().unwrap());
        }
    }
    signals.sort_unstable();
    assert_eq!(signals, [101, 102, 201, 202, 301]);
}

#[test]
fn each_scenario_has_the_number_that_shows_its_point() {
    let number = |name: &str| -> Vec<Metric> {
        let metric = |what: &Expectation| match what {
            Expectation::Metric { metric, at_least, at_most, .. } => {
                assert!(at_least.is_some() || at_most.is_some(), "{name}");
                Some(*metric)
            }
            _ => None,
        };
        read(name).expects.iter().filter_map(|expect| metric(&expect.what)).collect()
    };
    assert!(number("async-low-priority.toml").contains(&Metric::BlockedNs));
    assert!(number("high-priority-compute.toml").contains(&Metric::QueueLatencyMaxNs));
    assert!(number("background-compute.toml").contains(&Metric::QueueLatencyNs));
    assert!(number("streaming-upload.toml").contains(&Metric::OverlapNs));
    assert!(number("decode-deep-queues.toml").contains(&Metric::InFlightMax));
}

#[test]
fn priorities_and_engines_of_the_scenarios() {
    let high = read("high-priority-compute.toml");
    assert_eq!(
        high.queues[0].engine, high.queues[1].engine,
        "only then there is something to interrupt"
    );
    assert_eq!(high.queues[1].priority, Priority::High);
    assert_eq!(read("background-compute.toml").queues[1].priority, Priority::Idle);
    assert_eq!(read("stress-many-queues.toml").queues.len(), 300);
}

#[test]
fn bad_input_that_only_a_run_can_find_is_read() {
    for name in ["bad/deadlock.toml", "bad/never-signalled.toml", "bad/page-fault.toml"] {
        assert!(!read(name).threads.is_empty(), "{name}");
    }
}

#[test]
fn slips_are_told_with_line_and_suggestion() {
    assert_eq!(
        refused("unknown-fields.toml"),
        "unknown-fields.toml:4:1: unknown field 'descripton' in the workload; did you mean 'description'?\n\
         unknown-fields.toml:9:1: unknown field 'sized' in [[buffer]]; there are: bytes, content, count, fill, name, \
         random_f32, sequence_f32, sequence_u32, values_f32, values_u32\n\
         unknown-fields.toml:14:1: [[queue]] needs the field 'engine'\n\
         unknown-fields.toml:16:1: unknown field 'enigne' in [[queue]]; did you mean 'engine'?\n\
         unknown-fields.toml:18:5: 'copy' needs the field 'to'\n\
         unknown-fields.toml:18:19: unknown field 'too' in 'copy'; did you mean 'to'?\n\
         unknown-fields.toml:19:17: unknown fence 'dome'; did you mean 'done'?\n\
         unknown-fields.toml:20:5: 'wiat' is no operation; did you mean 'wait'?\n\
         unknown-fields.toml:21:15: unknown buffer 'missing'; there are: a\n\
         unknown-fields.toml:22:33: unknown name 'lenght'; there are: index"
    );
}

#[test]
fn lengths_of_nothing_and_of_everything_are_refused() {
    let text = refused("lengths.toml");
    for (line, words) in [
        (":7:", "a buffer of 0 bytes"),
        (":11:", "9223372036854775808 is too large; the largest possible is 4294967296"),
        (":15:", "must be a multiple of 4"),
        (":25:", "a length of 0 bytes does nothing"),
        (":26:", "a length of 9223372036854775808 bytes; the largest buffer has 4294967296"),
        (":27:", "a length of -4 bytes; give a positive one"),
    ] {
        assert!(
            text.lines().any(|l| l.contains(line) && l.contains(words)),
            "{line} {words} in:\n{text}"
        );
    }
}

#[test]
fn engines_refuse_what_they_cannot_do() {
    let text = refused("wrong-engine.toml");
    assert!(
        text.contains(
            ":13:5: a dispatch needs a queue with engine = \"compute\"; 'copy' has \"copy\""
        ),
        "{text}"
    );
    assert!(
        text.contains(
            ":20:5: a draw needs a queue with engine = \"3d\"; 'compute' has \"compute\""
        ),
        "{text}"
    );
}

#[test]
fn files_that_are_not_whole_say_where_they_end() {
    assert!(refused("syntax.toml").starts_with("syntax.toml:3:"));
    let text = refused("truncated.json");
    assert!(
        text.contains("line 3") && text.contains("cut short") && text.contains("after 1 events"),
        "{text}"
    );
    assert!(refused("not-a-trace.json").contains("no \"traceEvents\""));
    assert!(refused("there-is-no-such-file.toml").contains("check the path"));
    let folder = load(&self::folder(), &LoadOptions::default()).unwrap_err().to_string();
    assert!(folder.contains("a folder"), "{folder}");
}
