//! One thing that is wrong, and where. The scanners return findings; only the task that was called
//! prints them.

use std::fmt;
use std::path::{Path, PathBuf};

/// A fault in one line of one file, with what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path relative to the repository.
    pub file: PathBuf,
    /// Line, counted from 1; 0 when the fault is of the whole file.
    pub line: usize,
    /// What is wrong, and what to do.
    pub what: String,
}

impl Finding {
    /// `index` counts from 0, as the scanners do.
    pub fn at(file: &Path, index: usize, what: impl Into<String>) -> Self {
        Self { file: file.to_path_buf(), line: index + 1, what: what.into() }
    }

    pub fn of_file(file: &Path, what: impl Into<String>) -> Self {
        Self { file: file.to_path_buf(), line: 0, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file.display(), self.what),
            line => write!(f, "{}:{line}: {}", self.file.display(), self.what),
        }
    }
}

/// Prints the findings in order of place and turns them into the outcome of the task.
pub fn report(task: &str, mut findings: Vec<Finding>) -> Result<(), String> {
    findings.sort();
    findings.dedup();
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        1 => Err(format!("{task}: 1 finding")),
        many => Err(format!("{task}: {many} findings")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_prints_as_an_editor_wants_it() {
        assert_eq!(
            Finding::at(Path::new("a/b.rs"), 6, "too long").to_string(),
            "a/b.rs:7: too long"
        );
        assert_eq!(
            Finding::of_file(Path::new("a/b.rs"), "no header").to_string(),
            "a/b.rs: no header"
        );
    }

    #[test]
    fn findings_fail_the_task() {
        assert!(report("tidy", Vec::new()).is_ok());
        let one = Finding::of_file(Path::new("a.rs"), "x");
        assert_eq!(report("tidy", vec![one.clone(), one]).unwrap_err(), "tidy: 1 finding");
    }
}
