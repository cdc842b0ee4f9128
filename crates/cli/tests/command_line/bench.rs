//! `tidegate bench`: every row in small, and a name that no row has.

use crate::{ended, json, place, ran, text};
use serde_json::Value;

#[test]
fn the_eight_rows_are_measured_beside_their_floors() {
    let place = place("bench");
    let said = text(&ran(&place, "bench --passes 1 --divide 1000 --json rows.json"));
    let results = json(&place, "rows.json");
    assert_eq!(results["right"], Value::Bool(true), "{results}");
    let rows = results["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8, "{results}");
    for row in rows {
        let positive = |at: &Value| at.as_f64().is_some_and(|ns| ns > 0.0);
        assert!(positive(&row["median_ns"]) && positive(&row["floor"]["median_ns"]), "{row}");
        assert!(said.contains(row["name"].as_str().unwrap()), "{said}");
        assert!(row["foreign_share"].as_f64().is_some_and(|share| share <= 1.0), "{row}");
    }
    let of = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
    assert_eq!(of("import_kineto")["counts"]["events"], 3 * 20, "{results}");
    let calls = |name: &str| of(name)["counts"]["kernel calls"].as_u64().unwrap();
    assert_eq!(calls("submissions_streamed"), 0, "{results}");
    assert!(calls("submissions_hardware") > 60 && calls("submissions_packet") > 60, "{results}");
}

#[test]
fn a_row_that_does_not_exist_is_bad_input() {
    let said = text(&ended(&place("bench"), 2, "bench submissions_of_another_name"));
    assert!(said.contains("submissions_hardware"), "{said}");
    let said = text(&ended(&place("bench"), 2, "bench --passes 0"));
    assert!(said.contains("1..=99"), "{said}");
}
