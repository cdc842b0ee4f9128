//! `tidegate top` against a service in another process.

use super::start;
use serde_json::Value;
use std::process::{Command, Output};
use tidegate::calls::{
    CreateMonitoredFence, FenceValue, Handle, Kernel, SyncObjectFlags, WaitMode, WaitNotice,
};
use tidegate::platform::Step;
use tidegate::service::client::RemoteKernel;
use tidegate_testbed::ServiceProcess;

fn top(service: &ServiceProcess, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["top", "--interval", "1ms"]).args(arguments);
    command.env("TIDEGATE_SOCKET", service.socket()).output().unwrap()
}

fn json(service: &ServiceProcess, arguments: &[&str]) -> Value {
    let output = top(service, &[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn fence(client: &RemoteKernel, device: Handle, name: &str) -> Handle {
    let args = CreateMonitoredFence {
        device,
        initial_value: 5,
        flags: SyncObjectFlags::empty(),
        engine_affinity: 0,
        name,
    };
    client.create_monitored_fence(args).unwrap().handle
}

#[test]
fn a_view_has_the_objects_of_each_process() {
    let service = start();
    let (client, other) = (service.client("first"), service.client("second"));
    let device = client.create_device().unwrap();
    other.create_device().unwrap();
    let long = "n".repeat(1_000);
    let fences = [FenceValue { fence: fence(&client, device, &long), value: 9 }];
    let event = tidegate::Platform::host().event(true);
    let notice = WaitNotice::Event(event.clone());
    let wait = client.register_cpu_wait(&fences, WaitMode::All, notice).unwrap();
    let seen = json(&service, &[]);
    let [first, second] = seen["processes"]["rows"].as_array().unwrap().as_slice() else {
        panic!("{seen:#}");
    };
    assert_eq!((&first["name"], &second["name"]), (&"first".into(), &"second".into()));
    assert_eq!((&first["handles"], &second["handles"]), (&2.into(), &1.into()), "{seen:#}");
    assert_eq!((&first["calls"], &first["pid"]), (&3.into(), &std::process::id().into()));
    let row = &seen["fences"]["rows"][0];
    assert_eq!((&row["process"], &row["value"]), (&first["process"], &5.into()), "{seen:#}");
    assert_eq!((&row["waiters"], row["name"].as_str().unwrap().len()), (&1.into(), 64));
    let row = &seen["waiters"]["rows"][0];
    assert_eq!((&row["awaited"], &row["kind"]), (&9.into(), &"cpu".into()), "{seen:#}");
    assert_eq!(row["process"], first["process"]);
    assert_eq!(seen["machine"]["engines"].as_array().unwrap().len(), 3, "{seen:#}");
    drop(wait);
    // The end of a process is the end of its rows.
    drop(client);
    event.set(Step::ThreadWake);
    while service.counter("processes") > 1 {
        std::thread::yield_now();
    }
    let seen = json(&service, &[]);
    assert_eq!(seen["processes"]["rows"].as_array().unwrap().len(), 1, "{seen:#}");
    assert_eq!(seen["waiters"]["rows"], Value::Array(Vec::new()), "{seen:#}");
}

#[test]
fn many_rows_are_cut_where_that_is_wanted() {
    const FENCES: usize = 1_100;
    let service = start();
    let client = service.client("many");
    let device = client.create_device().unwrap();
    for number in 0..FENCES {
        fence(&client, device, &number.to_string());
    }
    let cut = json(&service, &["--rows", "600"]);
    assert_eq!(cut["fences"]["rows"].as_array().unwrap().len(), 600);
    assert_eq!((&cut["fences"]["more"], &cut["queues"]["more"]), (&true.into(), &false.into()));
    assert_eq!(cut["machine"]["fences"], FENCES);
}

#[test]
fn without_a_terminal_the_view_is_text() {
    let service = start();
    let _client = service.client("first");
    for arguments in [&[][..], &["--once"]] {
        let output = top(&service, arguments);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.contains("processes: 1") && text.contains("first"), "{text}");
        assert!(text.contains("engines: 3") && !text.contains("waiters:"), "{text}");
        assert!(!text.contains('\x1b'), "{text}");
    }
}

#[test]
fn a_view_without_a_service_says_what_to_do() {
    let nothing = tempfile::TempDir::new().unwrap();
    let run = |socket: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("top").env_remove("TIDEGATE_SOCKET").current_dir(nothing.path());
        socket.iter().for_each(|socket| _ = command.args(["--socket", socket]));
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = run(Some("none"));
    assert!(code == Some(2) && said.contains("no service listens at none"), "{said}");
    let (code, said) = run(None);
    assert!(code == Some(2) && said.contains("--socket PATH or TIDEGATE_SOCKET"), "{said}");
}
