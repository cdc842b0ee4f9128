//! Identifiers that are used again: lists of free places, and addresses that serve as keys.
//!
//! A late use of such an identifier reaches the next object. Each file that has one is in the
//! table of decisions/0144, with the generation or the reason why a late use is harmless.

use crate::finding::Finding;
use crate::source::Source;
use std::path::Path;

/// The page with the table.
pub const PAGE: &str = "decisions/0144-identifiers-that-are-used-again.md";

/// Words in the names of lists of places or objects that are used again.
const WORDS: [&str; 7] = ["free", "freed", "vacant", "spare", "removed", "unused", "recycled"];
/// The beginnings of their types.
const LISTS: [&str; 8] =
    ["Vec<", "[Vec<", "VecDeque<", "BTreeSet<", "HashSet<", "BinaryHeap<", "FreeSlots<", "Slots<"];
/// Calls that make a number of an address.
const ADDRESSES: [&str; 2] = [".addr()", "expose_provenance()"];

/// Returns the name and the type of a field that a line declares.
fn field(code: &str) -> Option<(&str, &str)> {
    let (name, of_type) = code.trim().strip_suffix(',')?.split_once(": ")?;
    let name = name.rsplit(' ').next()?;
    let is_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    (name.chars().all(is_name) && !name.is_empty()).then_some((name, of_type))
}

fn is_list_of_places(code: &str) -> bool {
    field(code).is_some_and(|(name, of_type)| {
        name.split('_').any(|word| WORDS.contains(&word))
            && LISTS.iter().any(|list| of_type.starts_with(list))
    })
}

/// Finds the identifiers of one file, unless `table`, the text of the page, has the file.
pub fn check(path: &Path, source: &Source, table: &str) -> Option<Finding> {
    let name = path.to_str().filter(|name| name.starts_with("crates/"))?;
    let mut parts = name.split('/').skip(2);
    if parts.next() != Some("src") || parts.next() == Some("tests") || is_listed(name, table) {
        return None;
    }
    let code = source.lines.iter().enumerate().filter(|(index, _)| !source.is_test(*index));
    let is_one = |code: &str| {
        is_list_of_places(code) || ADDRESSES.iter().any(|address| code.contains(address))
    };
    let (index, _) = code.into_iter().find(|(_, line)| is_one(&line.code))?;
    let what = "an identifier that is used again: take tidegate_calls::Slots or a number that never \
                returns, or add the file to decisions/0144 with the reason why a late use is harmless";
    Some(Finding::at(path, index, what))
}

fn is_listed(name: &str, table: &str) -> bool {
    table.contains(&format!("`{}`", name.trim_start_matches("crates/")))
}

/// Finds files of the table that are not there.
pub fn check_table(root: &Path, table: &str) -> Vec<Finding> {
    let rows = table.lines().enumerate().filter(|(_, line)| line.starts_with("| "));
    let files = rows.flat_map(|(index, row)| {
        let spans = row.split('`').skip(1).step_by(2).filter(|span| span.ends_with(".rs"));
        spans.map(move |span| (index, span))
    });
    let is_gone = |(_, file): &(usize, &str)| !root.join("crates").join(file).is_file();
    let finding = |(index, file)| {
        Finding::at(Path::new(PAGE), index, format!("no file crates/{file}: remove it"))
    };
    files.filter(is_gone).map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finds(path: &str, text: &str) -> bool {
        let table = "| a place | `kmd/src/handle.rs` | a generation | a test |";
        check(Path::new(path), &Source::of(text), table).is_some()
    }

    #[test]
    fn a_list_of_free_places_and_a_key_of_an_address_are_findings() {
        for text in [
            "struct A {\n    free: Vec<u32>,\n}",
            "struct A {\n    pub(crate) removed_lanes: Vec<LaneId>,\n}",
            "fn a() {\n    b(Arc::as_ptr(&c).addr())\n}",
        ] {
            assert!(finds("crates/kmd/src/a.rs", text), "{text}");
            assert!(!finds("crates/kmd/src/handle.rs", text), "the table has it");
            assert!(!finds("crates/kmd/tests/a.rs", text), "a test");
        }
        for text in ["struct A {\n    freedom: Vec<u32>,\n    free: u32,\n}", "// free: Vec<u32>,"]
        {
            assert!(!finds("crates/kmd/src/a.rs", text), "{text}");
        }
    }

    #[test]
    fn a_row_of_a_file_that_is_gone_is_a_finding() {
        let table = "| a place | `none/src/gone.rs` | a generation | a test |";
        assert_eq!(check_table(Path::new("/"), table).len(), 1);
    }
}
