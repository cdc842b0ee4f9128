//! Reads Perfetto files back with the public schema.
//!
//! Needs `TIDEGATE_PERFETTO_PYTHON`: a Python interpreter that has the package `perfetto`. Without
//! it each test prints one line and passes; the unit tests check the same bytes with a decoder of
//! their own.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use tidegate_trace::{Trace, perfetto};

mod sample;

const CHECK: &str = include_str!("perfetto_schema.py");

fn check(trace: &Trace, name: &str) {
    let Some(python) = std::env::var_os("TIDEGATE_PERFETTO_PYTHON") else {
        println!("skipped: TIDEGATE_PERFETTO_PYTHON names no Python with the package perfetto");
        return;
    };
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("perfetto");
    fs::create_dir_all(&directory).unwrap();
    let file = directory.join(format!("{name}.pftrace"));
    perfetto::write(trace, File::create(&file).unwrap()).unwrap();
    let output = Command::new(python)
        .args(["-c", CHECK])
        .arg(&file)
        .output()
        .expect("the interpreter starts");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    let counts: Vec<usize> = said.split_whitespace().map(|n| n.parse().unwrap()).collect();
    let events = trace.records.len() + trace.findings.len() + usize::from(trace.lost_records > 0);
    let start = |index: usize| trace.records[index].start_ns;
    let missing = trace.findings.iter().flat_map(|finding| &finding.edges);
    let missing = missing.filter(|edge| start(edge.from) != start(edge.to)).count();
    let chains = trace.chains().iter().filter(|chain| chain.records().count() > 1).count();
    let counters = trace.queue_depths().into_iter().chain(trace.engine_loads());
    let values: usize = counters.map(|counter| counter.samples.len()).sum();
    assert_eq!(counts, [events, trace.flows().len() + chains + missing, values]);
}

#[test]
fn a_frame_graph_is_a_perfetto_trace() {
    check(&sample::frames(6), "frames");
    check(&sample::unsynchronised(), "findings");
}

#[test]
fn so_are_the_large_the_awkward_and_the_empty_one() {
    check(&sample::large(20_000, 40), "large");
    check(&sample::awkward(), "awkward");
    check(&sample::empty(), "empty");
}
