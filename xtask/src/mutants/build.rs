//! The copy of the tree with switches: written, and built below the build folder.
//!
//! Invariants: the copy shares the build folder with the tree, so that the packages of the registry
//! are built once. Features are the whole workspace's, because `WIDEST` depends on all of
//! it. A crate whose switches do not compile is compiled as it is in the tree by [`WRAPPER`], so
//! that one round finds the errors of all crates; a build with errors is not a build. Nothing is
//! built incrementally: the compiler would go on from what the other of the two sources left, and
//! the linker would miss symbols. Entry points: [`number_switches`], [`build`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::compiler::{self, CompileError};
use super::runs::{Built, ProgramName};
use super::switches::{self, Parsed, Planted, Switch};
use crate::spec::CodeTag;
use crate::test_programs;
use crate::{cargo, tree};

/// The function that switches call, added to the root of each crate. A run without a switch can be
/// asked which switches it reaches: each is a line of the file that `TIDEGATE_REACHED` names, which
/// is open for no longer than the line takes, because tests count descriptors.
const SWITCH_FUNCTION: &str = r#"
#[allow(missing_docs, dead_code, clippy::all)]
pub(crate) fn mutant_is_on(number: u32) -> bool {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};
    static ON: OnceLock<u32> = OnceLock::new();
    static SEEN: [AtomicBool; 65536] = [const { AtomicBool::new(false) }; 65536];
    let read = || std::env::var("TIDEGATE_MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let on = *ON.get_or_init(read);
    let seen = &SEEN[number as usize % SEEN.len()];
    if on == 0 && !seen.load(Ordering::Relaxed) && !seen.swap(true, Ordering::Relaxed) {
        if let Some(path) = std::env::var_os("TIDEGATE_REACHED") {
            let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
            let _ = file.and_then(|mut file| {
                std::io::Write::write_all(&mut file, format!("{number}\n").as_bytes())
            });
        }
    }
    on == number
}
"#;

/// Runs the compiler for each crate of the copy. Cargo names what a wrapper compiles apart from the
/// rest, so that tree and copy can share a build folder. A shell without Bash's tolerance drops the
/// variables of programs that have a hyphen in their name.
const WRAPPER: &str =
    "#!/usr/bin/env bash\n\"$@\" || { cd \"$TIDEGATE_TREE\" && exec \"$@\" 2> /dev/null; }\n";
/// The package that every other one but the fuzz targets and the tasks is built for.
const WIDEST: &str = "tidegate-cli";
/// A build without a limit ends before this.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// A switch with its number, and the tagged places that it belongs to: two tags may be above the
/// same code.
pub struct Numbered {
    pub number: u32,
    pub places: Vec<CodeTag>,
    pub switch: Switch,
}

impl Numbered {
    pub fn file(&self) -> &Path {
        &self.places[0].file
    }
}

/// The switches of all tagged places, numbered from 1.
///
/// # Errors
/// A tagged file cannot be read or parsed.
pub fn number_switches<'a>(
    root: &Path,
    tags: impl Iterator<Item = &'a CodeTag>,
) -> Result<Vec<Numbered>, String> {
    let places: BTreeSet<&CodeTag> =
        tags.filter(|t| t.file.extension().is_some_and(|e| e == "rs")).collect();
    let mut numbered: Vec<Numbered> = Vec::new();
    let mut parsed: BTreeMap<&Path, Parsed> = BTreeMap::new();
    for place in places {
        if !parsed.contains_key(place.file.as_path()) {
            let wrong = |e: &dyn Display| format!("{}: {e}", place.file.display());
            let text = fs::read_to_string(root.join(&place.file)).map_err(|e| wrong(&e))?;
            parsed.insert(&place.file, Parsed::of(text).map_err(|e| wrong(&e))?);
        }
        for switch in parsed[place.file.as_path()].below(place.line) {
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

/// Builds a copy with switches by cargo command lines; switches that do not compile are left out of
/// `switches`. Returns the test programs among what was built. Ends at `until`.
///
/// # Errors
/// The copy cannot be written, or does not build without the switches that the compiler blames.
pub fn build(
    root: &Path,
    copy: &Path,
    lines: &[Vec<String>],
    switches: &mut Vec<Numbered>,
    until: Option<Instant>,
) -> Result<Built, String> {
    let wrapper = copy.join("target").join("rustc");
    write_wrapper(&wrapper).map_err(|e| format!("{}: {e}", wrapper.display()))?;
    let environment = [
        ("CARGO_TARGET_DIR", copy.join("target").into_os_string()),
        ("CARGO_BUILD_BUILD_DIR", tree::build_folder(root).into_os_string()),
        ("RUSTC_WORKSPACE_WRAPPER", wrapper.into_os_string()),
        ("TIDEGATE_TREE", root.as_os_str().to_owned()),
        ("CARGO_INCREMENTAL", "0".into()),
    ];
    let until = until.unwrap_or_else(|| Instant::now() + LONGEST);
    // Each round that fails leaves switches out, so the number of rounds is bounded.
    'rounds: loop {
        let planted = write_copy(root, copy, switches)?;
        let mut programs = Vec::new();
        for command in lines {
            let command: Vec<&str> = command.iter().map(String::as_str).collect();
            let (passed, output) = cargo::cargo_output_until(copy, &command, &environment, until)?;
            let errors = compiler::errors(&output);
            if errors.is_empty() && passed != Some(false) {
                programs.extend(test_programs::programs(&output));
            } else if passed.is_some() {
                if !leave_out(&errors, &planted, switches) {
                    let error = compiler::first_error(&output);
                    let error = error.unwrap_or_else(|| format!("cargo {}", command.join(" ")));
                    return Err(format!("the copy with switches does not build: {error}"));
                }
                continue 'rounds;
            }
            if passed.is_none() {
                return Ok(Built { programs, cut: true });
            }
        }
        return Ok(Built { programs, cut: false });
    }
}

fn write_wrapper(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(path, WRAPPER)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

/// The command lines that build the programs. The first one finds most switches that do not
/// compile. Tests inside libraries and programs of their own are built apart: cargo would build
/// both kinds for each package.
pub fn commands(needed: &BTreeSet<ProgramName>) -> Vec<Vec<String>> {
    let line = |words: &[&str], targets: &[&str], of: &[&ProgramName]| -> Vec<String> {
        let mut packages: BTreeSet<String> = of.iter().map(|name| name.package()).collect();
        packages.insert(WIDEST.to_owned());
        let packages = packages.iter().flat_map(|name| ["--package", name]);
        let json = ["--message-format", "json"];
        let words = words.iter().chain(targets).copied().chain(json).chain(packages);
        words.map(str::to_owned).collect()
    };
    let (whole, inside): (Vec<&ProgramName>, Vec<&ProgramName>) =
        needed.iter().partition(|name| name.file.is_some());
    let all: Vec<&ProgramName> = needed.iter().collect();
    let kinds = |of: &[&ProgramName]| -> Vec<&'static str> {
        let bins = of.iter().any(|name| name.package() == WIDEST);
        let libs = of.iter().any(|name| name.package() != WIDEST);
        [("--bins", bins), ("--lib", libs)].iter().filter(|k| k.1).map(|k| k.0).collect()
    };
    let mut lines = Vec::new();
    if !all.is_empty() {
        lines.push(line(&["check"], &kinds(&all), &all));
    }
    if !inside.is_empty() {
        lines.push(line(&["test", "--no-run"], &kinds(&inside), &inside));
    }
    if !whole.is_empty() {
        let files: BTreeSet<&str> = whole.iter().filter_map(|name| name.file.as_deref()).collect();
        let targets: Vec<&str> = files.into_iter().flat_map(|file| ["--test", file]).collect();
        lines.push(line(&["test", "--no-run"], &targets, &whole));
    }
    lines
}

/// Removes the switches that the compiler blames; returns whether there are any.
fn leave_out(
    refused: &[CompileError],
    planted: &BTreeMap<PathBuf, Vec<Planted>>,
    switches: &mut Vec<Numbered>,
) -> bool {
    let before = switches.len();
    let blamed = |error: &CompileError| {
        let under = planted.get(&error.file).map_or_else(Vec::new, |places| error.blamed(places));
        if under.is_empty() { nearest(error, switches).into_iter().collect() } else { under }
    };
    let blamed: BTreeSet<u32> = refused.iter().flat_map(blamed).collect();
    switches.retain(|n| !blamed.contains(&n.number));
    println!("{} switches do not compile and are left out", before - switches.len());
    switches.len() < before
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
    // What the tree has no longer, such as a module that became a folder.
    for path in tree::paths(copy, ".")? {
        if !root.join(&path).exists() {
            fs::remove_file(copy.join(&path))
                .map_err(|e| format!("{}: cannot remove: {e}", path.display()))?;
        }
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_crate_that_does_not_compile_is_compiled_as_in_the_tree() {
        let folder = tempfile::tempdir().unwrap();
        let (tree, copy) = (folder.path().join("tree"), folder.path().join("copy"));
        for folder in [&tree, &copy] {
            fs::create_dir(folder).unwrap();
        }
        let wrapper = copy.join("target/rustc");
        write_wrapper(&wrapper).unwrap();
        fs::write(tree.join("a"), "of the tree").unwrap();
        let compile = || {
            let mut command = Command::new(&wrapper);
            let output = command.args(["cat", "a"]).current_dir(&copy).env("TIDEGATE_TREE", &tree);
            String::from_utf8(output.output().unwrap().stdout).unwrap()
        };
        assert_eq!(compile(), "of the tree");
        fs::write(copy.join("a"), "of the copy").unwrap();
        assert_eq!(compile(), "of the copy");
    }

    #[test]
    fn the_compiler_gets_variables_whose_names_have_a_hyphen() {
        let folder = tempfile::tempdir().unwrap();
        let wrapper = folder.path().join("rustc");
        write_wrapper(&wrapper).unwrap();
        let output = Command::new(&wrapper).arg("env").env("CARGO_BIN_EXE_a-b", "1").output();
        let variables = String::from_utf8(output.unwrap().stdout).unwrap();
        assert!(variables.lines().any(|line| line == "CARGO_BIN_EXE_a-b=1"), "{variables}");
    }

    #[test]
    fn a_file_that_the_tree_has_no_longer_leaves_the_copy() {
        let folder = tempfile::tempdir().unwrap();
        let (tree, copy) = (folder.path().join("tree"), folder.path().join("copy"));
        for folder in [&tree, &copy] {
            fs::create_dir_all(folder.join("crates/a/src")).unwrap();
        }
        fs::write(tree.join("crates/a/src/list.rs"), "// a list").unwrap();
        write_copy(&tree, &copy, &[]).unwrap();
        assert!(copy.join("crates/a/src/list.rs").exists());
        fs::remove_file(tree.join("crates/a/src/list.rs")).unwrap();
        write_copy(&tree, &copy, &[]).unwrap();
        assert!(!copy.join("crates/a/src/list.rs").exists());
    }

    #[test]
    fn test_programs_are_built_with_the_features_of_the_workspace() {
        let name = |folder: &str, file: Option<&str>| ProgramName {
            folder: folder.to_owned(),
            file: file.map(str::to_owned),
        };
        let needed = [name("vidsch", None), name("tidegate", Some("fences"))].into();
        let lines: Vec<String> = commands(&needed).iter().map(|line| line.join(" ")).collect();
        let json = "--message-format json";
        assert_eq!(
            lines,
            [
                format!(
                    "check --lib {json} --package tidegate --package tidegate-cli --package tidegate-vidsch"
                ),
                format!(
                    "test --no-run --lib {json} --package tidegate-cli --package tidegate-vidsch"
                ),
                format!(
                    "test --no-run --test fences {json} --package tidegate --package tidegate-cli"
                ),
            ]
        );
        assert!(commands(&[name("cli", None)].into())[1].contains(&"--bins".to_owned()));
        assert!(commands(&BTreeSet::new()).is_empty());
    }
}
