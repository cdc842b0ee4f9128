//! `tidegate diff`: two traces, or two workloads, by kernel name.

use crate::arguments::{self, Clock, Reading};
use crate::kernels::short;
use crate::output::Outputs;
use crate::run::{Driven, Keep, Read, read, run_both, show_problems};
use crate::streams::outln;
use crate::tables::{align_numbers, table};
use crate::{BadInput, End};
use std::path::Path;
use tidegate::runner::diff::{Diff, DiffRow, Figures, Side, diff};
use tidegate::runner::kernels::Table;
use tidegate::trace::duration;

/// `tidegate diff`.
pub(crate) fn command(arguments: &arguments::Diff, outputs: &Outputs) -> Result<End, BadInput> {
    let (a, b) = (load(&arguments.a)?, load(&arguments.b)?);
    let (a_file, b_file) = (arguments.a.display().to_string(), arguments.b.display().to_string());
    let diff = diff((&a_file, &a), (&b_file, &b));
    if let Some(path) = &arguments.json {
        outputs.write_json(path, &diff)?;
    }
    if !outputs.take_stdout() {
        print(&diff, arguments.top);
    }
    Ok(End::Right)
}

/// The recorded times of a trace. A workload file is run in virtual time.
fn load(path: &Path) -> Result<Table, BadInput> {
    let reading = Reading { clock: Some(Clock::Virtual), quiet: true, ..Reading::default() };
    let Read { workload, costs } = read(Some(path), &reading)?;
    if let Some(table) = Table::recorded(&workload) {
        return Ok(table);
    }
    let keep = Keep { kernels: true, ..Keep::default() };
    let result = run_both(&workload, None, None, &reading, keep, costs, Driven::default())?;
    if !result.outcome.report.is_right() {
        show_problems(&result.outcome);
        return Err(BadInput(format!(
            "{}: the workload does not run right; fix it first",
            path.display()
        )));
    }
    Ok(Table::of_run(result.outcome.kernels, &result.outcome.report))
}

fn print(diff: &Diff, top: usize) {
    let how = |side: &Side| if side.recorded { "recorded" } else { "run in virtual time" };
    for (name, side) in [("a", &diff.a), ("b", &diff.b)] {
        outln!(
            "{name}: {} ({}): makespan {}, {} kernels and copies, busy {}",
            side.file,
            how(side),
            duration(side.makespan_ns),
            side.count,
            duration(side.busy_ns)
        );
    }
    outln!(
        "makespan {}, busy {}",
        change(diff.a.makespan_ns, diff.b.makespan_ns),
        change(diff.a.busy_ns, diff.b.busy_ns)
    );
    let in_both: Vec<&DiffRow> =
        diff.kernels.iter().filter(|row| row.a.is_some() && row.b.is_some()).collect();
    if !in_both.is_empty() {
        print_both(&in_both, top);
    }
    let only = |of: fn(&DiffRow) -> (Option<Figures>, Option<Figures>)| -> Vec<(&str, Figures)> {
        let alone = |row| match of(row) {
            (Some(figures), None) => Some((&*row.name, figures)),
            _ => None,
        };
        diff.kernels.iter().filter_map(alone).collect()
    };
    print_one_side("a", &diff.a, &only(|row| (row.a, row.b)), top);
    print_one_side("b", &diff.b, &only(|row| (row.b, row.a)), top);
}

fn print_both(rows: &[&DiffRow], top: usize) {
    let mut table =
        table(["kernel", "count", "busy a", "busy b", "change", "queue delay", "launch latency"]);
    for row in rows.iter().take(top) {
        let (Some(a), Some(b)) = (row.a, row.b) else { continue };
        let count = if a.count == b.count {
            a.count.to_string()
        } else {
            format!("{} → {}", a.count, b.count)
        };
        table.add_row([
            short(&row.name),
            count,
            duration(a.busy_ns),
            duration(b.busy_ns),
            change(a.busy_ns, b.busy_ns),
            both(a.mean_queue_delay_ns, b.mean_queue_delay_ns),
            both(a.mean_launch_latency_ns, b.mean_launch_latency_ns),
        ]);
    }
    align_numbers(&mut table);
    outln!("{table}");
    print_rest(rows.len(), top);
}

fn print_one_side(name: &str, side: &Side, rows: &[(&str, Figures)], top: usize) {
    if rows.is_empty() {
        return;
    }
    let busy = rows.iter().map(|(_, figures)| figures.busy_ns).sum();
    outln!("only in {name} ({}): {} names, busy {}", side.file, rows.len(), duration(busy));
    for (kernel, figures) in rows.iter().take(top) {
        outln!(
            "  {:40}  {:>7} times  {:>8}",
            short(kernel),
            figures.count,
            duration(figures.busy_ns)
        );
    }
    print_rest(rows.len(), top);
}

fn print_rest(rows: usize, top: usize) {
    if rows > top {
        outln!("  … and {} more; --top N prints more, --json writes all", rows - top);
    }
}

fn both(a: Option<u64>, b: Option<u64>) -> String {
    let shown = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
    format!("{} → {}", shown(a), shown(b))
}

/// A change in percent, or in time where there was nothing before.
fn change(a: u64, b: u64) -> String {
    match a {
        _ if a == b => "no change".to_owned(),
        0 => format!("+{}", duration(b)),
        _ => format!("{:+.1} %", (b as f64 - a as f64) * 100.0 / a as f64),
    }
}
