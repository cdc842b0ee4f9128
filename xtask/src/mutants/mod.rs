//! `cargo xtask mutants`: switches off each tagged place in turn; a test that carries the tag must
//! fail.
//!
//! The order: 1. the tags of code and tests are paired by id; 2. every place gets its switches
//! (`switches`), all at once, in a copy of the tree below the build folder; 3. the copy is built,
//! and switches that do not compile are left out; 4. each tagged test runs without a switch, and
//! must pass; 5. it runs once for each switch, until one makes it fail; 6. the verdict goes into
//! `spec::verdicts`. An id whose tests pass under every switch is a survivor. `TIDEGATE_MUTANT`
//! names the switch that is on.

mod build;
mod compiler;
pub mod mistakes;
pub mod planted;
pub mod random;
mod runs;
mod switches;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::spec::verdicts::{self, Ledger, Sources};
use crate::spec::{self, CodeTag, Places, TestTag};
use crate::tree;
use build::{Numbered, build, commands, number_switches};
use runs::{Outcome, ProgramName, Runs};

/// What became of one id.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// A tagged test failed under this switch.
    Killed,
    /// Every tagged test passed under every switch.
    Survived(Vec<String>),
    /// No switch could be made: the tag is on a type, a constant or on data.
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
/// The part of the time that the build leaves for the tests.
const JUDGING: Duration = Duration::from_secs(40);

/// Runs the mutants of the ids whose tagged code or tests have changed since their verdict.
///
/// # Errors
/// As of [`run`].
pub fn run_touched(root: &Path) -> Result<(), String> {
    run_stale(root, usize::MAX, None)
}

/// The same for [`BOUND`] of them that share test programs, as far as [`TIME_BOUND`] allows. What
/// is not judged is counted and fails nothing.
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
    let now = sharing_programs(ids.iter().map(|id| (id, programs_of(&places, id))), most);
    if now.len() < ids.len() {
        println!("{} of them run here; `cargo xtask mutants --touched` runs all", now.len());
    }
    run_ids(root, &places, &now, until)
}

/// At most so many of the ids, such that few test programs hold their tests: those that need no
/// further program, then those whose programs most of the others share.
fn sharing_programs<'i>(
    ids: impl Iterator<Item = (&'i String, BTreeSet<ProgramName>)>,
    most: usize,
) -> Vec<String> {
    let mut left: Vec<(&String, BTreeSet<ProgramName>)> = ids.collect();
    let (mut chosen, mut built) = (Vec::new(), BTreeSet::new());
    while chosen.len() < most && !left.is_empty() {
        let (now, later): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|(_, needs)| needs.is_subset(&built));
        chosen.extend(now.into_iter().map(|(id, _)| id.clone()));
        left = later;
        let shared = |needs: &BTreeSet<ProgramName>| {
            let with: BTreeSet<&ProgramName> = built.union(needs).collect();
            let held = left.iter().filter(|(_, n)| n.iter().all(|name| with.contains(name)));
            held.count() * 1000 / (with.len() - built.len())
        };
        let best = left.iter().map(|(_, needs)| needs).max_by_key(|needs| shared(needs)).cloned();
        built.extend(best.into_iter().flatten());
    }
    chosen.truncate(most);
    chosen
}

fn programs_of(places: &Places, id: &str) -> BTreeSet<ProgramName> {
    tests_of(places, id).iter().filter_map(ProgramName::of).collect()
}

/// The ids whose verdict is missing, or was reached with other code or tests.
fn stale(root: &Path, places: &Places, ledger: &Ledger) -> Result<Vec<String>, String> {
    let (mut ids, mut sources) = (Vec::new(), Sources::new(root));
    for (id, code) in &places.code {
        let now = sources.checksum(code, tests_of(places, id))?;
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
    let needed: BTreeSet<ProgramName> = ids.iter().flat_map(|id| programs_of(places, id)).collect();
    let begun = Instant::now();
    let build_until = until.map(|until| until.checked_sub(JUDGING).unwrap_or(until));
    let built = build(root, &copy, &commands(&needed), &mut switches, build_until)?;
    println!(
        "{} requirements, {} switches, {} of {} test programs built in {:.0} s",
        ids.len(),
        switches.len(),
        built.programs.len(),
        needed.len(),
        begun.elapsed().as_secs_f64()
    );
    let runs = Runs::new(&built, &copy, until)?;
    let mut ledger = Ledger::read(root)?;
    ledger.retain(|id| places.code.contains_key(id));
    let (mut judged, mut sources) = (BTreeMap::new(), Sources::new(root));
    let work = |folder: usize, id: &String| {
        judge(&places.code[id], tests_of(places, id), &switches, &runs, folder)
    };
    at_once(ids, work, |id, verdict| {
        if verdict == Verdict::NotJudged {
            return Ok(());
        }
        println!("[{}/{}] {id}: {}", judged.len() + 1, ids.len(), in_words(&verdict));
        ledger.forget(id);
        if let Some(table) = verdict.table(&mut ledger) {
            let checksum = sources.checksum(&places.code[id], tests_of(places, id))?;
            table.insert(id.clone(), checksum);
        }
        judged.insert(id.clone(), verdict);
        ledger.write(root)
    })?;
    summary(&judged, ids.len())
}

/// Works on the items, as many at once as there are processors, and hands what comes of each to
/// `take`. `work` also gets the number of its worker.
fn at_once<'i, I: Sync, R: Send>(
    items: &'i [I],
    work: impl Fn(usize, &I) -> Result<R, String> + Sync,
    mut take: impl FnMut(&'i I, R) -> Result<(), String>,
) -> Result<(), String> {
    let waiting = Mutex::new(items.iter());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let (sender, ended) = mpsc::channel();
    thread::scope(|scope| {
        for worker in 0..thread::available_parallelism().map_or(1, usize::from) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                while let Some(item) = next() {
                    if sender.send((item, work(worker, item))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        ended.into_iter().try_for_each(|(item, result)| take(item, result?))
    })
}

/// Judges one tagged place; `folder` takes its logs.
fn judge(
    place: &CodeTag,
    tests: &[TestTag],
    switches: &[Numbered],
    runs: &Runs<'_>,
    folder: usize,
) -> Result<Verdict, String> {
    let mine: Vec<&Numbered> = switches.iter().filter(|n| n.places.contains(place)).collect();
    if mine.is_empty() {
        return Ok(Verdict::NoSwitch);
    }
    let mut known = Vec::new();
    for tag in tests {
        let Some(test) = runs.find(tag) else {
            if runs.is_cut() {
                return Ok(Verdict::NotJudged);
            }
            continue;
        };
        match runs.outcome(&test, 0, folder)? {
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
            match runs.outcome(test, numbered.number, folder)? {
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

fn summary(judged: &BTreeMap<String, Verdict>, of: usize) -> Result<(), String> {
    let count = |wanted: fn(&Verdict) -> bool| judged.values().filter(|v| wanted(v)).count();
    println!(
        "{} requirements judged, {} left; {} noticed by a tagged test, {} survive, {} have no switch, {} no test",
        judged.len(),
        of - judged.len(),
        count(|v| *v == Verdict::Killed),
        count(|v| matches!(v, Verdict::Survived(_))),
        count(|v| *v == Verdict::NoSwitch),
        count(|v| *v == Verdict::NoTest)
    );
    let wrong: Vec<String> = judged
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_chosen_that_share_few_programs() {
        let name = |folder: &&str| ProgramName { folder: (*folder).to_owned(), file: None };
        let needs: Vec<(String, Vec<&str>)> = [
            ("A", vec!["kmd"]),
            ("B", vec!["vidsch", "kmd"]),
            ("C", vec!["vidsch"]),
            ("D", vec![]),
            ("E", vec!["vidsch"]),
            ("F", vec!["trace"]),
        ]
        .map(|(id, programs)| (id.to_owned(), programs))
        .into();
        let chosen = |most| {
            let ids = needs.iter().map(|(id, programs)| (id, programs.iter().map(name).collect()));
            sharing_programs(ids, most).concat()
        };
        assert_eq!(chosen(3), "DCE", "no program, then one program for two");
        assert_eq!(chosen(5), "DCEAB");
        assert_eq!(chosen(9), "DCEABF");
    }
}
