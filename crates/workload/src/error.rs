//! Errors of reading a workload: the problems of a file, sorted, each with line, column and next
//! step. At most one screen is shown.

use std::fmt;

/// The most problems that are shown at once: one screen.
pub const SHOWN_PROBLEMS: usize = 20;

/// A problem of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Line, from 1; 0 when the whole file is meant.
    pub line: u32,
    /// Column in characters, from 1; 0 when the whole line is meant.
    pub column: u32,
    /// The problem and the next step.
    pub text: String,
}

/// Everything that reading a workload can report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read at all.
    #[error("{file}: {source}; check the path and its permissions")]
    Unreadable {
        /// The path as given.
        file: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A TOML workload with one or more mistakes.
    #[error("{}", Listing { file, problems })]
    Invalid {
        /// The path as given.
        file: String,
        /// Sorted by place in the file.
        problems: Vec<Problem>,
    },
    /// A file that is not a trace, or a truncated trace.
    #[error("{file}: {text}")]
    Trace {
        /// The path as given.
        file: String,
        /// The problem, its byte and line, and the next step.
        text: String,
    },
    /// A file of an unsupported kind.
    #[error("{file}: {found}; {advice}")]
    UnknownKind {
        /// The path as given.
        file: String,
        /// What the file is.
        found: String,
        /// The next step, with the command that makes a readable file where there is one.
        advice: String,
    },
}

/// The problems of one file as text: `file:line:column: text`, one a line.
struct Listing<'a> {
    file: &'a str,
    problems: &'a [Problem],
}

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (k, problem) in self.problems.iter().take(SHOWN_PROBLEMS).enumerate() {
            if k > 0 {
                writeln!(f)?;
            }
            match (problem.line, problem.column) {
                (0, _) => write!(f, "{}: {}", self.file, problem.text)?,
                (line, 0) => write!(f, "{}:{line}: {}", self.file, problem.text)?,
                (line, column) => write!(f, "{}:{line}:{column}: {}", self.file, problem.text)?,
            }
        }
        match self.problems.len().saturating_sub(SHOWN_PROBLEMS) {
            0 => Ok(()),
            more => write!(f, "\n{}: and {more} more; fix these first", self.file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut_to_one_screen() {
        let problems =
            (1..=25).map(|line| Problem { line, column: 2, text: "wrong".into() }).collect();
        let text = Error::Invalid { file: "w.toml".into(), problems }.to_string();
        assert_eq!(text.lines().count(), 21);
        assert!(text.starts_with("w.toml:1:2: wrong\n"));
        assert!(text.ends_with("w.toml: and 5 more; fix these first"));
    }
}
