//! Programs of other languages that peers run in.

use crate::Trouble;
use std::path::Path;
use std::process::Command;

/// Runs a program in `folder`, and returns what it said on standard output.
pub(crate) fn run(folder: &Path, program: &str, arguments: &[&str]) -> Result<String, Trouble> {
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    let output = output.map_err(|e| format!("{program}: {e}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(said),
        false => Err(format!(
            "{program}: {}\n{said}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}
