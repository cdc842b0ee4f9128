//! The requirements of `spec/*.toml`, and what can be wrong with the files
//! themselves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::finding::Finding;
use crate::tree;

/// Files beside the requirements' files.
pub const EXCEPTIONS: &str = "spec/exceptions.toml";
pub const VERDICTS: &str = "spec/mutants.toml";

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Must,
    Should,
    May,
}

/// One checkable fact.
pub struct Requirement {
    pub id: String,
    pub level: Level,
    pub text: String,
    pub file: PathBuf,
    /// Line of the id, counted from 0.
    pub line: usize,
}

/// All requirements, in order of file and place.
pub struct Requirements {
    pub list: Vec<Requirement>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpecFile {
    title: String,
    source: String,
    requirement: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    level: Level,
    section: String,
    text: String,
    /// Where a requirement comes from, when it is not the text of the document.
    origin: Option<String>,
}

const ORIGINS: [&str; 2] = ["reference", "decision"];

impl Requirements {
    pub fn read(root: &Path) -> Result<Self, String> {
        let files = tree::files(root, "spec", &["toml"])?;
        let files = files
            .into_iter()
            .filter(|f| ![EXCEPTIONS, VERDICTS].map(Path::new).contains(&&*f.path));
        Self::parse(files.map(|f| (f.path, f.text)))
    }

    pub fn parse(files: impl IntoIterator<Item = (PathBuf, String)>) -> Result<Self, String> {
        let mut list = Vec::new();
        for (path, text) in files {
            let file: SpecFile =
                toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
            if file.title.is_empty() || file.source.is_empty() {
                return Err(format!("{}: give the file a title and a source", path.display()));
            }
            let lines = id_lines(&text);
            for (entry, line) in file.requirement.into_iter().zip(lines) {
                if let Some(origin) = entry.origin.filter(|o| !ORIGINS.contains(&o.as_str())) {
                    let known = ORIGINS.join("` or `");
                    let place = format!("{}:{}", path.display(), line + 1);
                    return Err(format!(
                        "{place}: origin `{origin}` is unknown: write `{known}`, or leave it out"
                    ));
                }
                if entry.section.is_empty() || entry.text.is_empty() {
                    return Err(format!(
                        "{}:{}: give it a section and a text",
                        path.display(),
                        line + 1
                    ));
                }
                list.push(Requirement {
                    id: entry.id,
                    level: entry.level,
                    text: entry.text,
                    file: path.clone(),
                    line,
                });
            }
        }
        Ok(Self { list })
    }

    pub fn get(&self, id: &str) -> Option<&Requirement> {
        self.list.iter().find(|r| r.id == id)
    }

    /// The files, each once, in order.
    pub fn files(&self) -> Vec<&PathBuf> {
        let mut files: Vec<&PathBuf> = self.list.iter().map(|r| &r.file).collect();
        files.dedup();
        files
    }

    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut seen: BTreeMap<&str, &Requirement> = BTreeMap::new();
        for requirement in &self.list {
            let id = &requirement.id;
            if !is_id(id) {
                let what = format!("`{id}` is no id: write capitals, a dash and three digits");
                findings.push(Finding::at(&requirement.file, requirement.line, what));
            }
            if let Some(first) = seen.insert(id, requirement) {
                let (file, line) = (first.file.display(), first.line + 1);
                let what = format!("{id} is taken at {file}:{line}: take the next free number");
                findings.push(Finding::at(&requirement.file, requirement.line, what));
            }
        }
        findings
    }
}

fn id_lines(text: &str) -> Vec<usize> {
    let is_id_line = |line: &str| {
        line.trim_start().strip_prefix("id").is_some_and(|r| r.trim_start().starts_with('='))
    };
    text.lines().enumerate().filter(|(_, line)| is_id_line(line)).map(|(index, _)| index).collect()
}

/// Whether `text` has the shape of an id: capitals, a dash, three digits.
pub fn is_id(text: &str) -> bool {
    text.split_once('-').is_some_and(|(letters, digits)| {
        !letters.is_empty()
            && letters.chars().all(|c| c.is_ascii_uppercase())
            && digits.len() == 3
            && digits.chars().all(|c| c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(entries: &str) -> Result<Requirements, String> {
        let text = format!("title = \"t\"\nsource = \"s\"\n{entries}");
        Requirements::parse([(PathBuf::from("spec/x.toml"), text)])
    }

    fn entry(id: &str) -> String {
        format!("[[requirement]]\nid = \"{id}\"\nlevel = \"must\"\nsection = \"a\"\ntext = \"b\"\n")
    }

    #[test]
    fn an_id_is_used_once() {
        let found = parse(&(entry("NF-001") + &entry("NF-001"))).unwrap().findings();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 9);
        assert!(found[0].what.contains("NF-001 is taken at spec/x.toml:4"));
    }

    #[test]
    fn ids_have_one_shape() {
        assert!(is_id("NF-031") && is_id("UMS-001"));
        assert!(!is_id("NF-31") && !is_id("nf-031") && !is_id("NF031") && !is_id("-031"));
        assert_eq!(parse(&entry("NF-1")).unwrap().findings().len(), 1);
    }

    #[test]
    fn an_unknown_field_is_refused() {
        assert!(parse(&(entry("NF-001") + "colour = \"red\"\n")).is_err());
        assert!(parse(&entry("NF-001").replace("must", "shall")).is_err());
    }
}
