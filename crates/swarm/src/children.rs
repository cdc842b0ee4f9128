//! Programs on threads of a child process, or with client processes, so that one that stands
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
    Ok(failure_of(child.status.code(), [&child.stdout, &child.stderr]))
}

/// Returns the failure of a child from its exit code, and from what it wrote to standard output and
/// to standard error.
fn failure_of(code: Option<i32>, written: [&[u8]; 2]) -> Option<Failure> {
    let [said, errors] = written.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    match code {
        Some(0) => None,
        Some(STOOD_STILL) => Some(Failure::Standstill(errors.lines().map(str::to_owned).collect())),
        Some(1) => {
            let failure = said.lines().find_map(|line| line.strip_prefix("fails: "));
            Some(Failure::of_child(failure.unwrap_or("(no failure)")))
        }
        code => Some(Failure::Panic(format!("the process ended with {code:?}: {errors}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_fails_by_its_code_and_its_words() {
        let of = |code, said: &str| failure_of(code, [said.as_bytes(), b"one\ntwo\n"]);
        assert_eq!(of(Some(0), "fails: nothing"), None);
        let stacks = ["one", "two"].map(str::to_owned).to_vec();
        assert_eq!(of(Some(STOOD_STILL), ""), Some(Failure::Standstill(stacks)));
        let said = "seed 7\nfails: memory: word 3 of b0 is 1\nreplay: …";
        let memory = Failure::Memory("word 3 of b0 is 1".to_owned());
        assert_eq!(of(Some(1), said), Some(memory));
        let unknown = Failure::Child("'t0 drain q1' failed: lost".to_owned());
        assert_eq!(of(Some(1), "fails: 't0 drain q1' failed: lost"), Some(unknown));
        let silent = Failure::Panic("(no failure)".to_owned());
        assert_eq!(of(Some(1), "seed 7"), Some(silent));
        for (code, text) in [(None, "None"), (Some(101), "Some(101)")] {
            let ended = Failure::Panic(format!("the process ended with {text}: one\ntwo\n"));
            assert_eq!(of(code, ""), Some(ended));
        }
    }

    #[test]
    fn each_failure_reads_back_from_its_words() {
        let text = || "of 3 words".to_owned();
        for failure in [
            Failure::Standstill(vec![text()]),
            Failure::Memory(text()),
            Failure::Event(text()),
            Failure::Driver(text()),
            Failure::BugCheck(text()),
            Failure::Blame(text()),
            Failure::Late(text()),
            Failure::Leak(text()),
            Failure::Panic(text()),
            Failure::Child("'t0 drain q1' failed: lost".to_owned()),
        ] {
            assert_eq!(Failure::of_child(&failure.to_string()), failure);
        }
    }
}
