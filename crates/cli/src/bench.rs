//! `tidegate bench`: what a program pays for the stack on this machine, in eight rows.
//!
//! The rows and their measurement are `tidegate-measure`'s. `docs/performance.md` explains them;
//! the laboratory `tidegate-bench` has the project's goals. A count that must not happen makes a
//! run wrong.

use crate::output::Outputs;
use crate::streams::{errln, outln};
use crate::tables::{self, Table};
use crate::{BadInput, End, arguments};
use comfy_table::CellAlignment;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tidegate_measure::{
    Finished, Found, Pass, ROWS, Row, RowResult, Scale, Shown, choose, needs_two_processors,
};

/// Other programs disturb a row of two threads when they use more than this share of the machine.
const QUIET_SHARE: f64 = 0.1;

/// The JSON form of a run.
#[derive(Serialize)]
struct Results {
    passes: u32,
    right: bool,
    rows: Vec<RowResult>,
}

/// `tidegate bench`.
pub(crate) fn command(arguments: &arguments::Bench, outputs: &Outputs) -> Result<End, BadInput> {
    let filter = arguments.filter.as_deref().unwrap_or("");
    let wanted = choose(ROWS.iter(), filter).map_err(BadInput)?;
    needs_two_processors().map_err(|trouble| BadInput(trouble.to_string()))?;
    if cfg!(debug_assertions) {
        errln!("tidegate: this is a debug build; its figures say nothing: build with --release");
    }
    let passes = u32::from(arguments.passes);
    let finished = match measured(&wanted, passes, Scale(arguments.divide)) {
        Ok(finished) => finished,
        Err(trouble) => {
            errln!("tidegate: {trouble}");
            return Ok(End::Wrong);
        }
    };
    let wrong: Vec<String> = finished.iter().flat_map(Finished::wrong_counts).collect();
    if let Some(path) = &arguments.json {
        let rows = finished.iter().map(Finished::result).collect();
        outputs.write_json(path, &Results { passes, right: wrong.is_empty(), rows })?;
    }
    if !outputs.take_stdout() {
        outln!("{}\n", table(&finished));
        for row in &finished {
            outln!("  {}: {}", row.row().name, row.row().about);
            match row.remark() {
                remark if remark.is_empty() => {}
                remark => outln!("    {remark}"),
            }
        }
    }
    for row in finished.iter().map(Finished::result).filter(|row| row.foreign_share > QUIET_SHARE) {
        let share = row.foreign_share * 100.0;
        errln!("tidegate: {}: other programs used {share:.0} % of the machine", row.name);
    }
    wrong.iter().for_each(|wrong| errln!("tidegate: {wrong}"));
    Ok(if wrong.is_empty() { End::Right } else { End::Wrong })
}

/// Measures the rows pass by pass.
fn measured<'r>(wanted: &[&'r Row], count: u32, scale: Scale) -> Found<Vec<Finished<'r>>> {
    let bar = ProgressBar::new(u64::from(count) * wanted.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    let mut passes: Vec<Vec<Pass>> = wanted.iter().map(|_| Vec::new()).collect();
    for _ in 0..count {
        for (row, passes) in wanted.iter().zip(&mut passes) {
            bar.set_message(row.name);
            passes.push(row.pass(scale)?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(wanted.iter().zip(passes).filter_map(|(row, passes)| Finished::new(row, passes)).collect())
}

/// One line for each row.
fn table(rows: &[Finished<'_>]) -> Table {
    let mut table = tables::table(["row", "median", "p99", "floor", "", "ratio"]);
    for finished in rows {
        let Shown { median, p99, floor, ratio } = finished.shown();
        let row = finished.row();
        table.add_row([row.name, &median, &p99, row.floor.name, &floor, &ratio]);
    }
    for column in [1, 2, 4, 5] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
