//! `spec/mutants.toml`: the verdict on each requirement, with the checksum of the code and tests
//! that it was reached with.
//!
//! A checksum covers the function around the code tag and the tagged test functions. A verdict
//! whose checksum no longer fits is stale, and the requirement is run again. The file is written by
//! `cargo xtask mutants` and read by `spec`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::requirement;
use super::tag::{CodeTag, TestTag};
use crate::source::{Function, Line, Source};

/// Where the verdicts are written, relative to the repository.
pub const FILE: &str = requirement::VERDICTS;

const HEAD: &str = "\
# The verdict of `cargo xtask mutants` on each requirement, with the checksum of the tagged code and tests that it was
# reached with. The task writes this file. `cargo xtask test` runs again what a change has touched.
";

/// The verdicts, each as a table of ids with their checksums.
#[derive(Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ledger {
    /// A tagged test fails when the tagged code is switched off.
    #[serde(default)]
    pub noticed: BTreeMap<String, String>,
    /// Every tagged test passes under every switch.
    #[serde(default)]
    pub survives: BTreeMap<String, String>,
    /// The tag is on a type, a constant or data, which no switch can turn off.
    #[serde(default)]
    pub no_switch: BTreeMap<String, String>,
    /// No test program holds a tagged test, or it runs in `cargo xtask full` only.
    #[serde(default)]
    pub no_test: BTreeMap<String, String>,
}

impl Ledger {
    /// Reads the file; a missing file is an empty ledger.
    ///
    /// # Errors
    /// The file cannot be read, or is not a ledger.
    pub fn read(root: &Path) -> Result<Ledger, String> {
        let path = root.join(FILE);
        if !path.exists() {
            return Ok(Ledger::default());
        }
        let text = fs::read_to_string(&path).map_err(|e| format!("{FILE}: cannot read: {e}"))?;
        toml::from_str(&text).map_err(|e| format!("{FILE}: {e}"))
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, root: &Path) -> Result<(), String> {
        let tables = toml::to_string(self).map_err(|e| format!("{FILE}: {e}"))?;
        fs::write(root.join(FILE), format!("{HEAD}\n{tables}"))
            .map_err(|e| format!("{FILE}: cannot write: {e}"))
    }

    /// The checksum of the verdict on `id`.
    pub fn checksum(&self, id: &str) -> Option<&str> {
        self.tables().into_iter().find_map(|table| table.get(id)).map(String::as_str)
    }

    /// Removes every verdict on `id`.
    pub fn forget(&mut self, id: &str) {
        for table in [&mut self.noticed, &mut self.survives, &mut self.no_switch, &mut self.no_test]
        {
            table.remove(id);
        }
    }

    /// Removes verdicts on ids for which `known` is false.
    pub fn retain(&mut self, known: impl Fn(&str) -> bool) {
        for table in [&mut self.noticed, &mut self.survives, &mut self.no_switch, &mut self.no_test]
        {
            table.retain(|id, _| known(id));
        }
    }

    fn tables(&self) -> [&BTreeMap<String, String>; 4] {
        [&self.noticed, &self.survives, &self.no_switch, &self.no_test]
    }
}

/// The files of tagged code and tests, each read once.
pub struct Sources<'r> {
    root: &'r Path,
    files: BTreeMap<PathBuf, (String, Source)>,
}

impl<'r> Sources<'r> {
    /// No file is read yet.
    pub fn new(root: &'r Path) -> Self {
        Sources { root, files: BTreeMap::new() }
    }

    /// The checksum of the tagged code and tests of one requirement.
    ///
    /// # Errors
    /// A tagged file cannot be read.
    pub fn checksum(&mut self, code: &CodeTag, tests: &[TestTag]) -> Result<String, String> {
        let mut hash = crc32fast::Hasher::new();
        let around = |source: &Source| range(source.function_at(code.line - 1));
        hash.update(self.code_of(&code.file, around, code.line)?.as_bytes());
        for test in tests {
            let named = |source: &Source| {
                range(source.functions.iter().find(|f| f.is_test && f.name == test.name))
            };
            hash.update(self.code_of(&test.file, named, 1)?.as_bytes());
        }
        Ok(format!("{:08x}", hash.finalize()))
    }

    /// The code of the lines that `find` picks, without comments and layout; of the item on and
    /// below `line` if there are none.
    fn code_of(
        &mut self,
        file: &Path,
        find: impl Fn(&Source) -> Option<(usize, usize)>,
        line: usize,
    ) -> Result<String, String> {
        if !self.files.contains_key(file) {
            let text = fs::read_to_string(self.root.join(file));
            let text = text.map_err(|e| format!("{}: {e}", file.display()))?;
            let source = Source::of(&text);
            self.files.insert(file.to_path_buf(), (text, source));
        }
        let (text, source) = &self.files[file];
        let whole: Vec<&str> = text.lines().collect();
        let lines = &source.lines;
        let item = || (line - 1..lines.len()).find(|at| lines[*at].has_code()).unwrap_or(line - 1);
        let (first, end) = find(source).unwrap_or_else(|| (item(), item()));
        let kept = (first..=end).filter(|at| lines.get(*at).is_some_and(Line::has_code));
        Ok(without_layout(&kept.map(|at| whole[at]).collect::<String>()))
    }
}

fn range(function: Option<&Function>) -> Option<(usize, usize)> {
    function.map(|f| (f.start, f.end))
}

/// Drops what the formatter decides: white space, and a comma before a closing bracket.
fn without_layout(code: &str) -> String {
    let mut bare = String::with_capacity(code.len());
    for c in code.chars().filter(|c| !c.is_whitespace()) {
        if matches!(c, ')' | ']' | '}') && bare.ends_with(',') {
            bare.pop();
        }
        bare.push(c);
    }
    bare
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checksum_of(code: &str, test: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.rs"), code).unwrap();
        fs::write(folder.path().join("t.rs"), test).unwrap();
        let line = 1 + code.lines().position(|l| l.contains("spec:")).unwrap();
        let test = TestTag { file: "t.rs".into(), name: "t".into() };
        let code = CodeTag { file: "a.rs".into(), line };
        Sources::new(folder.path()).checksum(&code, &[test]).unwrap()
    }

    #[test]
    fn a_checksum_follows_the_tagged_function_and_test_alone() {
        let test = "#[test]\nfn t() { a(); }\n";
        let first = checksum_of("fn a() {\n    // spec: NF-001\n    b();\n}\nfn c() {}\n", test);
        let moved =
            "fn c() { d(); }\n\nfn a() {\n    // other words\n    // spec: NF-001\n    b();\n}\n";
        assert_eq!(checksum_of(moved, test), first);
        assert_ne!(checksum_of("fn a() {\n    // spec: NF-001\n    c();\n}\n", test), first);
        assert_ne!(
            checksum_of(
                "fn a() {\n    // spec: NF-001\n    b();\n}\n",
                "#[test]\nfn t() { b(); }\n"
            ),
            first
        );
        let item = checksum_of("// spec: NF-001\nconst A: u8 = 1;\n", test);
        assert_ne!(checksum_of("// spec: NF-001\nconst A: u8 = 2;\n", test), item);
    }

    #[test]
    fn a_checksum_does_not_follow_the_layout() {
        let test = "#[test]\nfn t() { a(); }\n";
        let one_line = "fn a() {\n    // spec: NF-001\n    b(1, 2);\n}\n";
        let many = "fn a() {\n    // spec: NF-001\n    b(\n        1,\n        2,\n    );\n}\n";
        assert_eq!(checksum_of(one_line, test), checksum_of(many, test));
    }

    #[test]
    fn a_ledger_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("spec")).unwrap();
        let mut ledger = Ledger::default();
        ledger.noticed.insert("NF-001".into(), "00000001".into());
        ledger.survives.insert("NF-002".into(), "00000002".into());
        ledger.write(folder.path()).unwrap();
        let read = Ledger::read(folder.path()).unwrap();
        assert_eq!(read, ledger);
        assert_eq!((read.checksum("NF-002"), read.checksum("NF-003")), (Some("00000002"), None));
        ledger.forget("NF-002");
        ledger.retain(|id| id != "NF-001");
        assert_eq!(ledger, Ledger::default());
    }
}
