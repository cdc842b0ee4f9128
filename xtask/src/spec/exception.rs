//! What is put off: `spec/exceptions.toml`, for each id what is missing and which later work brings
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::requirement::{self, Level, Requirements};
use crate::finding::Finding;

/// Where the exceptions are written, relative to the repository.
pub const FILE: &str = requirement::EXCEPTIONS;

/// Words of a statement that says nothing about the code.
const EMPTY_WORDS: [&str; 3] = ["or built", "not yet built", "not yet tagged"];

/// The exceptions, in the order of the file.
#[derive(Debug)]
pub struct Exceptions {
    /// The comment at the head of the file, which survives rewriting.
    head: String,
    list: Vec<Exception>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    id: String,
    /// What the code lacks today.
    missing: String,
    /// The later work that builds it.
    brought_by: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExceptionFile {
    #[serde(default)]
    exception: Vec<Exception>,
}

impl Exceptions {
    pub fn read(root: &Path) -> Result<Self, String> {
        let text =
            fs::read_to_string(root.join(FILE)).map_err(|e| format!("{FILE}: cannot read: {e}"))?;
        Self::parse(&text)
    }

    pub fn parse(text: &str) -> Result<Self, String> {
        let file: ExceptionFile = toml::from_str(text).map_err(|e| format!("{FILE}: {e}"))?;
        let head =
            text.lines().take_while(|l| l.starts_with('#')).map(|l| format!("{l}\n")).collect();
        Ok(Self { head, list: file.exception })
    }

    pub fn ids(&self) -> impl Iterator<Item = &String> {
        self.list.iter().map(|e| &e.id)
    }

    pub fn has(&self, id: &str) -> bool {
        self.ids().any(|i| i == id)
    }

    pub fn remove(&mut self, ids: &[String]) {
        self.list.retain(|e| !ids.contains(&e.id));
    }

    pub fn write(&self, root: &Path) -> Result<(), String> {
        fs::write(root.join(FILE), self.to_text()).map_err(|e| format!("{FILE}: cannot write: {e}"))
    }

    fn to_text(&self) -> String {
        let mut text = self.head.clone();
        for Exception { id, missing, brought_by } in &self.list {
            let [missing, brought_by] =
                [missing, brought_by].map(|s| toml::Value::String(s.clone()));
            text += &format!(
                "\n[[exception]]\nid = \"{id}\"\nmissing = {missing}\nbrought_by = {brought_by}\n"
            );
        }
        text
    }

    pub fn findings(&self, requirements: &Requirements) -> Vec<Finding> {
        let mut findings = Vec::new();
        let (mut seen, mut statements) = (BTreeSet::new(), BTreeMap::new());
        let mut find = |what: String| findings.push(Finding::of_file(Path::new(FILE), what));
        for Exception { id, missing, brought_by } in &self.list {
            match requirements.get(id).map(|r| r.level) {
                None => find(format!("{id} is in no spec file: remove the exception")),
                Some(Level::Must) => {}
                Some(_) => find(format!("{id} is no must and needs no exception: remove it")),
            }
            if !seen.insert(id) {
                find(format!("{id} is excepted twice: keep one"));
            } else if let Some(first) = statements.insert(missing.trim(), id) {
                find(format!(
                    "{id} is missing the same as {first}: say what the code lacks for {id} itself"
                ));
            }
            for (field, text) in [("missing", missing), ("brought_by", brought_by)] {
                if text.trim().is_empty() {
                    find(format!("{id} has an empty `{field}`: fill it in"));
                }
                if let Some(words) = EMPTY_WORDS.iter().find(|words| text.contains(**words)) {
                    find(format!("`{field}` of {id} says \"{words}\": say what the code lacks"));
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

    fn entry(id: &str, missing: &str) -> String {
        format!("\n[[exception]]\nid = \"{id}\"\nmissing = \"{missing}\"\nbrought_by = \"w\"\n")
    }

    fn found(text: &str) -> Vec<String> {
        let spec = "title = \"t\"\nsource = \"s\"\n\
            [[requirement]]\nid = \"NF-001\"\nlevel = \"must\"\nsection = \"a\"\ntext = \"b\"\n\
            [[requirement]]\nid = \"NF-002\"\nlevel = \"should\"\nsection = \"a\"\ntext = \"b\"\n\
            [[requirement]]\nid = \"NF-003\"\nlevel = \"must\"\nsection = \"a\"\ntext = \"b\"\n";
        let spec = Requirements::parse([(PathBuf::from("spec/x.toml"), spec.to_owned())]).unwrap();
        let found = Exceptions::parse(text).unwrap().findings(&spec);
        found.into_iter().map(|f| f.what).collect()
    }

    #[test]
    fn rewriting_changes_nothing_but_what_is_removed() {
        let text = format!("# head\n{}{}", entry("NF-001", "x"), entry("NF-002", "y"));
        let mut read = Exceptions::parse(&text).unwrap();
        assert_eq!(read.to_text(), text);
        read.remove(&["NF-001".to_owned()]);
        assert_eq!(read.to_text(), format!("# head\n{}", entry("NF-002", "y")));
    }

    #[test]
    fn an_exception_names_a_known_must_once() {
        assert_eq!(found(&entry("NF-001", "x")), Vec::<String>::new());
        let text = [("NF-001", "x"), ("NF-001", "y"), ("NF-002", "z"), ("NF-009", "v")];
        let whats = found(&text.map(|(id, missing)| entry(id, missing)).concat());
        assert_eq!(whats.len(), 3, "{whats:?}");
        assert!(
            whats[0].contains("twice")
                && whats[1].contains("no must")
                && whats[2].contains("no spec file")
        );
    }

    #[test]
    fn an_exception_says_for_its_id_alone_what_is_missing() {
        for shared in [
            "ids = [\"NF-001\", \"NF-003\"]\nmissing = \"x\"\nbrought_by = \"w\"",
            "id = \"NF-001\"",
        ] {
            assert!(Exceptions::parse(&format!("[[exception]]\n{shared}\n")).is_err(), "{shared}");
        }
        let same = found(&[entry("NF-001", "x"), entry("NF-003", "x")].concat());
        assert!(
            matches!(&same[..], [what] if what.contains("NF-003 is missing the same as NF-001")),
            "{same:?}"
        );
        for (missing, words) in [
            (" ", "an empty `missing`"),
            ("not yet built, or built and not yet tagged: queues", "says \"or built\""),
            ("queues are not yet built", "says \"not yet built\""),
        ] {
            let whats = found(&entry("NF-001", missing));
            assert!(matches!(&whats[..], [what] if what.contains(words)), "{whats:?}");
        }
    }
}
