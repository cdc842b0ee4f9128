//! The command: runs, its end, and its errors.

use super::{signal, start, start_with, workload};
use rustix::fs::FlockOperation;
use rustix::net::{AddressFamily, SocketType};
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tidegate::Platform;
use tidegate::calls::{DeviceState, Kernel};
use tidegate::d3d12::{
    CommandListType, Device, DeviceOptions, FenceDesc, FenceFlags, QueueDesc, Submission,
    SwapChainDesc,
};
use tidegate::service::client;
use tidegate_testbed::ServiceProcess;

fn tidegate() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
}

fn run(service: &ServiceProcess, file: &Path, words: &[&str]) -> Output {
    tidegate()
        .arg("run")
        .arg(file)
        .arg("--connect")
        .arg(service.socket())
        .args(words)
        .output()
        .unwrap()
}

/// A service for all workloads: one of them shows pictures, and one transcodes.
pub(super) const FOR_ALL: &str =
    "[engines]\nvideo-decode = 1\nvideo-encode = 1\n[display]\nrefresh_hz = 120\n";

#[test]
fn each_workload_runs_on_a_service_in_each_model() {
    let service = start_with(FOR_ALL);
    let folder = workload("hello.toml").parent().unwrap().to_owned();
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|file| file.extension().is_some_and(|end| end == "toml"));
    let mut runs = 0;
    for (file, model) in files.flat_map(|file| {
        ["user", "hardware", "packet"].into_iter().map(move |model| (file.clone(), model))
    }) {
        let output = run(&service, &file, &["--submission", model, "--json", "-"]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        // A user-mode queue presents nothing.
        if model == "user" && file.ends_with("presenting.toml") {
            assert!(output.status.code() == Some(2) && errors.contains("packet or hardware"));
            continue;
        }
        assert!(output.status.success(), "{} {model}: {errors}", file.display());
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&report["verified"], &report["remote_machine"]), (&true.into(), &true.into()));
        runs += 1;
    }
    assert!(runs > 40, "{runs} runs");
}

#[test]
fn users_that_the_configuration_names_may_raise_priorities() {
    let own = rustix::process::geteuid().as_raw();
    let grants = [String::new(), format!("may_raise_priority = [{}]\n", own + 1)];
    let grants = grants.map(|config| (config, false));
    for (config, granted) in
        grants.into_iter().chain([(format!("may_raise_priority = [{own}]\n"), true)])
    {
        let service = start_with(&config);
        let text = std::fs::read_to_string(workload("hello.toml")).unwrap();
        let urgent =
            text.replace("engine = \"copy\"\n", "engine = \"copy\"\npriority = \"realtime\"\n");
        assert_ne!(urgent, text);
        let file = service.folder().join("urgent.toml");
        std::fs::write(&file, urgent).unwrap();
        for model in ["user", "hardware", "packet"] {
            let output = run(&service, &file, &["--submission", model]);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.success(), granted, "{config}{model}: {errors}");
            assert!(granted || errors.contains("may_raise_priority"), "{errors}");
        }
    }
}

/// Waits for a fence that nothing signals.
pub(super) const WAITS_FOR_EVER: &str = "name = \"waits\"\n[[fence]]\nname = \"never\"\n\
    [[thread]]\nname = \"t\"\nprogram = [{ cpu_wait = \"never\", value = 1 }]\n";

#[test]
fn a_run_whose_service_is_killed_names_the_service() {
    let mut service = start();
    let file = service.folder().join("waits.toml");
    std::fs::write(&file, WAITS_FOR_EVER).unwrap();
    let run = tidegate()
        .arg("run")
        .arg(file)
        .arg("--connect")
        .arg(service.socket())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    service.until_waiting(1);
    service.process().kill().unwrap();
    let output = run.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let named = format!("the service at {} ended", service.socket().display());
    assert!(output.status.code() == Some(2) && text.contains(&named), "{text}");
}

/// One thread is refused the screen, which another client has, and another one waits for it.
#[test]
fn a_run_of_which_a_thread_fails_ends_though_another_waits_for_it() {
    let service = start_with(FOR_ALL);
    let (platform, kernel) = (Platform::host(), service.client("holder"));
    let device = Device::new(&platform, kernel, DeviceOptions::new("holder")).unwrap();
    let queue = QueueDesc::new(CommandListType::Direct).submission(Submission::Packet);
    let queue = device.create_queue(queue).unwrap();
    let screen = device.create_swap_chain(&queue, SwapChainDesc::new("screen", 32, 32)).unwrap();
    screen.present(1).unwrap();
    let output = run(&service, &workload("presenting.toml"), &["--submission", "packet"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let named = text.contains("presenting.toml:") && text.contains("VIDPN_SOURCE_IN_USE");
    assert!(output.status.code() == Some(1) && named, "{:?}: {text}", output.status);
}

#[test]
fn sigterm_ends_the_service_and_removes_its_socket() {
    let mut service = start();
    let client = service.client("left");
    let device = client.create_device().unwrap();
    signal(&service, Signal::TERM);
    assert!(service.process().wait().unwrap().success());
    assert!(!service.socket().exists());
    assert_eq!(client.device_state(device), Ok(DeviceState::Removed));
}

/// A service at the socket of one that was killed.
fn start_again(socket: &Path) -> Child {
    let mut again = spawn(socket);
    until_serving(&mut again);
    again
}

fn spawn(socket: &Path) -> Child {
    tidegate()
        .args(["serve", "--socket"])
        .arg(socket)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn until_serving(service: &mut Child) {
    let mut line = String::new();
    BufReader::new(service.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("serving on "), "{line}");
}

#[test]
fn errors_say_what_and_where() {
    let service = start();
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

    for flags in [&["--adapter", "monitored"][..], &["--sleep-at", "1ms"], &["--validate"]] {
        let refused = run(&service, &workload("hello.toml"), flags);
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && text.contains(flags[0]), "{text}");
    }

    let none = tidegate().arg("serve").output().unwrap();
    assert!(String::from_utf8_lossy(&none.stderr).contains("--socket PATH"));
}

/// Starts a service whose starter has passed this socket on. Returns what it printed.
fn with_passed(socket: OwnedFd) -> Output {
    Command::new("sh")
        .args(["-c", "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" serve 3<&0 </dev/null"])
        .arg(env!("CARGO_BIN_EXE_tidegate"))
        .stdin(Stdio::from(socket))
        .output()
        .unwrap()
}

#[test]
fn a_passed_socket_that_no_client_can_reach_is_refused() {
    for (kind, why) in [
        (SocketType::SEQPACKET, "does not listen"),
        (SocketType::STREAM, "not of the type SOCK_SEQPACKET"),
    ] {
        let output = with_passed(rustix::net::socket(AddressFamily::UNIX, kind, None).unwrap());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && text.contains(why), "{text}");
    }
}

#[test]
fn the_mode_of_the_socket_admits_the_users_of_the_service() {
    for (config, mode) in [("any_user = true\n", 0o666), ("", 0o600)] {
        let service = start_with(config);
        let found = std::fs::metadata(service.socket()).unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode, "{config}");
    }
}

/// An engine of the first adapter signals a cross-adapter fence for which one of the second waits.
#[test]
fn a_service_has_each_adapter_of_a_list() {
    for name in ["peer-signals", "peer-doorbells", "local-monitored-value", "managed-power"] {
        let service = start_with(&format!("adapter = [\"{name}\", \"{name}\"]\n"));
        let platform = Platform::host();
        let devices = [0, 1].map(|adapter| {
            let client = client::connect(&platform, &service.socket(), adapter, "both").unwrap();
            assert_eq!(client.adapters(), 2);
            Device::new(&platform, client, DeviceOptions::new("both")).unwrap()
        });
        let flags = FenceFlags::SHARED | FenceFlags::SHARED_CROSS_ADAPTER;
        let desc = FenceDesc::new("between").flags(flags);
        let fence = devices[0].create_fence_with(desc).unwrap();
        let handle = devices[0].create_shared_handle(&fence).unwrap();
        let opened = devices[1].open_shared_handle("between", &handle).unwrap();
        let done = devices[1].create_fence("done", 0).unwrap();
        let queues = [0, 1].map(|adapter| {
            let desc = QueueDesc::new(CommandListType::Compute).submission(Submission::User);
            devices[adapter].create_queue(desc).unwrap()
        });
        for value in 1..=20 {
            queues[1].wait(&opened, value).unwrap();
            queues[1].signal(&done, value).unwrap();
            queues[0].signal(&fence, value).unwrap();
            done.wait(value).unwrap();
        }
        let refused = client::connect(&platform, &service.socket(), 2, "third").unwrap_err();
        assert!(refused.to_string().contains('2'), "{refused}");
    }
}

#[test]
fn a_limit_of_the_configuration_holds() {
    let service = start_with("clients = 1\n");
    let _first = service.client("first");
    let refused = client::connect(&Platform::host(), &service.socket(), 0, "second").unwrap_err();
    assert!(refused.to_string().contains("1 clients"), "{refused}");
}

/// Starts a service with this configuration, which it refuses. Returns its message.
fn refused(config: &str) -> String {
    let folder = tempfile::TempDir::new().unwrap();
    let (file, socket) = (folder.path().join("bad.toml"), folder.path().join("socket"));
    std::fs::write(&file, config).unwrap();
    let mut serve = tidegate();
    serve.arg("serve").arg("--socket").arg(&socket).arg("--config").arg(&file);
    let output = serve.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && text.contains("bad.toml"), "{config}: {text}");
    assert!(!socket.exists(), "{config}");
    text
}

#[test]
fn a_wrong_configuration_is_refused_with_its_line_and_what_is_allowed() {
    let cases = [
        ("[limits]\nqueues = \"many\"\n", "line 2", "u32"),
        ("[limits]\nwaits = 0\n", "line 2", "from 1 to 1048576"),
        ("[limits]\nwaits = 4294967295\n", "line 2", "from 1 to 1048576"),
        ("[limits]\nobjects = 0\n", "line 2", "from 1 to 4294967295"),
        ("clients = 0\n", "line 1", "from 1 to 4294967295"),
        ("clients = 4294967296\n", "line 1", "from 1 to 4294967295"),
        ("[engines]\ncopy = 0\n", "line 2", "from 1 to 48"),
        ("[engines]\ncopy = 49\n", "line 2", "from 1 to 48"),
        ("[engines]\ncopy = 30\ncompute = 30\n", "61 engines", "from 1 to 48"),
        ("[display]\nrefresh_hz = 0\n", "line 2", "from 1 to 1000000"),
        ("[display]\n", "line 1", "refresh_hz"),
        ("adapter = \"nope\"\n", "adapter: ", "tidegate adapters"),
        ("adapter = [\"oldest\", \"nope\"]\n", "adapter: ", "tidegate adapters"),
        ("adapter = 1\n", "line 1", "a list of names"),
        ("adapter = []\n", "bad.toml: ", "at least one"),
        ("client = 1\n", "line 1", "`clients`"),
    ];
    for (config, place, allowed) in cases {
        let text = refused(config);
        assert!(text.contains(place) && text.contains(allowed), "{config}: {text}");
    }
}

/// The system refuses a connection to a file that is not a socket as it does one to a socket that
/// nothing listens at.
#[test]
fn a_file_that_is_no_socket_is_kept() {
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("notes.txt");
    std::fs::write(&file, "precious").unwrap();
    let output = tidegate().args(["serve", "--socket"]).arg(&file).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && text.contains("no socket"), "{text}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
fn a_service_removes_its_own_socket_alone() {
    let mut first = start();
    std::fs::remove_file(first.socket()).unwrap();
    let mut second = start_again(&first.socket());
    signal(&first, Signal::TERM);
    assert!(first.process().wait().unwrap().success());
    assert!(client::counts(&first.socket()).is_ok(), "the second service is reached");
    second.kill().unwrap();
    second.wait().unwrap();
}

/// Else two services could find one stale socket, and the second would remove the new one of the
/// first.
#[test]
fn a_service_checks_and_replaces_a_stale_socket_under_a_lock() {
    let folder = tempfile::TempDir::new().unwrap();
    let place = folder.path().canonicalize().unwrap();
    let (socket, lock) = (place.join("s"), place.join("s.lock"));
    drop(tidegate::service::server::listen(&socket).unwrap());
    let held = std::fs::File::create(&lock).unwrap();
    rustix::fs::flock(&held, FlockOperation::LockExclusive).unwrap();
    let mut first = spawn(&socket);
    let has_opened_lock = || {
        let files = std::fs::read_dir(format!("/proc/{}/fd", first.id())).unwrap();
        files.flatten().any(|file| std::fs::read_link(file.path()).is_ok_and(|to| to == lock))
    };
    while !has_opened_lock() {
        assert!(client::counts(&socket).is_err(), "replaced without the lock");
        std::thread::yield_now();
    }
    assert!(client::counts(&socket).is_err(), "replaced without the lock");
    drop(held);
    until_serving(&mut first);
    let output = tidegate().args(["serve", "--socket"]).arg(&socket).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && text.contains("another service"), "{text}");
    let process = rustix::process::Pid::from_child(&first);
    rustix::process::kill_process(process, Signal::TERM).unwrap();
    assert!(first.wait().unwrap().success());
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0, "socket and lock are removed");
}
