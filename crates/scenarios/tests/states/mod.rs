//! The states of the exhausted scenarios in words, one file for each beside this one.
//!
//! A count of states that moves says that something changed, and not what. When a count differs
//! from its pin, the search is made again with its states in words, and the test fails with the
//! lines that came, went or changed since the file (`decisions/0146`). `TIDEGATE_WRITE_STATES=1
//! cargo test
//! --package tidegate-scenarios --test scenarios` writes the files.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use tidegate::explorer::{Options, Scenario, StateList, list_states};

/// The most lines of a failure. The rest are counted.
const MOST_LINES: usize = 60;

fn path(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/states");
    folder.join(format!("{name}.txt"))
}

fn list(scenario: &dyn Scenario, options: &Options<'_>, states: u64) -> StateList {
    let (list, _) = list_states(scenario, options).expect("a deterministic scenario");
    assert_eq!(list.states, states, "{}: listed states are no others", scenario.name());
    list
}

/// Requires that the search of `scenario` found `pinned` states, and that its file, if it has one,
/// has as many.
pub fn are(scenario: &dyn Scenario, options: &Options<'_>, (found, pinned): (u64, u64)) {
    let name = scenario.name();
    let path = path(name);
    if std::env::var_os("TIDEGATE_WRITE_STATES").is_some() {
        let text = list(scenario, options, found).to_string();
        fs::write(&path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
    let Ok(text) = fs::read_to_string(&path) else {
        let next = "write its list on the tree before the change, with TIDEGATE_WRITE_STATES=1";
        return assert_eq!(found, pinned, "{name}: {next}, and run this again");
    };
    let known = StateList::parse(&text).unwrap_or_default();
    if found != pinned {
        let now = list(scenario, options, found);
        panic!("{name}: {pinned} states became {found}\n{}", changes(&now, &known));
    }
    assert_eq!(
        known.states,
        pinned,
        "{} is of another search: write it again with TIDEGATE_WRITE_STATES=1",
        path.display()
    );
}

fn changes(now: &StateList, known: &StateList) -> String {
    let lines = now.compare(known);
    let mut text = lines[..lines.len().min(MOST_LINES)].join("\n");
    let more = lines.len().saturating_sub(MOST_LINES);
    if more > 0 {
        let _ = write!(text, "\nand {more} lines more");
    }
    if lines.is_empty() {
        text.push_str("each position has as many states as before");
    }
    text
}
