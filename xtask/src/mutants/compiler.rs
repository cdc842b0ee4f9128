//! What the compiler says about a copy of the tree with switches: errors, and the switches that
//! they blame.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;

use serde::Deserialize;

use super::switches::Planted;

/// An error of the compiler, with the pieces of text that it marks.
#[derive(Debug, PartialEq, Eq)]
pub struct CompileError {
    pub file: PathBuf,
    line: usize,
    /// Byte ranges in the planted text; the main one first.
    marks: Vec<Range<usize>>,
}

/// Whether a planted text may be what a mark is about.
type Rule = fn(&Range<usize>, &Range<usize>) -> bool;

impl CompileError {
    /// The first line that it marks, counted from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The switches that may be the cause, among the texts that were planted in the file: a text
    /// that the mark lies in, or else texts at the ends of the mark, or else texts inside the mark,
    /// or else switches that lie between the first mark and the last: without its `continue`, a
    /// loop uses a value behind the place where it was moved.
    pub fn blamed(&self, planted: &[Planted]) -> Vec<u32> {
        let rules: [Rule; 3] = [
            |text, mark| text.start <= mark.start && mark.end <= text.end,
            |text, mark| text.start == mark.start || text.end == mark.end,
            |text, mark| text.start < mark.end && mark.start < text.end,
        ];
        for rule in rules {
            for mark in &self.marks {
                let under = planted.iter().filter(|p| rule(&p.at, mark)).map(|p| p.number);
                let under: Vec<u32> = under.collect();
                if !under.is_empty() {
                    return under;
                }
            }
        }
        let first = self.marks.iter().map(|mark| mark.end).min().unwrap_or_default();
        let last = self.marks.iter().map(|mark| mark.start).max().unwrap_or_default();
        let between = |p: &Planted| first <= p.at.start && p.at.end <= last;
        let partly: Vec<u32> = planted.iter().filter(|p| !between(p)).map(|p| p.number).collect();
        let wholly = planted.iter().map(|p| p.number).filter(|number| !partly.contains(number));
        wholly.collect::<BTreeSet<u32>>().into_iter().collect()
    }
}

#[derive(Deserialize)]
struct Line {
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    level: String,
    rendered: Option<String>,
    spans: Vec<Span>,
}

#[derive(Deserialize)]
struct Span {
    file_name: PathBuf,
    line_start: usize,
    byte_start: usize,
    byte_end: usize,
    is_primary: bool,
}

/// The errors among the JSON lines that cargo printed.
pub fn errors(output: &str) -> Vec<CompileError> {
    let error = |message: Message| {
        let primary = message.spans.iter().find(|span| span.is_primary)?;
        let (file, line) = (primary.file_name.clone(), primary.line_start);
        let others = message.spans.iter().filter(|span| !span.is_primary && span.file_name == file);
        let marks = [primary]
            .into_iter()
            .chain(others)
            .map(|span| span.byte_start..span.byte_end)
            .collect();
        Some(CompileError { file, line, marks })
    };
    messages(output).filter_map(error).collect()
}

/// The first error as the compiler prints it; the linker's errors mark nothing in a file.
pub fn first_error(output: &str) -> Option<String> {
    messages(output).find_map(|message| message.rendered)
}

fn messages(output: &str) -> impl Iterator<Item = Message> {
    let lines = output.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    lines.filter_map(|line| line.message).filter(|message| message.level == "error")
}

#[cfg(test)]
mod tests {
    use super::super::switches;
    use super::*;

    fn error_at(text: &str, planted: &str) -> CompileError {
        error_between(text, text, planted)
    }

    fn error_between(main: &str, other: &str, planted: &str) -> CompileError {
        let span = |text: &str, is_primary: bool| {
            let start = planted.find(text).unwrap();
            let end = start + text.len();
            format!(
                r#"{{"file_name":"crates/x/src/a.rs","line_start":3,"byte_start":{start},"byte_end":{end},"is_primary":{is_primary}}}"#
            )
        };
        let span = [span(main, true), span(other, false)].join(",");
        let line = format!(
            r#"{{"message":{{"level":"error","rendered":"no Default","spans":[{span}]}}}}"#
        );
        errors(&format!("{line}\nno JSON\n")).remove(0)
    }

    #[test]
    fn an_error_blames_the_switch_whose_text_it_marks() {
        let text = "fn a() -> u8 {\n    // spec: NF-001\n    b(x == 1)\n}";
        let all = switches::Parsed::of(text.to_owned()).unwrap().below(2);
        let numbered: Vec<_> = (1..).zip(&all).collect();
        let (planted, places) = switches::plant(text, &numbered);
        let blamed = |marked: &str| error_at(marked, &planted).blamed(&places);
        assert_eq!(error_at("b(", &planted).line(), 3);
        assert_eq!(blamed("Default::default()"), [1]);
        assert_eq!(blamed("1 + 1"), [3]);
        assert_eq!(blamed("!= crate::mutant_is_on(2))"), [2]);
        assert!(blamed("fn a").is_empty());
    }

    #[test]
    fn an_error_blames_what_lies_between_its_marks() {
        let text = "// spec: NF-001\nfn a() {\n    if b {\n        c(d);\n        return;\n    }\n    e(d);\n}";
        let all = switches::Parsed::of(text.to_owned()).unwrap().below(1);
        let numbered: Vec<_> = (1..).zip(&all).collect();
        let (planted, places) = switches::plant(text, &numbered);
        let blamed = error_between("e(d)", "c(d)", &planted).blamed(&places);
        let what: Vec<String> = (numbered.iter().filter(|(number, _)| blamed.contains(number)))
            .map(|(_, switch)| format!("{} {}", switch.line, switch.what))
            .collect();
        assert_eq!(what, ["5 the statement is skipped"]);
    }

    #[test]
    fn an_error_of_the_linker_marks_no_file_and_is_shown() {
        let line = r#"{"message":{"level":"error","rendered":"undefined symbol","spans":[]}}"#;
        assert_eq!(errors(line), []);
        assert_eq!(first_error(line).as_deref(), Some("undefined symbol"));
    }
}
