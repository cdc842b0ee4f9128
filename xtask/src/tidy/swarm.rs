//! The law of the table of operations: random programs reach every D3DKMT call.
//!
//! A call of `calls::Kernel` is in the brackets of an operation, or in `UNREACHED` with the reason.

use std::fs;
use std::path::Path;

use crate::finding::Finding;

const CALLS: &str = "crates/calls/src/kernel.rs";
const TABLE: &str = "crates/swarm/src/operation.rs";

/// Checks the table against the trait.
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

/// The methods of the trait that are no word of the table.
fn missing<'c>(calls: &'c str, table: &str) -> Vec<&'c str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let words: Vec<&str> = table.split(|c| !is_word(c)).collect();
    let methods = calls.lines().filter_map(|line| line.strip_prefix("    fn "));
    let names = methods.filter_map(|rest| rest.split(|c| !is_word(c)).next());
    // Both are made of other calls of the trait.
    let made_of_others = ["submit_signal_to_hw_queue", "signal_from_gpu"];
    names.filter(|name| !words.contains(name) && !made_of_others.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_no_operation_reaches_is_found() {
        let calls = "trait Kernel {\n    fn one(&self);\n    fn two(\n        &self,\n    );\n}\n";
        assert_eq!(missing(calls, "A \"a\" [one, two] {}"), [""; 0]);
        assert_eq!(missing(calls, "A \"a\" [one_more] {}\n(\"two\", \"why\")"), ["one"]);
    }
}
