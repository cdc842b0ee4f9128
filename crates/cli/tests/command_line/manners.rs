//! Help, completions, man pages, and the width of tables.

use crate::{ended, file, holds, place, printed, ran, root, text, tidegate};
use std::io::Write as _;
use std::process::{Command, Stdio};

const COMMANDS: [&str; 14] = [
    "run",
    "serve",
    "top",
    "record",
    "compare",
    "conform",
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

/// A table in a window of a stated width fits it, unless its words need more. In a pipe each row
/// has one line, and no cell is cut or wrapped.
#[test]
fn tables_fit_the_readers_columns_and_do_not_wrap_in_a_pipe() {
    let of = |name: &str| root().join("workloads").join(name).to_str().unwrap().to_owned();
    let (priorities, recording) = (of("priorities.toml"), of("recordings/pipelined.json.gz"));
    let other = of("recordings/pipelined-packet.json.gz");
    // The ten columns of queues with priorities are 108 letters wide where no word is broken.
    let commands: [(&[&str], &[&str]); 5] = [
        (&["adapters"], &["80", "140"]),
        (&["run", &priorities, "--clock", "virtual", "--quiet"], &["110", "140"]),
        (&["run", &recording, "--summary", "--quiet"], &["110"]),
        (&["diff", &other, &recording], &["110"]),
        (&["bench", "wake", "--passes", "1", "--divide", "1000"], &[]),
    ];
    for (arguments, widths) in commands {
        let run = |columns: Option<&str>| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
            command.args(arguments).current_dir(place("width")).env_remove("COLUMNS");
            command.envs(columns.map(|columns| ("COLUMNS", columns)));
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        let widest = |shown: &str| {
            let bordered = shown.lines().filter(|line| line.starts_with(['─', '═', ' ']));
            bordered.map(|line| line.chars().count()).max().unwrap()
        };
        for columns in widths {
            let shown = run(Some(*columns));
            assert!(widest(&shown) <= columns.parse().unwrap(), "{columns} columns: {shown}");
        }
        // A row that goes on in a second line has no first cell there; a head may lack one. The
        // differences of an adapter have a line of their own.
        let piped = run(None);
        let lines: Vec<&str> = piped.lines().collect();
        for (line, next) in lines.iter().zip(&lines[1..]) {
            let goes_on = line.starts_with("      ") && !line.trim_start().starts_with('[');
            assert!(!goes_on || next.starts_with('═'), "{arguments:?}: '{line}' in\n{piped}");
        }
    }
}

/// The README repeats the figures of the help.
#[test]
fn the_readme_and_the_help_say_how_long_a_command_takes_with_one_figure() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let words: Vec<&str> = readme.split_whitespace().collect();
    let readme = words.join(" ");
    for command in ["explore", "bench"] {
        let help = text(&tidegate(&place("durations"), &[command, "--help"]));
        let figure = help.split_once("\nTakes ").unwrap().1.split([',', ';']).next().unwrap();
        assert!(readme.contains(&format!("`{command}` takes {figure}")), "{command}: {figure}");
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
