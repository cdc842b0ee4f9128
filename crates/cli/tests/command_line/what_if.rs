//! `compare --what-if`: each change is shown beside the recording as it is, and a change that
//! cannot be made is refused.

use crate::{place, refused, text, tidegate};
use serde_json::{Value, json};
use std::path::Path;

/// Eight kernels of 30 µs on one stream, launched 10 µs apart.
fn write_trace(path: &Path) {
    let event = |number: u64| {
        let launch = json!({ "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
            "ts": 10 * number, "dur": 3, "args": { "correlation": number } });
        let kernel = json!({ "ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 20 + 31 * number, "dur": 30,
            "args": { "device": 0, "stream": 7, "correlation": number } });
        [launch, kernel]
    };
    let events: Vec<Value> = (1..=8).flat_map(event).collect();
    std::fs::write(path, json!({ "traceEvents": events }).to_string()).unwrap();
}

#[test]
fn changes_are_shown_beside_the_recording() {
    let place = place("what-if");
    write_trace(&place.join("trace.json"));
    let changes = ["--what-if", "streams=2", "--what-if", "graphs=on", "--what-if", "sync=gpu"];
    let compare = ["compare", "trace.json", "--quiet"];
    let output = tidegate(&place, &[&compare[..], &changes, &["--json", "c.json"]].concat());
    assert!(output.status.success(), "{}", text(&output));
    for row in ["what if", "as it is", "streams=2", "graphs=on", "sync=gpu"] {
        assert!(text(&output).contains(row), "{row}: {}", text(&output));
    }
    let json: Value =
        serde_json::from_slice(&std::fs::read(place.join("c.json")).unwrap()).unwrap();
    let of_user = |row: &Value| {
        let makespans = row["makespans_ns"].as_array().unwrap().iter();
        makespans.clone().find(|pair| pair[0] == "user").unwrap()[1].as_u64().unwrap()
    };
    let recorded = json["runs"][2]["makespan_ns"].as_u64().unwrap();
    let rows = json["what_ifs"].as_array().unwrap();
    let changed: Vec<&str> = rows.iter().map(|row| row["change"].as_str().unwrap()).collect();
    assert_eq!(changed, ["streams=2", "graphs=on", "sync=gpu"]);
    // Two streams run the kernels side by side; nothing of this recording waits.
    assert!(of_user(&rows[0]) * 10 < recorded * 7, "{} of {recorded} ns", of_user(&rows[0]));
    assert_eq!(of_user(&rows[2]), recorded);
}

#[test]
fn a_change_that_cannot_be_made_is_refused() {
    let place = place("what-if-refused");
    write_trace(&place.join("trace.json"));
    let trace = place.join("trace.json");
    let compare = ["compare", trace.to_str().unwrap(), "--what-if"];
    refused(&[&compare[..], &["streams=1"]].concat(), &["streams=1", "has 1 streams already"]);
    refused(&[&compare[..], &["streams=90"]].concat(), &["streams=90", "a machine has 48"]);
    refused(&[&compare[..], &["speed=2"]].concat(), &["speed=2", "streams=N"]);
}
