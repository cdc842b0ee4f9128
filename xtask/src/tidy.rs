//! `cargo xtask tidy`: the laws that the compiler does not check.
//!
//! `layers` and `circles` hold the laws of dependency, `rust` those of a Rust file, `prose` those of names and
//! documents.

mod circles;
mod layers;
mod prose;
mod rust;

use std::path::Path;

use crate::finding::report;
use crate::tree;

/// Checks everything.
pub fn check(root: &Path) -> Result<(), String> {
    let mut findings = layers::check(root)?;
    for folder in ["crates", "fuzz", "xtask"] {
        for file in tree::files(root, folder, &["rs"])? {
            findings.extend(rust::check(&file.path, &file.text));
        }
    }
    findings.extend(circles::check(root)?);
    findings.extend(prose::check(root)?);
    report("tidy", findings)
}
