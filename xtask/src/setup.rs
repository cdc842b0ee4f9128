//! What the tests want from the machine: a browser for the timeline, a Python that can read
//! Perfetto files, and programs that a stage runs.
//!
//! None is needed to build. Whatever cannot be had is said in one line, and the tests that want
//! it skip themselves.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::tree;

const BROWSERS: &[&str] = &["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Tells the tests which Python has the `perfetto` package.
pub const PERFETTO_PYTHON: &str = "TIDEGATE_PERFETTO_PYTHON";

/// Prepares the machine, and returns the environment for the tests.
pub fn prepare(root: &Path) -> Vec<(&'static str, OsString)> {
    if !browser() {
        println!("no chromium on PATH, and none could be installed: browser tests are skipped");
    }
    match perfetto_python(root) {
        Ok(python) => vec![(PERFETTO_PYTHON, python.into_os_string())],
        Err(why) => {
            println!("{why}: Perfetto files are not checked against the public schema");
            Vec::new()
        }
    }
}

/// Whether there is a browser, after an attempt to install one.
fn browser() -> bool {
    BROWSERS.iter().any(|name| on_path(name)) || install_program("chromium", "chromium")
}

/// Whether there is a program of this name, after an attempt to install its Debian package.
pub fn install_program(program: &str, package: &str) -> bool {
    if on_path(program) {
        return true;
    }
    if !on_path("apt-get") {
        return false;
    }
    let prefix: &[&str] = if user_is_root() {
        &[]
    } else if on_path("sudo") && succeeds("sudo", &["-n", "true"]) {
        &["sudo", "-n"]
    } else {
        return false;
    };
    println!("installing {package}");
    let apt = |arguments: &[&str]| {
        let words: Vec<&str> =
            prefix.iter().copied().chain(["apt-get"]).chain(arguments.iter().copied()).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("DEBIAN_FRONTEND", "noninteractive");
        succeeds_quietly(&mut command)
    };
    apt(&["update"])
        && apt(&["install", "--yes", "--no-install-recommends", package])
        && on_path(program)
}

fn user_is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// The Python that reads Perfetto files.
fn perfetto_python(root: &Path) -> Result<PathBuf, String> {
    if let Some(given) = std::env::var_os(PERFETTO_PYTHON) {
        return Ok(given.into());
    }
    let module = "perfetto.protos.perfetto.trace.perfetto_trace_pb2";
    python(root, "perfetto-python", &["perfetto", "protobuf"], &format!("import {module}"))
}

/// A Python with packages, in a virtual environment of this name below the build folder. `test` is
/// a program that fails without them.
///
/// # Errors
///
/// What is missing, in one line.
pub fn python(root: &Path, name: &str, packages: &[&str], test: &str) -> Result<PathBuf, String> {
    if !on_path("python3") {
        return Err("no python3 on PATH".to_owned());
    }
    let folder = tree::build_folder(root).join(name);
    let python = folder.join("bin/python");
    let has_packages = || succeeds_quietly(Command::new(&python).args(["-c", test]));
    if has_packages() {
        return Ok(python);
    }
    let shown = packages.join(", ");
    println!("installing the python packages {shown} below the build folder");
    if !succeeds_quietly(Command::new("python3").args(["-m", "venv"]).arg(&folder)) {
        return Err("python3 cannot make a virtual environment".to_owned());
    }
    let pip = ["-m", "pip", "install", "--quiet"];
    let installed = succeeds_quietly(Command::new(&python).args(pip).args(packages));
    if installed && has_packages() {
        Ok(python)
    } else {
        Err(format!("the python packages {shown} cannot be installed"))
    }
}

/// Returns the browser on PATH.
pub fn browser_on_path() -> Option<PathBuf> {
    BROWSERS.iter().find_map(|name| file_on_path(name))
}

fn on_path(name: &str) -> bool {
    file_on_path(name).is_some()
}

fn file_on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    succeeds_quietly(Command::new(program).args(arguments))
}

fn succeeds_quietly(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_on_the_path() {
        assert!(on_path("sh") && !on_path("surely-no-such-program"));
        assert!(
            succeeds("true", &[])
                && !succeeds("false", &[])
                && !succeeds("surely-no-such-program", &[])
        );
    }
}
