//! `serve --driver`: clients of adapters that a driver in C drives.

use super::{signal, workload};
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::process::Command;
use tidegate_testbed::{ServiceProcess, compile_driver, compile_model};

/// Serves a driver to two clients at a time, and stops. Returns how the service ended.
fn serve(sources: &[&str], options: &[&str], flags: &[&str]) -> Option<i32> {
    let folder = tempfile::tempdir().unwrap();
    serve_in(folder.path(), sources, options, flags, "ring-buffer.toml")
}

/// As [`serve`], with the library in a folder, and the workload of the clients.
fn serve_in(
    folder: &Path,
    sources: &[&str],
    options: &[&str],
    flags: &[&str],
    name: &str,
) -> Option<i32> {
    let library = folder.join("driver.so");
    if !compile_driver(sources, options, &library) {
        return None;
    }
    let mut service = ServiceProcess::start(|folder| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["serve", "--socket"]).arg(folder.join("socket"));
        command.arg("--driver").arg(&library).args(flags);
        command
    });
    let client = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.arg("run").arg(workload(name)).arg("--connect");
        command.arg(service.socket()).args(["--submission", "packet", "--quiet"]);
        command.spawn().unwrap()
    };
    let clients = [client(), client()];
    for mut client in clients {
        assert!(client.wait().unwrap().success());
    }
    signal(&service, Signal::TERM);
    service.process().wait().unwrap().code()
}

#[test]
fn a_driver_in_c_is_served() {
    let Some(end) = serve(&["drivers/packet/packet.c"], &[], &[]) else { return };
    assert_eq!(end, 0);
}

#[test]
fn a_driver_in_c_is_served_on_a_device_model() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model.so");
    if !compile_model(&["drivers/model/model.c"], &[], &model) {
        return;
    }
    let flags = ["--device", model.to_str().unwrap(), "--verify-driver"];
    // The model runs copies, and no programs of a workload.
    let (driver, copies) = (["drivers/packet/packet.c"], "wait-before-signal.toml");
    let end = serve_in(folder.path(), &driver, &[], &flags, copies);
    assert_eq!(end, Some(0));
}

#[test]
fn a_broken_rule_of_a_served_driver_is_told_at_the_end() {
    let mistake = ["-DMISTAKE=11"];
    let Some(end) = serve(&["crates/ddi-c/tests/mistakes.c"], &mistake, &[]) else { return };
    assert_eq!(end, 1);
}

#[test]
fn a_served_driver_is_verified() {
    let flags = ["--verify-driver"];
    let Some(end) = serve(&["drivers/packet/packet.c"], &[], &flags) else { return };
    assert_eq!(end, 0);
}

/// The kernel serves the interrupt whatever the routine returns, so no client notices the mistake.
#[test]
fn a_broken_clause_of_a_served_driver_is_an_error_at_the_end() {
    let place = tempfile::tempdir().unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../drivers/packet");
    let source = fs::read_to_string(folder.join("packet.c")).unwrap();
    let line = "\n    return ours;\n";
    assert_eq!(source.matches(line).count(), 1);
    let edited = place.path().join("edited.c");
    fs::write(&edited, source.replace(line, "\n    return FALSE;\n")).unwrap();
    let include = format!("-I{}", folder.display());
    let (sources, options) = ([edited.to_str().unwrap()], [include.as_str()]);
    let serve =
        |flags: &[&str]| serve_in(place.path(), &sources, &options, flags, "ring-buffer.toml");
    let Some(end) = serve(&[]) else { return };
    assert_eq!(end, 0, "without the verifier the mistake is not noticed");
    assert_eq!(serve(&["--verify-driver"]), Some(1));
}
