//! `cargo xtask spec`: every *must* of `spec/*.toml` is claimed by a test and by code, or its
//! exception says what is missing.
//!
//! A tag is a comment `// spec: NF-031` or `// spec: NF-031, NF-032`, one line each. On the test
//! side it is in or directly above a test; on the code side it is on the one place that
//! meets the requirement. Everything under `tests` folders, in test functions, under `cfg(test)`
//! and in the scenarios crate is the test side. A workload in `workloads/*.toml` may carry `# spec:
//! ...`, which counts as code: there the programs are data. A requirement whose tagged test passes
//! with the tagged code switched off (`spec/mutants.toml`) is a finding too.
//!
//! This room compares; `requirement` reads the requirements, `tag` finds the tags, `exception`
//! reads and rewrites what is put off.

mod exception;
mod requirement;
mod tag;
pub mod verdicts;

use std::collections::BTreeMap;
use std::path::Path;

use crate::finding::{Finding, report};
use exception::Exceptions;
use requirement::{Level, Requirement, Requirements};
use tag::{Side, Tag};
use verdicts::Ledger;

pub use tag::{CodeTag, TestTag, test_files};

/// No test can show more than this many requirements and still fail for one reason.
const IDS_PER_TEST: usize = 5;

/// The place of each requirement in the code, and the tests that claim it.
pub struct Places {
    pub code: BTreeMap<String, CodeTag>,
    pub tests: BTreeMap<String, Vec<TestTag>>,
}

/// Requirements, tags, exceptions and verdicts.
struct Coverage {
    requirements: Requirements,
    tags: Vec<Tag>,
    exceptions: Exceptions,
    verdicts: Ledger,
}

/// Which of the two tags a requirement has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Claim {
    test: bool,
    code: bool,
}

impl Claim {
    fn is_met(self) -> bool {
        self.test && self.code
    }

    fn lacks(self) -> &'static str {
        match (self.test, self.code) {
            (true, true) => "nothing",
            (true, false) => "a code tag",
            (false, true) => "a test tag",
            (false, false) => "a test tag and a code tag",
        }
    }
}

impl Coverage {
    fn read(root: &Path) -> Result<Self, String> {
        Ok(Self {
            requirements: Requirements::read(root)?,
            tags: tag::read(root)?,
            exceptions: Exceptions::read(root)?,
            verdicts: Ledger::read(root)?,
        })
    }

    fn claims(&self) -> BTreeMap<&str, Claim> {
        let mut claims: BTreeMap<&str, Claim> = BTreeMap::new();
        for tag in &self.tags {
            for id in &tag.ids {
                let claim = claims.entry(id.as_str()).or_default();
                match tag.side {
                    Side::Test => claim.test = true,
                    Side::Code => claim.code = true,
                }
            }
        }
        claims
    }

    fn missing(&self) -> Vec<(&Requirement, Claim)> {
        let claims = self.claims();
        let musts = self.requirements.list.iter().filter(|r| r.level == Level::Must);
        musts
            .map(|r| (r, claims.get(r.id.as_str()).copied().unwrap_or_default()))
            .filter(|(r, claim)| !claim.is_met() && !self.exceptions.has(&r.id))
            .collect()
    }

    fn stale(&self) -> Vec<String> {
        let claims = self.claims();
        let met = |id: &&String| {
            claims.get(id.as_str()).is_some_and(|c| c.is_met())
                && !self.verdicts.survives.contains_key(*id)
        };
        self.exceptions.ids().filter(met).cloned().collect()
    }

    fn findings(&self) -> Vec<Finding> {
        let mut findings = self.requirements.findings();
        findings.extend(self.exceptions.findings(&self.requirements));
        findings.extend(self.tag_findings());
        findings.extend(self.missing().into_iter().map(|(r, claim)| {
            let lacks = claim.lacks();
            Finding::at(
                &r.file,
                r.line,
                format!(
                    "{} is a must and lacks {lacks}: tag it, or put it off in spec/exceptions.toml",
                    r.id
                ),
            )
        }));
        findings.extend(self.survivors());
        findings
    }

    /// Requirements whose tagged tests pass when the tagged code is switched off.
    fn survivors(&self) -> Vec<Finding> {
        let survives = |r: &&Requirement| {
            self.verdicts.survives.contains_key(&r.id) && !self.exceptions.has(&r.id)
        };
        let finding = |r: &Requirement| {
            let id = &r.id;
            let what = format!(
                "every tagged test of {id} passes when the tagged code is switched off ({}): `cargo xtask mutants {id}` \
                 shows the switches; tag the place and the test that notices, or put it off in spec/exceptions.toml",
                verdicts::FILE
            );
            Finding::at(&r.file, r.line, what)
        };
        self.requirements.list.iter().filter(survives).map(finding).collect()
    }

    /// Faults of the tags themselves: malformed, unknown, too many for one test, or met in two
    /// places.
    fn tag_findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut places: BTreeMap<&str, &Tag> = BTreeMap::new();
        let mut tests: BTreeMap<(&Path, usize), Vec<&Tag>> = BTreeMap::new();
        for tag in &self.tags {
            findings.extend(
                tag.fault.iter().map(|what| Finding::at(&tag.file, tag.line, what.clone())),
            );
            for id in &tag.ids {
                if self.requirements.get(id).is_none() {
                    let what =
                        format!("{id} is in no spec file: correct the id, or add the requirement");
                    findings.push(Finding::at(&tag.file, tag.line, what));
                }
            }
            match tag.side {
                Side::Test => tests.entry((&tag.file, tag.owner)).or_default().push(tag),
                Side::Code => {
                    for id in &tag.ids {
                        if let Some(first) = places.insert(id, tag) {
                            findings.push(second_place(id, first, tag));
                        }
                    }
                }
            }
        }
        findings.extend(tests.values().filter_map(|tags| too_many(tags)));
        findings
    }

    /// One line for each spec file: how many of its requirements are claimed, and how many are put
    /// off.
    fn summary(&self) -> String {
        let claims = self.claims();
        let mut table = format!(
            "{:<24} {:>5} {:>5} {:>9} {:>9} {:>8} {:>12}\n",
            "spec", "must", "met", "test only", "code only", "excepted", "other tested"
        );
        for file in self.requirements.files() {
            let mut row = [0usize; 6];
            for requirement in self.requirements.list.iter().filter(|r| r.file == *file) {
                let claim = claims.get(requirement.id.as_str()).copied().unwrap_or_default();
                if requirement.level != Level::Must {
                    row[5] += usize::from(claim.test);
                    continue;
                }
                row[0] += 1;
                row[1] += usize::from(claim.is_met());
                row[2] += usize::from(claim.test && !claim.code);
                row[3] += usize::from(claim.code && !claim.test);
                row[4] += usize::from(!claim.is_met() && self.exceptions.has(&requirement.id));
            }
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            let [must, met, test, code, excepted, other] = row;
            table += &format!(
                "{name:<24} {must:>5} {met:>5} {test:>9} {code:>9} {excepted:>8} {other:>12}\n"
            );
        }
        table
    }
}

fn second_place(id: &str, first: &Tag, second: &Tag) -> Finding {
    let (file, line) = (first.file.display(), first.line + 1);
    Finding::at(
        &second.file,
        second.line,
        format!(
            "{id} is claimed by code at {file}:{line} already: keep the tag on the one place that meets it"
        ),
    )
}

fn too_many(tags: &[&Tag]) -> Option<Finding> {
    let mut ids: Vec<&String> = tags.iter().flat_map(|t| &t.ids).collect();
    ids.sort();
    ids.dedup();
    let what = format!(
        "this test claims {} requirements, at most {IDS_PER_TEST} are allowed: split it, or claim what it is about",
        ids.len()
    );
    (ids.len() > IDS_PER_TEST).then(|| Finding::at(&tags[0].file, tags[0].line, what))
}

/// Reads where each requirement is met and which tests claim it.
pub fn places(root: &Path) -> Result<Places, String> {
    let mut places = Places { code: BTreeMap::new(), tests: BTreeMap::new() };
    for tag in tag::read(root)? {
        for id in &tag.ids {
            match (tag.side, &tag.function) {
                (Side::Code, _) => {
                    let place = CodeTag { file: tag.file.clone(), line: tag.line + 1 };
                    places.code.insert(id.clone(), place);
                }
                (Side::Test, Some(name)) => {
                    let test = TestTag { file: tag.file.clone(), name: name.clone() };
                    places.tests.entry(id.clone()).or_default().push(test);
                }
                (Side::Test, None) => {}
            }
        }
    }
    Ok(places)
}

/// Checks the whole, and prints the summary.
pub fn check(root: &Path) -> Result<(), String> {
    let coverage = Coverage::read(root)?;
    print!("{}", coverage.summary());
    let stale = coverage.stale().len();
    if stale > 0 {
        println!(
            "{stale} exceptions are no longer needed: `cargo xtask spec --prune` removes them"
        );
    }
    let mut findings = coverage.findings();
    findings.extend(tests_of_no_program(&coverage.tags, |file| root.join(file).is_file()));
    report("spec", findings)
}

/// Tagged tests in a folder of `tests` that is named like no test program. The program that runs
/// them is found by that name.
fn tests_of_no_program(tags: &[Tag], exists: impl Fn(&Path) -> bool) -> Vec<Finding> {
    let is_lost = |tag: &&Tag| {
        let parents: Vec<&Path> = tag.file.ancestors().collect();
        let folder =
            parents.iter().find(|path| path.parent().is_some_and(|p| p.ends_with("tests")));
        folder.is_some_and(|folder| {
            !exists(folder)
                && !exists(&folder.join("main.rs"))
                && !exists(&folder.with_extension("rs"))
        })
    };
    let what = "a tagged test in a folder that is named like no test program: move it to the folder \
                of its program";
    let tests = tags.iter().filter(|tag| tag.side == Side::Test).filter(is_lost);
    tests.map(|tag| Finding::at(&tag.file, tag.line + 1, what.to_owned())).collect()
}

/// Prints every must that lacks a tag and has no exception.
pub fn print_missing(root: &Path) -> Result<(), String> {
    let coverage = Coverage::read(root)?;
    for (requirement, claim) in coverage.missing() {
        println!("{} lacks {}: {}", requirement.id, claim.lacks(), requirement.text);
    }
    Ok(())
}

/// Prints every exception whose requirement has both tags.
pub fn print_stale(root: &Path) -> Result<(), String> {
    for id in Coverage::read(root)?.stale() {
        println!("{id}");
    }
    Ok(())
}

/// Removes the exceptions whose requirement has both tags.
pub fn prune(root: &Path) -> Result<(), String> {
    let mut coverage = Coverage::read(root)?;
    let stale = coverage.stale();
    coverage.exceptions.remove(&stale);
    coverage.exceptions.write(root)?;
    println!("removed {} exceptions: {}", stale.len(), stale.join(", "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    const SPEC: &str = "title = \"t\"\nsource = \"s\"\n\
        [[requirement]]\nid = \"NF-001\"\nlevel = \"must\"\nsection = \"a\"\ntext = \"b\"\n\
        [[requirement]]\nid = \"NF-002\"\nlevel = \"must\"\nsection = \"a\"\ntext = \"c\"\n\
        [[requirement]]\nid = \"NF-003\"\nlevel = \"may\"\nsection = \"a\"\ntext = \"d\"\n";

    fn coverage(code: &str, test: &str, exceptions: &str) -> Coverage {
        let mut tags = tag::in_rust(Path::new("crates/x/src/lib.rs"), code, false);
        tags.extend(tag::in_rust(Path::new("crates/x/tests/t.rs"), test, true));
        Coverage {
            requirements: Requirements::parse([(PathBuf::from("spec/nf.toml"), SPEC.to_owned())])
                .unwrap(),
            tags,
            exceptions: Exceptions::parse(exceptions).unwrap(),
            verdicts: Ledger::default(),
        }
    }

    #[test]
    fn a_tagged_test_is_in_the_folder_of_its_program() {
        let found = |file: &str| {
            let tags = tag::in_rust(Path::new(file), "// spec: NF-001\n#[test]\nfn a() {}", true);
            let exists = ["crates/x/tests/t.rs", "crates/x/tests/u/main.rs"];
            tests_of_no_program(&tags, |file| exists.iter().any(|known| file == Path::new(known)))
                .len()
        };
        for file in ["tests/t.rs", "tests/t/a.rs", "tests/u/main.rs", "tests/u/a.rs", "src/a.rs"] {
            assert_eq!(found(&format!("crates/x/{file}")), 0, "{file}");
        }
        assert_eq!(found("crates/x/tests/guest/mod.rs"), 1);
    }

    fn put_off(id: &str, missing: &str) -> String {
        format!(
            "[[exception]]\nid = \"{id}\"\nmissing = \"{missing}\"\nbrought_by = \"later work\"\n"
        )
    }

    fn whats(coverage: &Coverage) -> Vec<String> {
        coverage.findings().into_iter().map(|f| f.to_string()).collect()
    }

    #[test]
    fn a_must_needs_both_tags_or_an_exception() {
        let open = coverage("", "// spec: NF-001\n#[test]\nfn a() {}", "");
        assert_eq!(open.missing().len(), 2);
        assert!(
            whats(&open)[0].starts_with("spec/nf.toml:4: NF-001 is a must and lacks a code tag")
        );
        let put_off =
            [("NF-001", "x"), ("NF-002", "y")].map(|(id, missing)| put_off(id, missing)).concat();
        assert!(whats(&coverage("", "", &put_off)).is_empty());
        let tags = "// spec: NF-001, NF-002";
        assert!(
            whats(&coverage(
                &format!("{tags}\nfn a() {{}}"),
                &format!("{tags}\n#[test] fn b() {{}}"),
                ""
            ))
            .is_empty()
        );
    }

    #[test]
    fn an_exception_that_is_met_is_stale() {
        let put_off = &put_off("NF-001", "x");
        let met =
            coverage("// spec: NF-001\nfn a() {}", "// spec: NF-001\n#[test] fn b() {}", put_off);
        assert_eq!(met.stale(), ["NF-001"]);
        assert!(coverage("// spec: NF-001\nfn a() {}", "", put_off).stale().is_empty());
    }

    #[test]
    fn a_survivor_is_a_finding_until_it_is_put_off() {
        let (code, test) = ("// spec: NF-001\nfn a() {}", "// spec: NF-001\n#[test] fn b() {}");
        let others = put_off("NF-002", "x");
        let mut open = coverage(code, test, &others);
        assert!(whats(&open).is_empty());
        open.verdicts.survives.insert("NF-001".into(), "0".into());
        assert!(
            whats(&open)[0].contains("every tagged test of NF-001 passes"),
            "{:?}",
            whats(&open)
        );
        let mut excepted = coverage(code, test, &format!("{others}{}", put_off("NF-001", "y")));
        excepted.verdicts.survives.insert("NF-001".into(), "0".into());
        assert!(whats(&excepted).is_empty() && excepted.stale().is_empty());
    }

    #[test]
    fn an_unknown_id_is_a_finding() {
        let found = whats(&coverage("// spec: NF-099\nfn a() {}", "", ""));
        assert!(
            found.iter().any(|w| w.starts_with("crates/x/src/lib.rs:1: NF-099 is in no spec file")),
            "{found:?}"
        );
    }

    #[test]
    fn a_requirement_is_met_in_one_place() {
        let found =
            whats(&coverage("// spec: NF-001\nfn a() {}\n// spec: NF-001\nfn b() {}", "", ""));
        assert!(
            found.iter().any(|w| w.contains("lib.rs:3: NF-001 is claimed by code at")),
            "{found:?}"
        );
    }

    #[test]
    fn a_test_claims_at_most_five() {
        let six = "#[test]\n// spec: NF-001, NF-002, NF-003, NF-004\nfn a() {\n    // spec: NF-005, NF-006\n}";
        let found = whats(&coverage("", six, ""));
        assert!(found.iter().any(|w| w.contains("this test claims 6 requirements")), "{found:?}");
    }
}
