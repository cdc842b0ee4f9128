//! `tidegate record --attach` against a service in a process of its own.

use super::{signal, start, workload};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tidegate_testbed::ServiceProcess;

fn record(service: &ServiceProcess, file: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["record", "--attach", "--socket"]).arg(service.socket()).arg("-o").arg(file);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts a recording. Returns it when it is attached.
fn attached(service: &ServiceProcess, file: &Path) -> Child {
    let mut recording = record(service, file, &[]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(recording.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("recording "), "{line}");
    recording
}

fn end(recording: Child) -> String {
    kill_process(Pid::from_child(&recording), Signal::INT).unwrap();
    said(&recording.wait_with_output().unwrap())
}

fn said(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn run(service: &ServiceProcess) {
    let run = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["run", "--quiet"])
        .arg(workload("ring-buffer.toml"))
        .arg("--connect")
        .arg(service.socket())
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(0), "{run:?}");
}

/// The lanes of a Chrome file as (kind, name, number of events).
fn lanes(file: &Path) -> Vec<(String, String, usize)> {
    let trace: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let lanes = trace["otherData"]["lanes"].as_array().unwrap().iter();
    let described = lanes.map(|lane| {
        let is_here =
            |e: &&Value| e["pid"] == lane["pid"] && e["tid"] == lane["tid"] && e["ph"] == "X";
        let text = |key: &str| lane[key].as_str().unwrap().to_owned();
        (text("kind"), text("name"), events.iter().filter(is_here).count())
    });
    described.collect()
}

#[test]
fn a_recording_has_engines_queues_and_calls_of_each_client_time_after_time() {
    let service = start();
    for round in 0..2 {
        let file = service.folder().join(format!("{round}.json"));
        let recording = attached(&service, &file);
        run(&service);
        let line = end(recording);
        assert!(line.contains(" 0 lost\nwrote ") && !line.contains("ended"), "{line}");
        let lanes = lanes(&file);
        let with = |kind: &str, name: &str| {
            let found = lanes.iter().filter(|lane| lane.0 == kind && lane.1.starts_with(name));
            found.map(|lane| lane.2).sum::<usize>()
        };
        assert!(with("engine", "copy") > 0 && with("engine", "3D") > 0, "{lanes:?}");
        assert!(with("queue", "user queue") > 0, "{lanes:?}");
        assert!(with("CPU thread", "calls") > 0, "{lanes:?}");
    }
}

#[test]
fn a_second_recording_is_refused_until_the_first_has_ended() {
    let service = start();
    let file = service.folder().join("a.pftrace");
    let first = attached(&service, &file);
    let other = service.folder().join("b.html");
    let refused = record(&service, &other, &[]).output().unwrap();
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(text.contains("the service is being recorded"), "{text}");
    assert_eq!((refused.status.code(), other.exists()), (Some(2), false));
    // A view is not a recording.
    let view = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["top", "--once", "--interval", "1ms", "--socket"])
        .arg(service.socket())
        .output()
        .unwrap();
    assert_eq!(view.status.code(), Some(0), "{view:?}");
    end(first);
    assert!(std::fs::metadata(&file).unwrap().len() > 0);
    said(&record(&service, &other, &["--seconds", "0"]).output().unwrap());
    assert!(std::fs::read_to_string(&other).unwrap().contains("<html"));
    // One that is killed ends its recording, too.
    let mut killed = attached(&service, &file);
    killed.kill().unwrap();
    killed.wait().unwrap();
    while record(&service, &other, &["--seconds", "0"]).output().unwrap().status.code() != Some(0) {
        std::thread::yield_now();
    }
}

#[test]
fn the_end_of_a_service_ends_its_recording_with_a_file() {
    let service = start();
    for end in [Signal::TERM, Signal::KILL] {
        let service = start();
        let file = service.folder().join("a.json");
        let recording = attached(&service, &file);
        run(&service);
        signal(&service, end);
        let printed = said(&recording.wait_with_output().unwrap());
        let wanted = format!("0 lost; the service has ended\nwrote {}\n", file.display());
        assert!(printed.ends_with(&wanted), "{printed}");
        assert!(!lanes(&file).is_empty());
    }
    let bad = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let output = command.args(arguments).arg("--socket").arg(service.socket()).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(bad(&["record", "--attach", "-o", "a.txt"]).contains(".pftrace"));
    assert!(bad(&["record", "-o", "a.html"]).contains("--attach"));
}
