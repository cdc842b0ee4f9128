//! A client that is older than user-mode submission, as a process beside newer ones on one service.

use super::{start, workload};
use serde_json::Value;
use std::process::{Command, Output, Stdio};
use tidegate_testbed::ServiceProcess;

/// Returns the command that runs a workload as a client.
fn run(service: &ServiceProcess, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("run").arg(workload("ring-buffer.toml")).arg("--connect").arg(service.socket());
    command.args(words).args(["--json", "-"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn report(output: Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

// spec: UMS-192
#[test]
fn a_client_that_knows_kernel_queues_only_runs_beside_a_newer_one() {
    let service = start();
    for model in ["packet", "hardware"] {
        let newer = run(&service, &["--submission", "user"]).spawn().unwrap();
        let older = run(&service, &["--submission", model, "--kernel-queues-only"]).spawn();
        let older = report(older.unwrap().wait_with_output().unwrap());
        let newer = report(newer.wait_with_output().unwrap());
        for (report, model) in [(older, model), (newer, "user")] {
            assert_eq!((&report["verified"], &report["submission"]), (&true.into(), &model.into()));
        }
    }
    // The older one is offered no user-mode queue.
    let refused =
        run(&service, &["--submission", "user", "--kernel-queues-only"]).output().unwrap();
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{errors}");
    assert!(errors.contains("packet or hardware submission"), "{errors}");
}

#[test]
fn the_option_is_of_clients_only() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output =
        command.arg("run").arg(workload("hello.toml")).arg("--kernel-queues-only").output();
    let output = output.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("--connect"), "{errors}");
}
