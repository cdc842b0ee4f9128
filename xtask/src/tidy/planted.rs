//! Where product code has planted faults: only through `planted!`, and no more than [`MOST`] of
//! them (decisions/0071).

use crate::finding::Finding;
use crate::source::Source;
use std::path::Path;

/// Places of `planted!` and `Platform::barrier` in product code. Lower it when a fault goes.
pub const MOST: usize = 70;

/// The rooms that name the faults and ask for one, and one whose callers choose a fault.
const ROOMS: [&str; 3] = [
    "platform/src/platform/planted.rs",
    "platform/src/platform/exploration.rs",
    "softgpu/src/hardware.rs",
];

const PLACES: [&str; 2] = ["planted!(", ".barrier(PlantedFault"];

/// Returns the places of one file of product code.
pub fn places(path: &Path, source: &Source) -> usize {
    match is_product(path) {
        true => code(source).flat_map(|code| PLACES.map(|of| code.matches(of).count())).sum(),
        false => 0,
    }
}

/// Finds code that asks for a fault without the macro.
pub fn check(path: &Path, source: &Source) -> Option<Finding> {
    let inside = path.strip_prefix("crates").ok()?.to_str()?;
    let asks = is_product(path) && code(source).any(|code| code.contains(".has_planted("));
    (asks && !ROOMS.contains(&inside))
        .then(|| Finding::of_file(path, "ask for a planted fault by `planted!`".to_owned()))
}

/// Finds a tree with too many places.
pub fn check_count(places: usize) -> Option<Finding> {
    let what = format!(
        "{places} planted faults in product code, {MOST} are allowed: plant it in the platform, \
         or in a layer before the driver"
    );
    (places > MOST).then(|| Finding::of_file(Path::new("decisions/0071-planted-faults.md"), what))
}

fn is_product(path: &Path) -> bool {
    let mut parts = path.iter().filter_map(|part| part.to_str());
    let (first, name, src) = (parts.next(), parts.next(), parts.next());
    let is_test = parts.any(|part| part == "tests" || part == "tests.rs");
    let of_tests = ["scenarios", "swarm", "explorer", "testbed"];
    first == Some("crates")
        && src == Some("src")
        && !is_test
        && name.is_some_and(|name| !of_tests.contains(&name))
}

fn code(source: &Source) -> impl Iterator<Item = &str> {
    let lines = source.lines.iter().enumerate();
    lines.filter(|(index, _)| !source.is_test(*index)).map(|(_, line)| line.code.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_product_code_alone() {
        let two = "if planted!(a, B) || planted!(a, C) {}\n// planted!(a, D)";
        let count = |path| places(Path::new(path), &Source::of(two));
        assert_eq!(count("crates/kmd/src/mailbox.rs"), 2);
        assert_eq!(count("crates/scenarios/src/litmus.rs"), 0);
        assert_eq!(count("crates/kmd/tests/reference/life.rs"), 0);
        assert!(check_count(MOST).is_none());
        assert!(check_count(MOST + 1).is_some());
    }

    #[test]
    fn a_fault_that_is_asked_for_without_the_macro_is_found() {
        let asks = Source::of("if platform.has_planted(PlantedFault::A) {}");
        assert!(check(Path::new("crates/kmd/src/mailbox.rs"), &asks).is_some());
        assert!(check(Path::new("crates/platform/src/platform/planted.rs"), &asks).is_none());
    }
}
