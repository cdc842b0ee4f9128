//! Runs cargo from a task, with the environment that a person's command line would have.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

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
    let command = cargo_command(root, arguments, environment);
    output_of(command, errors).map(|(status, output)| (status.success(), output))
}

/// The same, ended with its compilers at `until`; returns no success or failure then. What goes to
/// the other stream is dropped.
pub fn cargo_output_until(
    root: &Path,
    arguments: &[&str],
    environment: &[(&str, OsString)],
    until: Instant,
) -> Result<(Option<bool>, String), String> {
    /// The exit code of `timeout` when it had to end its program.
    const ENDED: i32 = 124;
    let seconds = until.saturating_duration_since(Instant::now()).as_secs();
    if seconds == 0 {
        return Ok((None, String::new()));
    }
    let cargo = cargo_command(root, arguments, environment);
    let mut command = Command::new("timeout");
    command.arg(seconds.to_string()).arg(cargo.get_program()).args(cargo.get_args());
    prepare(&mut command, root, environment);
    let (status, output) = output_of(command, Stdio::null())?;
    Ok(((status.code() != Some(ENDED)).then(|| status.success()), output))
}

/// Starts cargo in `root` at the lowest priority, without output; `None` if it cannot be started.
pub fn cargo_at_lowest_priority(
    root: &Path,
    arguments: &[&str],
    environment: &[(&str, OsString)],
) -> Option<Child> {
    let cargo = cargo_command(root, arguments, environment);
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(cargo.get_program()).args(cargo.get_args());
    prepare(&mut command, root, environment);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
}

fn output_of(mut command: Command, errors: Stdio) -> Result<(ExitStatus, String), String> {
    let output = command.stderr(errors).output();
    let output = output.map_err(|e| format!("cannot run {command:?}: {e}"))?;
    Ok((output.status, String::from_utf8_lossy(&output.stdout).into_owned()))
}

fn cargo_command(root: &Path, arguments: &[&str], environment: &[(&str, OsString)]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments);
    prepare(&mut command, root, environment);
    command
}

fn prepare(command: &mut Command, root: &Path, environment: &[(&str, OsString)]) {
    command.current_dir(root).envs(environment.iter().map(|(name, value)| (name, value)));
    // Variables that cargo set for this program would mislead the programs that it starts.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_PKG_") || name == "CARGO_MANIFEST_DIR" {
            command.env_remove(name);
        }
    }
}
