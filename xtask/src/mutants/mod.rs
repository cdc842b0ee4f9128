//! `cargo xtask mutants`: switches off each tagged place in turn; a test that carries the tag must
//! fail.
//!
//! The order: 1. the tags of code and tests are paired by id; 2. every place gets its switches
//! (`switches`), all at once, in a copy of the tree below the build folder; 3. the copy is built,
//! and switches that do not compile are left out; 4. each tagged test runs without a switch, and
//! must pass; 5. it runs once for each switch, until one makes it fail; 6. the verdict goes into
//! `spec::verdicts`. An id whose tests pass under every switch is a survivor. `TIDEGATE_MUTANT` names
//! the switch that is on.

mod compiler;
mod runs;
mod switches;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::spec::verdicts::{self, Ledger};
use crate::spec::{self, CodeTag, Places, TestTag};
use crate::test_programs::{self, Program};
use crate::{cargo, tree};
use compiler::CompileError;
use runs::{Outcome, Runs, Test};
use switches::{Planted, Switch};

/// The function that switches call, added to the root of each crate.
const SWITCH_FUNCTION: &str = "
#[allow(missing_docs, dead_code, clippy::all)]
pub(crate) fn mutant_is_on(number: u32) -> bool {
    static ON: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let read = || std::env::var(\"TIDEGATE_MUTANT\").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    *ON.get_or_init(read) == number
}
";

/// A switch with its number, and the tagged places that it belongs to: two tags may stand above the
/// same code.
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
    /// The time of the run was used before.
    NotJudged,
}

impl Verdict {
    /// The table that the verdict belongs to; none if it says nothing about the code.
    fn table<'l>(&self, ledger: &'l mut Ledger) -> Option<&'l mut BTreeMap<String, String>> {
        match self {
            Verdict::Killed => Some(&mut ledger.noticed),
            Verdict::Survived(_) => Some(&mut ledger.survives),
            Verdict::NoSwitch => Some(&mut ledger.no_switch),
            Verdict::NoTest => Some(&mut ledger.no_test),
            Verdict::FailsAnyway(_) | Verdict::NotJudged => None,
        }
    }
}

/// Runs the mutants of the ids that begin with one of `wanted`, or of all, and writes the verdicts
/// down.
///
/// # Errors
/// The survivors by id, with the switches that no tagged test noticed.
pub fn run(root: &Path, wanted: &[&str]) -> Result<(), String> {
    let places = spec::places(root)?;
    let chosen = |id: &&String| wanted.is_empty() || wanted.iter().any(|w| id.starts_with(w));
    let ids: Vec<String> = places.code.keys().filter(chosen).cloned().collect();
    if ids.is_empty() {
        return Err(format!("no requirement begins with {}", wanted.join(" or ")));
    }
    run_ids(root, &places, &ids, None)
}

/// Most requirements that a run of `cargo xtask test` judges again, and the most time that it takes
/// for them, the build included.
const BOUND: usize = 30;
const TIME_BOUND: Duration = Duration::from_secs(240);

/// Runs the mutants of the ids whose tagged code or tests differ from those of their verdict.
///
/// # Errors
/// As of [`run`].
pub fn run_touched(root: &Path) -> Result<(), String> {
    run_stale(root, usize::MAX, None)
}

/// The same for the first [`BOUND`] of them, as far as [`TIME_BOUND`] allows. What is not judged is
/// named and fails nothing.
///
/// # Errors
/// As of [`run`].
pub fn run_touched_bounded(root: &Path) -> Result<(), String> {
    run_stale(root, BOUND, Some(Instant::now() + TIME_BOUND))
}

fn run_stale(root: &Path, most: usize, until: Option<Instant>) -> Result<(), String> {
    let places = spec::places(root)?;
    let ids = stale(root, &places, &Ledger::read(root)?)?;
    if ids.is_empty() {
        println!("every verdict in {} is of the code and tests as they are", verdicts::FILE);
        return Ok(());
    }
    println!("code or tests of {} requirements have changed since their verdict", ids.len());
    let (now, later) = ids.split_at(ids.len().min(most));
    if !later.is_empty() {
        println!("{} of them run here; `cargo xtask mutants --touched` runs all", now.len());
    }
    run_ids(root, &places, now, until)
}

/// The ids whose verdict is missing, or was reached with other code or tests.
fn stale(root: &Path, places: &Places, ledger: &Ledger) -> Result<Vec<String>, String> {
    let mut ids = Vec::new();
    for (id, code) in &places.code {
        let now = verdicts::checksum(root, code, tests_of(places, id))?;
        if ledger.checksum(id) != Some(now.as_str()) {
            ids.push(id.clone());
        }
    }
    Ok(ids)
}

fn tests_of<'p>(places: &'p Places, id: &str) -> &'p [TestTag] {
    places.tests.get(id).map_or(&[], Vec::as_slice)
}

fn run_ids(
    root: &Path,
    places: &Places,
    ids: &[String],
    until: Option<Instant>,
) -> Result<(), String> {
    let mut switches = number_switches(root, ids.iter().map(|id| &places.code[id]))?;
    let copy = tree::build_folder(root).join("mutants");
    let tests = ids.iter().flat_map(|id| tests_of(places, id));
    let packages: BTreeSet<String> = tests.filter_map(runs::package).collect();
    let Some(programs) = build(root, &copy, &packages, &mut switches, until)? else {
        println!("the time was used to build the switches: {} requirements are left", ids.len());
        return Ok(());
    };
    println!(
        "{} requirements, {} switches, {} test programs",
        ids.len(),
        switches.len(),
        programs.len()
    );
    let mut runs = Runs::new(&programs, &copy, until)?;
    let mut verdicts = BTreeMap::new();
    let mut ledger = Ledger::read(root)?;
    ledger.retain(|id| places.code.contains_key(id));
    for (at, id) in ids.iter().enumerate() {
        let (code, tests) = (&places.code[id], tests_of(places, id));
        let verdict = judge(code, tests, &switches, &mut runs)?;
        if verdict == Verdict::NotJudged {
            println!("the time is used: {} requirements are left", ids.len() - at);
            break;
        }
        println!("[{}/{}] {id}: {}", at + 1, ids.len(), in_words(&verdict));
        ledger.forget(id);
        if let Some(table) = verdict.table(&mut ledger) {
            table.insert(id.clone(), verdicts::checksum(root, code, tests)?);
        }
        verdicts.insert(id.clone(), verdict);
    }
    ledger.write(root)?;
    summary(&verdicts)
}

fn number_switches<'a>(
    root: &Path,
    tags: impl Iterator<Item = &'a CodeTag>,
) -> Result<Vec<Numbered>, String> {
    let places: BTreeSet<&CodeTag> =
        tags.filter(|t| t.file.extension().is_some_and(|e| e == "rs")).collect();
    let mut numbered: Vec<Numbered> = Vec::new();
    for place in places {
        let file = place.file.display();
        let text =
            fs::read_to_string(root.join(&place.file)).map_err(|e| format!("{file}: {e}"))?;
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

/// Builds the test programs of `packages` in a copy with switches; those that do not compile are
/// left out of `switches`. `None` when that takes longer than `until`.
fn build(
    root: &Path,
    copy: &Path,
    packages: &BTreeSet<String>,
    switches: &mut Vec<Numbered>,
    until: Option<Instant>,
) -> Result<Option<Vec<Program>>, String> {
    let environment = [("CARGO_TARGET_DIR", copy.join("target").into_os_string())];
    let packages: Vec<&str> = packages.iter().flat_map(|name| ["--package", name]).collect();
    // Most switches that do not compile are found by a check, which takes a fraction of a build.
    let check = [&["check"], &packages[..], &["--keep-going", "--message-format", "json"]].concat();
    let build =
        [&["test"], &packages[..], &["--no-run", "--no-fail-fast", "--message-format", "json"]]
            .concat();
    let mut checked = false;
    // Each round that fails leaves switches out, so the number of rounds is bounded.
    loop {
        let planted = write_copy(root, copy, switches)?;
        let arguments = if checked { &build } else { &check };
        let built = match until {
            None => Some(cargo::cargo_output(copy, arguments, &environment, Stdio::null())?),
            Some(until) => cargo::cargo_output_until(copy, arguments, &environment, until)?,
        };
        let Some((passed, output)) = built else { return Ok(None) };
        if passed && checked {
            return Ok(Some(test_programs::programs(&output)));
        }
        checked |= passed;
        if !passed {
            leave_out(&compiler::errors(&output), &planted, switches)?;
        }
    }
}

/// Removes the switches that the compiler blames.
fn leave_out(
    refused: &[CompileError],
    planted: &BTreeMap<PathBuf, Vec<Planted>>,
    switches: &mut Vec<Numbered>,
) -> Result<(), String> {
    let before = switches.len();
    let blamed = |error: &CompileError| {
        let under = planted.get(&error.file).map_or_else(Vec::new, |places| error.blamed(places));
        if under.is_empty() { nearest(error, switches).into_iter().collect() } else { under }
    };
    let blamed: BTreeSet<u32> = refused.iter().flat_map(blamed).collect();
    switches.retain(|n| !blamed.contains(&n.number));
    println!("{} switches do not compile and are left out", before - switches.len());
    if switches.len() == before {
        let error = refused.first().map_or_else(|| "cargo failed".to_owned(), ToString::to_string);
        return Err(format!("the copy with switches does not build: {error}"));
    }
    Ok(())
}

/// The switch that lies nearest to an error that marks none, and rather below it than above: a
/// `match` that lacks an arm is marked at its head.
fn nearest(error: &CompileError, switches: &[Numbered]) -> Option<u32> {
    let in_file = switches.iter().filter(|n| n.file() == error.file);
    in_file
        .min_by_key(|n| (n.switch.line < error.line(), n.switch.line.abs_diff(error.line())))
        .map(|n| n.number)
}

/// Writes the tree with its switches below `copy`; files that stay the same keep their time, so
/// that little is built anew. Returns where the switches lie in each file.
fn write_copy(
    root: &Path,
    copy: &Path,
    switches: &[Numbered],
) -> Result<BTreeMap<PathBuf, Vec<Planted>>, String> {
    let mut places = BTreeMap::new();
    for path in tree::paths(root, ".")? {
        let path = path.strip_prefix(".").unwrap_or(&path).to_path_buf();
        let hidden = path.components().next().is_some_and(|c| c.as_os_str() == ".git");
        if hidden || root.join(&path).is_dir() {
            continue;
        }
        let mut bytes =
            fs::read(root.join(&path)).map_err(|e| format!("{}: {e}", path.display()))?;
        let here: Vec<(u32, &Switch)> =
            switches.iter().filter(|n| n.file() == path).map(|n| (n.number, &n.switch)).collect();
        let is_crate_root = path.starts_with("crates")
            && (path.ends_with("src/lib.rs") || path.ends_with("src/main.rs"));
        if !here.is_empty() || is_crate_root {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let (mut planted, there) = switches::plant(&text, &here);
            places.insert(path.clone(), there);
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
        fs::create_dir_all(folder)
            .map_err(|e| format!("{}: cannot make: {e}", folder.display()))?;
        fs::write(&target, bytes)
            .map_err(|e| format!("{}: cannot write: {e}", target.display()))?;
    }
    Ok(places)
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
    let mut known = Vec::new();
    for test in tests.iter().filter_map(|test| runs.find(test)).collect::<Vec<Test>>() {
        match runs.outcome(&test, 0)? {
            Outcome::Passed => known.push(test),
            Outcome::NotRun => {}
            Outcome::OutOfTime => return Ok(Verdict::NotJudged),
            Outcome::Failed => return Ok(Verdict::FailsAnyway(test.name)),
        }
    }
    if known.is_empty() {
        return Ok(Verdict::NoTest);
    }
    known.sort_by_key(|test| runs.time_without_switch(test));
    for numbered in &mine {
        for test in &known {
            match runs.outcome(test, numbered.number)? {
                Outcome::Failed => return Ok(Verdict::Killed),
                Outcome::OutOfTime => return Ok(Verdict::NotJudged),
                Outcome::Passed | Outcome::NotRun => {}
            }
        }
    }
    let unnoticed =
        |n: &&Numbered| format!("{}:{}: {}", n.file().display(), n.switch.line, n.switch.what);
    Ok(Verdict::Survived(mine.iter().map(unnoticed).collect()))
}

fn in_words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Killed => "a tagged test fails".to_owned(),
        Verdict::Survived(switches) => format!("SURVIVES\n    {}", switches.join("\n    ")),
        Verdict::NoSwitch => "no switch: the tag stands on a type, a constant or data".to_owned(),
        Verdict::NoTest => "no test program holds the tagged test".to_owned(),
        Verdict::FailsAnyway(test) => format!("{test} fails without a switch"),
        Verdict::NotJudged => "not judged".to_owned(),
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
