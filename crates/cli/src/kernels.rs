//! Tables of kernels: files with a row for each, and printed sums by name.

use crate::BadInput;
use crate::output::Outputs;
use crate::tables::{Table, align_numbers, table};
use std::path::Path;
use tidegate::runner::kernels::{KernelRow, NameRow, write_csv};
use tidegate::trace::duration;

/// Columns for a name in a table. Longer names are cut in the middle.
const NAME_WIDTH: usize = 40;

fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet"))
}

/// Checks that the program can write the format that a name implies.
///
/// # Errors
///
/// A name in .parquet in a program without the feature `columns`.
pub(crate) fn check_format(path: &Path) -> Result<(), BadInput> {
    if cfg!(feature = "columns") || !is_parquet(path) {
        return Ok(());
    }
    Err(BadInput(format!(
        "--kernels {}: this program was built without Parquet; name a .csv file, or build it with --features columns",
        path.display()
    )))
}

/// Writes the rows in the format that the name implies.
///
/// # Errors
///
/// As for [`Outputs::write`].
pub(crate) fn write(path: &Path, rows: &[KernelRow], outputs: &Outputs) -> Result<(), BadInput> {
    #[cfg(feature = "columns")]
    if is_parquet(path) {
        return outputs.write(path, |out| tidegate::runner::columns::write_parquet(rows, out));
    }
    outputs.write(path, |out| write_csv(rows, out))
}

/// Shortens a name for a table.
pub(crate) fn short(name: &str) -> String {
    let letters: Vec<char> = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if letters.len() <= NAME_WIDTH {
        return letters.into_iter().collect();
    }
    let (head, tail) = (NAME_WIDTH * 2 / 3, NAME_WIDTH - NAME_WIDTH * 2 / 3 - 1);
    letters[..head].iter().chain(&['…']).chain(&letters[letters.len() - tail..]).collect()
}

/// One row for each name.
pub(crate) fn summary(names: &[NameRow]) -> Table {
    let mut table = table(["kernel", "count", "total", "mean", "min", "max", "share"]);
    for name in names {
        table.add_row([
            short(&name.name),
            name.count.to_string(),
            duration(name.total_ns),
            duration(name.mean_ns()),
            duration(name.min_ns),
            duration(name.max_ns),
            format!("{:.1} %", name.share * 100.0),
        ]);
    }
    align_numbers(&mut table);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_in_the_middle() {
        assert_eq!(short("gemm"), "gemm");
        let cut = short(&format!("void {}<float, 4>(int)", "x".repeat(400)));
        assert_eq!(cut.chars().count(), NAME_WIDTH);
        assert!(cut.starts_with("void xxx") && cut.ends_with("4>(int)"), "{cut}");
    }
}
