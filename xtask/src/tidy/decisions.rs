//! The index of the decisions: every number that the tree names has a row, every row in force has
//! its page, and the folder stays short enough to read.
//!
//! A row is `| number | question | answer | status |`. A row in force links its page; another one
//! names the page that has its subject now.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::finding::Finding;
use crate::tree;

const FOLDER: &str = "decisions";
const INDEX: &str = "decisions/README.md";
const MOST_WORDS_OF_AN_ANSWER: usize = 12;
const MOST_WORDS: usize = 30_000;
const EXTENSIONS: &[&str] = &["rs", "md", "toml", "js", "py", "sh"];

/// A row of the index.
struct Row {
    /// Counted from 0.
    line: usize,
    page: Option<String>,
    answer: String,
    status: Status,
}

enum Status {
    InForce,
    /// Merged into this number, or superseded by it.
    At(u32),
    Unknown,
}

/// Checks the index, the pages and the numbers that all files name.
pub fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let pages = tree::files(root, FOLDER, &["md"])?;
    let index = pages.iter().find(|page| page.path == Path::new(INDEX));
    let index = index.ok_or_else(|| format!("{INDEX}: no such file"))?;
    let rows = rows(&index.text);
    let names: Vec<String> = pages
        .iter()
        .filter(|page| page.path != Path::new(INDEX))
        .filter_map(|page| Some(page.path.file_name()?.to_string_lossy().into_owned()))
        .collect();
    let mut findings = check_rows(&rows, &names);
    let words = pages.iter().map(|page| count_words(&page.text)).sum();
    findings.extend(check_length(words));
    for file in tree::files(root, "", EXTENSIONS)? {
        // Its tests name numbers that have no row.
        if !file.path.ends_with("tidy/decisions.rs") {
            findings.extend(check_references(&file.path, &file.text, &rows));
        }
    }
    Ok(findings)
}

fn rows(index: &str) -> BTreeMap<u32, Row> {
    let lines = index.lines().enumerate();
    lines.filter_map(|(line, text)| row(line, text)).collect()
}

fn row(line: usize, text: &str) -> Option<(u32, Row)> {
    let mut cells = text.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim);
    let (number, _question) = (cells.next()?, cells.next()?);
    let (answer, status) = (cells.next()?.to_owned(), cells.next()?);
    let (number, page) = match number.strip_prefix('[').and_then(|rest| rest.split_once("](")) {
        Some((number, page)) => (number, page.strip_suffix(')').map(str::to_owned)),
        None => (number, None),
    };
    let moved = ["merged into ", "superseded by "];
    let target = moved.iter().find_map(|start| status.strip_prefix(start)?.parse().ok());
    let status = match target {
        Some(number) => Status::At(number),
        None if status == "in force" => Status::InForce,
        None => Status::Unknown,
    };
    Some((number.parse().ok()?, Row { line, page, answer, status }))
}

fn check_rows(rows: &BTreeMap<u32, Row>, names: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, row) in rows {
        let mut find = |what: String| findings.push(Finding::at(Path::new(INDEX), row.line, what));
        let has_page = row.page.as_ref().is_some_and(|page| {
            page.starts_with(&format!("{number:04}-")) && names.iter().any(|name| name == page)
        });
        match &row.status {
            Status::InForce if !has_page => {
                find(format!("decision {number} is in force: link its page {number:04}-*.md"));
            }
            Status::At(target)
                if !matches!(rows.get(target), Some(Row { status: Status::InForce, .. })) =>
            {
                find(format!("decision {target} is not in force: name the page that has {number}"));
            }
            Status::Unknown => find(format!(
                "status of {number}: write `in force`, `merged into N` or `superseded by N`"
            )),
            Status::InForce | Status::At(_) => {}
        }
        let words = count_words(&row.answer);
        if words > MOST_WORDS_OF_AN_ANSWER {
            find(format!("an answer of {words} words: {MOST_WORDS_OF_AN_ANSWER} at most"));
        }
    }
    for name in names {
        let is_listed = |row: &Row| {
            matches!(row.status, Status::InForce) && row.page.as_deref() == Some(name.as_str())
        };
        if !rows.values().any(is_listed) {
            let path = PathBuf::from(FOLDER).join(name);
            findings.push(Finding::of_file(&path, format!("add its row to {INDEX}")));
        }
    }
    findings
}

fn check_length(words: usize) -> Option<Finding> {
    let what = format!("{words} words in the folder, {MOST_WORDS} at most: merge or shorten pages");
    (words > MOST_WORDS).then(|| Finding::of_file(Path::new(FOLDER), what))
}

/// Counts what has a letter or a digit.
fn count_words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

fn check_references(path: &Path, text: &str, rows: &BTreeMap<u32, Row>) -> Vec<Finding> {
    let missing = references(text).into_iter().filter(|(_, number)| !rows.contains_key(number));
    let finding = |(line, number)| {
        Finding::at(path, line, format!("decision {number} has no row in {INDEX}"))
    };
    missing.map(finding).collect()
}

/// The numbers of decisions that a text names, with their lines: as `decision 7`, as a list after
/// `decisions`, or as a path.
fn references(text: &str) -> Vec<(usize, u32)> {
    let mut found = Vec::new();
    let mut in_list = false;
    for (line, word) in words(text) {
        let lower = word.to_lowercase();
        for (_, rest) in
            lower.match_indices("decisions/").map(|(at, s)| lower.split_at(at + s.len()))
        {
            found.extend(leading_number(rest).map(|number| (line, number)));
        }
        let bare = lower.trim_start_matches(['(', '*', '"', '`']);
        let number = list_number(&lower).filter(|_| in_list);
        found.extend(number.map(|number| (line, number)));
        in_list = match number {
            Some(_) => lower.ends_with(|c: char| c == ',' || c.is_ascii_digit()),
            None => {
                let goes_on = in_list && (lower == "and" || lower == "or");
                goes_on || bare == "decision" || bare == "decisions"
            }
        };
    }
    found
}

/// The words of a text without the marks of its comments, so that a reference may be wrapped.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let all = text.lines().enumerate();
    let all = all.flat_map(|(line, text)| text.split_whitespace().map(move |word| (line, word)));
    all.filter(|(_, word)| !matches!(*word, "//" | "///" | "//!" | "#" | "*"))
}

fn leading_number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// The number that a word of a list is: digits, and punctuation behind them.
fn list_number(word: &str) -> Option<u32> {
    let rest = word.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.chars().all(|c| c.is_ascii_punctuation()).then(|| leading_number(word))?
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: &[&str] = &["0001-a.md", "0004-b.md"];

    fn check(index: &str) -> Vec<String> {
        let names: Vec<String> = PAGES.iter().map(|&name| name.to_owned()).collect();
        check_rows(&rows(index), &names).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_complete_index_has_no_finding() {
        let index = "| number | question | answer | status |\n|---|---|---|---|\n\
                     | [1](0001-a.md) | Why? | So | in force |\n\
                     | 2 | Noun | – | merged into 1 |\n| 3 | Noun | – | superseded by 4 |\n\
                     | [4](0004-b.md) | Why? | So | in force |\n";
        assert_eq!(check(index), [""; 0]);
    }

    #[test]
    fn rows_and_pages_that_disagree_are_findings() {
        let long = "w ".repeat(13);
        let index = format!(
            "| [1](0001-gone.md) | Why? | So | in force |\n| 2 | Noun | – | merged into 3 |\n\
             | [4](0004-b.md) | Why? | {long} | in force |\n| 5 | Noun | – | old |\n"
        );
        assert_eq!(
            check(&index),
            [
                "decisions/README.md:1: decision 1 is in force: link its page 0001-*.md",
                "decisions/README.md:2: decision 3 is not in force: name the page that has 2",
                "decisions/README.md:3: an answer of 13 words: 12 at most",
                "decisions/README.md:4: status of 5: write `in force`, `merged into N` or \
                 `superseded by N`",
                "decisions/0001-a.md: add its row to decisions/README.md",
            ]
        );
    }

    #[test]
    fn references_are_found_in_every_form() {
        let numbers = |text| references(text).into_iter().map(|(_, n)| n).collect::<Vec<_>>();
        assert_eq!(
            numbers("(decision 7), decision 8. Decisions 9, 10 and 11 say"),
            [7, 8, 9, 10, 11]
        );
        assert_eq!(numbers("`decisions/0012-a.md` (decisions/0013, decisions/0014)"), [12, 13, 14]);
        assert_eq!(numbers("// so (decision\n    // 143)."), [143]);
        assert_eq!(numbers("the decision of 3 agents; decisions are 4; decision-5"), [0; 0]);
    }

    #[test]
    fn a_number_without_a_row_is_a_finding() {
        let rows = rows("| [1](0001-a.md) | Why? | So | in force |\n");
        let found = check_references(Path::new("a.rs"), "// decision 1\n// decision 2\n", &rows);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].to_string(), "a.rs:2: decision 2 has no row in decisions/README.md");
    }

    #[test]
    fn words_are_bounded() {
        assert_eq!(count_words("| – | two words |"), 2);
        assert!(check_length(MOST_WORDS).is_none());
        assert!(check_length(MOST_WORDS + 1).is_some());
    }
}
