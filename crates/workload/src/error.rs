//! Errors of reading a workload: the problems of a file, each with line, column and next step, sorted,
//! at most one screen of them.

use std::fmt;

/// The most problems that are shown at once: one screen.
pub const SHOWN_PROBLEMS: usize = 20;

/// One thing that is wrong in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Line, from 1; 0 when the whole file is meant.
    pub line: u32,
    /// Column in characters, from 1; 0 when the whole line is meant.
    pub column: u32,
    /// What is wrong and what to do, in one sentence or two.
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
        /// What the operating system said.
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
    /// A trace that is no trace, or not whole.
    #[error("{file}: {text}")]
    Trace {
        /// The path as given.
        file: String,
        /// What is wrong, where (byte and line), and what to do.
        text: String,
    },
    /// A file of a kind that is not read.
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
            more => write!(f, "\n{}: and {more} more; mend these first", self.file),
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
        assert!(text.ends_with("w.toml: and 5 more; mend these first"));
    }
}
