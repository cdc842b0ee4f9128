//! `cargo xtask tidy`: the laws that the compiler does not check.
//!
//! `layers` and `circles` hold the laws of dependency, `levels` where level tokens are made, `rust`
//! the laws of a Rust file, `parameters` the law of functions, `reuse` the laws of identifiers that
//! are used again, `prose` of names and documents, `links` of their links, `planted` of planted
//! faults, `decisions` of the index of decisions.

mod circles;
mod decisions;
mod layers;
mod levels;
mod links;
mod parameters;
mod planted;
mod prose;
mod reuse;
mod rust;
mod swarm;

use std::path::Path;

use crate::finding::report;
use crate::source::Source;
use crate::{mutants, performance, tree};

/// Checks everything.
pub fn check(root: &Path) -> Result<(), String> {
    let mut findings = layers::check(root)?;
    let reused = std::fs::read_to_string(root.join(reuse::PAGE))
        .map_err(|error| format!("{}: {error}", reuse::PAGE))?;
    findings.extend(reuse::check_table(root, &reused));
    let mut places = 0;
    for folder in ["crates", "fuzz", "xtask"] {
        for file in tree::files(root, folder, &["rs"])? {
            let source = Source::of(&file.text);
            findings.extend(rust::check(&file.path, &source));
            findings.extend(levels::check(&file.path, &source));
            findings.extend(parameters::check(&file.path, &file.text));
            findings.extend(planted::check(&file.path, &source));
            places += planted::places(&file.path, &source);
            findings.extend(reuse::check(&file.path, &source, &reused));
        }
    }
    findings.extend(planted::check_count(places));
    findings.extend(circles::check(root)?);
    findings.extend(prose::check(root)?);
    findings.extend(links::check(root)?);
    findings.extend(decisions::check(root)?);
    findings.extend(performance::check(root)?);
    findings.extend(swarm::check(root)?);
    mutants::mistakes::check(root)?;
    mutants::planted::check(root)?;
    report("tidy", findings)
}
