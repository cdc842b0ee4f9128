//! Owns how reports look on a terminal: one column per run, one row per figure, units spelled out.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, TableComponent, presets};
use tidegate::workload::MetricRow;
use tidegate::workload::recovery::{EngineRow, Fate};
use tidegate::workload::report::Report;

/// A duration with three significant digits and a unit.
pub(crate) fn duration(ns: u64) -> String {
    let scaled = |divisor: f64, unit: &str| {
        let value = ns as f64 / divisor;
        let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
        format!("{value:.digits$} {unit}")
    };
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => scaled(1e3, "µs"),
        1_000_000..1_000_000_000 => scaled(1e6, "ms"),
        _ => scaled(1e9, "s"),
    }
}

/// An empty table in the house style.
pub(crate) fn table(header: impl IntoIterator<Item = impl Into<Cell>>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    table.remove_style(TableComponent::HorizontalLines);
    table.remove_style(TableComponent::MiddleIntersections);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table
}

/// Right-aligns every column but the first.
pub(crate) fn align_numbers(table: &mut Table) {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

type Figure = (&'static str, fn(&Report) -> String);

const FIGURES: &[Figure] = &[
    ("makespan", |r| duration(r.makespan_ns)),
    ("recorded makespan", |r| r.recorded_ns.map_or_else(String::new, duration)),
    ("engines overlapped", |r| duration(r.overlap_ns)),
    ("kernel calls", |r| r.kernel_calls.to_string()),
    ("interrupts", |r| r.interrupts.to_string()),
    ("interrupts suppressed", |r| r.interrupts_suppressed.to_string()),
    ("CPU waits", |r| r.cpu_waits.to_string()),
    ("CPU wakes", |r| r.cpu_wakes.to_string()),
    ("GPU waits", |r| r.gpu_waits.to_string()),
    ("GPU signals", |r| r.gpu_signals.to_string()),
    ("doorbell connects", |r| of_doorbells(r, r.doorbell_connects)),
    ("doorbells taken away", |r| of_doorbells(r, r.doorbell_victims)),
    ("rings repeated", |r| of_doorbells(r, r.doorbell_retries)),
    ("ring slots", |r| of_doorbells(r, r.ring_slots)),
    ("slept for ring space", |r| if r.ring_slots == 0 { String::new() } else { duration(r.ring_wait_ns) }),
    ("preemptions answered", preemptions_answered),
    ("longest to preempt", longest_to_preempt),
    ("recoveries", |r| if r.recoveries.is_empty() { String::new() } else { r.recoveries.len().to_string() }),
    ("results", |r| if r.verified { "right".to_owned() } else { "WRONG".to_owned() }),
];

/// How many of all requests engines answered; nothing where nobody asked.
fn preemptions_answered(report: &Report) -> String {
    let sum = |of: fn(&EngineRow) -> u64| report.engines.iter().map(of).sum::<u64>();
    match sum(|engine| engine.preemptions_asked) {
        0 => String::new(),
        asked => format!("{} of {asked}", sum(|engine| engine.preemptions.count)),
    }
}

fn longest_to_preempt(report: &Report) -> String {
    let answered = report.engines.iter().filter(|engine| engine.preemptions.count > 0);
    answered.map(|engine| engine.preemptions.max_ns).max().map_or_else(String::new, duration)
}

/// A figure of doorbells; nothing for a run that rang none.
fn of_doorbells(report: &Report, figure: u64) -> String {
    if report.doorbell_rings == 0 { String::new() } else { figure.to_string() }
}

/// One column per report.
pub(crate) fn side_by_side(reports: &[&Report]) -> Table {
    let mut table =
        table(std::iter::once(String::new()).chain(reports.iter().map(|r| r.submission.to_owned())));
    for (name, figure) in FIGURES {
        let figures: Vec<String> = reports.iter().map(|r| figure(r)).collect();
        // What applies to no run has no row.
        if figures.iter().any(|f| !f.is_empty()) {
            table.add_row(std::iter::once((*name).to_owned()).chain(figures));
        }
    }
    for (row, metric) in reports.first().map_or(&[][..], |r| &r.metrics).iter().enumerate() {
        let of = |r: &&Report| r.metrics.get(row).map_or_else(String::new, measured);
        table.add_row(std::iter::once(metric_name(metric)).chain(reports.iter().map(of)));
    }
    align_numbers(&mut table);
    table
}

/// A metric's name for people: its unit stands beside the value.
fn metric_name(metric: &MetricRow) -> String {
    let name = metric.name.trim_end_matches("_ns").replace('_', " ");
    if metric.queues.is_empty() { name } else { format!("{name} of {}", metric.queues.join(", ")) }
}

fn measured(metric: &MetricRow) -> String {
    let value = match metric.value {
        None => "-".to_owned(),
        Some(ns) if metric.name.ends_with("_ns") => duration(ns),
        Some(value) => value.to_string(),
    };
    if metric.met == Some(false) { format!("{value} (not met)") } else { value }
}

/// One row per queue; what its doorbell did only where somebody rang one, its priority where that mattered, and what became of it
/// where not all went on.
pub(crate) fn queues(report: &Report) -> Table {
    let mut header = vec!["queue", "engine", "packets", "busy", "blocked"];
    if report.doorbell_rings > 0 {
        header.extend(["connects", "rings repeated"]);
    }
    if report.tells_priorities() {
        header.extend(["priority", "preempted", "others left for it"]);
    }
    let lost = report.queues.iter().any(|queue| queue.fate != Fate::WentOn);
    if lost {
        header.push("in the end");
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
        if report.tells_priorities() {
            let left = queue.preempts.count.to_string();
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
