//! `cargo xtask mistakes`: puts each mistake of `xtask/mistakes.toml` into the code; one of its tests
//! must fail.
//!
//! A tag says where code can be switched off. A mistake says what else could have been written there,
//! so it also reaches rules of data and orders of steps. All mistakes are built at once, each behind a
//! switch, and `TIDEGATE_MUTANT` names the one that is on.
//!
//! Invariant: the code of a mistake occurs once in its file. A mistake that no longer fits, or does not
//! compile, fails the task: it is written anew with the change that moved it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Deserialize;

use super::build::{Numbered, build};
use super::runs::{Outcome, ProgramName, Runs};
use super::switches::{CALL, Insertion, Switch};
use crate::spec::{CodeTag, TestTag};
use crate::tree;

/// Where the mistakes are written, relative to the repository.
pub const FILE: &str = "xtask/mistakes.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mistakes {
    mistake: Vec<Mistake>,
}

/// Code that could have been written by mistake.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mistake {
    /// What it does wrong, and with which effect.
    what: String,
    /// Relative to the root.
    file: PathBuf,
    /// An expression, or whole statements. It occurs once in the file.
    code: String,
    /// What the mistake has in its place.
    instead: String,
    /// Tests of which one must fail: the file below `crates` and the name of the function.
    tests: Vec<(PathBuf, String)>,
}

impl Mistake {
    fn tests(&self) -> impl Iterator<Item = TestTag> {
        let tests = self.tests.iter();
        tests.map(|(file, name)| TestTag {
            file: Path::new("crates").join(file),
            name: name.clone(),
        })
    }

    /// The mistake as a switch of `text`, its file.
    fn switch(&self, text: &str) -> Result<Switch, String> {
        let mut found = text.match_indices(&self.code);
        let (Some((at, _)), None) = (found.next(), found.next()) else {
            let times = text.matches(&self.code).count();
            return Err(format!(
                "{}: the code of '{}' occurs {times} times in {}, and must occur once",
                FILE,
                self.what,
                self.file.display()
            ));
        };
        // A block is a statement and an expression, so it takes both kinds of code.
        let open = format!("{{ if {CALL}(NUMBER) {{ {} }} else {{ ", self.instead);
        let insertions = vec![
            Insertion { at, text: open },
            Insertion { at: at + self.code.len(), text: " } }".to_owned() },
        ];
        let line = text[..at].matches('\n').count() + 1;
        Ok(Switch { line, what: "a mistake", insertions })
    }
}

fn read(root: &Path) -> Result<Vec<Mistake>, String> {
    let text =
        fs::read_to_string(root.join(FILE)).map_err(|e| format!("{FILE}: cannot read: {e}"))?;
    let mistakes: Mistakes = toml::from_str(&text).map_err(|e| format!("{FILE}: {e}"))?;
    Ok(mistakes.mistake)
}

/// The mistakes as switches, numbered from 1.
fn number(root: &Path, mistakes: &[Mistake]) -> Result<Vec<Numbered>, String> {
    let numbered = (1..).zip(mistakes).map(|(number, mistake)| {
        let text = fs::read_to_string(root.join(&mistake.file))
            .map_err(|e| format!("{}: cannot read: {e}", mistake.file.display()))?;
        let switch = mistake.switch(&text)?;
        let place = CodeTag { file: mistake.file.clone(), line: switch.line };
        Ok(Numbered { number, places: vec![place], switch })
    });
    numbered.collect()
}

/// Checks that each mistake fits its file and names tests that exist, without building anything.
///
/// # Errors
/// The mistakes that do not.
pub fn check(root: &Path) -> Result<(), String> {
    let mistakes = read(root)?;
    number(root, &mistakes)?;
    for mistake in &mistakes {
        for TestTag { file, name } in mistake.tests() {
            let text = fs::read_to_string(root.join(&file)).unwrap_or_default();
            if !text.contains(&format!("fn {name}()")) {
                let what = &mistake.what;
                return Err(format!("{FILE}: '{what}': no test {name} in {}", file.display()));
            }
        }
    }
    println!("{} mistakes fit the code", mistakes.len());
    Ok(())
}

/// Runs the mistakes of which `what` or the file contains one of `wanted`, or all.
///
/// # Errors
/// The mistakes that no test of theirs noticed, and those that do not compile.
pub fn run(root: &Path, wanted: &[&str]) -> Result<(), String> {
    let chosen = |m: &Mistake| {
        let file = m.file.to_string_lossy();
        wanted.is_empty() || wanted.iter().any(|w| m.what.contains(w) || file.contains(w))
    };
    let mistakes: Vec<Mistake> = read(root)?.into_iter().filter(chosen).collect();
    if mistakes.is_empty() {
        return Err(format!("no mistake in {FILE} names {}", wanted.join(" or ")));
    }
    let mut switches = number(root, &mistakes)?;
    let programs: BTreeSet<ProgramName> =
        mistakes.iter().flat_map(Mistake::tests).filter_map(|tag| ProgramName::of(&tag)).collect();
    let copy = tree::build_folder(root).join("mistakes");
    let begun = Instant::now();
    let built = build(root, &copy, &programs, &mut switches, None)?;
    println!(
        "{} mistakes, {} test programs built in {:.0} s",
        mistakes.len(),
        built.programs.len(),
        begun.elapsed().as_secs_f64()
    );
    let runs = Runs::new(&built, &copy, None)?;
    let mut wrong = Vec::new();
    for (number, mistake) in (1..).zip(&mistakes) {
        let is_built = switches.iter().any(|n| n.number == number);
        let verdict = if is_built { judge(mistake, number, &runs)? } else { NO_BUILD.to_owned() };
        println!("[{number}/{}] {}: {verdict}", mistakes.len(), mistake.what);
        if !verdict.starts_with(NOTICED) {
            wrong.push(format!("{}: {verdict}", mistake.what));
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("{}\nmistakes: {} of {}", wrong.join("\n"), wrong.len(), mistakes.len()))
    }
}

const NO_BUILD: &str = "does not compile";
const NOTICED: &str = "noticed by";

fn judge(mistake: &Mistake, number: u32, runs: &Runs<'_>) -> Result<String, String> {
    for tag in mistake.tests() {
        let Some(test) = runs.find(&tag) else {
            return Ok(format!("no test program holds {}", tag.name));
        };
        if runs.outcome(&test, 0, 0)? != Outcome::Passed {
            return Ok(format!("{} does not pass without it", tag.name));
        }
        if runs.outcome(&test, number, 0)? == Outcome::Failed {
            return Ok(format!("{NOTICED} {}", tag.name));
        }
    }
    Ok("NOT NOTICED".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::switches::plant;
    use super::*;

    fn mistake(code: &str, instead: &str) -> Mistake {
        Mistake {
            what: "a mistake".to_owned(),
            file: "crates/a/src/a.rs".into(),
            code: code.to_owned(),
            instead: instead.to_owned(),
            tests: Vec::new(),
        }
    }

    #[test]
    fn a_mistake_stands_beside_the_code() {
        let text = "fn a() -> u8 { b() + 1 }";
        let switch = mistake("b() + 1", "b()").switch(text).unwrap();
        let (planted, _) = plant(text, &[(4, &switch)]);
        let planted = planted.replace(CALL, "on");
        assert_eq!(planted, "fn a() -> u8 { { if on(4) { b() } else { b() + 1 } } }");
    }

    #[test]
    fn the_code_of_a_mistake_occurs_once() {
        let twice = mistake("b()", "c()").switch("fn a() { b(); b(); }").unwrap_err();
        assert!(twice.contains("occurs 2 times"), "{twice}");
        let gone = mistake("d()", "c()").switch("fn a() { b(); b(); }").unwrap_err();
        assert!(gone.contains("occurs 0 times"), "{gone}");
    }

    #[test]
    fn the_mistakes_of_the_repository_fit_the_code() {
        check(&tree::root()).unwrap();
    }
}
