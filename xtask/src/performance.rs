//! `cargo xtask performance`: the tables of `docs/performance.md`, from `docs/performance.json`.
//!
//! - The JSON is the output of `tidegate bench --peers --json docs/performance.json`.
//! - The tables: the clauses of the goals, the rows beside their floors, the rows beside the peers.
//! - `tidy` fails when a table differs from the JSON, and when the text around them names a figure.
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
    /// The peers that could be measured, and those that could not.
    #[serde(default)]
    peers: Vec<Present>,
    #[serde(default)]
    missing_peers: Vec<Missing>,
    #[serde(default)]
    goals: Vec<Goal>,
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Present {
    name: String,
    about: String,
}

#[derive(Deserialize)]
struct Missing {
    name: String,
    why: String,
}

/// A clause of a goal.
#[derive(Deserialize)]
struct Goal {
    id: String,
    text: String,
    row: String,
    against: String,
    ratio: Option<f64>,
    /// JSON has no infinite number: what was measured as 0 makes a ratio without one.
    spread: Option<[Option<f64>; 2]>,
    sense: String,
    limit: f64,
    met: Option<bool>,
    #[serde(default)]
    stretch: bool,
    note: Option<String>,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    floor: Floor,
    times_off_goal: f64,
    shown: Shown,
    #[serde(default)]
    counts: BTreeMap<String, u64>,
    /// The share of the machine that other programs used, where it was recorded.
    foreign_share: Option<f64>,
    #[serde(default)]
    peers: Vec<Peer>,
}

/// What a peer does in place of the row.
#[derive(Deserialize)]
struct Peer {
    peer: String,
    calls: String,
    does: String,
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
    let share = results.rows.iter().filter_map(|row| row.foreign_share).reduce(f64::max);
    if let Some(share) = share {
        let _ = writeln!(
            text,
            "\nOther programs used at most {:.0} % of the machine while a row was measured.",
            share * 100.0
        );
    }
    format!("{}{text}{}", goal_table(&results.goals), peer_table(results))
}

/// The clauses, and how many are met; nothing for results without clauses.
fn goal_table(goals: &[Goal]) -> String {
    if goals.is_empty() {
        return String::new();
    }
    let of_goals = || goals.iter().filter(|goal| !goal.stretch);
    let met = of_goals().filter(|goal| goal.met == Some(true)).count();
    let missed = of_goals().filter(|goal| goal.met == Some(false)).count();
    let mut text = format!(
        "{met} of {} clauses are met, {missed} are missed, {} are not measured. A stretch is beyond its goal\n\
         and not among them. A ratio `at least` says how many times better the row is.\n\n\
         | goal | | row | against | ratio | of the passes | limit | |\n\
         |---|---|---|---|---|---|---|---|\n",
        of_goals().count(),
        of_goals().count() - met - missed
    );
    for goal in goals {
        let verdict = match (goal.met, &goal.note) {
            (Some(true), _) => "met",
            (Some(false), _) => "missed",
            (None, Some(note)) => note,
            (None, None) => "not measured",
        };
        let id = if goal.stretch { format!("{} (stretch)", goal.id) } else { goal.id.clone() };
        let ratio = goal.ratio.map_or_else(String::new, number);
        let end = |ratio: Option<f64>| ratio.map_or_else(|| "∞".to_owned(), number);
        let spread = goal.spread.map(|[least, most]| format!("{} to {}", end(least), end(most)));
        let _ = writeln!(
            text,
            "| {id} | {} | {} | {} | {ratio} | {} | {} {} | {verdict} |",
            goal.text,
            goal.row,
            goal.against,
            spread.unwrap_or_default(),
            goal.sense,
            number(goal.limit)
        );
    }
    text.push('\n');
    text
}

/// A ratio, with as many digits as say something.
fn number(value: f64) -> String {
    match value.abs() {
        100_000.0.. => format!("{value:.2e}"),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Name of the count of an object's memory.
const BYTES_EACH: &str = "bytes of resident memory each";

/// The rows beside their peers; nothing for results without peers.
fn peer_table(results: &Results) -> String {
    let beside = || results.rows.iter().flat_map(|row| row.peers.iter().map(move |p| (row, p)));
    if beside().next().is_none() {
        return String::new();
    }
    let faster = beside().filter(|(_, peer)| peer.times_faster >= 1.0).count();
    let mut text = format!(
        "\nBeside the peers, measured directly behind each row: the row is faster in {faster} of {} pairs. Bytes are\n\
         resident memory of an object.\n\n",
        beside().count()
    );
    for Present { name, about } in &results.peers {
        let _ = writeln!(text, "- {name}: {about}");
    }
    for Missing { name, why } in &results.missing_peers {
        let _ = writeln!(text, "- {name} is not measured: {why}");
    }
    text += "\n| row | median | bytes | peer | calls | median | bytes | the row is | the peer does |\n\
             |---|---|---|---|---|---|---|---|---|\n";
    for (row, Peer { peer, calls, does, median_ns, times_faster, bytes_each }) in beside() {
        let bytes = |bytes: Option<&u64>| bytes.map_or_else(String::new, u64::to_string);
        let (own, other) = (bytes(row.counts.get(BYTES_EACH)), bytes(bytes_each.as_ref()));
        let speed = match times_faster {
            times @ 1.0.. => format!("{times:.1}x faster"),
            times => format!("{:.1}x slower", 1.0 / times),
        };
        let (row_name, median, beside) = (&row.name, &row.shown.median, time(*median_ns));
        let _ = writeln!(
            text,
            "| `{row_name}` | {median} | {own} | {peer} | {calls} | {beside} | {other} | {speed} | {does} |"
        );
    }
    text
}

/// Nanoseconds with a unit.
fn time(ns: f64) -> String {
    match ns {
        ..100.0 => format!("{ns:.1} ns"),
        ..1e3 => format!("{ns:.0} ns"),
        ..1e6 => format!("{:.2} µs", ns / 1e3),
        ..1e9 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
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
        let row = format!(
            r#"{{"name":"a","floor":{{"name":"b"}},"times_off_goal":2.84,"shown":{shown}}}"#
        );
        let table = table(&results(&row, ""));
        assert!(table.starts_with("m; release build, 3 passes. 0 of 1 rows meet their goal."));
        assert!(
            table.ends_with("| `a` | 1 ns | 2 ns | `b` | 3 ns | 4x | ≤ 5x | within 3x (2.8x) |\n")
        );
        let document = format!("head\n{BEGIN}\nold\n{END}\ntail");
        let new = with_table(&document, &table).unwrap();
        assert!(new.starts_with("head\n") && new.contains(&table) && new.ends_with("\ntail"));
        assert!(with_table("no place", &table).is_err());
    }

    fn results(rows: &str, rest: &str) -> Results {
        serde_json::from_str(&format!(r#"{{"machine":"m","passes":3,"rows":[{rows}]{rest}}}"#))
            .unwrap()
    }

    #[test]
    fn peers_have_a_table_of_their_own() {
        let row = |name: &str, peers: &str| {
            format!(
                r#"{{"name":"{name}","floor":{{"name":"b"}},"times_off_goal":1,"counts":{{"{BYTES_EACH}":7}},
                   "foreign_share":0.07,"peers":[{peers}],
                   "shown":{{"median":"5 ns","p99":"","floor":"","ratio":"","goal":""}}}}"#
            )
        };
        let peer = |name: &str, faster: f64| {
            format!(
                r#"{{"peer":"{name}","calls":"X","does":"less","median_ns":12,"times_faster":{faster}}}"#
            )
        };
        let both = format!("{},{}", peer("pipe", 2.0), peer("lane", 0.5));
        let rows = [row("a", &both), row("alone", "")].join(",");
        let rest = r#","peers":[{"name":"pipe","about":"version 2"}],"missing_peers":[{"name":"spin","why":"no gcc"}]"#;
        let table = table(&results(&rows, rest));
        let (before, beside) = table.split_once("Beside the peers").unwrap();
        assert!(before.contains("used at most 7 % of the machine"), "{before}");
        for line in [
            "faster in 1 of 2 pairs",
            "- pipe: version 2",
            "- spin is not measured: no gcc",
            "| `a` | 5 ns | 7 | pipe | X | 12.0 ns |  | 2.0x faster | less |",
            "| lane | X | 12.0 ns |  | 2.0x slower | less |",
        ] {
            assert!(beside.contains(line), "{line}: {beside}");
        }
        assert!(!beside.contains("alone"), "{beside}");
    }

    #[test]
    fn clauses_stand_before_the_rows() {
        let clause = |id: &str, rest: &str| {
            format!(
                r#"{{"id":"{id}","text":"t","row":"r","against":"f","sense":"at most","limit":1.5,{rest}}}"#
            )
        };
        let goals = [
            clause("1a", r#""ratio":1.254,"spread":[1.1,12.04],"met":true"#),
            clause("1b", r#""ratio":2000.0,"met":false"#),
            clause("1c", r#""ratio":9.0,"met":false,"stretch":true"#),
            clause("9a", r#""note":"not measured: later""#),
        ];
        let table = table(&results("", &format!(r#","goals":[{}]"#, goals.join(","))));
        let (clauses, _) = table.split_once("m; release build").unwrap();
        for line in [
            "1 of 3 clauses are met, 1 are missed, 1 are not measured.",
            "| 1a | t | r | f | 1.25 | 1.10 to 12.0 | at most 1.50 | met |",
            "| 1b | t | r | f | 2000 |  | at most 1.50 | missed |",
            "| 1c (stretch) |",
            "| 9a | t | r | f |  |  | at most 1.50 | not measured: later |",
        ] {
            assert!(clauses.contains(line), "{line}: {clauses}");
        }
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
