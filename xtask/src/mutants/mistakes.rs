//! `cargo xtask mistakes`: puts each mistake of `xtask/mistakes.toml` into the code; one of its
//! tests must fail.
//!
//! A tag says where code can be switched off. A mistake says what else could have been written
//! there, so it also reaches rules of data and orders of steps. All mistakes are built at once,
//! each behind a switch, and `TIDEGATE_MUTANT` names the one that is on.
//!
//! Invariant: the code of a mistake occurs once in its file. A mistake that no longer fits, or does
//! not compile, fails the task: it is written anew with the change that moved it.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Deserialize;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, ImplItemFn, ItemFn, Signature, TraitItemFn};

use super::build::{Numbered, build, commands};
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

/// Other code in the place of some.
#[derive(Deserialize)]
pub(super) struct Change {
    /// What it does wrong, and with which effect.
    pub(super) what: String,
    /// Relative to the root.
    pub(super) file: PathBuf,
    /// Any piece of a function; outside of one, an expression. It occurs once in the file.
    code: String,
    /// What the mistake has in its place.
    instead: String,
}

impl Change {
    /// The change as a switch of `text`, its file. `list` names the file that has the change.
    fn switch(&self, text: &str, list: &str) -> Result<Switch, String> {
        let mut found = text.match_indices(&self.code);
        let (Some((at, _)), None) = (found.next(), found.next()) else {
            let times = text.matches(&self.code).count();
            return Err(format!(
                "{list}: the code of '{}' occurs {times} times in {}, and must occur once",
                self.what,
                self.file.display()
            ));
        };
        let code = at..at + self.code.len();
        let (around, instead) = match body_around(text, &code) {
            Some(body) => {
                let (before, after) = (&text[body.start..code.start], &text[code.end..body.end]);
                (body, format!("{before}{}{after}", self.instead))
            }
            // A block is a statement and an expression, so it takes both kinds of code.
            None => (code, format!("{{ {} }}", self.instead)),
        };
        let insertions = vec![
            Insertion {
                at: around.start,
                text: format!("{{ if {CALL}(NUMBER) {instead} else {{ "),
            },
            Insertion { at: around.end, text: " } }".to_owned() },
        ];
        let line = text[..at].matches('\n').count() + 1;
        Ok(Switch { line, what: "a mistake", insertions })
    }

    /// Returns whether its text or its file contains one of `wanted`, or there are none.
    pub(super) fn is_wanted(&self, wanted: &[&str]) -> bool {
        let file = self.file.to_string_lossy();
        wanted.is_empty() || wanted.iter().any(|w| self.what.contains(w) || file.contains(w))
    }
}

/// The body of the innermost function around the code. None if two bodies could differ in type, or
/// cannot ask for a switch.
fn body_around(text: &str, code: &Range<usize>) -> Option<Range<usize>> {
    let mut search = Bodies { text, code, found: None };
    search.visit_file(&syn::parse_file(text).ok()?);
    search.found?
}

struct Bodies<'t> {
    text: &'t str,
    code: &'t Range<usize>,
    /// The innermost function so far: its body, unless it is to stay single.
    found: Option<Option<Range<usize>>>,
}

impl Bodies<'_> {
    fn note(&mut self, signature: &Signature, body: &Block) {
        let range = body.span().byte_range();
        if range.start <= self.code.start && self.code.end <= range.end {
            let output = &self.text[signature.output.span().byte_range()];
            let is_single = output.contains("impl ") || signature.constness.is_some();
            self.found = Some((!is_single).then_some(range));
        }
    }
}

impl<'s> Visit<'s> for Bodies<'_> {
    fn visit_item_fn(&mut self, item: &'s ItemFn) {
        self.note(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'s ImplItemFn) {
        self.note(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'s TraitItemFn) {
        if let Some(body) = &item.default {
            self.note(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

/// Code that could have been written by mistake.
#[derive(Deserialize)]
struct Mistake {
    #[serde(flatten)]
    change: Change,
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
}

fn read(root: &Path) -> Result<Vec<Mistake>, String> {
    let text =
        fs::read_to_string(root.join(FILE)).map_err(|e| format!("{FILE}: cannot read: {e}"))?;
    let mistakes: Mistakes = toml::from_str(&text).map_err(|e| format!("{FILE}: {e}"))?;
    Ok(mistakes.mistake)
}

/// The changes of a list as switches, numbered from 1.
pub(super) fn number<'c>(
    root: &Path,
    changes: impl Iterator<Item = &'c Change>,
    list: &str,
) -> Result<Vec<Numbered>, String> {
    let numbered = (1..).zip(changes).map(|(number, change)| {
        let text = fs::read_to_string(root.join(&change.file))
            .map_err(|e| format!("{}: cannot read: {e}", change.file.display()))?;
        let switch = change.switch(&text, list)?;
        let place = CodeTag { file: change.file.clone(), line: switch.line };
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
    number(root, mistakes.iter().map(|mistake| &mistake.change), FILE)?;
    for mistake in &mistakes {
        for TestTag { file, name } in mistake.tests() {
            let text = fs::read_to_string(root.join(&file)).unwrap_or_default();
            if !text.contains(&format!("fn {name}()")) {
                let what = &mistake.change.what;
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
    let mistakes = read(root)?.into_iter().filter(|m| m.change.is_wanted(wanted));
    let mistakes: Vec<Mistake> = mistakes.collect();
    if mistakes.is_empty() {
        return Err(format!("no mistake in {FILE} names {}", wanted.join(" or ")));
    }
    let changes = mistakes.iter().map(|mistake| &mistake.change);
    let mut switches = number(root, changes, FILE)?;
    let programs: BTreeSet<ProgramName> =
        mistakes.iter().flat_map(Mistake::tests).filter_map(|tag| ProgramName::of(&tag)).collect();
    let copy = tree::build_folder(root).join("mistakes");
    let begun = Instant::now();
    let built = build(root, &copy, &commands(&programs), &mut switches, None)?;
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
        println!("[{number}/{}] {}: {verdict}", mistakes.len(), mistake.change.what);
        if !verdict.starts_with(NOTICED) {
            wrong.push(format!("{}: {verdict}", mistake.change.what));
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

    fn change(code: &str, instead: &str) -> Change {
        Change {
            what: "a mistake".to_owned(),
            file: "crates/a/src/a.rs".into(),
            code: code.to_owned(),
            instead: instead.to_owned(),
        }
    }

    fn planted(text: &str, change: &Change) -> String {
        let switch = change.switch(text, FILE).unwrap();
        plant(text, &[(4, &switch)]).0.replace(CALL, "on")
    }

    #[test]
    fn a_function_has_two_bodies_so_a_mistake_is_any_piece_of_it() {
        assert_eq!(
            planted("fn a() -> u8 { b() + 1 }", &change("+ 1", "")),
            "fn a() -> u8 { if on(4) { b()  } else { { b() + 1 } } }"
        );
        let inside = "impl A { fn a(&self) { fn c() { match d { 1 => 2, _ => 3 } } } }";
        assert!(
            planted(inside, &change("1 => 2,", "")).contains("fn c() { if on(4) { match d {  _")
        );
    }

    #[test]
    fn code_that_cannot_have_two_bodies_has_its_switch_in_place() {
        let hidden = "fn a() -> impl B { c(|d| d + 1) }";
        let in_place = "c(|d| { if on(4) { d } else { d + 1 } })";
        assert!(planted(hidden, &change("d + 1", "d")).contains(in_place));
        let outside = planted("static A: B = B::new(|| 1);", &change("1", "2"));
        assert_eq!(outside, "static A: B = B::new(|| { if on(4) { 2 } else { 1 } });");
    }

    #[test]
    fn the_code_of_a_mistake_occurs_once() {
        let twice = change("b()", "c()").switch("fn a() { b(); b(); }", FILE).unwrap_err();
        assert!(twice.contains("occurs 2 times"), "{twice}");
        let gone = change("d()", "c()").switch("fn a() { b(); b(); }", FILE).unwrap_err();
        assert!(gone.contains("occurs 0 times"), "{gone}");
    }

    #[test]
    fn the_mistakes_of_the_repository_fit_the_code() {
        check(&tree::root()).unwrap();
    }
}
