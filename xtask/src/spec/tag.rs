//! What is claimed: the tags on tests and code.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::requirement::is_id;
use crate::source::{Line, Source};
use crate::tree::{self, TextFile};

/// Which of the two claims a tag makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// This test fails when the requirement is broken.
    Test,
    /// This is the place that meets the requirement.
    Code,
}

/// One tag line.
#[derive(Debug)]
pub struct Tag {
    pub ids: Vec<String>,
    pub file: PathBuf,
    /// Counted from 0.
    pub line: usize,
    pub side: Side,
    /// First line of the test that the tag belongs to, or of its block of comments outside of
    /// tests.
    pub owner: usize,
    /// The test function that the tag belongs to.
    pub function: Option<String>,
    /// What is wrong with the way it is written.
    pub fault: Option<String>,
}

/// The one place that meets a requirement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CodeTag {
    /// Relative to the root.
    pub file: PathBuf,
    /// Counted from 1.
    pub line: usize,
}

/// A test that claims a requirement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TestTag {
    /// Relative to the root.
    pub file: PathBuf,
    /// The name of the test function.
    pub name: String,
}

/// All tags of the repository.
pub fn read(root: &Path) -> Result<Vec<Tag>, String> {
    let files = tree::files(root, "crates", &["rs"])?;
    let test_files = test_files(&files);
    let mut tags = Vec::new();
    for file in &files {
        tags.extend(in_rust(&file.path, &file.text, test_files.contains(&file.path)));
    }
    for file in tree::files(root, "workloads", &["toml"])? {
        tags.extend(in_toml(&file.path, &file.text));
    }
    Ok(tags)
}

/// The tags of one Rust file; `whole` says that all of it is test.
pub fn in_rust(path: &Path, text: &str, whole: bool) -> Vec<Tag> {
    let mut tags = Vec::new();
    // A lexer takes longer than all other work on a file.
    if !text.contains("spec:") {
        return tags;
    }
    let source = Source::of(text);
    for (index, line) in source.lines.iter().enumerate() {
        let Some(list) = line.remark().strip_prefix("spec:") else { continue };
        let side = if whole || source.is_test(index) { Side::Test } else { Side::Code };
        let owner = owner(&source, index);
        let function = source.function_at(index).filter(|f| f.is_test).map(|f| f.name.clone());
        tags.push(Tag { function, ..tag(path, index, list, side, owner) });
    }
    tags
}

fn in_toml(path: &Path, text: &str) -> Vec<Tag> {
    let lists = text.lines().enumerate().filter_map(|(index, line)| {
        let list = line.trim().strip_prefix('#')?.trim().strip_prefix("spec:")?;
        Some(tag(path, index, list, Side::Code, index))
    });
    lists.collect()
}

fn tag(path: &Path, line: usize, list: &str, side: Side, owner: usize) -> Tag {
    let parts: Vec<String> = list.split(',').map(|part| part.trim().to_owned()).collect();
    let fault = parts.iter().find(|part| !is_id(part)).map(|part| {
        format!(
            "`{part}` in a tag is no id: write `spec: NF-031, NF-032` and nothing else on the line"
        )
    });
    let ids = parts.into_iter().filter(|part| is_id(part)).collect();
    Tag { ids, file: path.to_path_buf(), line, side, owner, function: None, fault }
}

/// A test function owns all of its tags; elsewhere each block of comments stands for itself.
fn owner(source: &Source, index: usize) -> usize {
    match source.function_at(index) {
        Some(function) if function.is_test => function.first,
        _ => index - source.lines[..index].iter().rev().take_while(|l| Line::is_comment(l)).count(),
    }
}

fn is_test_path(path: &Path) -> bool {
    let mut parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    });
    parts.any(|part| part == "tests") || path.starts_with("crates/scenarios")
}

/// The files that are tests from their first line to their last.
pub fn test_files(files: &[TextFile]) -> BTreeSet<PathBuf> {
    let mut found = test_module_files(files);
    found.extend(files.iter().map(|file| &file.path).filter(|path| is_test_path(path)).cloned());
    found
}

/// Files of modules that are declared under `cfg(test)`, and everything below them.
fn test_module_files(files: &[TextFile]) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for file in files.iter().filter(|file| may_declare_test_module(&file.text)) {
        let modules = Source::of(&file.text).test_modules;
        let folder = module_folder(&file.path);
        for module in modules {
            found.insert(folder.join(format!("{module}.rs")));
            let below = folder.join(&module);
            found.extend(
                files.iter().filter(|f| f.path.starts_with(&below)).map(|f| f.path.clone()),
            );
        }
    }
    found
}

/// Whether an item under `cfg(test)` has no body, as seen without a lexer, which takes longer than
/// all other work on a file.
fn may_declare_test_module(text: &str) -> bool {
    let mut lines = text.lines().skip_while(|line| !line.contains("cfg(test)"));
    lines.any(|line| line.trim_end().ends_with(';') && line.contains("mod "))
}

/// The folder in which the modules that a file declares lie.
fn module_folder(path: &Path) -> PathBuf {
    let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
    let folder = path.parent().unwrap_or(Path::new(""));
    if matches!(stem, "lib" | "main" | "mod") { folder.to_path_buf() } else { folder.join(stem) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sides(text: &str) -> Vec<(Vec<String>, Side)> {
        let tags = in_rust(Path::new("crates/x/src/a.rs"), text, false);
        tags.into_iter().map(|t| (t.ids, t.side)).collect()
    }

    #[test]
    fn tags_are_told_apart_by_where_they_stand() {
        let text = "// spec: NF-001\nfn a() {}\n#[cfg(test)]\nmod tests {\n    // spec: NF-002, NF-003\n    #[test]\n    fn b() {}\n}";
        assert_eq!(
            sides(text),
            [
                (vec!["NF-001".to_owned()], Side::Code),
                (vec!["NF-002".to_owned(), "NF-003".to_owned()], Side::Test),
            ]
        );
    }

    #[test]
    fn a_tag_above_a_test_function_belongs_to_it() {
        let text = "// spec: NF-001\n#[test]\nfn a() {\n    // spec: NF-002\n    f();\n}";
        let tags = in_rust(Path::new("crates/x/src/a.rs"), text, false);
        assert!(tags.iter().all(|t| t.side == Side::Test && t.owner == 0));
    }

    #[test]
    fn a_tag_in_a_string_is_none() {
        assert!(sides("fn a() { \"// spec: NF-001\"; }").is_empty());
    }

    #[test]
    fn a_malformed_tag_is_a_fault() {
        let tags = in_rust(Path::new("a.rs"), "// spec: NF-001 because\nfn a() {}", false);
        assert!(tags[0].fault.as_ref().unwrap().contains("`NF-001 because`"));
    }

    #[test]
    fn scenarios_and_tests_folders_are_tests() {
        assert!(is_test_path(Path::new("crates/x/tests/a.rs")));
        assert!(is_test_path(Path::new("crates/scenarios/src/lib.rs")));
        assert!(!is_test_path(Path::new("crates/x/src/a.rs")));
    }

    #[test]
    fn a_test_module_in_its_own_file_is_test() {
        let file = |path: &str, text: &str| TextFile { path: path.into(), text: text.to_owned() };
        let files = [
            file("crates/x/src/a.rs", "#[cfg(test)]\nmod b;"),
            file("crates/x/src/a/b.rs", ""),
            file("crates/x/src/a/b/c.rs", ""),
            file("crates/x/src/d.rs", ""),
        ];
        let found = test_module_files(&files);
        assert_eq!(found.len(), 2);
        assert!(found.contains(Path::new("crates/x/src/a/b/c.rs")));
    }

    #[test]
    fn a_workload_carries_tags() {
        let tags = in_toml(Path::new("workloads/a.toml"), "# spec: ME-005\nname = \"x\"\n");
        assert_eq!((tags[0].ids.clone(), tags[0].side), (vec!["ME-005".to_owned()], Side::Code));
    }
}
