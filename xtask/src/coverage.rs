//! `cargo xtask coverage`: the lines of product crates that no test and no scenario reaches.
//!
//! The order: 1. the test programs are built with counters, below the build folder; 2. they run; 3.
//! the counts of all programs are merged; 4. a line that a compiler counter belongs to and that no
//! program reached must be accepted in `xtask/coverage.toml`, with a reason.
//!
//! Invariants: a protocol (one of [`PROTOCOLS`]) has no accepted lines. An accepted line that is
//! reached, or is no longer there, fails too, so the list only has what is true. Lines that are not
//! judged yet are counted by file; a file with more of them than its number fails.
//!
//! The counters need the component `llvm-tools` of the toolchain. Scenarios run as tests, in their
//! bounded form.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::{cargo, test_programs, tree};

/// Where lines are accepted, relative to the repository.
const FILE: &str = "xtask/coverage.toml";

/// Crates that only tests use, or that no default build has.
const NO_PRODUCT: [&str; 5] = ["testbed", "scenarios", "peers", "explorer", "bench"];

/// Files and folders of which each line is reached.
const PROTOCOLS: [&str; 12] = [
    "crates/dxgkrnl/src/fence",
    "crates/dxgkrnl/src/interrupt",
    "crates/dxgkrnl/src/power",
    "crates/dxgkrnl/src/recovery",
    "crates/dxgkrnl/src/display",
    "crates/dxgkrnl/src/removal.rs",
    "crates/dxgkrnl/src/scheduling",
    "crates/dxgkrnl/src/suspension.rs",
    "crates/dxgkrnl/src/timer.rs",
    "crates/dxgkrnl/src/object/doorbell.rs",
    "crates/kmd/src",
    "crates/vidsch/src",
];

/// Lines that need not be reached, as they are written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    file: PathBuf,
    code: Option<String>,
    function: Option<String>,
    reason: String,
}

/// Lines that need not be reached.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Entry")]
struct Accepted {
    file: PathBuf,
    lines: Lines,
    /// Why no test reaches it.
    reason: String,
}

impl TryFrom<Entry> for Accepted {
    type Error = &'static str;

    fn try_from(Entry { file, code, function, reason }: Entry) -> Result<Accepted, &'static str> {
        let lines = match (code, function) {
            (Some(code), None) => Lines::Code(code),
            (None, Some(name)) => Lines::Function(name),
            _ => return Err("an entry has either `code` or `function`"),
        };
        Ok(Accepted { file, lines, reason })
    }
}

/// Which lines of a file an entry accepts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lines {
    /// All lines with this text, without indentation.
    Code(String),
    /// All lines of each function with this name.
    Function(String),
}

impl std::fmt::Display for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Lines::Code(text) | Lines::Function(text)) = self;
        write!(f, "'{text}'")
    }
}

impl Lines {
    fn accept(&self, line: &Line) -> bool {
        match self {
            Lines::Code(code) => *code == line.text,
            Lines::Function(name) => line.function.as_deref() == Some(name),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AcceptedFile {
    #[serde(default)]
    accepted: Vec<Accepted>,
    /// The most lines of each file that are neither reached nor accepted.
    #[serde(default)]
    not_judged: BTreeMap<PathBuf, usize>,
}

/// How often each line of each file was reached.
type Counts = BTreeMap<PathBuf, BTreeMap<usize, u64>>;

/// Runs the tests of `packages`, or of the workspace, and judges the crates of this name.
///
/// # Errors
/// The lines that no test reached and that are not accepted, and the entries that are not needed.
pub fn run(root: &Path, packages: &[&str]) -> Result<(), String> {
    let tools = tools()?;
    let folder = tree::build_folder(root).join("coverage");
    let profiles = folder.join("profiles");
    // Counts of other programs would say nothing about these.
    let _ = fs::remove_dir_all(&profiles);
    let environment: Vec<(&str, OsString)> = vec![
        ("CARGO_TARGET_DIR", folder.clone().into_os_string()),
        // The folder is built once, and files for the next build are half of it.
        ("CARGO_INCREMENTAL", "0".into()),
        ("RUSTFLAGS", "-C instrument-coverage".into()),
        // Processes of one program add to few files.
        ("LLVM_PROFILE_FILE", profiles.join("%2m.profraw").into_os_string()),
    ];
    let mut arguments = vec!["test", "--quiet", "--tests"];
    if packages.is_empty() {
        arguments.push("--workspace");
    }
    arguments.extend(packages.iter().flat_map(|package| ["--package", package]));
    let listed: Vec<&str> =
        [arguments.as_slice(), &["--no-run", "--message-format", "json"]].concat();
    let (built, output) = cargo::cargo_output(root, &listed, &environment, Stdio::inherit())?;
    if !built {
        return Err("the test programs do not build with counters".to_owned());
    }
    // A test that fails has its own stage. Its program reaches the other lines all the same.
    arguments.push("--no-fail-fast");
    let ran = cargo::cargo(root, &arguments, &environment);
    let merged = folder.join("merged.profdata");
    let mut merge = Command::new(tools.join("llvm-profdata"));
    // A test may kill a process while it writes its counts.
    merge.args(["merge", "--sparse", "--failure-mode=all", "--output"]).arg(&merged).arg(&profiles);
    output_of(merge)?;
    let mut export = Command::new(tools.join("llvm-cov"));
    export.args(["export", "--format", "lcov", "--instr-profile"]).arg(&merged);
    for program in test_programs::executables(&output) {
        export.arg("--object").arg(program);
    }
    let counts = counts(&output_of(export)?, root);
    let of_crate = |file: &Path| packages.is_empty() || is_of(file, packages);
    let unreached = unreached(root, &counts, of_crate)?;
    judge(&unreached, read(root)?, of_crate).and(ran)
}

fn is_of(file: &Path, packages: &[&str]) -> bool {
    let folder = |package: &&str| crate_of(file) == Some(package.trim_start_matches("tidegate-"));
    packages.iter().any(folder)
}

/// The folder of the tools that belong to the compiler.
fn tools() -> Result<PathBuf, String> {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir"]);
    let libraries = PathBuf::from(output_of(rustc)?.trim());
    let folder = libraries.parent().map(|folder| folder.join("bin")).unwrap_or_default();
    if folder.join("llvm-cov").exists() {
        return Ok(folder);
    }
    Err(format!(
        "no llvm-cov in {}: `rustup component add llvm-tools` installs it",
        folder.display()
    ))
}

fn output_of(mut command: Command) -> Result<String, String> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|e| format!("cannot run {command:?}: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text).ok_or_else(|| format!("{command:?} failed"))
}

fn crate_of(file: &Path) -> Option<&str> {
    let mut parts = file.iter();
    (parts.next()? == "crates").then(|| parts.next()?.to_str())?
}

fn is_product(file: &Path) -> bool {
    let Some(name) = crate_of(file) else { return false };
    let is_source = file.iter().nth(2).is_some_and(|part| part == "src");
    let is_test = file.iter().any(|part| part == "tests" || part == "tests.rs");
    is_source && !is_test && !NO_PRODUCT.contains(&name)
}

/// Reads the counts that `llvm-cov` exports. A line of several programs has the highest count.
fn counts(lcov: &str, root: &Path) -> Counts {
    let mut counts = Counts::new();
    let mut file: Option<PathBuf> = None;
    for line in lcov.lines() {
        match line.split_once(':') {
            Some(("SF", path)) => {
                let path = Path::new(path).strip_prefix(root).ok();
                file = path.filter(|path| is_product(path)).map(Path::to_path_buf);
            }
            Some(("DA", rest)) => {
                let mut numbers = rest.split(',').map_while(|number| number.parse::<u64>().ok());
                if let (Some(file), Some(at), Some(count)) = (&file, numbers.next(), numbers.next())
                {
                    let lines = counts.entry(file.clone()).or_default();
                    let known = lines.entry(at as usize).or_default();
                    *known = count.max(*known);
                }
            }
            _ => {}
        }
    }
    counts
}

/// A line that was not reached.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    /// Its number, from 1.
    at: usize,
    /// Its text, without indentation.
    text: String,
    /// The name of the function that it is in: the innermost one that is an item.
    function: Option<String>,
}

/// The lines that were not reached, without lines of tests, which are last in a file.
fn unreached(
    root: &Path,
    counts: &Counts,
    of_crate: impl Fn(&Path) -> bool,
) -> Result<BTreeMap<PathBuf, Vec<Line>>, String> {
    let mut unreached = BTreeMap::new();
    for (file, lines) in counts.iter().filter(|(file, _)| of_crate(file)) {
        let text = fs::read_to_string(root.join(file))
            .map_err(|e| format!("{}: cannot read: {e}", file.display()))?;
        let lines = lines.iter().filter(|(_, count)| **count == 0).map(|(at, _)| *at);
        let found = of_code(&text, lines);
        if !found.is_empty() {
            unreached.insert(file.clone(), found);
        }
    }
    Ok(unreached)
}

/// The text of these lines, without those that only close what others begin.
fn of_code(text: &str, lines: impl Iterator<Item = usize>) -> Vec<Line> {
    let all: Vec<&str> = text.lines().collect();
    let tests = all.iter().position(|line| *line == "#[cfg(test)]").unwrap_or(all.len());
    let line = |at: usize| {
        let text = all.get(at - 1).map_or("", |line| line.trim()).to_owned();
        Line { at, text, function: function_of(&all, at) }
    };
    let is_code = |line: &Line| line.at <= tests && line.text.chars().any(char::is_alphanumeric);
    lines.map(line).filter(is_code).collect()
}

/// Returns the name of the function that a line is in. rustfmt puts a closing bracket below the
/// first letter of its item, so the function is the nearest one above with less indentation.
fn function_of(all: &[&str], at: usize) -> Option<String> {
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let mut inside = indentation(all.get(at - 1)?) + 1;
    for line in all[..at].iter().rev().filter(|line| !line.trim().is_empty()) {
        if indentation(line) >= inside {
            continue;
        }
        // What a closing bracket closes begins with the same indentation.
        let closes = line.trim_start().starts_with([')', ']', '}']);
        inside = if closes { indentation(line) + 1 } else { indentation(line).max(1) };
        let name = line.split_once("fn ").map(|(before, name)| (before.trim(), name));
        let is_item = |before: &str| {
            before.split(' ').all(|word| {
                word.is_empty()
                    || word.starts_with("pub")
                    || ["const", "async", "unsafe"].contains(&word)
                    || word.ends_with(')')
            })
        };
        if let Some((before, name)) = name
            && is_item(before)
        {
            let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
            return Some(name[..end.unwrap_or(name.len())].to_owned());
        }
    }
    None
}

fn read(root: &Path) -> Result<AcceptedFile, String> {
    let text =
        fs::read_to_string(root.join(FILE)).map_err(|e| format!("{FILE}: cannot read: {e}"))?;
    toml::from_str(&text).map_err(|e| format!("{FILE}: {e}"))
}

fn judge(
    unreached: &BTreeMap<PathBuf, Vec<Line>>,
    AcceptedFile { accepted, not_judged }: AcceptedFile,
    of_crate: impl Fn(&Path) -> bool,
) -> Result<(), String> {
    let mut wrong = Vec::new();
    let mut known: BTreeMap<PathBuf, BTreeSet<Lines>> = BTreeMap::new();
    let of_protocol = |file: &Path| PROTOCOLS.iter().any(|room| file.starts_with(room));
    for file in not_judged.keys().filter(|file| of_protocol(file)) {
        wrong.push(format!("{FILE}: {} is of a protocol: reach its lines", file.display()));
    }
    for Accepted { file, lines, reason } in accepted {
        if of_protocol(&file) {
            wrong.push(format!("{FILE}: {} is of a protocol: reach its lines", file.display()));
        } else if reason.trim().is_empty() {
            wrong.push(format!("{FILE}: no reason for {lines} of {}", file.display()));
        } else if of_crate(&file) {
            let of_file = unreached.get(&file);
            if !of_file.is_some_and(|of_file| of_file.iter().any(|line| lines.accept(line))) {
                let file = file.display();
                wrong.push(format!("{FILE}: {lines} of {file} is reached or gone: remove it"));
            }
            known.entry(file).or_default().insert(lines);
        }
    }
    let mut left: BTreeMap<&Path, Vec<&Line>> = BTreeMap::new();
    for (file, of_file) in unreached {
        let accepted = known.get(file);
        let is_accepted =
            |line: &Line| accepted.is_some_and(|all| all.iter().any(|lines| lines.accept(line)));
        left.insert(file, of_file.iter().filter(|line| !is_accepted(line)).collect());
    }
    for (file, most) in not_judged.iter().filter(|(file, _)| of_crate(file)) {
        let now = left.get(file.as_path()).map_or(0, Vec::len);
        if now < *most {
            println!("{FILE}: {} has {now} such lines, not {most}", file.display());
        }
    }
    for (file, lines) in &left {
        let most = not_judged.get(*file).filter(|_| !of_protocol(file)).copied().unwrap_or(0);
        if lines.len() > most {
            let place = file.display();
            let line =
                |Line { at, text, .. }: &&Line| format!("{place}:{at}: no test reaches: {text}");
            wrong.extend(lines.iter().map(line));
            wrong.push(format!("{place}: {} lines, and {most} are known", lines.len()));
        }
    }
    let (all, not_accepted): (usize, usize) =
        (unreached.values().map(Vec::len).sum(), left.values().map(Vec::len).sum());
    let files = unreached.len();
    println!("{all} lines of {files} files are not reached, {not_accepted} of them not judged");
    if wrong.is_empty() {
        return Ok(());
    }
    let next = format!("reach these lines by a test, or accept them in {FILE} with a reason");
    Err(format!("{}\n{} findings: {next}", wrong.join("\n"), wrong.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_two_programs_is_reached_by_either() {
        let lcov = "SF:/w/crates/kmd/src/lib.rs\nDA:3,0\nDA:4,2\nend_of_record\n\
                    SF:/w/crates/kmd/src/lib.rs\nDA:3,1\nDA:5,0\nend_of_record\n\
                    SF:/w/crates/testbed/src/lib.rs\nDA:1,0\nSF:/other/lib.rs\nDA:1,0\n";
        let counts = counts(lcov, Path::new("/w"));
        assert_eq!(counts.len(), 1);
        let lines = &counts[Path::new("crates/kmd/src/lib.rs")];
        assert_eq!(lines.iter().collect::<Vec<_>>(), [(&3, &1), (&4, &2), (&5, &0)]);
    }

    #[test]
    fn a_package_is_the_folder_of_its_name() {
        let of = |file: &str| is_of(Path::new(file), &["tidegate", "tidegate-kmd"]);
        let files = ["crates/tidegate/src/lib.rs", "crates/kmd/src/lib.rs", "crates/cli/src/a.rs"];
        assert_eq!(files.map(of), [true, true, false]);
    }

    #[test]
    fn brackets_and_tests_are_no_lines_of_the_product() {
        let text = "fn a() {\n    b();\n}\n#[cfg(test)]\nmod tests {\n    c();\n}\n";
        let (text_of, function) = ("b();".to_owned(), Some("a".to_owned()));
        let found = of_code(text, [2, 3, 6].into_iter());
        assert_eq!(found, [Line { at: 2, text: text_of, function }]);
    }

    #[test]
    fn a_line_is_in_the_nearest_function_around_it() {
        let text = "const A: fn() = b;\n\
                    impl A {\n    pub(crate) const fn b<T>(\n        of: fn(T) -> u8,\n    ) {\n\
                    \n        match of {\n            _ => c(),\n        }\n    }\n\n    fn d() {}\n}\n";
        let all: Vec<&str> = text.lines().collect();
        let of = |at| function_of(&all, at);
        let b = Some("b".to_owned());
        assert_eq!([1, 2, 3, 4].map(of), [None, None, b.clone(), b.clone()]);
        assert_eq!([7, 8, 9, 10].map(of), [b.clone(), b.clone(), b.clone(), b]);
        assert_eq!([12, 13].map(of), [Some("d".to_owned()), None]);
    }

    #[test]
    fn an_entry_has_the_text_of_a_line_or_the_name_of_a_function() {
        let read = |entry: &str| {
            let text = format!("[[accepted]]\nfile = 'a.rs'\nreason = 'b'\n{entry}");
            toml::from_str(&text).map(|file: AcceptedFile| file.accepted[0].lines.clone())
        };
        assert_eq!(read("code = 'c();'"), Ok(Lines::Code("c();".to_owned())));
        assert_eq!(read("function = 'd'"), Ok(Lines::Function("d".to_owned())));
        assert!(read("").is_err());
        assert!(read("code = 'c();'\nfunction = 'd'").is_err());
        assert!(read("code = 'c();'\nlines = 'd'").is_err());
    }

    #[test]
    fn each_unreached_line_is_accepted_for_a_reason_and_each_entry_is_needed() {
        let accepted = |file: &str, code: &str, reason: &str| Accepted {
            file: file.into(),
            lines: Lines::Code(code.to_owned()),
            reason: reason.to_owned(),
        };
        let file = "crates/trace/src/lib.rs";
        let line = Line { at: 2, text: "b();".to_owned(), function: Some("f".to_owned()) };
        let unreached = BTreeMap::from([(PathBuf::from(file), vec![line])]);
        let judge = |accepted| {
            judge(&unreached, AcceptedFile { accepted, ..AcceptedFile::default() }, |_| true)
        };
        assert!(judge(vec![accepted(file, "b();", "only without a disk")]).is_ok());
        let open = judge(Vec::new()).unwrap_err();
        assert!(open.starts_with("crates/trace/src/lib.rs:2: no test reaches: b();"), "{open}");
        let function = |name: &str| Accepted {
            lines: Lines::Function(name.to_owned()),
            ..accepted(file, "", "only without a disk")
        };
        assert!(judge(vec![function("f")]).is_ok());
        assert!(judge(vec![function("g")]).unwrap_err().contains("'g' of crates/trace/src/lib.rs"));
        let why = vec![accepted(file, "b();", " ")];
        assert!(judge(why).unwrap_err().contains("no reason"));
        let both = vec![accepted(file, "b();", "a"), accepted(file, "c();", "a")];
        assert!(judge(both).unwrap_err().contains("'c();' of crates/trace/src/lib.rs is reached"));
        let protocol = vec![accepted("crates/kmd/src/lib.rs", "b();", "a")];
        assert!(judge(protocol).unwrap_err().contains("is of a protocol"));
    }

    #[test]
    fn a_file_has_no_more_lines_than_are_known() {
        let line = |at| Line { at, text: "b();".to_owned(), function: None };
        let judge = |file: &str, lines: usize, most: usize| {
            let unreached =
                BTreeMap::from([(PathBuf::from(file), (1..=lines).map(line).collect())]);
            let not_judged = BTreeMap::from([(PathBuf::from(file), most)]);
            judge(&unreached, AcceptedFile { not_judged, ..AcceptedFile::default() }, |_| true)
        };
        let file = "crates/trace/src/lib.rs";
        assert!(judge(file, 2, 2).is_ok());
        assert!(judge(file, 1, 2).is_ok());
        let more = judge(file, 3, 2).unwrap_err();
        assert!(more.contains("crates/trace/src/lib.rs: 3 lines, and 2 are known"), "{more}");
        assert!(more.starts_with("crates/trace/src/lib.rs:1: no test reaches: b();"), "{more}");
        let protocol = judge("crates/kmd/src/lib.rs", 1, 1).unwrap_err();
        assert!(protocol.contains("is of a protocol"), "{protocol}");
        assert!(protocol.contains("1 lines, and 0 are known"), "{protocol}");
    }
}
