//! Reports as tables: one column per run, one row per figure, units spelled out.
//!
//! On a terminal cells wrap between words, and a table with words too long for it is wider than it.
//! In a pipe or a file nothing wraps, unless COLUMNS names a width.

use comfy_table::{
    Cell, CellAlignment, ColumnConstraint, ContentArrangement, TableComponent, Width, presets,
};
use serde::Serialize;
use std::fmt;
use std::io::IsTerminal;
use std::ops::{Deref, DerefMut};
use tidegate::runner::MetricRow;
use tidegate::runner::ranking::{Relation, relation};
use tidegate::runner::recovery::{EngineRow, Fate};
use tidegate::runner::report::Report;
use tidegate::runner::verdict::{Account, Part};
use tidegate::trace::{duration, durations};

/// Columns of a terminal whose width is unknown.
const USUAL_WIDTH: u16 = 100;

/// Width of tables: COLUMNS if it is set, else the width of the terminal; `None` without either.
fn width() -> Option<u16> {
    let set = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let seen = || {
        let size = || terminal_size::terminal_size().map_or(USUAL_WIDTH, |(width, _)| width.0);
        std::io::stdout().is_terminal().then(size)
    };
    set.filter(|width| *width > 0).or_else(seen)
}

/// A table, which is arranged when it is printed. Dereferences to the table of the library.
pub(crate) struct Table(comfy_table::Table);

impl Deref for Table {
    type Target = comfy_table::Table;

    fn deref(&self) -> &comfy_table::Table {
        &self.0
    }
}

impl DerefMut for Table {
    fn deref_mut(&mut self) -> &mut comfy_table::Table {
        &mut self.0
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut arranged = self.0.clone();
        arrange(&mut arranged, width());
        arranged.fmt(f)
    }
}

/// Wraps the cells of a table for a width, between words; without a width nothing wraps.
fn arrange(table: &mut comfy_table::Table, width: Option<u16>) {
    let Some(width) = width else {
        table.set_content_arrangement(ContentArrangement::Disabled);
        return;
    };
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width);
    let mut longest = vec![0; table.column_count()];
    for row in table.header().into_iter().chain(table.row_iter()) {
        for (longest, cell) in longest.iter_mut().zip(row.cell_iter()) {
            *longest = longest_word(&cell.content()).max(*longest);
        }
    }
    for (column, longest) in table.column_iter_mut().zip(longest) {
        if column.constraint().is_none() {
            let least = u16::try_from(longest).unwrap_or(u16::MAX).saturating_add(PADDING);
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
        }
    }
}

/// Blanks left and right of a cell.
const PADDING: u16 = 2;

/// Letters of the longest word; a number and its unit are one.
fn longest_word(text: &str) -> usize {
    let (mut longest, mut before) = (0, 0);
    for word in text.split_whitespace() {
        let letters = word.chars().count();
        longest = longest.max(if before > 0 { before + 1 + letters } else { letters });
        before = if word.ends_with(|c: char| c.is_ascii_digit()) { letters } else { 0 };
    }
    longest
}

/// An empty table.
pub(crate) fn table(header: impl IntoIterator<Item = impl Into<Cell>>) -> Table {
    let mut table = comfy_table::Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    table.remove_style(TableComponent::HorizontalLines);
    table.remove_style(TableComponent::MiddleIntersections);
    table.set_header(header);
    Table(table)
}

/// Right-aligns every column but the first.
pub(crate) fn align_numbers(table: &mut Table) {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// A row of the table of runs.
enum Figure {
    /// Nanoseconds; `None` if the row does not apply to a run. The durations of a row have one
    /// unit.
    Time(fn(&Report) -> Option<u64>),
    /// Text; empty if the row does not apply to a run.
    Text(fn(&Report) -> String),
}

use Figure::{Text, Time};

const FIGURES: &[(&str, Figure)] = &[
    ("recorded makespan", Time(|r| r.recorded_ns)),
    ("engines overlapped", Time(|r| (!r.remote_machine).then_some(r.machine.overlap_ns))),
    ("kernel calls", Text(|r| r.kernel_calls.to_string())),
    ("interrupts", Text(|r| of_machine(r, r.machine.interrupts))),
    ("interrupts suppressed", Text(|r| of_machine(r, r.machine.interrupts_suppressed))),
    ("CPU waits", Text(|r| r.cpu_waits.to_string())),
    ("CPU wakes", Text(|r| r.cpu_wakes.to_string())),
    ("GPU waits", Text(|r| of_machine(r, r.gpu_waits))),
    ("GPU signals", Text(|r| of_machine(r, r.gpu_signals))),
    ("doorbell connects", Text(|r| of_doorbells(r, of_machine(r, r.machine.doorbell_connects)))),
    ("doorbells victimised", Text(|r| of_doorbells(r, of_machine(r, r.machine.doorbell_victims)))),
    ("rings repeated", Text(|r| of_doorbells(r, r.doorbell_retries.to_string()))),
    ("ring slots", Text(|r| of_doorbells(r, r.ring_slots.to_string()))),
    ("rings full", Time(|r| (r.ring_slots > 0).then_some(r.ring_wait_ns))),
    ("preemptions answered", Text(preemptions_answered)),
    ("longest to preempt", Time(longest_to_preempt)),
    (
        "recoveries",
        Text(
            |r| {
                if r.recoveries.is_empty() { String::new() } else { r.recoveries.len().to_string() }
            },
        ),
    ),
    ("results", Text(|r| if r.verified { "right".to_owned() } else { "WRONG".to_owned() })),
];

/// Answered and all preemption requests; empty without a request.
fn preemptions_answered(report: &Report) -> String {
    let sum = |of: fn(&EngineRow) -> u64| report.engines.iter().map(of).sum::<u64>();
    match sum(|engine| engine.preemptions_requested) {
        0 => String::new(),
        requests => format!("{} of {requests}", sum(|engine| engine.preemptions.count())),
    }
}

fn longest_to_preempt(report: &Report) -> Option<u64> {
    let answered = report.engines.iter().filter(|engine| engine.preemptions.count() > 0);
    answered.map(|engine| engine.preemptions.max_ns()).max()
}

/// A figure of doorbells; empty for a run without rings.
fn of_doorbells(report: &Report, figure: String) -> String {
    if report.doorbell_rings == 0 { String::new() } else { figure }
}

/// A counter of the machine; empty where that is a service's.
fn of_machine(report: &Report, figure: u64) -> String {
    if report.remote_machine { String::new() } else { figure.to_string() }
}

/// One column per report. Parts of the makespan have rows if a run has an account.
pub(crate) fn side_by_side(reports: &[&Report], accounts: &[Option<Account>]) -> Table {
    let mut table = table(
        std::iter::once(String::new()).chain(reports.iter().map(|r| r.submission.to_owned())),
    );
    let mut row = |name: &str, figures: Vec<String>| {
        // A row without figures is left out.
        if figures.iter().any(|f| !f.is_empty()) {
            table.add_row(std::iter::once(name.to_owned()).chain(figures));
        }
    };
    row("clock", reports.iter().map(|r| r.clock.to_owned()).collect());
    row("makespan", times(reports.iter().map(|r| Some(r.makespan_ns))));
    let mut of_account = |name: &str, part: &dyn Fn(&Account) -> u64| {
        let all = || accounts.iter().map(|account| account.as_ref().map(part));
        if all().flatten().any(|ns| ns > 0) {
            row(name, times(all()));
        }
    };
    for part in Part::ALL {
        of_account(&format!("  {}", part.label()), &|account| account.of(part));
    }
    of_account("CPU in submission", &|account| account.cpu_submission_ns);
    of_account("CPU in waiting", &|account| account.cpu_waiting_ns);
    for (name, figure) in FIGURES {
        row(
            name,
            match figure {
                Time(of) => times(reports.iter().map(|r| of(r))),
                Text(of) => reports.iter().map(|r| of(r)).collect(),
            },
        );
    }
    for (number, metric) in reports.first().map_or(&[][..], |r| &r.metrics).iter().enumerate() {
        row(
            &metric_name(metric),
            measured(&reports.iter().map(|r| r.metrics.get(number)).collect::<Vec<_>>()),
        );
    }
    align_numbers(&mut table);
    table
}

/// Makespans with a change.
#[derive(Serialize)]
pub(crate) struct WhatIfRow {
    /// The change, as given.
    pub(crate) change: String,
    /// By model, in nanoseconds.
    pub(crate) makespans_ns: Vec<(&'static str, u64)>,
}

/// One row per change, below the unchanged runs: the makespan of each model, and its difference
/// from the unchanged one.
pub(crate) fn what_ifs(reports: &[&Report], rows: &[WhatIfRow]) -> Table {
    let header = std::iter::once("what if".to_owned())
        .chain(reports.iter().map(|r| r.submission.to_owned()));
    let mut table = table(header);
    let base: Vec<u64> = reports.iter().map(|r| r.makespan_ns).collect();
    let all =
        base.iter().chain(rows.iter().flat_map(|row| row.makespans_ns.iter().map(|(_, ns)| ns)));
    let mut words = durations(&all.copied().collect::<Vec<_>>()).into_iter();
    table.add_row(std::iter::once("as it is".to_owned()).chain(words.by_ref().take(base.len())));
    for row in rows {
        let cells = row.makespans_ns.iter().zip(&base).zip(words.by_ref());
        let cell = |(((_, ns), base), word): ((&(&str, u64), &u64), String)| {
            let change = (*ns as f64 - *base as f64) * 100.0 / (*base).max(1) as f64;
            match relation(*ns, *base) {
                Relation::NoDifference => format!("{word} (same)"),
                Relation::Faster | Relation::Slower => format!("{word} ({change:+.1} %)"),
            }
        };
        let cells: Vec<String> = cells.map(cell).collect();
        table.add_row(std::iter::once(row.change.clone()).chain(cells));
    }
    align_numbers(&mut table);
    table
}

/// Durations of a row, with one unit and one precision; empty for `None`.
fn times(all_ns: impl Iterator<Item = Option<u64>>) -> Vec<String> {
    let all_ns: Vec<Option<u64>> = all_ns.collect();
    let mut words = durations(&all_ns.iter().copied().flatten().collect::<Vec<_>>()).into_iter();
    all_ns.iter().map(|ns| ns.and_then(|_| words.next()).unwrap_or_default()).collect()
}

/// A metric's name without its unit, which is beside the value.
fn metric_name(metric: &MetricRow) -> String {
    let name = metric.name.trim_end_matches("_ns").replace('_', " ");
    if metric.queues.is_empty() { name } else { format!("{name} of {}", metric.queues.join(", ")) }
}

/// The values of one metric in all runs.
fn measured(rows: &[Option<&MetricRow>]) -> Vec<String> {
    let is_time = rows.iter().flatten().any(|metric| metric.name.ends_with("_ns"));
    let values = rows.iter().map(|row| row.and_then(|metric| metric.value));
    let words = match is_time {
        true => times(values),
        false => {
            values.map(|value| value.map_or_else(String::new, |value| value.to_string())).collect()
        }
    };
    let cell = |(row, word): (&Option<&MetricRow>, String)| match row {
        Some(metric) if metric.met == Some(false) => format!("{word} (not met)"),
        Some(metric) if metric.value.is_none() => "-".to_owned(),
        _ => word,
    };
    rows.iter().zip(words).map(cell).collect()
}

/// One row per queue. Doorbells, priorities and fates have columns if a ring, a preemption or a
/// loss occurred.
pub(crate) fn queues(report: &Report) -> Table {
    let mut header = vec!["queue", "engine", "packets", "busy", "blocked"];
    if report.doorbell_rings > 0 {
        header.extend(["connects", "rings repeated"]);
    }
    if report.has_priorities() {
        header.extend(["priority", "preempted", "preempts"]);
    }
    let lost = report.queues.iter().any(|queue| queue.fate != Fate::WentOn);
    if lost {
        header.push("fate");
    }
    let mut table = table(header);
    for queue in &report.queues {
        let mut row = vec![
            queue.name.clone(),
            queue.engine.to_owned(),
            queue.packets.to_string(),
            duration(queue.busy_ns),
            duration(queue.blocked_ns),
        ];
        if report.doorbell_rings > 0 {
            row.extend([queue.doorbell_connects.to_string(), queue.doorbell_retries.to_string()]);
        }
        if report.has_priorities() {
            let left = queue.preempts.count().to_string();
            row.extend([queue.priority.to_owned(), queue.preempted.to_string(), left]);
        }
        if lost {
            row.push(queue.fate.name().to_owned());
        }
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(width: Option<u16>) -> String {
        let mut table = table(["queue", "what it is, and how it differs", "busy"]);
        table.add_row([
            "graphics-of-the-first-process",
            "one two three four five six",
            "1234.5 µs",
        ]);
        arrange(&mut table, width);
        table.to_string()
    }

    #[test]
    fn words_stay_whole_however_narrow_the_terminal_is() {
        let words = ["graphics-of-the-first-process", "differs", "three", "1234.5 µs", "queue"];
        for width in 1..90 {
            let shown = shown(Some(width));
            for word in words {
                assert!(shown.contains(word), "{word} at {width}:\n{shown}");
            }
        }
    }

    #[test]
    fn rows_have_one_line_without_a_terminal() {
        let shown = shown(None);
        assert_eq!(shown.lines().count(), 5, "{shown}");
        assert!(shown.contains(" one two three four five six "), "{shown}");
    }

    #[test]
    fn a_number_and_its_unit_are_one_word() {
        let words = [("", 0), ("a bcd", 3), ("12.3 µs", 7), ("5 of 12 ms", 5), ("4 → 5", 3)];
        assert_eq!(words.map(|(text, _)| longest_word(text)), words.map(|(_, letters)| letters));
    }
}
