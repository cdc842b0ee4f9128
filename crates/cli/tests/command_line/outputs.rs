//! Where outputs go: files, links, FIFOs, devices, descriptors, closed pipes and full devices.
//!
//! Device nodes are only reached through links of the test's own, so that a defect replaces the
//! link and not the node.

use crate::{place, refused, root, text, tidegate};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An empty folder.
fn fresh(name: &str) -> PathBuf {
    let place = place(name);
    fs::remove_dir_all(&place).unwrap();
    fs::create_dir(&place).unwrap();
    place
}

fn hello() -> String {
    root().join("workloads/hello.toml").to_str().unwrap().to_owned()
}

/// Runs the smallest workload with these flags.
fn run(place: &Path, flags: &[&str]) -> std::process::Output {
    tidegate(place, &[&["run", &hello(), "--clock", "virtual", "--quiet"], flags].concat())
}

fn is_report(bytes: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(bytes)
        .is_ok_and(|report| report["completed"] == true)
}

#[test]
fn a_file_is_replaced_whole_and_keeps_its_permissions_and_its_link() {
    let place = fresh("replaced");
    let file = place.join("report.json");
    fs::write(&file, "old".repeat(100_000)).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    fs::create_dir(place.join("below")).unwrap();
    symlink("../report.json", place.join("below/link")).unwrap();
    symlink("new.json", place.join("dangling")).unwrap();
    for (path, written) in [("below/link", "report.json"), ("dangling", "new.json")] {
        let output = run(&place, &["--json", path]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        assert!(is_report(&fs::read(place.join(written)).unwrap()), "{path}");
        assert!(fs::symlink_metadata(place.join(path)).unwrap().is_symlink(), "{path}");
    }
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    let mut left: Vec<_> = fs::read_dir(&place).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["below", "dangling", "new.json", "report.json"], "temporaries are gone");
}

/// The page that `compare` writes without being asked to.
#[test]
fn a_default_page_that_would_replace_the_input_is_not_written() {
    let place = fresh("default-page");
    let input = fs::read(hello()).unwrap();
    fs::write(place.join("compare.html"), &input).unwrap();
    let output = tidegate(&place, &["compare", "compare.html"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("no page is written: ") && said.contains("--html"), "{said}");
    assert!(!said.contains("compare.html\nwrote"), "{said}");
    assert_eq!(fs::read(place.join("compare.html")).unwrap(), input);
    // A page that is asked for is written, and the run has no such line.
    let output = tidegate(&place, &["compare", "compare.html", "--html", "page.html"]);
    let said = text(&output);
    assert!(!said.contains("no page is written"), "{said}");
    assert!(fs::read_to_string(place.join("page.html")).unwrap().contains("<canvas"));
}

#[test]
fn devices_fifos_and_descriptors_are_written_through() {
    let place = fresh("streams");
    symlink("/dev/null", place.join("null")).unwrap();
    let output = run(&place, &["--json", "null"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(fs::read_link(place.join("null")).unwrap(), Path::new("/dev/null"));
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());

    assert!(Command::new("mkfifo").arg(place.join("fifo")).status().unwrap().success());
    let reader =
        Command::new("cat").arg(place.join("fifo")).stdout(Stdio::piped()).spawn().unwrap();
    let output = run(&place, &["--json", "fifo"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(fs::symlink_metadata(place.join("fifo")).unwrap().file_type().is_fifo());
    assert!(is_report(&reader.wait_with_output().unwrap().stdout));

    let script = r#"exec 3>>log; echo first >&3; "$0" run "$1" --clock virtual --json /dev/fd/3 >table; echo last >&3"#;
    let shell = ["-c", script, env!("CARGO_BIN_EXE_tidegate"), &hello()];
    assert!(Command::new("sh").args(shell).current_dir(&place).status().unwrap().success());
    let log = fs::read_to_string(place.join("log")).unwrap();
    let report = log.strip_prefix("first\n").and_then(|rest| rest.strip_suffix("last\n"));
    assert!(report.is_some_and(|report| is_report(report.as_bytes())), "{log}");

    symlink("/dev/stdout", place.join("stdout")).unwrap();
    let output = run(&place, &["--json", "stdout"]);
    assert!(
        is_report(&output.stdout),
        "/dev/stdout is '-': no table beside the report: {}",
        text(&output)
    );
    let output = run(&place, &["--timeline", "-"]);
    assert!(
        output.stdout.ends_with(b"</html>\n") || output.stdout.ends_with(b"</html>"),
        "{}",
        text(&output)
    );
}

#[test]
fn outputs_that_cannot_be_written_are_refused_before_the_run() {
    let place = fresh("unwritable");
    fs::write(place.join("kept.json"), "kept").unwrap();
    fs::set_permissions(place.join("kept.json"), Permissions::from_mode(0o444)).unwrap();
    symlink("kept.json", place.join("link.json")).unwrap();
    symlink("round", place.join("round")).unwrap();
    fs::create_dir(place.join("folder")).unwrap();
    let bad = [
        ("kept.json", "read-only"),
        ("link.json", "read-only"),
        ("folder", "it is a folder"),
        ("missing/report.json", "folder missing"),
        ("new/", "names a folder"),
        ("round", "links"),
        ("/dev/fd/0", "open for reading"),
    ];
    for (path, word) in bad {
        let output = run(&place, &["--timeline", "early.html", "--json", path]);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{path}: {said}");
        assert!(
            said.contains("--json") && said.contains(path) && said.contains(word),
            "{path}: {said}"
        );
        assert!(!place.join("early.html").exists(), "{path}: nothing is written");
    }
    assert_eq!(fs::read_to_string(place.join("kept.json")).unwrap(), "kept");
}

#[test]
fn two_outputs_to_one_place_are_refused() {
    let place = fresh("one-place");
    fs::write(place.join("old"), "old").unwrap();
    fs::hard_link(place.join("old"), place.join("other-name")).unwrap();
    symlink("new", place.join("link")).unwrap();
    symlink("/dev/stdout", place.join("stdout")).unwrap();
    fs::create_dir(place.join("folder")).unwrap();
    for (a, b) in [
        ("new", "new"),
        ("new", "folder/../new"),
        ("new", "link"),
        ("old", "other-name"),
        ("-", "-"),
        ("-", "stdout"),
    ] {
        let output = run(&place, &["--json", a, "--chrome", b]);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{a} {b}: {said}");
        assert!(
            said.contains("--json") && said.contains("--chrome") && said.contains("same place"),
            "{said}"
        );
        assert!(!place.join("new").exists());
    }
    let workload = root().join("workloads/frame-graph.toml");
    refused(
        &["run", workload.to_str().unwrap(), "--clock", "virtual", "--json", "frame.png"],
        &["--json frame.png", "picture of workload", "same place"],
    );
}

#[test]
fn no_output_replaces_an_input() {
    let place = fresh("inputs");
    let workload = fs::read(hello()).unwrap();
    for name in ["m.toml", "b.toml"] {
        fs::write(place.join(name), &workload).unwrap();
    }
    symlink("m.toml", place.join("link")).unwrap();
    fs::hard_link(place.join("m.toml"), place.join("hard")).unwrap();
    for line in [
        "run m.toml --timeline m.toml",
        "run m.toml --chrome link",
        "run link --perfetto hard",
        "run b.toml --beside m.toml --kernels m.toml",
        "run m.toml --json hard",
        "compare m.toml --html m.toml",
        "compare m.toml --json link",
        "diff m.toml b.toml --json b.toml",
    ] {
        let output = tidegate(&place, &line.split(' ').collect::<Vec<_>>());
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(said.contains("this file is an input"), "{line}: {said}");
        for name in ["m.toml", "b.toml"] {
            assert_eq!(fs::read(place.join(name)).unwrap(), workload, "{line} changed {name}");
        }
        let link = fs::symlink_metadata(place.join("link")).unwrap();
        assert!(link.is_symlink(), "{line} replaced a link");
    }
    // A workload can name its own file as a picture.
    let graph = fs::read_to_string(root().join("workloads/frame-graph.toml")).unwrap();
    let own = graph.replace("\"frame.png\"", "\"graph.toml\"");
    assert_ne!(own, graph);
    fs::write(place.join("graph.toml"), &own).unwrap();
    let output = tidegate(&place, &["run", "graph.toml", "--clock", "virtual"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert_eq!(fs::read_to_string(place.join("graph.toml")).unwrap(), own);
}

#[test]
fn a_closed_pipe_ends_a_command_quietly() {
    let place = place("closed-pipe");
    for arguments in [
        &["explore", "--list"][..],
        &["adapters"],
        &["adapters", "--json", "-"],
        &["run", &hello(), "--clock", "virtual"],
        &["--help"],
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(arguments)
            .current_dir(&place)
            .stdin(Stdio::piped())
            .stdout(closed_pipe())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdin.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (output.status.code(), text(&output).as_str()),
            (Some(141), ""),
            "{arguments:?}"
        );
    }
}

/// The writing end of a pipe without a reader.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn a_full_device_is_an_error_in_one_line() {
    let place = fresh("full");
    symlink("/dev/full", place.join("full")).unwrap();
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for arguments in
        [&["adapters"][..], &["adapters", "--json", "-"], &["explore", "--list"], &["--help"]]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let output = command.args(arguments).stdout(full()).output().unwrap();
        let said = text(&output);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.to_lowercase().contains("standard output: no space left"), "{said}");
    }
    let output = tidegate(&place, &["adapters", "--json", "full"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(
        text(&output).to_lowercase().contains("cannot write full: no space left"),
        "{}",
        text(&output)
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let status = command.args(["run", "nowhere.toml"]).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(2), "an error that cannot be shown does not panic");
}
