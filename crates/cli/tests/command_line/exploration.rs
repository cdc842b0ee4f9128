//! What `explore` selects and prints, and its results as files.

use crate::{place, refused, text, tidegate};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn parts_of_names_select_and_results_are_lines_json_and_junit() {
    let place = place("explore");
    let output = tidegate(
        &place,
        &["explore", "wake-wor", "--junit", "explore.xml", "--json", "explore.json"],
    );
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("'wake-wor' selects "), "{said}");
    let results: serde_json::Value =
        serde_json::from_slice(&std::fs::read(place.join("explore.json")).unwrap()).unwrap();
    let results = results["results"].as_array().unwrap();
    assert_eq!(
        lines.len(),
        results.len() + 5,
        "a note, a head, a line for each search, a summary, two files: {said}"
    );
    let junit = std::fs::read_to_string(place.join("explore.xml")).unwrap();
    assert!(
        junit
            .contains(&format!(r#"<testsuites name="tidegate explore" tests="{}""#, results.len())),
        "{junit}"
    );
    for result in results {
        let runs = result["runs"].to_string();
        let name = match result["bug"].as_str() {
            Some(bug) => format!("wake-word+{bug}"),
            None => "wake-word".to_owned(),
        };
        // A line is printed as its search ends, and several searches run at a time.
        let is_its_line = |line: &&&str| line.split_whitespace().next_back() == Some(&name);
        let line = lines.iter().find(is_its_line).unwrap_or_else(|| panic!("no {name}: {said}"));
        assert!(line.split_whitespace().any(|word| word == runs), "{line} is not {result}");
        assert!(
            line.starts_with(if result["bug"].is_null() { "holds" } else { "found" }),
            "{line}"
        );
        let case = format!(r#"<testcase name="{name}" classname="wake-word""#);
        let says = format!(": {runs} runs, ");
        let mut cases = junit.split("</testcase>").filter(|one| one.contains(&case));
        assert!(cases.any(|one| one.contains(&says)), "{says} of {name}: {junit}");
        let covered = if result["bug"].is_null() { "exhausted" } else { "to the first failure" };
        assert!(line.contains(covered), "{line}");
    }
    assert!(lines[lines.len() - 3].contains("1 of 1 scenarios without a failure"), "{said}");
    let listed = text(&tidegate(&place, &["explore", "--list", "wake-w*"]));
    assert!(listed.contains("\nwake-word: exhausted;") && !listed.contains("litmus"), "{listed}");
    assert!(listed.contains("a model of one protocol, without a machine"), "{listed}");
    refused(
        &["explore", "wake-wrod"],
        &["no scenario matches 'wake-wrod'", "did you mean 'wake-word'?"],
    );
    refused(&["explore", "wake-word", "--json", "x", "--junit", "x"], &["--junit x", "same place"]);
}

/// The searches that had ended when Ctrl-C came are in the results; those that it cut are not.
#[test]
fn an_interrupted_exploration_writes_what_has_ended() {
    let place = place("interrupted");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["explore", "--junit", "i.xml"]).current_dir(&place);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let verdicts = ["holds", "no failure", "found"];
    let ended = |line: &String| verdicts.iter().any(|verdict| line.starts_with(verdict));
    let first = lines.find(ended).expect("a search ends");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let rest: Vec<String> = lines.collect();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let printed = 1 + rest.iter().filter(|line| ended(line)).count();
    assert!(said.contains(&format!("interrupted: {printed} of ")), "{said}");
    let junit = std::fs::read_to_string(place.join("i.xml")).unwrap();
    assert_eq!(junit.matches("<testcase ").count(), printed, "{junit}");
    let name = first.split_whitespace().next_back().unwrap();
    assert!(junit.contains(&format!(r#"<testcase name="{name}""#)), "{junit}");
    assert_eq!(rest.last().unwrap(), &format!("wrote {}", place.join("i.xml").display()));
}

/// A whole exploration takes minutes, so a process that the end of its pipe stops has printed
/// before its end.
#[test]
fn a_line_is_printed_as_each_search_ends() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .arg("explore")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().starts_with("verdict"));
    let first = lines.next().unwrap();
    // Which search ends first is the host's affair.
    let verdicts = ["holds", "no failure", "found"];
    assert!(verdicts.iter().any(|verdict| first.starts_with(verdict)), "{first}");
    drop(lines);
    assert_eq!(child.wait().unwrap().code(), Some(141));
}

/// A line of a check is replayed by the test that made it: here by a command that stands for it.
#[test]
fn a_line_of_a_check_is_replayed_by_its_test() {
    let place = place("replay of a check");
    let line = "ring/tso/exhaustive:A";
    let shown = |command: &str, code: i32| {
        let output = tidegate(&place, &["replay", line, "--test", command]);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        text(&output)
    };
    let fails = "echo \"steps of $TIDEGATE_REPLAY\" > $TIDEGATE_REPLAY_REPORT; exit 101";
    assert!(shown(fails, 1).contains("steps of ring/tso/exhaustive:A"));
    assert!(shown("echo fine > $TIDEGATE_REPLAY_REPORT", 0).contains("fine"));
    assert!(shown("true", 2).contains("no check 'ring' ran in 'true'"));
    let output = tidegate(&place, &["replay", line]);
    assert!(text(&output).contains("--test 'cargo test NAME'"), "{}", text(&output));
}
