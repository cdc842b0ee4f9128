//! `cargo xtask performance`: the table of `docs/performance.md`, from `docs/performance.json`.
//!
//! - The JSON is the output of `tidegate bench --json docs/performance.json`.
//! - `tidy` fails when the table differs from the JSON, and when the text around it names a figure.
//! - Figures of other programs stand in sections whose heading ends in [`OTHER_FIGURES`].

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::finding::Finding;

const DOCUMENT: &str = "docs/performance.md";
const RESULTS: &str = "docs/performance.json";
const BEGIN: &str = "<!-- written by `cargo xtask performance` -->";
const END: &str = "<!-- end of what `cargo xtask performance` writes -->";
/// End of the heading of a section with figures that the bench does not measure.
const OTHER_FIGURES: &str = "cost model uses";

#[derive(Deserialize)]
struct Results {
    machine: String,
    passes: u32,
    /// The peer of the rows that have one.
    peer: Option<String>,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    floor: Floor,
    times_off_goal: f64,
    shown: Shown,
    #[serde(default)]
    counts: BTreeMap<String, u64>,
    peer: Option<Peer>,
}

/// The same calls of the peer.
#[derive(Deserialize)]
struct Peer {
    calls: String,
    median_ns: f64,
    times_faster: f64,
    bytes_each: Option<u64>,
}

#[derive(Deserialize)]
struct Floor {
    name: String,
}

/// The figures as the bench prints them.
#[derive(Deserialize)]
struct Shown {
    median: String,
    p99: String,
    floor: String,
    ratio: String,
    goal: String,
}

/// Writes the table.
///
/// # Errors
/// A file cannot be read or written, or the document lacks the place of the table.
pub fn write(root: &Path) -> Result<(), String> {
    let (document, table) = read(root)?;
    fs::write(root.join(DOCUMENT), with_table(&document, &table)?)
        .map_err(|e| format!("{DOCUMENT}: cannot write: {e}"))
}

/// Compares the document with the results.
///
/// # Errors
/// A file cannot be read, or the document lacks the place of the table.
pub fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let (document, table) = read(root)?;
    let path = Path::new(DOCUMENT);
    let mut findings = figures_in_text(&document);
    if with_table(&document, &table)? != document {
        let what = format!("the table differs from {RESULTS}: run `cargo xtask performance`");
        findings.push(Finding::of_file(path, what));
    }
    Ok(findings)
}

fn read(root: &Path) -> Result<(String, String), String> {
    let text = |file: &str| {
        fs::read_to_string(root.join(file)).map_err(|e| format!("{file}: cannot read: {e}"))
    };
    let results: Results =
        serde_json::from_str(&text(RESULTS)?).map_err(|e| format!("{RESULTS}: {e}"))?;
    Ok((text(DOCUMENT)?, table(&results)))
}

fn table(results: &Results) -> String {
    let met = results.rows.iter().filter(|row| row.times_off_goal <= 1.0).count();
    let mut text = format!(
        "{}; release build, {} passes. {met} of {} rows meet their goal.\n\n\
         | row | median | p99 | floor | of the floor | ratio | goal | verdict |\n\
         |---|---|---|---|---|---|---|---|\n",
        results.machine,
        results.passes,
        results.rows.len()
    );
    for Row { name, floor, times_off_goal: off, shown, .. } in &results.rows {
        let verdict = match off {
            ..=1.0 => "met".to_owned(),
            ..=3.0 => format!("within 3x ({off:.1}x)"),
            ..100.0 => format!("off ({off:.1}x)"),
            _ => format!("off ({off:.0}x)"),
        };
        let Shown { median, p99, floor: floor_time, ratio, goal } = shown;
        let floor = &floor.name;
        let _ = writeln!(
            text,
            "| `{name}` | {median} | {p99} | `{floor}` | {floor_time} | {ratio} | {goal} | {verdict} |"
        );
    }
    if let Some(peer) = &results.peer {
        text += &peer_table(peer, &results.rows);
    }
    text
}

/// Name of the count of an object's memory.
const BYTES_EACH: &str = "bytes of resident memory each";

fn peer_table(name: &str, rows: &[Row]) -> String {
    let with_peer = || rows.iter().filter_map(|row| Some((row, row.peer.as_ref()?)));
    let faster = with_peer().filter(|(_, peer)| peer.times_faster >= 1.0).count();
    let mut text = format!(
        "\nBeside {name}, measured directly behind each row: {faster} of {} rows are faster. Bytes are resident\n\
         memory of an object.\n\n\
         | row | median | bytes | calls of the peer | median | bytes | the row is |\n\
         |---|---|---|---|---|---|---|\n",
        with_peer().count()
    );
    for (row, Peer { calls, median_ns, times_faster, bytes_each }) in with_peer() {
        let bytes = |bytes: Option<&u64>| bytes.map_or_else(String::new, u64::to_string);
        let (own, other) = (bytes(row.counts.get(BYTES_EACH)), bytes(bytes_each.as_ref()));
        let speed = match times_faster {
            times @ 1.0.. => format!("{times:.1}x faster"),
            times => format!("{:.1}x slower", 1.0 / times),
        };
        let (row_name, median) = (&row.name, &row.shown.median);
        let _ = writeln!(
            text,
            "| `{row_name}` | {median} | {own} | {calls} | {median_ns:.0} ns | {other} | {speed} |"
        );
    }
    text
}

fn with_table(document: &str, table: &str) -> Result<String, String> {
    let missing = || format!("{DOCUMENT} lacks `{BEGIN}` and `{END}` around the table");
    let (before, rest) = document.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok(format!("{before}{BEGIN}\n\n{table}\n{END}{after}"))
}

/// Times in nanoseconds and ratios that stand outside of the table.
fn figures_in_text(document: &str) -> Vec<Finding> {
    let (mut in_table, mut is_other) = (false, false);
    let mut findings = Vec::new();
    for (index, line) in document.lines().enumerate() {
        in_table = (in_table || line == BEGIN) && line != END;
        if line.starts_with("## ") {
            is_other = line.ends_with(OTHER_FIGURES);
        }
        if in_table || is_other {
            continue;
        }
        let mut before = "";
        for word in line.split_whitespace() {
            let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
            let is_number = |text: &str| text.ends_with(|c: char| c.is_ascii_digit());
            let is_ratio = bare.strip_suffix('x').is_some_and(is_number);
            if is_ratio || bare == "ns" && is_number(before) {
                let what = format!("a figure in the text ({before} {word}): refer to the row");
                findings.push(Finding::at(Path::new(DOCUMENT), index, what));
            }
            before = word;
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_made_of_the_results() {
        let shown = r#"{"median":"1 ns","p99":"2 ns","floor":"3 ns","ratio":"4x","goal":"≤ 5x"}"#;
        let json = format!(
            r#"{{"machine":"m","passes":3,"rows":[{{"name":"a","floor":{{"name":"b"}},
               "times_off_goal":2.84,"shown":{shown}}}]}}"#
        );
        let table = table(&serde_json::from_str(&json).unwrap());
        assert!(table.starts_with("m; release build, 3 passes. 0 of 1 rows meet their goal."));
        assert!(
            table.ends_with("| `a` | 1 ns | 2 ns | `b` | 3 ns | 4x | ≤ 5x | within 3x (2.8x) |\n")
        );
        let document = format!("head\n{BEGIN}\nold\n{END}\ntail");
        let new = with_table(&document, &table).unwrap();
        assert!(new.starts_with("head\n") && new.contains(&table) && new.ends_with("\ntail"));
        assert!(with_table("no place", &table).is_err());
    }

    #[test]
    fn a_peer_has_a_table_of_its_own() {
        let row = |name: &str, peer: &str| {
            format!(
                r#"{{"name":"{name}","floor":{{"name":"b"}},"times_off_goal":1,"counts":{{"{BYTES_EACH}":7}},
                   "shown":{{"median":"5 ns","p99":"","floor":"","ratio":"","goal":""}}{peer}}}"#
            )
        };
        let peer = |faster: f64| {
            format!(r#","peer":{{"calls":"vkX","median_ns":12,"times_faster":{faster}}}"#)
        };
        let rows = [row("quick", &peer(2.0)), row("slow", &peer(0.5)), row("alone", "")].join(",");
        let json = format!(r#"{{"machine":"m","passes":3,"peer":"pipe","rows":[{rows}]}}"#);
        let table = table(&serde_json::from_str(&json).unwrap());
        let (_, beside) = table.split_once("Beside pipe").unwrap();
        assert!(beside.contains(": 1 of 2 rows are faster"), "{beside}");
        assert!(
            beside.contains("| `quick` | 5 ns | 7 | vkX | 12 ns |  | 2.0x faster |"),
            "{beside}"
        );
        assert!(beside.contains("| `slow` |") && beside.contains("2.0x slower"), "{beside}");
        assert!(!beside.contains("alone"), "{beside}");
    }

    #[test]
    fn figures_stand_in_the_table_alone() {
        let text = format!(
            "it takes 12 ns, 3.5x.\n{BEGIN}\n13 ns\n{END}\n## what the {OTHER_FIGURES}\n14 ns\n"
        );
        assert_eq!(figures_in_text(&text).len(), 2);
        assert!(figures_in_text("every 10 µs, or in nanoseconds: 3\n").is_empty());
    }
}
