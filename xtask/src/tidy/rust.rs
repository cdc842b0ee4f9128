//! The laws of a Rust file: header, size, unfinished work, where lints of the workspace may be
//! switched off, and tests that sleep.
//!
//! Clippy checks the rest: names that only the seam may use, reasons for `unsafe`, long functions.

use std::path::Path;

use crate::finding::Finding;
use crate::source::{Function, Line, Source};

/// Lines of code that a file may have outside of tests.
const LINES_PER_FILE: usize = 700;

/// Columns that a line of comment may have. rustfmt wraps code, and comments only on request.
const COMMENT_COLUMNS: usize = 100;

/// Lints that keep a law, and the beginnings of the paths that may switch them off.
const LINTS: [(&str, &[&str]); 3] = [
    ("unsafe_code", UNSAFE_ROOMS),
    ("disallowed_types", BESIDE_THE_SEAM),
    ("disallowed_methods", BESIDE_THE_SEAM),
];
/// Rooms that may be unsafe.
const UNSAFE_ROOMS: &[&str] = &[
    "crates/machines/src/cells",
    "crates/machines/src/os",
    "crates/machines/src/fiber",
    "crates/machines/src/stacks.rs",
    "crates/ddi-c/src/foreign",
    "crates/d3dkmt/src/caller.rs",
    "crates/d3dkmt/src/exports.rs",
    "crates/peers/src/vulkan.rs",
    "crates/peers/src/opencl.rs",
    "fuzz/bin/libfuzzer.rs",
    "fuzz/src/c_library/calls.rs",
    "fuzz/src/c_library/memory.rs",
];
/// Files that may name threads, clocks, locks and atomics: the seam, the floors of the benchmark
/// that it is measured against and its peers, and the tests of threads and processes that the
/// platform does not know.
const BESIDE_THE_SEAM: &[&str] = &[
    "crates/machines",
    "crates/platform",
    "crates/check",
    "crates/tidegate/tests/check/as_std.rs",
    "crates/bench/src/floors",
    "crates/measure/src/floors.rs",
    "crates/peers",
    "crates/d3d12/tests/multi_engine/ported_samples.rs",
    "crates/dxgkrnl/tests/object/foreign_threads.rs",
    "crates/service/tests",
    "crates/cli/tests/service",
    "crates/testbed/src/service/process.rs",
    "xtask",
];
/// What makes a platform on the host.
const HOSTS: [&str; 2] = ["Platform::host", "Platform::closed_host"];
/// Functions of tests that run a body on every kind of platform, the host among them.
const RUNS_ON_HOST: &[&str] = &["everywhere", "platforms"];
/// Words that mark unfinished work, in comments and in code.
const UNFINISHED_WORDS: &[&str] = &["TODO", "FIXME", "XXX"];

/// Checks one file; the path is relative to the repository.
pub fn check(path: &Path, source: &Source) -> Vec<Finding> {
    let mut findings: Vec<Finding> = header(path, source).into_iter().collect();
    findings.extend(size(path, source));
    for (index, line) in source.lines.iter().enumerate() {
        let mut find = |what: String| findings.push(Finding::at(path, index, what));
        if is_too_wide(line) {
            find(format!("a comment of more than {COMMENT_COLUMNS} columns: wrap it"));
        }
        for word in UNFINISHED_WORDS {
            if words(&line.comment).chain(words(&line.code)).any(|w| w == *word) {
                find(format!(
                    "{word}: finish it, or write a decision or an exception that says why not"
                ));
            }
        }
        for (lint, places) in LINTS {
            let is_free = path.starts_with("xtask/src/tidy")
                || places.iter().any(|place| path.to_string_lossy().starts_with(place));
            if !is_free && words(&line.code).any(|w| w == lint) {
                find(format!(
                    "`{lint}` is switched off: go through platform, or give the file a row in \
                     xtask/src/tidy/rust.rs"
                ));
            }
        }
        if is_product(path) && words(&line.code).any(|word| word == "PlatformKind") {
            // What is explored would not be what users run.
            find(
                "PlatformKind outside of platform: make the difference a property of platform"
                    .into(),
            );
        }
    }
    findings.extend(host_sleeps(path, source));
    findings
}

/// A row of a table and a word without a place to wrap may be longer.
fn is_too_wide(line: &Line) -> bool {
    let remark = line.remark();
    let columns = line.code.chars().count() + line.comment.trim_end().chars().count();
    line.is_comment()
        && columns > COMMENT_COLUMNS
        && !remark.starts_with('|')
        && remark.contains(' ')
}

/// A header says what the room owns, in at least one sentence.
fn header(path: &Path, source: &Source) -> Option<Finding> {
    let lines = source.lines.iter();
    let said: Vec<&str> = lines
        .take_while(|l| l.comment.starts_with("//!") && !l.has_code())
        .map(Line::remark)
        .collect();
    let said = said.join(" ");
    let is_sentence = said.split_whitespace().count() >= 5 && said.contains('.');
    let what = "begin the file with a `//!` header: what this room owns, in at least one sentence";
    (!is_sentence).then(|| Finding::at(path, 0, what))
}

fn size(path: &Path, source: &Source) -> Option<Finding> {
    let lines = source.lines.iter().enumerate();
    let code = lines.filter(|(index, line)| line.has_code() && !source.is_test(*index)).count();
    (code > LINES_PER_FILE && !is_test_file(path)).then(|| {
        let what = format!(
            "{code} lines of code, at most {LINES_PER_FILE} are allowed: give part of it a room of its own"
        );
        Finding::of_file(path, what)
    })
}

fn is_test_file(path: &Path) -> bool {
    path.components().any(|c| c.as_os_str() == "tests")
}

/// Programs around the product and tests may tell platforms apart.
fn is_product(path: &Path) -> bool {
    (path.starts_with("crates") || path.starts_with("fuzz"))
        && !["platform", "machines", "check"]
            .iter()
            .any(|of| path.starts_with(format!("crates/{of}")))
        && !is_test_file(path)
}

/// Sleeps in test functions that run on the host: how long the host takes for what is waited for is
/// not known. An ignored test may measure the host.
fn host_sleeps(path: &Path, source: &Source) -> Vec<Finding> {
    let lines = &source.lines;
    let names = |line: &Line, wanted: &[&str]| words(&line.code).any(|word| wanted.contains(&word));
    let in_test = |index: usize| is_test_file(path) || source.is_test(index);
    let on_host = |function: &Function| {
        let mut attributes = lines[function.first..function.start].iter();
        if attributes.any(|line| line.code.contains("#[ignore")) {
            return false;
        }
        let mut body = lines[function.start..=function.end].iter();
        let makes_host = |line: &Line| HOSTS.iter().any(|host| line.code.contains(host));
        body.any(|line| makes_host(line) || names(line, RUNS_ON_HOST))
    };
    let sleeps =
        (0..lines.len()).filter(|index| in_test(*index) && names(&lines[*index], &["sleep_until"]));
    let what = "a test sleeps on the host: wait for the condition, by an event or by polling without a limit";
    let in_host_test = sleeps.filter(|index| source.function_at(*index).is_some_and(on_host));
    in_host_test.map(|index| Finding::at(path, index, what)).collect()
}

/// The words of a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let found = check(Path::new(path), &Source::of(text));
        found.into_iter().map(|f| f.to_string()).collect()
    }

    fn whats(path: &str, body: &str) -> Vec<String> {
        findings(path, &format!("//! This room owns nothing at all.\n{body}"))
    }

    fn one(path: &str, body: &str, what: &str) {
        let found = whats(path, body);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(what), "{found:?}");
    }

    #[test]
    fn a_comment_has_a_hundred_columns_at_most() {
        let of = |columns: usize| format!("    // {}{}", "a ".repeat(20), "b".repeat(columns - 47));
        assert_eq!(whats("a.rs", &of(100)), Vec::<String>::new());
        one("a.rs", &of(101), "100 columns");
        assert!(whats("a.rs", &format!("/// | {} |", of(120))).is_empty());
        assert!(whats("a.rs", &format!("// <https://{}>", "b".repeat(120))).is_empty());
    }

    #[test]
    fn a_file_begins_with_a_sentence() {
        for text in [
            "fn a() {}",
            "//! short.\n",
            "//! many words but never an end\n",
            "\n//! A late header is none.\n",
        ] {
            assert_eq!(findings("a.rs", text).len(), 1, "{text}");
        }
        assert!(whats("a.rs", "fn a() {}").is_empty());
    }

    #[test]
    fn long_files_are_split_but_tests_do_not_count() {
        let many = "const A: u8 = 0;\n".repeat(701);
        one("a.rs", &many, "701 lines of code");
        assert!(whats("a.rs", &format!("#[cfg(test)]\nmod tests {{\n{many}}}")).is_empty());
        assert!(whats("a.rs", &"// remark\n".repeat(800)).is_empty());
    }

    #[test]
    fn lints_that_keep_a_law_are_switched_off_in_their_places_alone() {
        let off = "#![allow(unsafe_code, clippy::disallowed_types)]";
        assert_eq!(whats("crates/kmd/src/a.rs", off).len(), 2);
        assert!(whats("crates/machines/src/cells/mod.rs", off).is_empty());
        one("crates/machines/src/host.rs", off, "`unsafe_code` is switched off");
        assert!(
            whats("crates/kmd/src/a.rs", "// unsafe_code\nconst A: &str = \"unsafe_code\";")
                .is_empty()
        );
    }

    #[test]
    fn unfinished_work_is_found() {
        one("a.rs", "// TODO later", "TODO");
        assert!(whats("a.rs", "const TODOS: u8 = 0; // todo list").is_empty());
    }

    #[test]
    fn tests_on_the_host_do_not_sleep() {
        let sleeps = |start: &str| {
            format!("fn a() {{\n    {start}|p| {{\n        p.sleep_until(b);\n    }});\n}}")
        };
        let path = "crates/softgpu/tests/gpu/fences.rs";
        for start in ["everywhere(", "on(&Platform::host(), ", "on(&Platform::closed_host(), "] {
            one(path, &sleeps(start), "fences.rs:4: a test sleeps on the host");
        }
        assert!(whats(path, &sleeps("on(&Platform::virtual_time(c), ")).is_empty());
        assert!(whats("crates/softgpu/src/a.rs", &sleeps("everywhere(")).is_empty());
        assert!(whats(path, &format!("#[test]\n#[ignore]\n{}", sleeps("everywhere("))).is_empty());
    }

    #[test]
    fn only_platform_tells_platforms_apart() {
        one("crates/kmd/src/a.rs", "use tidegate_platform::PlatformKind;", "PlatformKind outside");
        assert!(whats("crates/kmd/tests/a.rs", "let a: PlatformKind;").is_empty());
    }
}
