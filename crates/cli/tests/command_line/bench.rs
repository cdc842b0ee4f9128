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
        // A peer lies beside the program where a person has built it.
        let has_call = row["peer"]["calls"].is_string();
        assert!(results["peer"].is_string() || !has_call, "{row}");
    }
    let said = text(&output);
    assert_ne!(results["peer"].is_null(), !said.contains("no peer: "), "{said}");
    let fences = rows.iter().find(|row| row["name"] == "api_fences_1000000").unwrap();
    assert_eq!(fences["counts"]["kernel calls"], 2 * 1_000, "{fences}");
}

#[test]
fn a_row_that_does_not_exist_is_bad_input() {
    let said = text(&ended(&place("bench"), 2, "bench api_of_another_name"));
    assert!(said.contains("api_list_empty"), "{said}");
}
