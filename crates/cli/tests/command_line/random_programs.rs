//! What `swarm` runs, prints and refuses, and the replay of its lines.

use crate::{place, ran, refused, text, tidegate};

fn swarm(place_name: &str, line: &str) -> serde_json::Value {
    let output = ran(&place(place_name), &format!("swarm {line} --json -"));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{line}: {error}"))
}

#[test]
fn each_ground_has_a_line_and_a_row() {
    let place = place("swarm-grounds");
    let line = "swarm --on all --programs 4 --seed 1 --coverage --json swarm.json";
    let said = text(&ran(&place, line));
    let lines: Vec<&str> = said.lines().collect();
    for (line, ground) in lines.iter().zip(["virtual time", "explored", "threads"]) {
        assert!(line.starts_with(&format!("{ground}: 4 programs of ")), "{said}");
        assert!(line.ends_with(", none failed"), "{said}");
    }
    assert!(lines[3].contains(" pairs of operations have overlapped in time"), "{said}");
    let bytes = std::fs::read(place.join("swarm.json")).unwrap();
    let results: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let grounds = results["grounds"].as_array().unwrap();
    assert_eq!(grounds.len(), 3);
    for row in grounds {
        assert_eq!((&row["programs"], &row["failed"]), (&4.into(), &0.into()), "{row}");
    }
    let never = |what: &str| results[what].as_array().unwrap().len();
    assert_eq!(lines.len(), 5 + never("never_overlapped") + never("never_entered"), "{said}");
}

/// The programs of a seed are the same in every run, and shards share none.
#[test]
fn shards_are_parts_of_the_seeds() {
    let operations = |line: &str| {
        let results = swarm("swarm-shards", line);
        results["grounds"][0]["operations"].as_u64().unwrap()
    };
    let whole = operations("--programs 12 --seed 5");
    let parts =
        ["0/3", "1/3", "2/3"].map(|s| operations(&format!("--programs 4 --seed 5 --shard {s}")));
    assert_eq!(parts.iter().sum::<u64>(), whole, "{parts:?}");
}

#[test]
fn wrong_bounds_and_shards_are_refused() {
    for shard in ["3/3", "1", "a/b", "0/0"] {
        refused(&["swarm", "--shard", shard], &[shard, "write I/N, where I is from 0 to N - 1"]);
    }
    refused(&["swarm", "--programs", "0"], &["--programs", "0 is not in 1.."]);
    refused(&["swarm", "--seconds", "0"], &["--seconds", "0 is not in 1.."]);
    refused(&["swarm", "--on", "moon"], &["moon", "virtual, explored, threads, all"]);
    refused(&["swarm", "--on", "threads", "--coverage"], &["--coverage", "not counted"]);
}

const HOLDS: &str = "swarm/virtual | adapter standard; process a0 steady; thread p0; \
                     t0 queue q0 raw user direct normal; t0 execute q0 100; t0 drain q0";

#[test]
fn a_line_is_replayed_and_drawn() {
    let place = place("swarm-replay");
    let output = tidegate(&place, &["replay", HOLDS, "--timeline", "page.html"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.starts_with("adapter standard\nprocess a0 steady\n"), "{said}");
    assert!(said.contains("\ndoes not fail\n") && said.contains("timeline: page.html"), "{said}");
    let page = std::fs::read_to_string(place.join("page.html")).unwrap();
    assert!(page.contains("tidegate replay"), "the page has the line");
    let on_threads = HOLDS.replace("virtual", "threads");
    let output = tidegate(&place, &["replay", "--once", &on_threads]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[test]
fn a_wrong_line_names_its_item_and_what_is_allowed() {
    for (from, to, parts) in [
        ("swarm/virtual", "swarm/moon", &["'swarm/WHERE | PROGRAM'", "virtual, threads"][..]),
        (" | ", " ", &["'swarm/WHERE | PROGRAM'"]),
        ("adapter standard", "adapter standart", &["item 1", "standart"]),
        ("standard", "standard ring-slots=9", &["item 1", "ring-slots=9", "[8, 16, 1024]"]),
        ("standard", "standard rings=9", &["item 1", "'rings'", "setup.rs"]),
        ("a0 steady", "a1 steady", &["item 2", "no a1", "declare it above"]),
        ("steady", "ready", &["item 2", "'ready'", "steady or doomed"]),
        ("thread p0", "thread p3", &["item 3", "no p3"]),
        ("execute q0 100", "run q0 100", &["item 5", "'run'", "operation.rs"]),
        ("execute q0 100", "execute q0", &["item 5", "execute takes queue, ns"]),
        ("execute q0 100", "execute f0 100", &["item 5", "'f0' is no queue"]),
        ("t0 execute", "t9 execute", &["item 5", "no t9"]),
        ("drain q0", "drain q1", &["step 3", "t0 drain q1"]),
    ] {
        assert!(HOLDS.contains(from), "{from}");
        refused(&["replay", &HOLDS.replacen(from, to, 1)], parts);
    }
}
