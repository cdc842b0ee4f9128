//! The command: runs, its end, and its errors.

use super::{Service, workload};
use rustix::process::Signal;
use std::process::{Command, Output};
use tidegate::Platform;
use tidegate::calls::{DeviceState, Kernel};
use tidegate::service::client;

fn tidegate() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
}

fn run(service: &Service, words: &[&str]) -> Output {
    let file = workload("ring-buffer.toml");
    tidegate()
        .arg("run")
        .arg(file)
        .arg("--connect")
        .arg(service.socket())
        .args(words)
        .output()
        .unwrap()
}

#[test]
fn a_workload_runs_on_a_service_in_each_model() {
    let service = Service::start();
    for model in ["user", "hardware", "packet"] {
        let output = run(&service, &["--submission", model, "--json", "-"]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{model}: {}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&report["verified"], &report["remote_machine"]), (&true.into(), &true.into()));
    }
}

#[test]
fn sigterm_ends_the_service_and_removes_its_socket() {
    let mut service = Service::start();
    let client = service.client("left");
    let device = client.create_device().unwrap();
    service.signal(Signal::TERM);
    assert!(service.process.wait().unwrap().success());
    assert!(!service.socket().exists());
    assert_eq!(client.device_state(device), Ok(DeviceState::Removed));
}

#[test]
fn a_killed_service_is_a_removed_device_and_a_new_one_takes_its_socket() {
    let mut service = Service::start();
    let client = service.client("left");
    let device = client.create_device().unwrap();
    service.process.kill().unwrap();
    service.process.wait().unwrap();
    assert_eq!(client.device_state(device), Ok(DeviceState::Removed));
    assert!(service.socket().exists(), "nothing could remove it");
    let mut again = tidegate()
        .args(["serve", "--socket"])
        .arg(service.socket())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut from = std::io::BufReader::new(again.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut from, &mut line).unwrap();
    let client = client::connect(&Platform::host(), &service.socket(), 0, "again").unwrap();
    client.create_device().unwrap();
    again.kill().unwrap();
    again.wait().unwrap();
}

#[test]
fn errors_say_what_and_where() {
    let service = Service::start();
    let second = tidegate().args(["serve", "--socket"]).arg(service.socket()).output().unwrap();
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(second.status.code() == Some(2) && text.contains("another service"), "{text}");

    let lost = tidegate()
        .arg("run")
        .arg(workload("hello.toml"))
        .args(["--connect", "/nowhere/socket"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&lost.stderr).into_owned();
    assert!(lost.status.code() == Some(2) && text.contains("/nowhere/socket"), "{text}");

    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("bad.toml");
    std::fs::write(&file, "[limits]\nqueues = \"many\"\n").unwrap();
    let bad = tidegate().args(["serve", "--config"]).arg(&file).output().unwrap();
    let text = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert!(text.contains("bad.toml") && text.contains("line 2"), "{text}");

    let none = tidegate().arg("serve").output().unwrap();
    assert!(String::from_utf8_lossy(&none.stderr).contains("--socket PATH"));
}

#[test]
fn a_limit_of_the_configuration_holds() {
    let service = Service::with_config("clients = 1\n");
    let _first = service.client("first");
    let refused = client::connect(&Platform::host(), &service.socket(), 0, "second").unwrap_err();
    assert!(refused.to_string().contains("1 clients"), "{refused}");
}
