//! What a service's machine is now, read in pages, and what changed since the reading before.
//!
//! Invariant: a reading is bounded in rows and in pages, whatever the service holds.

use serde::Serialize;
use std::collections::BTreeMap;
use tidegate::calls::snapshot::{
    DoorbellRow, FenceRow, MachineRow, Page, PageRequest, QueueRow, WaiterRow,
};
use tidegate::service::ProcessRow;
use tidegate::service::client::{ConnectError, Watch};
use tidegate::service::server::Counts;

/// Most pages of one table, each of up to 512 objects.
const PAGES: usize = 64;

/// What to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Most rows of each table.
    pub(crate) rows: usize,
    /// The process whose rows are wanted; `None` for all.
    pub(crate) process: Option<u32>,
}

/// The rows of one table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Listed<R> {
    pub(crate) rows: Vec<R>,
    /// Whether the service may have more.
    pub(crate) more: bool,
}

impl<R> Default for Listed<R> {
    fn default() -> Listed<R> {
        Listed { rows: Vec::new(), more: false }
    }
}

/// The present state of a service.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Snapshot {
    pub(crate) service: Counts,
    pub(crate) machine: MachineRow,
    pub(crate) processes: Listed<ProcessRow>,
    pub(crate) queues: Listed<QueueRow>,
    pub(crate) fences: Listed<FenceRow>,
    pub(crate) waiters: Listed<WaiterRow>,
    pub(crate) doorbells: Listed<DoorbellRow>,
}

impl Snapshot {
    /// Reads all tables. Rows are read one by one: the machine goes on meanwhile.
    ///
    /// # Errors
    /// As [`Watch::machine`].
    pub(crate) fn read(watch: &mut Watch, request: Request) -> Result<Snapshot, ConnectError> {
        let (machine, service) = watch.machine()?;
        let all = Request { process: None, ..request };
        Ok(Snapshot {
            machine,
            service,
            // Names of processes are needed for the rows of each of them.
            processes: list(all, |page| watch.processes(page))?,
            queues: list(request, |page| watch.queues(page))?,
            fences: list(request, |page| watch.fences(page))?,
            waiters: list(request, |page| watch.waiters(page))?,
            doorbells: list(request, |page| watch.doorbells(page))?,
        })
    }

    /// Returns the name of a process.
    pub(crate) fn process_name(&self, process: Option<u32>) -> &str {
        let row =
            self.processes.rows.iter().find(|row| process.is_some() && row.process == process);
        match (row, process) {
            (Some(row), _) => &row.name,
            (None, Some(_)) => "?",
            (None, None) => "",
        }
    }
}

fn list<R>(
    request: Request,
    mut read: impl FnMut(PageRequest) -> Result<Page<R>, ConnectError>,
) -> Result<Listed<R>, ConnectError> {
    let (mut listed, mut after) = (Listed::default(), 0);
    for _ in 0..PAGES {
        let page = read(PageRequest { after, process: request.process })?;
        listed.rows.extend(page.rows);
        listed.more = page.next.is_some() || listed.rows.len() > request.rows;
        listed.rows.truncate(request.rows);
        match page.next {
            Some(next) if listed.rows.len() < request.rows => after = next,
            _ => break,
        }
    }
    Ok(listed)
}

/// What changed between two readings, by second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    /// Busy share of each engine, from 0 to 1.
    pub(crate) busy: Vec<f64>,
    /// Context switches of each engine.
    pub(crate) switches: Vec<f64>,
    /// Calls of all processes.
    pub(crate) all_calls: f64,
    /// Calls by session.
    pub(crate) calls: BTreeMap<u64, f64>,
    /// Completions by queue.
    pub(crate) completed: BTreeMap<u64, f64>,
}

impl Rates {
    pub(crate) fn between(before: &Snapshot, after: &Snapshot) -> Rates {
        let elapsed_ns = after.machine.at_ns.saturating_sub(before.machine.at_ns);
        if elapsed_ns == 0 {
            return Rates::default();
        }
        let seconds = elapsed_ns as f64 / 1e9;
        let per_second = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
        let engines = || before.machine.engines.iter().zip(&after.machine.engines);
        let calls: BTreeMap<u64, u64> =
            before.processes.rows.iter().map(|row| (row.session, row.calls)).collect();
        let completed: BTreeMap<u64, u64> =
            before.queues.rows.iter().map(|row| (row.queue, row.completed)).collect();
        Rates {
            busy: engines()
                .map(|(before, after)| (per_second(before.busy_ns, after.busy_ns) / 1e9).min(1.0))
                .collect(),
            switches: engines()
                .map(|(before, after)| per_second(before.context_switches, after.context_switches))
                .collect(),
            all_calls: per_second(before.service.calls, after.service.calls),
            calls: after
                .processes
                .rows
                .iter()
                .filter_map(|row| {
                    Some((row.session, per_second(*calls.get(&row.session)?, row.calls)))
                })
                .collect(),
            completed: after
                .queues
                .rows
                .iter()
                .filter_map(|row| {
                    Some((row.queue, per_second(*completed.get(&row.queue)?, row.completed)))
                })
                .collect(),
        }
    }
}
