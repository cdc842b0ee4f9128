//! Every workload of the project under every submission model, in virtual time: its timeline holds no contradiction, and shows
//! the busy time that the report counts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate::trace::{LaneId, LaneKind, Trace};
use tidegate::workload::expect::Clock;
use tidegate::workload::report::Report;
use tidegate::workload::{LoadOptions, load};
use tidegate::{RunRequest, Submission, run_workload};

fn workload_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect()
}

/// Lane and counted busy time of each queue of the report.
fn counted(trace: &Trace, report: &Report) -> Vec<(LaneId, u64)> {
    let lane = |name: &str| {
        let mut lanes = trace.lanes.iter().filter(|l| l.kind == LaneKind::Queue && l.name == name);
        lanes.next().unwrap_or_else(|| panic!("queue '{name}' has no lane")).id
    };
    report.queues.iter().map(|queue| (lane(&queue.name), queue.busy_ns)).collect()
}

#[test]
fn no_timeline_contradicts_itself_or_its_report() {
    for path in workload_files() {
        let workload = Arc::new(load(&path, &LoadOptions::default()).unwrap().0);
        for submission in [Submission::Packet, Submission::Hardware, Submission::User] {
            // User-mode queues present nothing.
            if workload.display.is_some() && submission == Submission::User {
                continue;
            }
            let request = RunRequest {
                submission: Some(submission),
                tracing: true,
                ..RunRequest::new(workload.clone(), Clock::Virtual)
            };
            let which = format!("{} under {submission}", workload.name);
            let result = run_workload(&request).unwrap_or_else(|e| panic!("{which}: {e}"));
            let trace = result.trace.expect("a timeline was asked for");
            let mut found = trace.contradictions();
            found.extend(trace.busy_contradictions(&counted(&trace, &result.outcome.report)));
            let found: Vec<String> = found.into_iter().map(|what| trace.explain(what).to_string()).collect();
            assert!(found.is_empty(), "{which}:\n{}", found.join("\n"));
        }
    }
}
