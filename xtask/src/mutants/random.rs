//! `cargo xtask mutants --random`: draws changes anywhere in the product's code, whether a tag
//! names the place or not, and looks which tests of all notice them.
//!
//! The order: 1. lines of product code are drawn, and one switch below each; 2. all test programs
//! are built with all switches; 3. every test runs once without a switch, which shows the switches
//! that it reaches; 4. for each switch the tests that reach it run until one fails, first those of
//! the crate that holds the switch, and the fastest first.
//!
//! A change that no test notices may have no effect, so the figure is a lower bound and the list is
//! read by a person. The same seed draws the same places of the same tree. Entry points:
//! [`request`], [`run`].

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::at_once;
use super::build::{Numbered, build};
use super::runs::{Outcome, Runs, Test};
use super::switches::Parsed;
use crate::spec::{self, CodeTag};
use crate::tree;

/// Changes of a run where the command line has no number.
const DEFAULT_CHANGES: usize = 100;
/// The most time that the tests of one change take.
const TIME_OF_ONE: Duration = Duration::from_secs(90);
/// Packages whose code is not shipped, or whose tests judge no product.
const LEFT_OUT: [&str; 4] = ["crates/bench", "crates/peers", "crates/scenarios", "crates/testbed"];
const NO_TESTS_OF: [&str; 2] = ["xtask", "tidegate-peers"];

/// The arguments of the command line.
#[derive(Debug, PartialEq, Eq)]
pub struct Request<'a> {
    changes: usize,
    seed: u64,
    /// Parts of paths; a change lies in a file that has one of them.
    rooms: Vec<&'a str>,
}

/// Reads `[N] [--seed N] [PATH...]`; `None` for anything else.
pub fn request<'a>(words: &[&'a str]) -> Option<Request<'a>> {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut request =
        Request { changes: DEFAULT_CHANGES, seed: since_1970.as_secs(), rooms: Vec::new() };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.parse() {
            Ok(changes) => request.changes = changes,
            Err(_) if *word == "--seed" => request.seed = words.next()?.parse().ok()?,
            Err(_) if word.starts_with('-') => return None,
            Err(_) => request.rooms.push(word),
        }
    }
    Some(request)
}

/// The form of `cargo xtask full`.
///
/// # Errors
/// As of [`run`].
pub fn long(root: &Path) -> Result<(), String> {
    let none: [&str; 0] = [];
    request(&none).map_or(Ok(()), |request| run(root, &request))
}

/// Draws changes, and prints which are noticed. A change that is not noticed fails nothing.
///
/// # Errors
/// No place to draw from, a build, or a test program that cannot be run.
pub fn run(root: &Path, request: &Request<'_>) -> Result<(), String> {
    let mut switches = draw(root, request)?;
    println!("{} changes of seed {}", switches.len(), request.seed);
    let copy = tree::build_folder(root).join("random-mutants");
    let begun = Instant::now();
    let built = build(root, &copy, &commands(), &mut switches, None)?;
    let (left, seconds) = (switches.len(), begun.elapsed().as_secs_f64());
    println!("{left} changes, {} test programs built in {seconds:.0} s", built.programs.len());
    let runs = Runs::new(&built, &copy, None)?;
    let tests: Vec<Test> = runs.all().collect();
    let mut failed = BTreeSet::new();
    at_once(
        &tests,
        |at, test| runs.outcome(test, 0, at),
        |test, outcome| {
            if outcome == Outcome::Failed {
                println!("fails without a change and is not asked: {}", runs.in_words(test));
                failed.insert(test);
            }
            Ok(())
        },
    )?;
    let asked: Vec<&Test> = tests.iter().filter(|test| !failed.contains(test)).collect();
    let (mut noticed, mut unreached) = (0, 0);
    at_once(
        &switches,
        |at, switch| judge(switch, &asked, &runs, at),
        |switch, verdict| {
            noticed += usize::from(matches!(verdict, Verdict::Noticed(_)));
            unreached += usize::from(verdict == Verdict::Unreached);
            let place = format!("{}:{}", switch.file().display(), switch.switch.line);
            println!("{place}: {}: {}", switch.switch.what, in_words(&verdict));
            Ok(())
        },
    )?;
    let percent = (noticed * 100) as f64 / left.max(1) as f64;
    println!(
        "{noticed} of {left} changes are noticed ({percent:.0} %), {unreached} reached by no test"
    );
    Ok(())
}

/// Random numbers by splitmix64, whose next state is the last one plus a constant.
struct Draws(u64);

impl Draws {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(mixed ^ (mixed >> 31)) * limit as u128) >> 64) as usize
    }
}

/// One switch below each drawn line, numbered from 1.
fn draw(root: &Path, request: &Request<'_>) -> Result<Vec<Numbered>, String> {
    let files = tree::files(root, "crates", &["rs"])?;
    let tests = spec::test_files(&files);
    let is_wanted = |path: &PathBuf| {
        let name = path.to_string_lossy();
        let of_room = request.rooms.is_empty() || request.rooms.iter().any(|r| name.contains(r));
        let is_left_out = LEFT_OUT.iter().any(|room| path.starts_with(room));
        let is_source = path.components().nth(2) == Some(Component::Normal("src".as_ref()));
        of_room && is_source && !is_left_out && !tests.contains(path)
    };
    let mut parsed = Vec::new();
    for file in files.into_iter().filter(|file| is_wanted(&file.path)) {
        let wrong = |e| format!("{}: {e}", file.path.display());
        parsed.push((file.path.clone(), Parsed::of(file.text).map_err(wrong)?));
    }
    let lines = parsed.iter().enumerate();
    let mut lines: Vec<(usize, usize)> = lines
        .flat_map(|(at, (_, file))| file.product_lines().map(move |line| (at, line)))
        .collect();
    let mut draws = Draws(request.seed);
    let mut drawn: Vec<Numbered> = Vec::new();
    while drawn.len() < request.changes && !lines.is_empty() {
        let (at, line) = lines.swap_remove(draws.below(lines.len()));
        let (path, file) = &parsed[at];
        let mut switches = file.below(line);
        // The code below a line may begin further down, where it is drawn by its own line.
        switches.retain(|switch| switch.line == line);
        if switches.is_empty() {
            continue;
        }
        let switch = switches.swap_remove(draws.below(switches.len()));
        let number = u32::try_from(drawn.len() + 1).map_err(|e| e.to_string())?;
        drawn.push(Numbered { number, places: vec![CodeTag { file: path.clone(), line }], switch });
    }
    if drawn.is_empty() {
        return Err(format!("no code to change in a file that has {}", request.rooms.join(" or ")));
    }
    Ok(drawn)
}

/// What builds all test programs. The first line finds most switches that do not compile.
fn commands() -> Vec<Vec<String>> {
    let left_out = NO_TESTS_OF.iter().flat_map(|package| ["--exclude", package]);
    let all: Vec<&str> =
        ["--workspace", "--message-format", "json"].into_iter().chain(left_out).collect();
    let line = |words: &[&str]| words.iter().chain(&all).map(|w| (*w).to_owned()).collect();
    vec![line(&["check", "--lib", "--bins"]), line(&["test", "--no-run"])]
}

/// What became of a change.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// This test failed.
    Noticed(String),
    Unreached,
    /// So many of the tests that reach it ran, of so many.
    Unnoticed(usize, usize),
}

fn judge(
    switch: &Numbered,
    tests: &[&Test],
    runs: &Runs<'_>,
    folder: usize,
) -> Result<Verdict, String> {
    let mut reaching: Vec<&&Test> =
        tests.iter().filter(|test| runs.reaches(test, switch.number)).collect();
    if reaching.is_empty() {
        return Ok(Verdict::Unreached);
    }
    let package = switch.file().components().nth(1).map(|c| c.as_os_str().to_string_lossy());
    let package = package.unwrap_or_default();
    reaching.sort_by_key(|test| (!runs.is_of(test, &package), runs.time_without_switch(test)));
    let begun = Instant::now();
    for (at, test) in reaching.iter().enumerate() {
        if begun.elapsed() > TIME_OF_ONE {
            return Ok(Verdict::Unnoticed(at, reaching.len()));
        }
        if runs.outcome(test, switch.number, folder)? == Outcome::Failed {
            return Ok(Verdict::Noticed(runs.in_words(test)));
        }
    }
    Ok(Verdict::Unnoticed(reaching.len(), reaching.len()))
}

fn in_words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Noticed(test) => format!("noticed by {test}"),
        Verdict::Unreached => "REACHED BY NO TEST".to_owned(),
        Verdict::Unnoticed(ran, of) => format!("NOT NOTICED by {ran} of {of} tests that reach it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_seed_draws_the_same_places_of_code_that_is_no_test() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["crates/a/src", "crates/testbed/src"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let text = "pub fn a(x: u8) -> u8 {\n    let y = b(x);\n    y\n}\n\n\
                    #[cfg(test)]\nmod tests {\n    fn c() {\n        d();\n    }\n}\n";
        for name in ["crates/a/src/lib.rs", "crates/testbed/src/lib.rs"] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let places = |words: &[&str]| -> Result<Vec<String>, String> {
            let drawn = draw(folder.path(), &request(words).unwrap())?;
            let place = |n: &Numbered| format!("{}:{}", n.file().display(), n.switch.line);
            Ok(drawn.iter().map(place).collect())
        };
        let mut all = places(&["9", "--seed", "1"]).unwrap();
        assert_eq!(all, places(&["9", "--seed", "1"]).unwrap());
        all.sort();
        let lib = |line: u8| format!("crates/a/src/lib.rs:{line}");
        assert_eq!(all, [lib(1), lib(2), lib(3)]);
        assert_eq!(places(&["1", "--seed", "1"]).unwrap().len(), 1);
        assert!(places(&["crates/b"]).unwrap_err().contains("crates/b"));
        assert_eq!(request(&["--speed", "1"]), None);
    }
}
