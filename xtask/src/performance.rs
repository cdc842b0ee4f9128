//! `cargo xtask performance`: the page of tables, `docs/performance-tables.md`, from the recorded
//! run `crates/bench/performance.json`.
//!
//! - The laboratory makes the tables (`tidegate-bench --tables`). One of its tests fails when the
//!   page differs from the run.
//! - `tidy` fails when the text of `docs/performance.md` has a figure: it refers to the row.
//! - Figures of other programs are in sections whose heading ends in [`OTHER_FIGURES`].

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::cargo::cargo_output;
use crate::finding::Finding;

const DOCUMENT: &str = "docs/performance.md";
const TABLES: &str = "docs/performance-tables.md";
const RESULTS: &str = "crates/bench/performance.json";
/// End of the heading of a section with figures that the bench does not measure.
const OTHER_FIGURES: &str = "cost model uses";

/// Writes the tables.
///
/// # Errors
/// The laboratory cannot be built or cannot read the run, or the page cannot be written.
pub fn write(root: &Path) -> Result<(), String> {
    let line = ["run", "--quiet", "--package", "tidegate-bench", "--", "--tables", RESULTS];
    match cargo_output(root, &line, &[], Stdio::inherit())? {
        (true, page) => fs::write(root.join(TABLES), page)
            .map_err(|error| format!("{TABLES}: cannot write: {error}")),
        (false, _) => Err(format!("{RESULTS}: no tables")),
    }
}

/// Finds figures in the text.
///
/// # Errors
/// The document cannot be read.
pub fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let text = fs::read_to_string(root.join(DOCUMENT));
    Ok(figures_in_text(&text.map_err(|error| format!("{DOCUMENT}: cannot read: {error}"))?))
}

/// Times in nanoseconds and ratios outside of the sections of other programs.
fn figures_in_text(document: &str) -> Vec<Finding> {
    let (mut is_other, mut findings) = (false, Vec::new());
    for (index, line) in document.lines().enumerate() {
        if line.starts_with("## ") {
            is_other = line.ends_with(OTHER_FIGURES);
        }
        if is_other {
            continue;
        }
        let mut before = "";
        for word in line.split_whitespace() {
            let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
            let is_number = |text: &str| text.ends_with(|c: char| c.is_ascii_digit());
            let is_ratio = bare.strip_suffix('x').is_some_and(is_number);
            if is_ratio || bare == "ns" && is_number(before) {
                let what = format!("a figure in the text ({before} {word}): refer to the row");
                findings.push(Finding::at(Path::new(DOCUMENT), index, what));
            }
            before = word;
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_not_in_the_text() {
        let text = format!("it takes 12 ns, 3.5x.\n## what the {OTHER_FIGURES}\n14 ns\n");
        assert_eq!(figures_in_text(&text).len(), 2);
        assert!(figures_in_text("every 10 µs, or in nanoseconds: 3\n").is_empty());
    }
}
