//! Tables of kernels: files, sums by name, and the difference of two traces. Expected figures come
//! from the traces as made here.

use crate::{place, printed, ran, refused, root, text, tidegate};
use serde_json::{Value, json};
use std::path::Path;

/// A kernel: name, start and length in µs, stream.
type Kernel = (&'static str, u64, u64, u64);

/// Each kernel is launched 10 µs before its start, by a call of 4 µs.
const BEFORE: &[Kernel] = &[
    ("gemm<float, 4>", 100, 30, 7),
    ("softmax", 140, 10, 7),
    ("gemm<float, 4>", 160, 34, 7),
    ("old \"name\"", 300, 5, 8),
];
const AFTER: &[Kernel] =
    &[("gemm<float, 4>", 100, 20, 7), ("softmax", 140, 10, 7), ("new", 160, 3, 7)];

fn write_trace(path: &Path, kernels: &[Kernel]) {
    let event = |((name, start, length, stream), number): (&Kernel, usize)| {
        let launch = json!({ "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
            "ts": start - 10, "dur": 4, "args": { "correlation": number } });
        let kernel = json!({ "ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": length,
            "args": { "device": 0, "stream": stream, "correlation": number } });
        [launch, kernel]
    };
    let events: Vec<Value> = kernels.iter().zip(1..).flat_map(event).collect();
    std::fs::write(path, json!({ "schemaVersion": 1, "traceEvents": events }).to_string()).unwrap();
}

/// Rows of a CSV file by column name; no field of these tables has a line break.
fn rows(text: &str) -> Vec<std::collections::BTreeMap<String, String>> {
    let fields = |line: &str| {
        let mut fields = vec![String::new()];
        let mut quoted = false;
        for letter in line.chars() {
            match letter {
                '"' => {
                    // A doubled quote is a quote: it ends the quotation and begins it again.
                    if !quoted && fields.last().is_some_and(|field| !field.is_empty()) {
                        fields.last_mut().unwrap().push('"');
                    }
                    quoted = !quoted;
                }
                ',' if !quoted => fields.push(String::new()),
                _ => fields.last_mut().unwrap().push(letter),
            }
        }
        fields
    };
    let mut lines = text.lines().map(fields);
    let head = lines.next().unwrap();
    lines.map(|line| head.iter().cloned().zip(line).collect()).collect()
}

#[test]
fn a_run_writes_a_row_for_each_kernel_and_sums_by_name() {
    let place = place("kernels");
    write_trace(&place.join("before.json"), BEFORE);
    let output =
        tidegate(&place, &["run", "before.json", "--quiet", "--kernels", "k.csv", "--summary"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let written = std::fs::read_to_string(place.join("k.csv")).unwrap();
    let rows = rows(&written);
    assert_eq!(rows.len(), BEFORE.len(), "{written}");
    // The recording begins with the first launch call.
    let origin = BEFORE[0].1 - 10;
    for (row, (name, start, length, _)) in rows.iter().zip(BEFORE) {
        let ns = |column: &str| {
            row[column].parse::<u64>().unwrap_or_else(|_| panic!("{column}: {written}"))
        };
        assert_eq!((row["name"].as_str(), row["model"].as_str()), (*name, "user"));
        assert_eq!(
            (ns("recorded_start_ns"), ns("recorded_busy_ns")),
            ((start - origin) * 1000, length * 1000)
        );
        assert_eq!(ns("busy_ns"), length * 1000);
        assert!(
            ns("recorded_queue_delay_ns") <= 10_000
                && ns("queue_delay_ns") >= ns("launch_latency_ns")
        );
        assert!(ns("replayed_start_ns").abs_diff(ns("recorded_start_ns")) < 20_000, "{written}");
    }
    assert_ne!(rows[0]["queue"], rows[3]["queue"], "two streams");
    let line = said
        .lines()
        .find(|line| line.contains("gemm<float, 4>"))
        .unwrap_or_else(|| panic!("{said}"));
    for figure in [" 2 ", "64.00 µs", "32.00 µs", "30.00 µs", "34.00 µs", "81.0 %"] {
        assert!(line.contains(figure), "'{figure}' is missing in {line}");
    }
    let turns = root().join("workloads/ring-buffer.toml");
    let arguments = ["run", turns.to_str().unwrap(), "--clock", "virtual", "--kernels", "-"];
    let output = tidegate(&place, &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let written = String::from_utf8(output.stdout).unwrap();
    assert!(
        written.starts_with("name,queue,model,grade,recorded_start_ns,replayed_start_ns,"),
        "{written}"
    );
    assert!(
        written.lines().count() > 10 && written.lines().all(|line| line.matches(',').count() == 11),
        "{written}"
    );
    if !cfg!(feature = "columns") {
        refused(
            &["run", turns.to_str().unwrap(), "--kernels", "k.parquet"],
            &["without Parquet", "--features columns"],
        );
    }
}

#[test]
fn two_traces_are_compared_by_name() {
    let place = place("diff");
    write_trace(&place.join("before.json"), BEFORE);
    write_trace(&place.join("after.json"), AFTER);
    let output = tidegate(&place, &["diff", "before.json", "after.json", "--json", "diff.json"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for words in [
        "only in a (before.json): 1 names",
        "only in b (after.json): 1 names",
        "old \"name\"",
        "-68.8 %",
    ] {
        assert!(said.contains(words), "'{words}' is missing in {said}");
    }
    let diff: Value =
        serde_json::from_slice(&std::fs::read(place.join("diff.json")).unwrap()).unwrap();
    let sides =
        |field: &str| [&diff["a"][field], &diff["b"][field]].map(|value| value.as_u64().unwrap());
    assert_eq!((sides("count"), sides("busy_ns")), ([4, 3], [79_000, 33_000]));
    assert_eq!(sides("makespan_ns"), [(305 - 90) * 1000, (163 - 90) * 1000]);
    let changes: Vec<(&str, i64)> = diff["kernels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["name"].as_str().unwrap(), row["busy_change_ns"].as_i64().unwrap()))
        .collect();
    assert_eq!(
        changes,
        [("gemm<float, 4>", -44_000), ("old \"name\"", -5_000), ("new", 3_000), ("softmax", 0)]
    );
    let gemm = &diff["kernels"][0];
    assert_eq!(
        (&gemm["a"]["count"], &gemm["b"]["busy_ns"]),
        (&Value::from(2), &Value::from(20_000))
    );
    assert!(diff["kernels"][1]["b"].is_null() && diff["kernels"][2]["a"].is_null());
    let same = text(&tidegate(&place, &["diff", "before.json", "before.json"]));
    assert!(same.contains("makespan no change, busy no change"), "{same}");
    let workload = root().join("workloads/ring-buffer.toml");
    let output = tidegate(&place, &["diff", workload.to_str().unwrap(), "before.json"]);
    assert!(text(&output).contains("run in virtual time"), "{}", text(&output));
}

/// 30 copies from the host and a kernel, on one stream.
fn copies() -> String {
    let event = |category: &str, name: &str, at: u64, dur: u64, id: u64| {
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":1,"ts":{at},"dur":{dur},"args":{{"device":0,"stream":7,"correlation":{id}}}}}"#
        )
    };
    let mut events = Vec::new();
    for k in 0..30 {
        events.push(event("cuda_runtime", "cudaMemcpyAsync", 1_000 + 110 * k, 5, k));
        events.push(event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 1_010 + 110 * k, 100, k));
    }
    events.push(event("cuda_runtime", "cudaLaunchKernel", 4_300, 5, 99));
    events.push(event("kernel", "gemm", 4_310, 50, 99));
    format!("{{\"traceEvents\": [{}]}}", events.join(","))
}

#[test]
fn validation_of_a_recording_says_what_it_could_not_check() {
    let place = place("validated");
    std::fs::write(place.join("copies.json"), copies()).unwrap();
    let said = text(&ran(&place, "run copies.json --validate"));
    assert!(said.contains("its work names no memory, so missing and redundant edges"), "{said}");
    assert!(said.contains("0 deadlocks, 0 waits that no signal ends"), "{said}");
    assert!(!said.contains("missing edges,") && !said.contains("hint:"), "{said}");
}

#[test]
fn the_grade_of_a_replay_is_in_every_output() {
    let place = place("graded");
    std::fs::write(place.join("copies.json"), copies()).unwrap();
    let line = "run copies.json --kernels k.csv --json r.json --chrome c.json --submission packet";
    let said = text(&ran(&place, line));
    assert!(
        said.contains("taken as recorded under user (--recorded-as): the replay is good"),
        "{said}"
    );
    let read = |file: &str| std::fs::read_to_string(place.join(file)).unwrap();
    let report: Value = serde_json::from_str(&read("r.json")).unwrap();
    assert_eq!(
        (&report["submission"], &report["trust"]["grade"]),
        (&json!("packet"), &json!("good"))
    );
    assert!(read("k.csv").lines().nth(1).unwrap().contains(",packet,good,"));
    assert!(read("c.json").contains("the replay is good"));
}

#[test]
fn copies_of_a_recording_stay_copies_through_the_replay_and_back() {
    let place = place("copies");
    std::fs::write(place.join("copies.json"), copies()).unwrap();
    let said = printed(&ran(&place, "compare copies.json --json - --html c.html"));
    for model in said["verdict"]["models"].as_array().unwrap() {
        assert_eq!(model["bound"], "copy", "{model}");
        assert!(model["account"]["busy"]["copy_ns"].as_u64() >= Some(3_000_000), "{model}");
    }
    ran(&place, "run copies.json --chrome again.json --perfetto again.pftrace");
    for file in ["again.json", "again.pftrace"] {
        let again = printed(&ran(&place, &format!("run {file} --json -")));
        let import = &again["import"];
        assert_eq!((&import["copies"], &import["kernels"]), (&30.into(), &1.into()), "{file}");
    }
}
