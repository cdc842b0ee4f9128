//! Clients in containers: new user, mount, PID and network namespaces, with the program, its
//! workload and the socket of the service.

use super::{start, start_with, workload};
use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};
use tidegate_testbed::{Container, ServiceProcess};

const TIDEGATE: &str = env!("CARGO_BIN_EXE_tidegate");

/// Returns a container with the program and the socket of a service.
fn container(service: &ServiceProcess) -> Option<Container> {
    let container = Container::new()?.with(Path::new(TIDEGATE), "tidegate");
    Some(container.with(&service.socket(), "socket"))
}

/// Returns the command that runs a workload in a container.
fn run(container: &Container) -> Command {
    let mut command = container.command("/client/tidegate");
    command.args(["run", "/client/workload.toml", "--connect", "/client/socket", "--json", "-"]);
    command
}

/// Runs a workload in a container, and returns its report.
fn report(container: &Container, words: &[&str]) -> Value {
    let output = run(container).args(words).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the row of the only client, once it waits.
fn row(service: &ServiceProcess) -> Value {
    service.until_waiting(1);
    let mut top = Command::new(TIDEGATE);
    let output = top.args(["top", "--json", "--socket"]).arg(service.socket()).output().unwrap();
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [row] = seen["processes"]["rows"].as_array().unwrap().as_slice() else {
        panic!("{seen:#}");
    };
    row.clone()
}

/// A container that is killed with this. Its client waits for a fence that nothing signals.
struct Waiting(Child);

impl Waiting {
    fn start(service: &ServiceProcess, container: Container) -> (Waiting, Container) {
        let file = service.folder().join("waits.toml");
        std::fs::write(&file, super::serve::WAITS_FOR_EVER).unwrap();
        let container = container.with(&file, "workload.toml");
        (Waiting(run(&container).spawn().unwrap()), container)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[test]
fn workloads_run_in_a_container() {
    let service = start_with(super::serve::FOR_ALL);
    let Some(container) = container(&service) else { return };
    let folder = workload("hello.toml").parent().unwrap().to_owned();
    let container = container.with(&folder, "workloads");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    for name in files.map(|name| name.into_string().unwrap()) {
        let model = if name == "presenting.toml" { "hardware" } else { "user" };
        if name.ends_with(".toml") {
            let mut command = container.command("/client/tidegate");
            command.arg("run").arg(format!("/client/workloads/{name}"));
            command.args(["--connect", "/client/socket", "--submission", model]);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{name}: {output:?}");
        }
    }
}

/// A queue submits a copy and a signal many times, and the thread waits for the last one.
const STREAM: &str = "name = \"stream\"\n[let]\ncount = 1\n\
    [[buffer]]\nname = \"from\"\nbytes = 64\n[[buffer]]\nname = \"to\"\nbytes = 64\n\
    [[fence]]\nname = \"done\"\n[[queue]]\nname = \"copy\"\nengine = \"copy\"\nprogram = [\n\
    { loop = \"i\", from = 1, to = \"count\", do = [\n\
    { copy = \"from\", to = \"to\", bytes = 64 }, { signal = \"done\", value = \"i\" }] },\n]\n\
    [[thread]]\nname = \"t\"\nprogram = [{ cpu_wait = \"done\", value = \"count\" }]\n";

#[test]
fn submissions_in_a_container_are_no_messages() {
    let service = start();
    let Some(container) = container(&service) else { return };
    let file = service.folder().join("stream.toml");
    std::fs::write(&file, STREAM).unwrap();
    let container = container.with(&file, "workload.toml");
    let calls = |count: &str, model| {
        let before = service.counter("calls_total");
        let report =
            report(&container, &["--let", &format!("count={count}"), "--submission", model]);
        assert_eq!(report["completed"], true, "{report:#}");
        while service.counter("processes") > 0 {
            std::thread::yield_now();
        }
        service.counter("calls_total") - before
    };
    let (one, many) = (calls("1", "user"), calls("500", "user"));
    // The last wait is registered unless its value is there already.
    assert!(many.abs_diff(one) <= 3, "{one} calls for 1 submission, {many} for 500");
    let by_call = calls("500", "hardware");
    assert!(by_call >= 500, "a kernel-mode queue makes a call for each: {by_call}");
}

#[test]
fn the_view_shows_a_container_as_the_service_sees_it() {
    let service = start();
    let Some(container) = container(&service) else { return };
    let (waiting, _container) = Waiting::start(&service, container);
    let row = row(&service);
    let status = std::fs::read_to_string(format!("/proc/{}/status", row["pid"])).unwrap();
    let line = |name: &str| {
        let found = status.lines().find_map(|line| line.strip_prefix(name));
        found.unwrap_or_default().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    // The number outside, and the one inside.
    let numbers = line("NSpid:");
    let outside = numbers[0].parse().ok();
    assert!(numbers.len() == 2 && outside == row["pid"].as_u64(), "{row} {numbers:?}");
    assert_eq!(line("Name:"), ["tidegate"]);
    assert_eq!((&row["name"], row["uid"].to_string()), (&"waits".into(), line("Uid:")[0].clone()));
    drop(waiting);
    while service.counter("processes") > 0 {
        std::thread::yield_now();
    }
}

/// Root of a user namespace is the user that made it.
#[test]
fn root_in_a_container_is_its_user_outside() {
    const OTHER: u32 = 60_001;
    for any_user in [true, false] {
        let service = start_with(&format!("any_user = {any_user}\n"));
        std::fs::set_permissions(service.folder(), Permissions::from_mode(0o755)).unwrap();
        // The check of the peer is tested, and not the mode of the file.
        std::fs::set_permissions(service.socket(), Permissions::from_mode(0o666)).unwrap();
        let Some(container) = container(&service).and_then(|made| made.of_user(OTHER)) else {
            return;
        };
        if any_user {
            let (_waiting, _container) = Waiting::start(&service, container);
            assert_eq!(row(&service)["uid"], OTHER);
        } else {
            let container = container.with(&workload("hello.toml"), "workload.toml");
            let output = run(&container).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.code() == Some(2) && errors.contains("user"), "{errors}");
        }
    }
}

/// A client outside of the service's PID namespace has no number in it.
#[test]
fn a_service_in_a_container_has_clients_outside() {
    let mut kept = None;
    if Container::new().is_none() {
        return;
    }
    let service = ServiceProcess::start(|folder| {
        let container = Container::new().unwrap().with(Path::new(TIDEGATE), "tidegate");
        let container = kept.insert(container.with(folder, "run"));
        let mut command = container.command("/client/tidegate");
        command.args(["serve", "--socket", "/client/run/socket"]);
        command
    });
    let mut run = Command::new(TIDEGATE);
    let run = run.arg("run").arg(workload("hello.toml")).arg("--connect").arg(service.socket());
    assert!(run.output().unwrap().status.success());
    let _client = service.client("outside");
    let mut top = Command::new(TIDEGATE);
    let top = top.args(["top", "--socket"]).arg(service.socket());
    let (text, json) = (top.output().unwrap(), top.arg("--json").output().unwrap());
    let seen: Value = serde_json::from_slice(&json.stdout).unwrap();
    let row = &seen["processes"]["rows"][0];
    assert_eq!((&row["pid"], &row["name"]), (&0.into(), &"outside".into()), "{seen:#}");
    let text = String::from_utf8(text.stdout).unwrap();
    let line = text.lines().find(|line| line.contains("outside")).unwrap();
    assert!(line.split_whitespace().any(|cell| cell == "-"), "{text}");
}
