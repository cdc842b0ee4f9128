//! Guests that run workloads on the device of `tidegate serve --ivshmem`. Where QEMU, a kernel or
//! busybox is missing, one line says so.

use super::workload;
use std::path::Path;
use std::process::Command;
use tidegate_testbed::{Guest, ServiceProcess};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");

/// Starts a service with sockets for guests of these names.
fn service(guests: &[&str]) -> ServiceProcess {
    ServiceProcess::start(|folder| {
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--socket"]).arg(folder.join("socket"));
        for guest in guests {
            command.arg("--ivshmem").arg(folder.join(guest));
        }
        command.args(["--ivshmem-mib", "16"]);
        command
    })
}

/// Returns a guest with the program and a workload.
fn guest(workload: &str) -> Option<Guest> {
    let guest = Guest::new()?.with_program("/bin/tidegate", Path::new(PROGRAM));
    Some(guest.with("/workload.toml", workload.as_bytes()))
}

/// Returns a script that runs the workload in each model, and prints how each run ends.
fn runs(models: &str, options: &str) -> String {
    format!(
        "for model in {models}; do
  /bin/tidegate run /workload.toml --connect $device --submission $model {options}
  echo \"guest: $model ended with $?\"
done
"
    )
}

fn ring_buffer() -> String {
    std::fs::read_to_string(workload("ring-buffer.toml")).unwrap()
}

// spec: UMS-191
#[test]
fn a_booted_guest_submits_without_messages() {
    let text = ring_buffer();
    let long = text.replace("frames = 24\n", "frames = 600\n");
    assert_ne!(long, text);
    let Some(guest) = guest(&long) else { return };
    let service = service(&["guest"]);
    // 1,200 packets and as many signals and waits.
    let output = guest.boot(&service.folder().join("guest"), &runs("user", "")).output();
    assert!(output.contains("guest: user ended with 0"), "{output}");
    let calls = service.counter("calls_total");
    assert!(calls < 300, "{calls} calls of a run of 600 frames");
    assert!(service.counter("guest_wakes_total") > 0);
    while service.counter("guests") != 0 {}
    assert_eq!(service.counter("sessions_failed_total"), 0);
}

// spec: UMS-192
#[test]
fn an_older_guest_runs_on_kernel_queues_beside_a_newer_one() {
    let text = ring_buffer();
    let (Some(older), Some(newer)) = (guest(&text), guest(&text)) else { return };
    let service = service(&["older", "newer"]);
    let models = runs("packet hardware user", "--kernel-queues-only");
    let older = older.boot(&service.folder().join("older"), &models);
    let newer = newer.boot(&service.folder().join("newer"), &runs("user", ""));
    let (older, newer) = (older.output(), newer.output());
    assert!(newer.contains("guest: user ended with 0"), "{newer}");
    // A client that knows kernel queues only is refused another one.
    for (model, code) in [("packet", 0), ("hardware", 0), ("user", 2)] {
        assert!(older.contains(&format!("guest: {model} ended with {code}")), "{older}");
    }
    while service.counter("guests") != 0 {}
    assert_eq!(service.counter("sessions_failed_total"), 0);
}
