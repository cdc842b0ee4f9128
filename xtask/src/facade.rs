//! What users of the library see: the pages of its reference, and the crates that it needs.
//!
//! Entry points: [`documentation`], [`packaging`].

use std::path::Path;
use std::process::Stdio;

use crate::cargo::{cargo, cargo_output};
use crate::tree;

/// The facade's root file.
const ROOT: &str = "crates/tidegate/src/lib.rs";

/// Pages that the list of the facade's items must name, besides one of each part.
const PAGES: [&str; 8] = [
    "check/cell/struct.RaceCell.html",
    "check/cell/struct.UnsafeCell.html",
    "check/sync/struct.Mutex.html",
    "check/thread/fn.spawn.html",
    "d3d12/struct.Queue.html",
    "ddi/trait.Driver.html",
    "struct.Machine.html",
    "trace/struct.Trace.html",
];

/// Crates that only a feature of the facade brings, each with the feature.
const OF_FEATURES: [(&str, &str); 6] = [
    ("libsqlite3-sys", "import"),
    ("rusqlite", "import"),
    ("tidegate-check", "explore"),
    ("tidegate-explorer", "explore"),
    ("tidegate-service", "service"),
    ("tracing", "service"),
];

/// Builds the reference and checks that the facade's has the pages of its parts. The lints of the
/// workspace deny broken links.
///
/// # Errors
/// The build fails, or a page is not there.
pub fn documentation(root: &Path) -> Result<(), String> {
    cargo(root, &["doc", "--workspace", "--lib", "--no-deps", "--quiet"], &[])?;
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    // The list is written anew by each build; single pages stay from earlier ones.
    let list = read(&tree::build_folder(root).join("doc/tidegate/all.html"))?;
    let missing = missing_pages(&read(&root.join(ROOT))?, &list);
    read(&tree::build_folder(root).join("doc/tidegate_testbed/struct.App.html"))?;
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the reference of tidegate has no page of {}; put #[doc(inline)] before the re-export in {ROOT}",
        missing.join(", ")
    ))
}

/// The re-exported parts and the pages that the list of items does not have.
fn missing_pages(root_file: &str, list: &str) -> Vec<String> {
    let parts = root_file.lines().filter_map(|line| {
        let (_, name) =
            line.strip_prefix("pub use tidegate_")?.strip_suffix(';')?.split_once(" as ")?;
        Some(format!("{name}/"))
    });
    let has = |page: &str| list.contains(&format!("href=\"{page}"));
    parts.chain(PAGES.map(str::to_owned)).filter(|page| !has(page)).collect()
}

/// Checks which crates the facade needs without its features. Resolves them, and builds nothing.
///
/// # Errors
/// A crate of a feature is needed without it.
pub fn packaging(root: &Path) -> Result<(), String> {
    let crates = |more: &[&str]| {
        let line = ["tree", "--package", "tidegate", "--edges", "normal", "--prefix", "none"];
        let line = [&line[..], more].concat();
        let (success, output) = cargo_output(root, &line, &[], Stdio::inherit())?;
        success.then_some(output).ok_or_else(|| format!("cargo {} failed", line.join(" ")))
    };
    let unwanted = unwanted(&crates(&[])?, &crates(&["--no-default-features"])?);
    if unwanted.is_empty() { Ok(()) } else { Err(unwanted.join("\n")) }
}

/// What is wrong with the crates of the facade with all features and without.
fn unwanted(whole: &str, bare: &str) -> Vec<String> {
    let has = |crates: &str, name: &str| {
        crates.lines().any(|line| line.split(' ').next().is_some_and(|first| first == name))
    };
    let problem = |(name, feature): &(&str, &str)| {
        let text = match (has(whole, name), has(bare, name)) {
            (true, false) => return None,
            (false, _) => "is not among its crates: correct the list of xtask/src/facade.rs",
            (true, true) => "is needed without it: make the dependency optional",
        };
        Some(format!("tidegate: {name} of the feature '{feature}' {text}"))
    };
    OF_FEATURES.iter().filter_map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_without_pages_are_named() {
        let root = "pub use check::check;\n#[doc(inline)]\npub use tidegate_ddi as ddi;\n\
                    pub use tidegate_kmd as kmd;\npub use tidegate_platform::Platform;\n";
        let pages: Vec<String> = PAGES.iter().map(|page| format!("<a href=\"{page}\">")).collect();
        assert_eq!(missing_pages(root, &pages.join("\n")), ["kmd/"]);
        assert_eq!(missing_pages("", &pages[1..].join("\n")), [PAGES[0]]);
    }

    #[test]
    fn crates_of_a_feature_are_not_needed_without_it() {
        let line = |name: &str| format!("{name} v1.0.0\n");
        let whole: String = OF_FEATURES.iter().map(|(name, _)| line(name)).collect();
        assert!(unwanted(&whole, "tidegate v0.1.0\ntracing-core v0.1.0\n").is_empty());
        let [found] = &unwanted(&whole, &line("rusqlite"))[..] else { panic!("one") };
        assert!(found.contains("rusqlite of the feature 'import' is needed without it"), "{found}");
        assert_eq!(unwanted("", "").len(), OF_FEATURES.len());
    }
}
