//! The law of the table of operations: random programs reach every D3DKMT call.
//!
//! A call of `calls::Kernel` is in the brackets of an operation, or in `UNREACHED` with the reason.

use std::fs;
use std::path::Path;

use crate::finding::Finding;

const CALLS: &str = "crates/calls/src/table.rs";
const TABLE: &str = "crates/swarm/src/operation.rs";

/// Checks the table of operations against the table of calls.
///
/// # Errors
/// A source cannot be read.
pub fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let read = |path: &str| {
        fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: cannot read: {error}"))
    };
    let (calls, table) = (read(CALLS)?, read(TABLE)?);
    let found = missing(&calls, &table).into_iter().map(|call| {
        let what = format!(
            "`{call}` of {CALLS} is in no operation: add it to a row, or to UNREACHED with the reason"
        );
        Finding::of_file(Path::new(TABLE), what)
    });
    Ok(found.collect())
}

/// The calls of the table of calls that are no word of the table of operations.
fn missing<'c>(calls: &'c str, table: &str) -> Vec<&'c str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let words: Vec<&str> = table.split(|c| !is_word(c)).collect();
    let code = calls.lines().filter(|line| !line.trim_start().starts_with("//"));
    let rows = code.filter_map(|line| line.split_once("fn ").map(|(_, row)| row));
    let names = rows.filter_map(|row| row.split(|c| !is_word(c)).next());
    names.filter(|name| !words.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_no_operation_reaches_is_found() {
        let calls = "sent {\n    /// No fn zero.\n    One passed fn one() -> ();\n    fn two(\n    ) -> ();\n}";
        assert_eq!(missing(calls, "A \"a\" [one, two] {}"), [""; 0]);
        assert_eq!(missing(calls, "A \"a\" [one_more] {}\n(\"two\", \"why\")"), ["one"]);
    }
}
