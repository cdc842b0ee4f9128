//! The command: runs, its end, and its errors.

use super::kills::Neighbour;
use super::{Service, workload};
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tidegate::Platform;
use tidegate::calls::{DeviceState, Kernel};
use tidegate::d3d12::{Device, DeviceOptions, Error};
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

/// A service at the socket of one that was killed.
fn start_again(socket: &Path) -> Child {
    let mut again = tidegate()
        .args(["serve", "--socket"])
        .arg(socket)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(again.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("serving on "), "{line}");
    again
}

#[test]
fn a_killed_service_is_a_removed_device_and_the_process_goes_on_with_a_new_one() {
    let mut service = Service::start();
    let mut before = Neighbour::new(&service);
    before.work();
    let client = service.client("left");
    let device = client.create_device().unwrap();
    let options = || DeviceOptions::new("left");
    let lost = Device::new(&Platform::host(), service.client("left"), options()).unwrap();
    let fence = lost.create_fence("never signalled", 0).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| fence.wait(1));
        service.process.kill().unwrap();
        service.process.wait().unwrap();
        let ended = waiter.join().unwrap();
        assert!(matches!(ended, Err(Error::DeviceRemoved(_))), "a wait ended with {ended:?}");
    });
    assert_eq!(client.device_state(device), Ok(DeviceState::Removed));
    let refused = lost.create_fence("of a lost device", 0).map(drop);
    assert!(matches!(refused, Err(Error::DeviceRemoved(_))), "a call ended with {refused:?}");
    assert!(service.socket().exists(), "nothing could remove it");
    let mut again = start_again(&service.socket());
    // The objects of the killed service are dropped beside those of the new one, and after it began.
    let mut after = Neighbour::new(&service);
    after.work();
    drop((fence, lost, before));
    after.work();
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
