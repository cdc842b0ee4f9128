//! `cargo xtask mutants`: switches off each tagged place in turn; a test that carries the tag must fail.
//!
//! The order: 1. the tags of code and tests are paired by id; 2. every place gets its switches (`switches`), all at once, in a
//! copy of the tree below the build folder; 3. the copy is built, and switches that do not compile are left out; 4. each
//! tagged test runs without a switch, and must pass; 5. it runs once for each switch, until one makes it fail. An id whose
//! tests pass under every switch is a survivor. `TIDEGATE_MUTANT` names the switch that is on.

mod compiler;
mod runs;
mod switches;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::spec::{self, CodeTag, TestTag};
use crate::test_programs::{self, Program};
use crate::{stages, tree};
use compiler::CompileError;
use runs::{Outcome, Runs, Test};
use switches::Switch;

/// The function that switches call, added to the root of each crate.
const SWITCH_FUNCTION: &str = "
#[allow(missing_docs, dead_code, clippy::all)]
pub(crate) fn mutant_is_on(number: u32) -> bool {
    static ON: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let read = || std::env::var(\"TIDEGATE_MUTANT\").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    *ON.get_or_init(read) == number
}
";

/// A switch with its number, and the tagged places that it belongs to: two tags may stand above the same code.
struct Numbered {
    number: u32,
    places: Vec<CodeTag>,
    switch: Switch,
}

impl Numbered {
    fn file(&self) -> &Path {
        &self.places[0].file
    }
}

/// What became of one id.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// A tagged test failed under this switch.
    Killed,
    /// Every tagged test passed under every switch.
    Survived(Vec<String>),
    /// No switch could be made: the tag stands on a type, a constant or on data.
    NoSwitch,
    /// No tagged test is in a test program that could be found.
    NoTest,
    /// A tagged test fails without any switch.
    FailsAnyway(String),
}

/// Runs the mutants of the ids that begin with one of `wanted`, or of all.
///
/// # Errors
/// The survivors by id, with the switches that no tagged test noticed.
pub fn run(root: &Path, wanted: &[&str]) -> Result<(), String> {
    let spec::Places { code, tests } = spec::places(root)?;
    let chosen = |id: &String| wanted.is_empty() || wanted.iter().any(|w| id.starts_with(w));
    let ids: Vec<&String> = code.keys().filter(|id| chosen(id)).collect();
    if ids.is_empty() {
        return Err(format!("no requirement begins with {}", wanted.join(" or ")));
    }
    let mut switches = number_switches(root, ids.iter().map(|id| &code[*id]))?;
    let copy = tree::build_folder(root).join("mutants");
    let programs = build(root, &copy, &mut switches)?;
    println!("{} requirements, {} switches, {} test programs", ids.len(), switches.len(), programs.len());
    let mut runs = Runs::new(&programs, &copy)?;
    let mut verdicts = BTreeMap::new();
    for (at, id) in ids.iter().enumerate() {
        let none = Vec::new();
        let verdict = judge(&code[*id], tests.get(*id).unwrap_or(&none), &switches, &mut runs)?;
        println!("[{}/{}] {id}: {}", at + 1, ids.len(), in_words(&verdict));
        verdicts.insert((*id).clone(), verdict);
    }
    summary(&verdicts)
}

fn number_switches<'a>(
    root: &Path,
    tags: impl Iterator<Item = &'a CodeTag>,
) -> Result<Vec<Numbered>, String> {
    let places: BTreeSet<&CodeTag> = tags.filter(|t| t.file.extension().is_some_and(|e| e == "rs")).collect();
    let mut numbered: Vec<Numbered> = Vec::new();
    for place in places {
        let file = place.file.display();
        let text = fs::read_to_string(root.join(&place.file)).map_err(|e| format!("{file}: {e}"))?;
        for switch in switches::below(&text, place.line).map_err(|e| format!("{file}: {e}"))? {
            let same = |n: &&mut Numbered| n.places[0].file == place.file && n.switch == switch;
            if let Some(known) = numbered.iter_mut().find(same) {
                known.places.push(place.clone());
                continue;
            }
            let number = u32::try_from(numbered.len() + 1).map_err(|e| e.to_string())?;
            numbered.push(Numbered { number, places: vec![place.clone()], switch });
        }
    }
    Ok(numbered)
}

/// Builds the test programs of a copy with switches; those that do not compile are left out of `switches`.
fn build(root: &Path, copy: &Path, switches: &mut Vec<Numbered>) -> Result<Vec<Program>, String> {
    // Each round leaves switches out, so the number of rounds is bounded.
    loop {
        write_copy(root, copy, switches)?;
        let environment = [("CARGO_TARGET_DIR", copy.join("target").into_os_string())];
        let arguments = [
            "test",
            "--workspace",
            "--exclude",
            "xtask",
            "--exclude",
            "tidegate-fuzz",
            "--no-run",
            "--no-fail-fast",
            "--message-format",
            "json",
        ];
        let (built, output) = stages::cargo_output(copy, &arguments, &environment, Stdio::null())?;
        if built {
            return Ok(test_programs::programs(&output));
        }
        let refused = compiler::errors(&output);
        let before = switches.len();
        switches.retain(|n| !refused.iter().any(|error| error.blames(n.file(), &n.switch)));
        if switches.len() == before {
            let nearest: Vec<u32> = refused.iter().filter_map(|error| nearest(error, switches)).collect();
            switches.retain(|n| !nearest.contains(&n.number));
        }
        println!("{} switches do not compile and are left out", before - switches.len());
        if switches.len() == before {
            let error = refused.first().map_or_else(|| "cargo failed".to_owned(), ToString::to_string);
            return Err(format!("the copy with switches does not build: {error}"));
        }
    }
}

/// The switch that begins next below an error that marks none: a `match` that lacks an arm is marked at its head.
fn nearest(error: &CompileError, switches: &[Numbered]) -> Option<u32> {
    let below = switches.iter().filter(|n| n.file() == error.file && n.switch.line >= error.line());
    below.min_by_key(|n| n.switch.line).map(|n| n.number)
}

/// Writes the tree with its switches below `copy`; files that stay the same keep their time, so that little is built anew.
fn write_copy(root: &Path, copy: &Path, switches: &[Numbered]) -> Result<(), String> {
    for path in tree::paths(root, ".")? {
        let path = path.strip_prefix(".").unwrap_or(&path).to_path_buf();
        let hidden = path.components().next().is_some_and(|c| c.as_os_str() == ".git");
        if hidden || root.join(&path).is_dir() {
            continue;
        }
        let mut bytes = fs::read(root.join(&path)).map_err(|e| format!("{}: {e}", path.display()))?;
        let here: Vec<(u32, &Switch)> =
            switches.iter().filter(|n| n.file() == path).map(|n| (n.number, &n.switch)).collect();
        let is_crate_root =
            path.starts_with("crates") && (path.ends_with("src/lib.rs") || path.ends_with("src/main.rs"));
        if !here.is_empty() || is_crate_root {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let mut planted = switches::plant(&text, &here);
            if is_crate_root {
                planted.push_str(SWITCH_FUNCTION);
            }
            bytes = planted.into_bytes();
        }
        let target = copy.join(&path);
        if fs::read(&target).is_ok_and(|old| old == bytes) {
            continue;
        }
        let folder = target.parent().unwrap_or(copy);
        fs::create_dir_all(folder).map_err(|e| format!("{}: cannot make: {e}", folder.display()))?;
        fs::write(&target, bytes).map_err(|e| format!("{}: cannot write: {e}", target.display()))?;
    }
    Ok(())
}

fn judge(
    place: &CodeTag,
    tests: &[TestTag],
    switches: &[Numbered],
    runs: &mut Runs<'_>,
) -> Result<Verdict, String> {
    let mine: Vec<&Numbered> = switches.iter().filter(|n| n.places.contains(place)).collect();
    if mine.is_empty() {
        return Ok(Verdict::NoSwitch);
    }
    let known: Vec<Test> = tests.iter().filter_map(|test| runs.find(test)).collect();
    if known.is_empty() {
        return Ok(Verdict::NoTest);
    }
    for test in &known {
        match runs.outcome(test, 0)? {
            Outcome::Passed => {}
            Outcome::NotRun => return Ok(Verdict::NoTest),
            Outcome::Failed => return Ok(Verdict::FailsAnyway(test.name.clone())),
        }
    }
    for numbered in &mine {
        for test in &known {
            if runs.outcome(test, numbered.number)? == Outcome::Failed {
                return Ok(Verdict::Killed);
            }
        }
    }
    let unnoticed = |n: &&Numbered| format!("{}:{}: {}", n.file().display(), n.switch.line, n.switch.what);
    Ok(Verdict::Survived(mine.iter().map(unnoticed).collect()))
}

fn in_words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Killed => "a tagged test fails".to_owned(),
        Verdict::Survived(switches) => format!("SURVIVES\n    {}", switches.join("\n    ")),
        Verdict::NoSwitch => "no switch: the tag stands on a type, a constant or data".to_owned(),
        Verdict::NoTest => "no test program holds the tagged test".to_owned(),
        Verdict::FailsAnyway(test) => format!("{test} fails without a switch"),
    }
}

fn summary(verdicts: &BTreeMap<String, Verdict>) -> Result<(), String> {
    let count = |wanted: fn(&Verdict) -> bool| verdicts.values().filter(|v| wanted(v)).count();
    println!(
        "{} of {} requirements: a tagged test fails when the tagged place is switched off; {} have no switch, {} no test",
        count(|v| *v == Verdict::Killed),
        verdicts.len(),
        count(|v| *v == Verdict::NoSwitch),
        count(|v| *v == Verdict::NoTest)
    );
    let wrong: Vec<String> = verdicts
        .iter()
        .filter(|(_, v)| matches!(v, Verdict::Survived(_) | Verdict::FailsAnyway(_)))
        .map(|(id, v)| format!("{id}: {}", in_words(v)))
        .collect();
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("{}\nmutants: {} survive", wrong.join("\n"), wrong.len()))
    }
}
