//! `tidegate-bench` as a program: rows in small, clauses, curves, and bad arguments.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn place(name: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&place).unwrap();
    place
}

/// Runs the program with these words, and returns its status and what it said.
fn ran(place: &Path, line: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate-bench"));
    let Output { status, stdout, stderr } =
        command.args(line.split_whitespace()).current_dir(place).output().unwrap();
    let said = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (status.code(), said)
}

/// Runs the rows of a name once, in small.
fn small(rows: &str) -> (Value, String) {
    let place = place(rows);
    let line = format!("{rows} --passes 1 --divide 1000 --peers --json rows.json");
    let (status, said) = ran(&place, &line);
    assert_eq!(status, Some(0), "{rows}: {said}");
    let results = std::fs::read_to_string(place.join("rows.json")).unwrap();
    (serde_json::from_str(&results).unwrap(), said)
}

fn goal<'a>(results: &'a Value, id: &str) -> &'a Value {
    let goals = results["goals"].as_array().unwrap();
    goals.iter().find(|goal| goal["id"] == id).unwrap_or_else(|| panic!("no goal {id}"))
}

#[test]
fn the_group_api_measures_every_row_and_says_where_the_peer_is() {
    let (results, said) = small("api");
    let rows = results["rows"].as_array().unwrap();
    assert!(rows.len() >= 13, "{results}");
    for row in rows {
        let positive = |at: &Value| at.as_f64().is_some_and(|ns| ns > 0.0);
        assert!(positive(&row["median_ns"]) && positive(&row["floor"]["median_ns"]), "{row}");
        // The peers lie beside the program where a person has built them.
        let beside = row["peers"].as_array().unwrap();
        assert!(beside.is_empty() || !results["peers"].as_array().unwrap().is_empty(), "{row}");
        let says_more = |peer: &Value| peer["does"].as_str().is_some_and(|does| !does.is_empty());
        assert!(beside.iter().all(says_more), "{row}");
        assert!(row["foreign_share"].as_f64().is_some_and(|share| share <= 1.0), "{row}");
    }
    let is_alone = results["peers"].as_array().unwrap().is_empty();
    assert_eq!(is_alone, said.contains("no peer: "), "{said}");
    let fences = rows.iter().find(|row| row["name"] == "api_fences_1000000").unwrap();
    assert_eq!(fences["counts"]["kernel calls"], 2 * 1_000, "{fences}");
}

#[test]
fn every_clause_has_an_entry_and_is_measured_or_says_why_not() {
    let (results, said) = small("chain");
    let goals = results["goals"].as_array().unwrap();
    assert!(goals.len() > 60, "{}", goals.len());
    for goal in goals {
        let is_measured = goal["ratio"].as_f64().is_some_and(|ratio| ratio >= 0.0);
        assert_eq!(is_measured, goal["met"].is_boolean(), "{goal}");
        assert_ne!(is_measured, goal["note"].is_string(), "{goal}");
        let has_words = |name: &str| goal[name].as_str().is_some_and(|text| !text.is_empty());
        assert!(["text", "row", "against", "sense"].into_iter().all(has_words), "{goal}");
        assert!(goal["limit"].is_number(), "{goal}");
    }
    assert!(goal(&results, "4a")["ratio"].is_number(), "{results}");
    assert!(said.contains("| 4a ") && said.contains("| `chain_100` "), "{said}");
    assert!(goal(&results, "1a")["note"].as_str().unwrap().contains("not in this run"));
    assert!(goal(&results, "5h")["note"].as_str().unwrap().contains("signaller's"));
}

#[test]
fn rows_of_links_waiters_idle_queues_bursts_and_processes_run_in_small() {
    for (rows, clause) in [
        ("link_one", "3d"),
        ("tasks_release", "7a"),
        ("threads_release", "7h"),
        ("idle", "8c"),
        ("doorbell_beside", "8a"),
        ("reconnect", "8b"),
        ("burst", "6d"),
        ("wake_s", "6e"),
        ("process_", "9f"),
        ("service_start", "9g"),
        ("missing_barrier", "12d-2"),
        ("virtual_time_100", "11a"),
    ] {
        let (results, _) = small(rows);
        assert_eq!(results["right"], Value::Bool(true), "{results}");
        assert!(goal(&results, clause)["ratio"].is_number(), "{results}");
    }
}

#[test]
fn curves_are_drawn_in_small() {
    let place = place("curves");
    let (status, said) = ran(&place, "--curves drawn --divide 10000");
    assert_eq!(status, Some(0), "{said}");
    for name in
        "waiters chain pending queues idle_queues fences adapters processes log explored".split(' ')
    {
        assert!(said.contains(&format!("wrote drawn/{name}.svg")), "{said}");
        let drawn = std::fs::read_to_string(place.join(format!("drawn/{name}.svg"))).unwrap();
        assert!(drawn.contains(">tidegate") && drawn.matches("<circle").count() > 2, "{drawn}");
    }
}

#[test]
fn what_does_not_exist_is_bad_input_and_the_names_are_listed() {
    for (line, name) in [
        ("--operation another", "encode-packet"),
        ("api_of_another_name", "api_list_empty"),
        ("another --curves drawn", "waiters"),
        ("--tables none.json", "none.json"),
        ("--passes 0", "1..=99"),
    ] {
        let (status, said) = ran(&place("bad"), line);
        assert_eq!(status, Some(2), "{line}: {said}");
        assert!(said.contains(name), "{line}: {said}");
    }
}
