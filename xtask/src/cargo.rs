//! Runs cargo from a task, with the environment that a person's command line would have.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs cargo in `root`.
pub fn cargo(
    root: &Path,
    arguments: &[&str],
    environment: &[(&str, OsString)],
) -> Result<(), String> {
    let mut command = cargo_command(root, arguments, environment);
    let line = format!("cargo {}", arguments.join(" "));
    let status = command.status().map_err(|e| format!("cannot run {line}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{line}: {status}")) }
}

/// Runs cargo in `root`; returns whether it succeeded, and what it prints on standard output.
/// `errors` takes the other stream.
pub fn cargo_output(
    root: &Path,
    arguments: &[&str],
    environment: &[(&str, OsString)],
    errors: Stdio,
) -> Result<(bool, String), String> {
    let line = format!("cargo {}", arguments.join(" "));
    let mut command = cargo_command(root, arguments, environment);
    let output = command.stderr(errors).output().map_err(|e| format!("cannot run {line}: {e}"))?;
    Ok((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

fn cargo_command(root: &Path, arguments: &[&str], environment: &[(&str, OsString)]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(root)
        .envs(environment.iter().map(|(name, value)| (name, value)));
    // Variables that cargo set for this program would mislead the programs that it starts.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_PKG_") || name == "CARGO_MANIFEST_DIR" {
            command.env_remove(name);
        }
    }
    command
}
