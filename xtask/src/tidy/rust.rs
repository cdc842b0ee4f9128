//! The laws of a Rust file: header, sizes, rooms of `unsafe`, and names that only the seam may use.

use std::path::Path;

use crate::finding::Finding;
use crate::items::{self, Function, Items};
use crate::source::{self, Line};

/// Lines of code that a file may have outside of tests.
const LINES_PER_FILE: usize = 700;
/// Lines that a function may have, from `fn` to its closing brace.
const LINES_PER_FUNCTION: usize = 120;

/// Rooms of `platform` that may be unsafe: a file, or a folder, whose name begins so.
const UNSAFE_ROOMS: &[&str] = &["memory", "os", "fiber"];
/// What may be named of `std::sync`: shared ownership and write-once notes order nothing between
/// agents, so there is nothing in them for the explorer to see.
const HARMLESS_SYNC: &[&str] = &["Arc", "Weak", "OnceLock"];
/// What makes a platform on the host.
const HOSTS: [&str; 2] = ["Platform::host", "Platform::closed_host"];
/// Functions of tests that run a body on every kind of platform, the host among them.
const RUNS_ON_HOST: &[&str] = &["everywhere", "platforms"];
/// Words that mark unfinished work, in comments and in code; a macro has its mark behind it.
const UNFINISHED_WORDS: &[&str] = &["TODO", "FIXME", "XXX"];
const UNFINISHED_MACROS: &[&str] = &["todo", "unimplemented"];

/// Checks one file; the path is relative to the repository.
pub fn check(path: &Path, text: &str) -> Vec<Finding> {
    let lines = source::lines(text);
    let items = items::scan(&lines);
    let mut findings: Vec<Finding> = header(path, &lines).into_iter().collect();
    findings.extend(sizes(path, &lines, &items));
    for (index, line) in lines.iter().enumerate() {
        let mut find = |what: String| findings.push(Finding::at(path, index, what));
        unfinished(line, &mut find);
        if words(&line.code).any(|(_, w)| w == "unsafe") {
            unsafe_use(path, &lines, index, &mut find);
        }
        if outside_the_seam(path) {
            named_outside_the_seam(&line.code, &mut find);
            platform_told_apart(path, &line.code, &mut find);
        }
    }
    findings.extend(grouped_sync(path, &lines));
    findings.extend(host_sleeps(path, &lines, &items));
    findings
}

/// A header says what the room owns, in at least one sentence.
fn header(path: &Path, lines: &[Line]) -> Option<Finding> {
    let said: Vec<&str> = lines
        .iter()
        .take_while(|l| l.comment.starts_with("//!") && !l.has_code())
        .map(Line::remark)
        .collect();
    let said = said.join(" ");
    let is_sentence = said.split_whitespace().count() >= 5 && said.contains('.');
    (!is_sentence).then(|| {
        Finding::at(
            path,
            0,
            "begin the file with a `//!` header: what this room owns, in at least one sentence",
        )
    })
}

fn sizes(path: &Path, lines: &[Line], items: &Items) -> Vec<Finding> {
    let code = lines
        .iter()
        .enumerate()
        .filter(|(index, line)| line.has_code() && !items.is_test(*index))
        .count();
    let mut findings = Vec::new();
    if code > LINES_PER_FILE && !is_test_file(path) {
        let what = format!(
            "{code} lines of code, at most {LINES_PER_FILE} are allowed: give part of it a room of its own"
        );
        findings.push(Finding::of_file(path, what));
    }
    for function in &items.functions {
        let length = function.end - function.start + 1;
        if length > LINES_PER_FUNCTION && !is_monster(lines, function) {
            let what = format!(
                "`{}` has {length} lines, at most {LINES_PER_FUNCTION} are allowed: split it, or say above it why it \
                 is one, as `// monster: <reason>`",
                function.name
            );
            findings.push(Finding::at(path, function.start, what));
        }
    }
    findings
}

fn is_monster(lines: &[Line], function: &Function) -> bool {
    let above = &lines[function.first..=function.start];
    above.iter().any(|l| {
        l.remark().strip_prefix("monster:").is_some_and(|reason| !reason.trim().is_empty())
    })
}

fn unfinished(line: &Line, find: &mut impl FnMut(String)) {
    for word in UNFINISHED_WORDS {
        if words(&line.comment).chain(words(&line.code)).any(|(_, w)| w == *word) {
            find(format!(
                "{word}: finish it, or write a decision or an exception that says why not"
            ));
        }
    }
    for (at, word) in words(&line.code) {
        if UNFINISHED_MACROS.contains(&word) && line.code[at + word.len()..].starts_with('!') {
            find(format!("{word}!: write the code, or leave the path out"));
        }
    }
}

fn unsafe_use(path: &Path, lines: &[Line], index: usize, find: &mut impl FnMut(String)) {
    if !may_be_unsafe(path) {
        let rooms = UNSAFE_ROOMS.join(", ");
        find(format!(
            "unsafe outside of its rooms (platform: {rooms}): put it behind a safe call of such a room"
        ));
    }
    if !has_safety_comment(lines, index) {
        find(
            "unsafe without a reason: say in a `SAFETY:` comment directly above why it is sound"
                .to_owned(),
        );
    }
}

fn may_be_unsafe(path: &Path) -> bool {
    if path.starts_with("crates/d3dkmt") {
        return true;
    }
    let Ok(room) = path.strip_prefix("crates/platform/src") else { return false };
    let name = room
        .components()
        .next()
        .map(|c| c.as_os_str().to_string_lossy().into_owned())
        .unwrap_or_default();
    UNSAFE_ROOMS.iter().any(|r| name.starts_with(r))
}

/// Looks up from the line to the head of its statement or item.
fn has_safety_comment(lines: &[Line], index: usize) -> bool {
    let says_why =
        |line: &Line| line.comment.contains("SAFETY:") || line.comment.contains("# Safety");
    if says_why(&lines[index]) {
        return true;
    }
    for line in lines[..index].iter().rev() {
        if says_why(line) {
            return true;
        }
        let code = line.code.trim();
        let ends_statement = code.ends_with([';', '{', '}']);
        if ends_statement || (code.is_empty() && !line.is_comment()) {
            return false;
        }
    }
    false
}

/// Files outside of `platform` that name threads, clocks or atomics. The seam is measured against
/// the floors of the benchmark, so these do not go through it. The tests of threads that the
/// platform does not know start such threads.
const BESIDE_THE_SEAM: [&str; 2] =
    ["crates/cli/src/bench/floors.rs", "crates/tidegate/tests/processes/foreign_threads.rs"];

fn outside_the_seam(path: &Path) -> bool {
    (path.starts_with("crates") || path.starts_with("fuzz"))
        && !path.starts_with("crates/platform")
        && !BESIDE_THE_SEAM.iter().any(|beside| path == Path::new(beside))
}

fn is_test_file(path: &Path) -> bool {
    path.components().any(|c| c.as_os_str() == "tests")
}

/// Threads, clocks and locks by their full names.
fn named_outside_the_seam(code: &str, find: &mut impl FnMut(String)) {
    let tight: String = code.chars().filter(|c| !c.is_whitespace()).collect();
    for library in ["std", "core"] {
        if tight.contains(&format!("{library}::thread")) {
            find(
                "std::thread outside of platform: spawn and sleep through the platform".to_owned(),
            );
        }
    }
    for word in ["Instant", "SystemTime"] {
        let taken = words(code).any(|(_, w)| w == word);
        if taken && (tight.contains("time::") || tight.contains(&format!("{word}::now"))) {
            find(format!("{word} outside of platform: read the clock through the platform"));
        }
    }
}

/// Product code that tells platforms apart: what is explored would not be what users run. Programs
/// around the product and tests may.
fn platform_told_apart(path: &Path, code: &str, find: &mut impl FnMut(String)) {
    if !is_test_file(path) && words(code).any(|(_, word)| word == "PlatformKind") {
        find("PlatformKind outside of platform: make the difference a property of platform".into());
    }
}

/// Sleeps in test functions that run on the host: how long the host takes for what is waited for is
/// not known. An ignored test may measure the host.
fn host_sleeps(path: &Path, lines: &[Line], items: &Items) -> Vec<Finding> {
    let names =
        |line: &Line, wanted: &[&str]| words(&line.code).any(|(_, word)| wanted.contains(&word));
    let in_test = |index: usize| is_test_file(path) || items.is_test(index);
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
    let in_host_test = sleeps.filter(|index| items.function_at(*index).is_some_and(on_host));
    let what = "a test sleeps on the host: wait for the condition, by an event or by polling without a limit";
    in_host_test.map(|index| Finding::at(path, index, what.to_owned())).collect()
}

/// `std::sync`, also where a list of names goes over several lines.
fn grouped_sync(path: &Path, lines: &[Line]) -> Vec<Finding> {
    if !outside_the_seam(path) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        for library in ["std::sync::", "core::sync::"] {
            let mut from = 0;
            while let Some(found) = line.code[from..].find(library) {
                from += found + library.len();
                let rest: Vec<&str> = std::iter::once(&line.code[from..])
                    .chain(lines[index + 1..].iter().map(|l| &l.code[..]))
                    .collect();
                for name in named(&rest) {
                    if !HARMLESS_SYNC.contains(&name.as_str()) {
                        let what = format!(
                            "{library}{name} outside of platform: the explorer cannot see it; use the platform's"
                        );
                        findings.push(Finding::at(path, index, what));
                    }
                }
            }
        }
    }
    findings
}

/// The names directly behind a path: one, or each at the top of a list in braces.
fn named(rest: &[&str]) -> Vec<String> {
    let text = rest.join(" ");
    let text = text.trim_start();
    let first_word = |part: &str| -> String {
        part.trim_start()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_' || *c == '*')
            .collect()
    };
    let Some(list) = text.strip_prefix('{') else { return vec![first_word(text)] };
    let mut names = Vec::new();
    let mut depth = 0;
    let mut part = String::new();
    for c in list.chars() {
        match c {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(first_word(&part));
                part.clear();
                continue;
            }
            _ => {}
        }
        part.push(c);
    }
    names.push(first_word(&part));
    names.retain(|n| !n.is_empty());
    names
}

/// The words of a text, with their places.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = from + text[from..].find(is_word)?;
        let length = text[start..].find(|c| !is_word(c)).unwrap_or(text.len() - start);
        from = start + length;
        Some((start, &text[start..from]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "//! This room owns nothing at all.\n";

    fn whats(path: &str, body: &str) -> Vec<String> {
        let text = format!("{HEADER}{body}");
        check(Path::new(path), &text).into_iter().map(|f| f.to_string()).collect()
    }

    fn one(path: &str, body: &str, what: &str) {
        let found = whats(path, body);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(what), "{found:?}");
    }

    #[test]
    fn a_file_begins_with_a_sentence() {
        for text in [
            "fn a() {}",
            "//! short.\n",
            "//! many words but never an end\n",
            "\n//! A late header is none.\n",
        ] {
            assert_eq!(check(Path::new("a.rs"), text).len(), 1, "{text}");
        }
        assert!(whats("a.rs", "fn a() {}").is_empty());
    }

    #[test]
    fn long_functions_say_why() {
        let long = format!("fn a() {{\n{}}}\n", "    b();\n".repeat(120));
        one("a.rs", &long, "a.rs:2: `a` has 122 lines");
        assert!(
            whats("a.rs", &format!("// monster: a numbered list of the document\n{long}"))
                .is_empty()
        );
        assert_eq!(whats("a.rs", &format!("// monster:\n{long}")).len(), 1);
    }

    #[test]
    fn long_files_are_split_but_tests_do_not_count() {
        let many = "const A: u8 = 0;\n".repeat(701);
        one("a.rs", &many, "701 lines of code");
        assert!(whats("a.rs", &format!("#[cfg(test)]\nmod tests {{\n{many}}}")).is_empty());
        assert!(whats("a.rs", &"// remark\n".repeat(800)).is_empty());
    }

    #[test]
    fn unsafe_keeps_to_its_rooms_and_says_why() {
        let said = "// SAFETY: nothing is done.\nlet a =\n    unsafe { b() };";
        assert!(whats("crates/platform/src/memory/bulk.rs", said).is_empty());
        assert!(whats("crates/platform/src/os.rs", said).is_empty());
        one("crates/platform/src/host.rs", said, "outside of its rooms");
        one("crates/platform/src/os.rs", "a();\nunsafe { b() };", "unsafe without a reason");
        one(
            "crates/platform/src/os.rs",
            "// SAFETY: far.\na();\nunsafe { b() };",
            "unsafe without a reason",
        );
        assert!(
            whats(
                "crates/kmd/src/a.rs",
                "#![deny(unsafe_code)]\n// unsafe in prose\nconst A: &str = \"unsafe\";"
            )
            .is_empty()
        );
    }

    #[test]
    fn unfinished_work_is_found() {
        one("a.rs", "// TODO later", "TODO");
        one("a.rs", "fn a() { todo!() }", "todo!");
        assert!(whats("a.rs", "const TODOS: u8 = 0; // todo list").is_empty());
    }

    #[test]
    fn tests_on_the_host_do_not_sleep() {
        let sleeps = |start: &str| {
            format!("fn a() {{\n    {start}(|p| {{\n        p.sleep_until(b);\n    }});\n}}")
        };
        let path = "crates/softgpu/tests/gpu/fences.rs";
        for start in ["everywhere", "on(&Platform::host(), ", "on(&Platform::closed_host(), "] {
            one(path, &sleeps(start), "fences.rs:4: a test sleeps on the host");
        }
        assert!(whats(path, &sleeps("on(&Platform::virtual_time(c), ")).is_empty());
        assert!(whats("crates/softgpu/src/a.rs", &sleeps("everywhere")).is_empty());
        assert!(whats(path, &format!("#[test]\n#[ignore]\n{}", sleeps("everywhere"))).is_empty());
    }

    #[test]
    fn only_the_seam_names_threads_clocks_and_locks() {
        let path = "crates/kmd/src/a.rs";
        one(path, "use std::sync::Mutex;", "std::sync::Mutex");
        one(
            path,
            "use std::sync::{\n    Arc,\n    atomic::{AtomicU8, Ordering},\n};",
            "std::sync::atomic",
        );
        one(path, "std::thread::yield_now();", "std::thread");
        one(path, "use std::time::{Duration, Instant};", "Instant");
        assert!(
            whats(path, "use std::sync::{Arc, Weak};\nuse std::time::Duration;\nstruct Instant;")
                .is_empty()
        );
        assert!(whats("crates/platform/src/sync.rs", "use std::sync::Mutex;").is_empty());
        one(path, "use tidegate_platform::PlatformKind;", "PlatformKind outside");
        assert!(whats("crates/kmd/tests/a.rs", "let a: PlatformKind;").is_empty());
    }
}
