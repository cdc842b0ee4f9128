//! Help, completions, man pages, and the width of tables.

use crate::{ended, file, holds, place, printed, ran, root, text, tidegate};
use std::io::Write as _;
use std::process::{Command, Stdio};

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

/// The names of all files that a command wrote are its last lines. In virtual time two runs write
/// the same report.
#[test]
fn every_file_that_was_written_is_named() {
    let place = place("named");
    let line = "run workloads/hello.toml --clock virtual --quiet --json r.json --chrome t.json --kernels k.csv";
    let said = text(&ran(&place, line));
    let named: Vec<&str> = said.lines().rev().take(3).collect();
    for (line, name) in named.iter().rev().zip(["t.json", "k.csv", "r.json"]) {
        assert_eq!(*line, format!("wrote {}", place.join(name).display()), "{said}");
    }
    holds(&said, &[" clock", "virtual"]);
    let first = file(&place, "r.json");
    ran(&place, line);
    assert_eq!(first, file(&place, "r.json"));
    let json_only =
        ran(&place, "run workloads/hello.toml --clock virtual --quiet --json - --chrome t.json");
    assert!(printed(&json_only)["elapsed_ns"].is_null(), "nothing but JSON is printed");
}

#[test]
fn a_workload_can_come_from_standard_input() {
    let place = place("stdin");
    let through = |arguments: &[&str], input: &[u8]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(arguments).current_dir(&place).env("COLUMNS", "200");
        let child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        text(&child.wait_with_output().unwrap())
    };
    let ring = std::fs::read(root().join("workloads/ring-buffer.toml")).unwrap();
    // The longer runs of a comparison read the same input again.
    let said = through(&["compare", "-", "--quiet"], &ring);
    holds(&said, &["user: ", "holds at 2x the length and at 10x the length"]);
    assert_eq!(said, text(&ran(&place, "compare workloads/ring-buffer.toml --quiet")));
    let trace = place.join("t.json");
    ran(&place, "run workloads/hello.toml --clock virtual --quiet --chrome t.json");
    holds(&through(&["run", "-", "--quiet"], &std::fs::read(trace).unwrap()), &["right"]);
    holds(&through(&["run", "-"], b"[[queue]]\n"), &["standard input:1:1: "]);
}

#[test]
fn a_misspelt_command_is_suggested() {
    let place = place("suggested");
    for (wrong, right) in [("rnu", "run"), ("compre", "compare"), ("tpo", "top")] {
        holds(&text(&ended(&place, 2, wrong)), &[&format!("'{right}'")]);
    }
}
