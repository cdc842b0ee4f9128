//! Where level tokens are made.
//!
//! Purpose: a token of `ddi::level` proves its level only if the kernel's entry points make it and
//! every room below passes it on. Each crate has a number of places that may still make one; it
//! falls as rooms take the token as an argument.

use crate::finding::Finding;
use crate::source::Source;
use std::path::Path;

/// Places outside of tests that may make a token, by crate. `kmd` makes one for interrupts that its
/// driver raises itself.
const PLACES: &[(&str, usize)] = &[("dxgkrnl", 67), ("kmd", 1), ("scenarios", 4), ("testbed", 4)];

const TOKENS: [&str; 3] = ["Passive::enter(", "Dispatch::enter(", "Dirql::enter("];

/// Counts the places of each crate.
#[derive(Default)]
pub struct Levels(Vec<(String, usize)>);

impl Levels {
    /// Counts those of one file.
    pub fn count(&mut self, path: &Path, source: &Source) {
        let Ok(inside) = path.strip_prefix("crates") else { return };
        let mut parts = inside.components().map(|part| part.as_os_str().to_string_lossy());
        let (Some(name), Some(folder)) = (parts.next(), parts.next()) else { return };
        if folder != "src" {
            return;
        }
        let code = source.lines.iter().enumerate().filter(|(index, _)| !source.is_test(*index));
        let places = code
            .map(|(_, l)| TOKENS.iter().map(|t| l.code.matches(t).count()).sum::<usize>())
            .sum();
        if places == 0 {
            return;
        }
        match self.0.iter_mut().find(|(of, _)| *of == name) {
            Some((_, count)) => *count += places,
            None => self.0.push((name.into_owned(), places)),
        }
    }

    /// Compares with what is allowed.
    pub fn findings(&self) -> Vec<Finding> {
        let allowed = |name: &str| PLACES.iter().find(|of| of.0 == name).map_or(0, |of| of.1);
        let over = self.0.iter().filter(|(name, places)| *places > allowed(name));
        over.map(|(name, places)| {
            let what = format!(
                "level tokens are made in {places} places, {} are allowed: pass on the token of the \
                 entry point",
                allowed(name)
            );
            Finding::of_file(&Path::new("crates").join(name), what)
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let mut levels = Levels::default();
        levels.count(Path::new(path), &Source::of(text));
        levels.findings().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_further_place_is_a_finding_and_tests_and_comments_are_none() {
        let one =
            "f(Passive::enter()); // not Passive::enter()\n#[test]\nfn a() { Passive::enter() }";
        assert!(findings("crates/kmd/src/a.rs", one).is_empty());
        assert!(findings("crates/kmd/tests/a.rs", "Passive::enter()\nPassive::enter()").is_empty());
        let found = findings("crates/kmd/src/a.rs", "f(&Dirql::enter(&held), &Passive::enter())");
        assert!(found[0].contains("made in 2 places, 1 are allowed"), "{found:?}");
        let other = findings("crates/d3d12/src/a.rs", "Dispatch::enter()");
        assert!(other[0].contains("made in 1 places, 0 are allowed"), "{other:?}");
    }
}
