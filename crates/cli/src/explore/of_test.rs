//! Replays a line of `tidegate::check`. The program is in the user's test, so the test's command
//! runs with the line in its environment and writes the steps and the timeline into files.

use crate::output::Outputs;
use crate::streams::{errln, outln};
use crate::{BadInput, End, arguments};
use std::process::{Command, Stdio};
use tidegate::check::{REPLAY, REPORT, TIMELINE};
use tidegate::explorer::Schedule;

/// Runs `command` by the shell. Its output is shown if no check replays the line.
pub(super) fn replay(
    arguments: &arguments::Replay,
    command: &str,
    outputs: &Outputs,
) -> Result<End, BadInput> {
    let schedule: Schedule = arguments.line.parse().map_err(|e| BadInput(format!("{e}")))?;
    let report = tempfile::NamedTempFile::new();
    let report = report.map_err(|e| BadInput(format!("cannot make a file for the steps: {e}")))?;
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env(REPLAY, &arguments.line).env(REPORT, report.path());
    if let Some(path) = &arguments.timeline {
        let path = std::path::absolute(path);
        let path = path.map_err(|e| BadInput(format!("cannot write the timeline: {e}")))?;
        shell.env(TIMELINE, path);
    }
    let ran = shell.stdin(Stdio::null()).output();
    let ran = ran.map_err(|e| BadInput(format!("cannot run '{command}': {e}")))?;
    let steps = std::fs::read_to_string(report.path()).unwrap_or_default();
    if steps.is_empty() {
        let text = String::from_utf8_lossy(&ran.stderr);
        errln!("{}", text.trim_end());
        return Err(BadInput(format!(
            "no check '{}' ran in '{command}': name the command that the check printed",
            schedule.scenario
        )));
    }
    if !outputs.take_stdout() {
        outln!("{}", steps.trim_end());
        if let Some(path) = &arguments.timeline {
            outln!("timeline: {} (its clock counts steps)", path.display());
        }
    }
    Ok(if ran.status.success() { End::Right } else { End::Wrong })
}
