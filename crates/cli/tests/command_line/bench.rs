//! `tidegate bench`: the group `api` in small, and what it says of its peer.

use crate::{ended, file, place, ran, text};
use serde_json::Value;

#[test]
fn the_group_api_measures_every_row_and_says_where_the_peer_is() {
    let place = place("bench");
    let output = ran(&place, "bench api --passes 1 --divide 1000 --peers --json api.json");
    let results: Value = serde_json::from_str(&file(&place, "api.json")).unwrap();
    assert_eq!(results["right"], Value::Bool(true), "{results}");
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
    let said = text(&output);
    let is_alone = results["peers"].as_array().unwrap().is_empty();
    assert_eq!(is_alone, said.contains("no peer: "), "{said}");
    let fences = rows.iter().find(|row| row["name"] == "api_fences_1000000").unwrap();
    assert_eq!(fences["counts"]["kernel calls"], 2 * 1_000, "{fences}");
}

/// Runs the rows of a name once, in small.
fn small(rows: &str) -> Value {
    let place = place(&format!("bench of {rows}"));
    ran(&place, &format!("bench {rows} --passes 1 --divide 1000 --json rows.json"));
    serde_json::from_str(&file(&place, "rows.json")).unwrap()
}

fn goal<'a>(results: &'a Value, id: &str) -> &'a Value {
    let goals = results["goals"].as_array().unwrap();
    goals.iter().find(|goal| goal["id"] == id).unwrap_or_else(|| panic!("no goal {id}"))
}

#[test]
fn every_clause_has_an_entry_and_is_measured_or_says_why_not() {
    let results = small("chain");
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
    assert!(goal(&results, "1a")["note"].as_str().unwrap().contains("not in this run"));
    assert!(goal(&results, "5h")["note"].as_str().unwrap().contains("signaller's"));
}

#[test]
fn rows_of_waiters_idle_queues_bursts_and_processes_run_in_small() {
    for (rows, clause) in [
        ("tasks_release", "7a"),
        ("threads_release", "7h"),
        ("idle", "8c"),
        ("doorbell_beside", "8a"),
        ("reconnect", "8b"),
        ("burst", "6d"),
        ("wake_s", "6e"),
        ("process_", "9f"),
        ("missing_barrier", "12d-2"),
        ("virtual_time_100", "11a"),
    ] {
        let results = small(rows);
        assert_eq!(results["right"], Value::Bool(true), "{results}");
        assert!(goal(&results, clause)["ratio"].is_number(), "{results}");
    }
}

#[test]
fn curves_are_drawn_in_small() {
    let place = place("curves");
    let said = text(&ran(&place, "bench --curves drawn --divide 10000"));
    let names = "waiters chain pending queues fences adapters processes log explored";
    assert!(said.contains("wrote 10 files, ") && said.contains("/waiters.svg to "), "{said}");
    for name in names.split(' ') {
        let drawn = file(&place, &format!("drawn/{name}.svg"));
        assert!(drawn.contains(">tidegate") && drawn.matches("<circle").count() > 2, "{drawn}");
    }
    let said = text(&ended(&place, 2, "bench another --curves drawn"));
    assert!(said.contains("waiters"), "{said}");
}

#[test]
fn an_operation_that_does_not_exist_is_bad_input() {
    let said = text(&ended(&place("bench"), 2, "bench --operation another"));
    assert!(said.contains("encode-packet"), "{said}");
}

#[test]
fn a_row_that_does_not_exist_is_bad_input() {
    let said = text(&ended(&place("bench"), 2, "bench api_of_another_name"));
    assert!(said.contains("api_list_empty"), "{said}");
}
