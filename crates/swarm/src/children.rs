//! Programs on threads of a child process, or with processes of its own, so that one that stands
//! still does not end a hunt.
//!
//! Entry point: [`run_in_child`].

use crate::failure::Failure;
use crate::line::{ReplayLine, Where};
use crate::program::Program;
use crate::watchdog::STOOD_STILL;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a program once in a child, `PROGRAM replay --once LINE`. What the child writes to standard
/// error goes to the failure.
///
/// # Errors
/// The child cannot be started.
pub fn run_in_child(
    executable: &Path,
    on: Where,
    program: &Program,
) -> std::io::Result<Option<Failure>> {
    let line = ReplayLine { on, program: program.clone() };
    let child = Command::new(executable)
        .args(["replay", "--once", &line.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(match child.status.code() {
        Some(0) => None,
        Some(STOOD_STILL) => {
            Some(Failure::Standstill(text(&child.stderr).lines().map(str::to_owned).collect()))
        }
        Some(1) => {
            let said = text(&child.stdout);
            let failure = said.lines().find_map(|line| line.strip_prefix("fails: "));
            Some(Failure::of_child(failure.unwrap_or("(no failure)")))
        }
        code => {
            let said = text(&child.stderr);
            Some(Failure::Panic(format!("the process ended with {code:?}: {said}")))
        }
    })
}
