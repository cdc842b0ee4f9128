//! Help, completions, man pages, and the width of tables.

use crate::{place, root, text, tidegate};
use std::process::Command;

const COMMANDS: [&str; 13] = [
    "run",
    "serve",
    "top",
    "record",
    "compare",
    "diff",
    "explore",
    "swarm",
    "replay",
    "adapters",
    "bench",
    "completions",
    "man",
];

#[test]
fn the_help_of_each_command_has_two_examples() {
    for command in COMMANDS {
        let help = text(&tidegate(&root(), &[command, "--help"]));
        let examples = help.split_once("Examples:\n").map_or("", |(_, examples)| examples);
        assert!(examples.matches("  tidegate ").count() >= 2, "{command}: {help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{command}: {help}");
    }
}

#[test]
fn completions_and_man_pages_know_every_command_and_flag() {
    let place = place("manual");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = tidegate(&place, &["completions", shell]);
        let script = text(&output);
        assert_eq!(output.status.code(), Some(0), "{script}");
        for word in COMMANDS.iter().chain(&["submission", "timeline", "junit"]) {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let page = text(&tidegate(&place, &["man"]));
    assert!(page.contains(".TH tidegate 1") && page.contains("compare"), "{page}");
    let output = tidegate(&place, &["man", "pages"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    for command in COMMANDS {
        let page =
            std::fs::read_to_string(place.join(format!("pages/tidegate-{command}.1"))).unwrap();
        assert!(page.contains("Examples:"), "{command}: {page}");
    }
    assert_eq!(std::fs::read_dir(place.join("pages")).unwrap().count(), COMMANDS.len() + 1);
}

#[test]
fn tables_fit_the_readers_columns() {
    let workload = root().join("workloads/priorities.toml");
    let run = ["run", workload.to_str().unwrap(), "--clock", "virtual", "--quiet"];
    for arguments in [&["adapters"][..], &run] {
        for columns in [None, Some(80), Some(140)] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
            command.args(arguments).current_dir(place("width")).env_remove("COLUMNS");
            if let Some(columns) = columns {
                command.env("COLUMNS", columns.to_string());
            }
            let shown = String::from_utf8(command.output().unwrap().stdout).unwrap();
            let bordered = |line: &&str| line.starts_with(['─', '═', ' ']);
            let widest =
                shown.lines().filter(bordered).map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= columns.unwrap_or(100), "{widest} of {columns:?} columns: {shown}");
        }
    }
}
