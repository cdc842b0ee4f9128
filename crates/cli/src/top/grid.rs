//! The tables of the view as cells: one description for the screen and for text.

use super::snapshot::{Rates, Snapshot};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use tidegate::calls::snapshot::{DoorbellState, FenceKind, QueueKind, WaiterKind};

/// A table of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tab {
    Processes,
    Queues,
    Fences,
    Waiters,
    Doorbells,
    Engines,
    Recoveries,
}

impl Tab {
    pub(crate) const ALL: [Tab; 7] = [
        Tab::Processes,
        Tab::Queues,
        Tab::Fences,
        Tab::Waiters,
        Tab::Doorbells,
        Tab::Engines,
        Tab::Recoveries,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Tab::Processes => "processes",
            Tab::Queues => "queues",
            Tab::Fences => "fences",
            Tab::Waiters => "waiters",
            Tab::Doorbells => "doorbells",
            Tab::Engines => "engines",
            Tab::Recoveries => "recoveries",
        }
    }

    /// The columns: title, and width on the screen; 0 for the one that has the rest.
    pub(crate) fn columns(self) -> &'static [(&'static str, u16)] {
        match self {
            Tab::Processes => &[
                ("name", 0),
                ("pid", 7),
                ("user", 8),
                ("calls", 8),
                ("calls/s", 7),
                ("handles", 7),
                ("memory", 8),
                ("queues", 6),
                ("nt", 3),
            ],
            Tab::Queues => &[
                ("queue", 6),
                ("process", 0),
                ("kind", 8),
                ("engine", 8),
                ("state", 5),
                ("submitted", 9),
                ("completed", 9),
                ("per s", 6),
                ("doorbell", 9),
            ],
            Tab::Fences => &[
                ("fence", 6),
                ("name", 0),
                ("process", 10),
                ("type", 12),
                ("value", 10),
                ("monitored", 9),
                ("waiters", 7),
                ("open", 4),
            ],
            Tab::Waiters => &[
                ("fence", 6),
                ("name", 0),
                ("waiter", 7),
                ("process", 14),
                ("queue", 7),
                ("awaited", 12),
                ("value", 12),
            ],
            Tab::Doorbells => &[
                ("doorbell", 8),
                ("queue", 7),
                ("process", 0),
                ("engine", 10),
                ("status", 9),
                ("announced", 11),
                ("completed", 11),
            ],
            Tab::Engines => &[
                ("engine", 0),
                ("power", 5),
                ("busy", 6),
                ("packets", 10),
                ("switches", 9),
                ("per s", 7),
                ("preempted", 9),
                ("requested", 9),
            ],
            Tab::Recoveries => &[
                ("ago", 8),
                ("engine", 10),
                ("code", 5),
                ("lost", 4),
                ("outcome", 22),
                ("reason", 0),
            ],
        }
    }
}

/// A cell: what it shows, and its number if it is one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) number: Option<f64>,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell { text: text.to_owned(), number: None }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { text, number: None }
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Cell {
        let text = if number == u64::MAX { "max".to_owned() } else { number.to_string() };
        Cell { text, number: Some(number as f64) }
    }
}

/// A rate by second; empty before the second reading.
impl From<Option<f64>> for Cell {
    fn from(rate: Option<f64>) -> Cell {
        Cell { text: rate.map_or_else(String::new, |rate| format!("{rate:.0}")), number: rate }
    }
}

/// An optional number; a dash without one.
fn optional(number: Option<u64>) -> Cell {
    number.map_or_else(|| Cell { text: "-".to_owned(), number: Some(-1.0) }, Cell::from)
}

fn share(busy: Option<&f64>) -> Cell {
    let text = busy.map_or_else(String::new, |busy| format!("{:.0}%", busy * 100.0));
    Cell { text, number: busy.copied() }
}

fn memory(bytes: u64) -> Cell {
    let unit = [("G", 30), ("M", 20), ("K", 10)].into_iter().find(|(_, bits)| bytes >> bits > 0);
    let text = match unit {
        Some((unit, bits)) => format!("{:.1}{unit}", bytes as f64 / (1u64 << bits) as f64),
        None => bytes.to_string(),
    };
    Cell { text, number: Some(bytes as f64) }
}

/// A row: its key, which stays the same while its object lives, and its process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) key: (u64, u64),
    pub(crate) process: Option<u32>,
    pub(crate) cells: Vec<Cell>,
}

/// The rows of a table, in the service's order.
pub(crate) struct Grid {
    pub(crate) rows: Vec<Row>,
    /// Whether the service may have more.
    pub(crate) more: bool,
}

impl Grid {
    /// Sorts the rows by a column. Equal ones keep their order.
    pub(crate) fn sort(&mut self, column: usize, reversed: bool) {
        let order = |a: &Row, b: &Row| {
            let (a, b) = (&a.cells[column], &b.cells[column]);
            match (a.number, b.number) {
                (Some(a), Some(b)) => a.total_cmp(&b),
                (None, None) => a.text.cmp(&b.text),
                (Some(_), None) => Ordering::Greater,
                (None, Some(_)) => Ordering::Less,
            }
        };
        self.rows.sort_by(|a, b| if reversed { order(b, a) } else { order(a, b) });
    }
}

/// Names of users by number.
pub(crate) type Users = BTreeMap<u32, String>;

/// Makes the rows of one table.
pub(crate) fn grid(tab: Tab, snapshot: &Snapshot, rates: &Rates, users: &Users) -> Grid {
    match tab {
        Tab::Processes => processes(snapshot, rates, users),
        Tab::Queues => queues(snapshot, rates),
        Tab::Fences => fences(snapshot),
        Tab::Waiters => waiters(snapshot),
        Tab::Doorbells => doorbells(snapshot),
        Tab::Engines => engines(snapshot, rates),
        Tab::Recoveries => recoveries(snapshot),
    }
}

fn processes(snapshot: &Snapshot, rates: &Rates, users: &Users) -> Grid {
    let rows = snapshot.processes.rows.iter().map(|row| Row {
        key: (row.session, 0),
        process: row.process,
        cells: vec![
            row.name.as_str().into(),
            // A process outside of the service's PID namespace has no number.
            optional(Some(u64::from(row.pid)).filter(|pid| *pid != 0)),
            users.get(&row.uid).cloned().unwrap_or_else(|| row.uid.to_string()).into(),
            row.calls.into(),
            rates.calls.get(&row.session).copied().into(),
            row.handles.into(),
            memory(row.memory_bytes),
            row.queues.into(),
            row.nt_handles.into(),
        ],
    });
    Grid { rows: rows.collect(), more: snapshot.processes.more }
}

fn engine_name(snapshot: &Snapshot, engine: u32) -> &str {
    snapshot.machine.engines.get(engine as usize).map_or("?", |engine| &engine.name)
}

/// The power of an engine and of its device, as `F0/D0`.
fn power(snapshot: &Snapshot, engine: u32) -> String {
    let of_engine = snapshot.machine.engines.get(engine as usize);
    format!("{}/{}", of_engine.map_or("?", |engine| &engine.power), snapshot.machine.power)
}

fn doorbell(state: DoorbellState) -> &'static str {
    match state {
        DoorbellState::Connected => "connected",
        DoorbellState::ConnectedNotify => "notify",
        DoorbellState::DisconnectedRetry => "retry",
        DoorbellState::DisconnectedAbort => "aborted",
    }
}

fn queues(snapshot: &Snapshot, rates: &Rates) -> Grid {
    let rows = snapshot.queues.rows.iter().map(|row| Row {
        key: (row.queue, 0),
        process: row.process,
        cells: vec![
            row.queue.into(),
            match row.process {
                Some(_) => snapshot.process_name(row.process).into(),
                None => "(kernel)".into(),
            },
            match row.kind {
                QueueKind::Packet => "packet",
                QueueKind::Hardware => "hardware",
                QueueKind::User => "user",
            }
            .into(),
            engine_name(snapshot, row.engine).into(),
            if row.lost { "lost".into() } else { power(snapshot, row.engine).into() },
            row.submitted.into(),
            row.completed.into(),
            rates.completed.get(&row.queue).copied().into(),
            row.doorbell.map_or("-", doorbell).into(),
        ],
    });
    Grid { rows: rows.collect(), more: snapshot.queues.more }
}

fn fences(snapshot: &Snapshot) -> Grid {
    let rows = snapshot.fences.rows.iter().map(|row| {
        let kind = match row.kind {
            FenceKind::Monitored => "monitored",
            FenceKind::Native => "native",
            FenceKind::IntraGpu => "intra-GPU",
        };
        let shared = if row.shared { " sh" } else { "" };
        Row {
            key: (row.fence, 0),
            process: row.process,
            cells: vec![
                row.fence.into(),
                row.name.as_str().into(),
                snapshot.process_name(row.process).into(),
                format!("{kind}{shared}").into(),
                optional(row.value),
                optional(row.monitored),
                u64::from(row.waiters).into(),
                u64::from(row.instances).into(),
            ],
        }
    });
    Grid { rows: rows.collect(), more: snapshot.fences.more }
}

fn waiters(snapshot: &Snapshot) -> Grid {
    let mut of_fence = BTreeMap::<u64, u64>::new();
    let rows = snapshot.waiters.rows.iter().map(|row| {
        let place = of_fence.entry(row.fence).or_default();
        *place += 1;
        Row {
            key: (row.fence, *place),
            process: row.process,
            cells: vec![
                row.fence.into(),
                row.name.as_str().into(),
                match row.kind {
                    WaiterKind::Cpu => "CPU",
                    WaiterKind::Queue => "queue",
                    WaiterKind::Engine => "engine",
                    WaiterKind::Kernel => "kernel",
                }
                .into(),
                snapshot.process_name(row.process).into(),
                optional(row.queue),
                row.awaited.into(),
                optional(row.value),
            ],
        }
    });
    Grid { rows: rows.collect(), more: snapshot.waiters.more }
}

fn doorbells(snapshot: &Snapshot) -> Grid {
    let rows = snapshot.doorbells.rows.iter().map(|row| Row {
        key: (row.doorbell, 0),
        process: row.process,
        cells: vec![
            row.doorbell.into(),
            row.queue.into(),
            snapshot.process_name(row.process).into(),
            engine_name(snapshot, row.engine).into(),
            doorbell(row.state).into(),
            row.announced.into(),
            row.completed.into(),
        ],
    });
    Grid { rows: rows.collect(), more: snapshot.doorbells.more }
}

fn engines(snapshot: &Snapshot, rates: &Rates) -> Grid {
    let rows = snapshot.machine.engines.iter().enumerate().map(|(number, row)| Row {
        key: (number as u64, 0),
        process: None,
        cells: vec![
            row.name.as_str().into(),
            row.power.as_str().into(),
            share(rates.busy.get(number)),
            row.packets.into(),
            row.context_switches.into(),
            rates.switches.get(number).copied().into(),
            row.preemptions.into(),
            row.preemptions_requested.into(),
        ],
    });
    Grid { rows: rows.collect(), more: false }
}

fn recoveries(snapshot: &Snapshot) -> Grid {
    let rows = snapshot.machine.recoveries.iter().map(|row| {
        let ago_s = snapshot.machine.at_ns.saturating_sub(row.at_ns) / 1_000_000_000;
        Row {
            key: (row.at_ns, 0),
            process: None,
            cells: vec![
                Cell { text: format!("{ago_s} s"), number: Some(ago_s as f64) },
                row.engine.as_deref().unwrap_or("adapter").into(),
                Cell { text: format!("{:#x}", row.code), number: Some(f64::from(row.code)) },
                u64::from(row.lost_queues).into(),
                row.outcome.as_str().into(),
                row.reason.as_str().into(),
            ],
        }
    });
    Grid { rows: rows.collect(), more: false }
}
