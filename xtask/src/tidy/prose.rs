//! The laws of names and documents: no file name that says nothing, no unfinished text, no path of
//! somebody's machine.

use std::path::{Path, PathBuf};

use crate::finding::Finding;
use crate::tree;

/// Words that say nothing about what a file owns.
const EMPTY_NAMES: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc", "manager"];
const UNFINISHED_WORDS: &[&str] = &["TODO", "FIXME", "XXX"];
/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: &[&str] = &["/home/", "/root/", "/srv/", "/Users/"];
const FOLDERS: &[&str] = &["crates", "fuzz", "xtask", "docs", "decisions", "spec", "workloads"];

/// Checks all names and documents.
pub fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    for folder in FOLDERS {
        for path in tree::paths(root, folder)? {
            findings.extend(name(&path));
        }
        for file in tree::files(root, folder, &["md", "toml", "html", "css", "js"])? {
            findings.extend(text(&file.path, &file.text));
        }
    }
    for file in top_documents(root)? {
        findings.extend(text(&file.path, &file.text));
    }
    Ok(findings)
}

fn top_documents(root: &Path) -> Result<Vec<tree::TextFile>, String> {
    let entries =
        std::fs::read_dir(root).map_err(|e| format!("{}: cannot list: {e}", root.display()))?;
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let name: PathBuf = entry.file_name().into();
        if name.extension().is_some_and(|e| e == "md" || e == "toml") {
            found.extend(tree::files(root, &name.to_string_lossy(), &["md", "toml"])?);
        }
    }
    Ok(found)
}

fn name(path: &Path) -> Option<Finding> {
    let text = path.to_string_lossy().to_lowercase();
    let mut parts = text.split(|c: char| !c.is_alphanumeric());
    let empty = parts.find(|part| EMPTY_NAMES.contains(part))?;
    Some(Finding::of_file(
        path,
        format!("`{empty}` in a file name says nothing: name what the room owns"),
    ))
}

fn text(path: &Path, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut words = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        if let Some(word) = words.find(|w| UNFINISHED_WORDS.contains(w)) {
            findings.push(Finding::at(path, index, format!("{word}: finish it, or leave it out")));
        }
        if let Some(start) = MACHINE_PATHS.iter().find(|start| has_path(line, start)) {
            findings.push(Finding::at(
                path,
                index,
                format!("`{start}` is a path of one machine: write it relative"),
            ));
        }
    }
    findings
}

/// Whether an absolute path begins so; `docs/srv/` is a relative one, and a URL has a host in
/// front.
fn has_path(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        line[..at]
            .chars()
            .next_back()
            .is_none_or(|c| !(c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '/')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_something() {
        assert!(name(Path::new("crates/kmd/src/fence_utils.rs")).is_some());
        assert!(name(Path::new("crates/common/Cargo.toml")).is_some());
        assert!(name(Path::new("crates/kmd/src/fence.rs")).is_none());
        assert!(name(Path::new("crates/kmd/src/commonality.rs")).is_none());
    }

    #[test]
    fn documents_are_finished_and_belong_to_no_machine() {
        let found = text(
            Path::new("docs/a.md"),
            "fine\nTODO: more\nsee /home/ann/x\nsee docs/srv/x\nhttps://a.org/srv/x",
        );
        let lines: Vec<usize> = found.iter().map(|f| f.line).collect();
        assert_eq!(lines, [2, 3]);
    }
}
