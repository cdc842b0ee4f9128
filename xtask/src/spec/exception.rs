//! What is put off: `spec/exceptions.toml`, one reason for one id or for several.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::requirement::{Level, Requirements};
use crate::finding::Finding;

/// Where the exceptions are written, relative to the repository.
pub const FILE: &str = "spec/exceptions.toml";

const IDS_PER_LINE: usize = 8;

/// The exceptions, in the order of the file.
#[derive(Debug)]
pub struct Exceptions {
    /// The comment at the head of the file, which survives rewriting.
    head: String,
    list: Vec<Exception>,
}

#[derive(Debug)]
struct Exception {
    ids: Vec<String>,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExceptionFile {
    #[serde(default)]
    exception: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: Option<String>,
    #[serde(default)]
    ids: Vec<String>,
    reason: String,
}

impl Exceptions {
    pub fn read(root: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(root.join(FILE)).map_err(|e| format!("{FILE}: cannot read: {e}"))?;
        Self::parse(&text)
    }

    pub fn parse(text: &str) -> Result<Self, String> {
        let file: ExceptionFile = toml::from_str(text).map_err(|e| format!("{FILE}: {e}"))?;
        let head = text.lines().take_while(|l| l.starts_with('#')).map(|l| format!("{l}\n")).collect();
        let list = file.exception.into_iter().map(|entry| Exception {
            ids: entry.id.into_iter().chain(entry.ids).collect(),
            reason: entry.reason,
        });
        Ok(Self { head, list: list.collect() })
    }

    pub fn ids(&self) -> impl Iterator<Item = &String> {
        self.list.iter().flat_map(|e| &e.ids)
    }

    pub fn has(&self, id: &str) -> bool {
        self.ids().any(|i| i == id)
    }

    pub fn remove(&mut self, ids: &[String]) {
        for exception in &mut self.list {
            exception.ids.retain(|id| !ids.contains(id));
        }
        self.list.retain(|e| !e.ids.is_empty());
    }

    pub fn write(&self, root: &Path) -> Result<(), String> {
        fs::write(root.join(FILE), self.to_text()).map_err(|e| format!("{FILE}: cannot write: {e}"))
    }

    fn to_text(&self) -> String {
        let mut text = self.head.clone();
        for exception in &self.list {
            text += "\n[[exception]]\n";
            match exception.ids.as_slice() {
                [id] => text += &format!("id = \"{id}\"\n"),
                ids => {
                    text += "ids = [\n";
                    for line in ids.chunks(IDS_PER_LINE) {
                        let line: Vec<String> = line.iter().map(|id| format!("\"{id}\"")).collect();
                        text += &format!("    {},\n", line.join(", "));
                    }
                    text += "]\n";
                }
            }
            text += &format!("reason = {}\n", toml::Value::String(exception.reason.clone()));
        }
        text
    }

    pub fn findings(&self, requirements: &Requirements) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut seen = BTreeSet::new();
        let mut find = |what: String| findings.push(Finding::of_file(Path::new(FILE), what));
        for exception in &self.list {
            if exception.ids.is_empty() {
                find(format!("the exception `{}` names no id: name one, or remove it", exception.reason));
            }
            for id in &exception.ids {
                match requirements.get(id).map(|r| r.level) {
                    None => find(format!("{id} is in no spec file: remove the exception")),
                    Some(Level::Must) => {}
                    Some(_) => find(format!("{id} is no must and needs no exception: remove it")),
                }
                if !seen.insert(id) {
                    find(format!("{id} is excepted twice: keep one"));
                }
                if exception.reason.trim().is_empty() {
                    find(format!("{id} is excepted without a reason: give one"));
                }
            }
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    const TEXT: &str = "# head\n\n[[exception]]\nid = \"NF-001\"\nreason = \"a \\\"b\\\"\"\n\n[[exception]]\n\
        ids = [\n    \"NF-002\", \"NF-003\",\n]\nreason = \"later\"\n";

    #[test]
    fn rewriting_changes_nothing_but_what_is_removed() {
        let mut read = Exceptions::parse(TEXT).unwrap();
        let again = Exceptions::parse(&read.to_text()).unwrap();
        assert_eq!(again.ids().collect::<Vec<_>>(), ["NF-001", "NF-002", "NF-003"]);
        assert_eq!(again.list[0].reason, "a \"b\"");
        read.remove(&["NF-001".to_owned(), "NF-003".to_owned()]);
        assert_eq!(read.to_text(), "# head\n\n[[exception]]\nid = \"NF-002\"\nreason = \"later\"\n");
    }

    #[test]
    fn an_exception_names_a_known_must_once() {
        let spec = "title = \"t\"\nsource = \"s\"\n\
            [[requirement]]\nid = \"NF-001\"\nlevel = \"must\"\nsection = \"a\"\ntext = \"b\"\n\
            [[requirement]]\nid = \"NF-002\"\nlevel = \"should\"\nsection = \"a\"\ntext = \"b\"\n";
        let spec = Requirements::parse([(PathBuf::from("spec/x.toml"), spec.to_owned())]).unwrap();
        let text = "[[exception]]\nids = [\"NF-001\", \"NF-001\", \"NF-002\", \"NF-009\"]\nreason = \"x\"\n";
        let found = Exceptions::parse(text).unwrap().findings(&spec);
        let whats: Vec<&str> = found.iter().map(|f| f.what.as_str()).collect();
        assert!(
            whats[0].contains("twice") && whats[1].contains("no must") && whats[2].contains("no spec file")
        );
    }
}
