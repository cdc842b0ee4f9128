//! The commands of a service against processes: `tidegate serve`, `tidegate top` and
//! `tidegate record --attach`. The tests of the service itself are in `crates/service/tests`.

#![allow(
    clippy::disallowed_methods,
    reason = "threads of the tests wait for processes, outside of any machine"
)]

mod containers;
mod drivers;
mod guest;
mod older;
mod record;
mod serve;
mod top;

use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::Command;
use tidegate_testbed::ServiceProcess;

/// Starts `tidegate serve`.
fn start() -> ServiceProcess {
    start_with("")
}

/// Starts `tidegate serve` with a configuration.
fn start_with(config: &str) -> ServiceProcess {
    ServiceProcess::start(|folder| {
        let file = folder.join("service.toml");
        std::fs::write(&file, config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["serve", "--socket"]).arg(folder.join("socket")).arg("--config").arg(file);
        command
    })
}

fn signal(service: &ServiceProcess, signal: Signal) {
    let pid = Pid::from_raw(service.id().cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
}

fn workload(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads").join(name)
}
