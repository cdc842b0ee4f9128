//! What the compiler says about a copy of the tree with switches: errors, and the switches that they blame.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::switches::Switch;

/// An error of the compiler, with the lines that it marks.
#[derive(Debug, PartialEq, Eq)]
pub struct CompileError {
    pub file: PathBuf,
    /// First and last line of each marked piece, counted from 1.
    lines: Vec<(usize, usize)>,
    text: String,
}

impl CompileError {
    /// The first line that it marks.
    pub fn line(&self) -> usize {
        self.lines.first().map_or(0, |(first, _)| *first)
    }

    /// Whether the switch may be the cause: the error marks the line on which it begins or ends.
    pub fn blames(&self, file: &Path, switch: &Switch) -> bool {
        let touched = |line: usize| self.lines.iter().any(|(first, last)| (*first..=*last).contains(&line));
        self.file == file && (touched(switch.line) || touched(switch.last_line))
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line(), self.text)
    }
}

#[derive(Deserialize)]
struct Line {
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    level: String,
    message: String,
    spans: Vec<Span>,
}

#[derive(Deserialize)]
struct Span {
    file_name: PathBuf,
    line_start: usize,
    line_end: usize,
    is_primary: bool,
}

/// The errors among the JSON lines that cargo printed.
pub fn errors(output: &str) -> Vec<CompileError> {
    let lines = output.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    let messages = lines.filter_map(|line| line.message).filter(|m| m.level == "error");
    let error = |message: Message| {
        let primary = message.spans.iter().find(|span| span.is_primary)?;
        let file = primary.file_name.clone();
        // A mark over many lines says little; the first and last of it are where text was inserted.
        let lines = message.spans.iter().filter(|span| span.file_name == file);
        let lines = lines.map(|span| (span.line_start, span.line_end)).collect();
        Some(CompileError { file, lines, text: message.message })
    };
    messages.filter_map(error).collect()
}

#[cfg(test)]
mod tests {
    use super::super::switches;
    use super::*;

    #[test]
    fn an_error_blames_the_switches_on_its_lines() {
        let output = r#"{"reason":"compiler-message","message":{"level":"error","message":"no Default","spans":[{"file_name":"crates/x/src/a.rs","line_start":3,"line_end":3,"is_primary":true}]}}"#;
        let found = errors(&format!("{output}\nno JSON\n"));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].to_string(), "crates/x/src/a.rs:3: no Default");
        let text = "fn a() {\n    b();\n    c();\n}";
        let (second, third) = (switches::below(text, 2).unwrap(), switches::below(text, 3).unwrap());
        let file = Path::new("crates/x/src/a.rs");
        assert!(found[0].blames(file, &third[0]) && !found[0].blames(file, &second[0]));
        assert!(!found[0].blames(Path::new("crates/x/src/b.rs"), &third[0]));
    }
}
