//! Reads SQLite exports of Nsight Systems, from the layout of 2021 to schema 3.28.
//!
//! Purpose: rows of the `CUPTI_ACTIVITY_KIND_*` tables become records of a [`Recording`].
//! Without work of CUDA, packets of the `WDDM_*` tables do (`wddm`).
//! Invariants: tables and columns may be absent. A correlation id is unique within a process, a
//! stream and an event within a context. The kind of a synchronisation is read from its numbers and
//! the name of its host call, never from `syncType`, whose values changed meaning between versions.
//! Entry points: [`is_export`], [`read`].

mod names;
mod sync;
mod tables;
mod wddm;

use std::collections::{HashMap, HashSet};

use crate::database::{Database, Row};
use crate::recording::{
    Call, CallRecord, Launcher, ProcessId, Recording, Remark, Source, StreamId, StreamKey,
    WorkKind, WorkRecord, call,
};
use names::Names;
use tables::{GRAPH_TRACE, KERNEL, MEMCPY, MEMSET, RUNTIME, STREAM};

/// The first columns of every table of GPU work, in the order of [`Work::of`].
const WORK_COLUMNS: [&str; 7] =
    ["start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid"];

/// `ENUM_CUPTI_STREAM_TYPE`: a stream that synchronises with the default stream, and the default
/// stream itself.
const BLOCKING_STREAM: i64 = 1;
const DEFAULT_STREAM: i64 = 3;

/// Whether a database is an export of Nsight Systems.
pub fn is_export(database: &Database) -> bool {
    let known =
        |table: &&str| table.starts_with("CUPTI_ACTIVITY_KIND_") || *table == "META_DATA_EXPORT";
    database.has("StringIds") && database.tables().iter().any(known)
        || database.has("EXPORT_META_DATA")
        || database.has("TARGET_INFO_GPU")
}

/// Reads an export.
///
/// # Errors
/// A damaged file, or a table without a column that every version has.
pub fn read(database: &Database) -> Result<Recording, String> {
    let mut reader = Reader {
        database,
        names: Names::read(database)?,
        recording: Recording::of(Source::Nsight),
        threads: Vec::new(),
        unusable: 0,
        graphs: 0,
    };
    reader.kernels()?;
    reader.copies()?;
    reader.fills()?;
    reader.graphs()?;
    reader.calls()?;
    reader.synchronisations()?;
    reader.implicit_order()?;
    reader.packets()?;
    Ok(reader.finish())
}

struct Reader<'a> {
    database: &'a Database,
    names: Names,
    recording: Recording,
    /// The `globalTid` of each host thread.
    threads: Vec<i64>,
    unusable: u64,
    graphs: u64,
}

/// The thread bits of a `globalTid`, and the process bits of [`process_number`].
const THREAD: i64 = 0xff_ffff;
const PROCESS: i64 = 0xff_ffff;

/// The process of a `globalPid` or `globalTid`: without the thread in its lowest 24 bits.
fn process_number(global: i64) -> i64 {
    global >> 24
}

/// An id, unless it is the sentinel for "not applicable".
fn applicable(id: Option<i64>) -> Option<i64> {
    id.filter(|id| *id >= 0 && *id != i64::from(u32::MAX))
}

/// Start and end; `None` where one is missing or they run backwards.
fn interval(start: Option<i64>, end: Option<i64>) -> Option<(i64, i64)> {
    let (start, end) = (start?, end?);
    (end >= start).then_some((start, end))
}

/// The columns that all GPU work has.
struct Work {
    start: i64,
    end: i64,
    stream: StreamId,
    launcher: Launcher,
}

impl Reader<'_> {
    fn process(&mut self, global: Option<i64>) -> ProcessId {
        self.recording.process(process_number(global.unwrap_or(0)))
    }

    fn stream(
        &mut self,
        global: Option<i64>,
        context: Option<i64>,
        stream: i64,
        device: i64,
    ) -> StreamId {
        let process = self.process(global);
        self.recording.stream(StreamKey { process, context: context.unwrap_or(0), stream }, device)
    }

    /// The common columns of GPU work; `None` where the row has no interval, which is counted.
    fn work(&mut self, row: &Row<'_>) -> Option<Work> {
        let Some((start, end)) = interval(row.int(0), row.int(1)) else {
            self.unusable += 1;
            return None;
        };
        let device = row.int(2).unwrap_or(0);
        let stream = self.stream(row.int(6), row.int(3), row.int(4).unwrap_or(0), device);
        let launcher = row.int(5).map_or(Launcher::Unknown, Launcher::Correlation);
        Some(Work { start, end, stream, launcher })
    }

    fn add(&mut self, work: Work, kind: WorkKind, name: &str) {
        let Work { start, end, stream, launcher } = work;
        let name = self.recording.name(name);
        self.recording.work(WorkRecord { kind, name, stream, start, end, launcher });
    }

    /// Scans a table of GPU work; `more` are its further columns, from index 7.
    fn scan_work(
        &mut self,
        table: &str,
        more: &[&str],
        mut each: impl FnMut(&mut Self, &Row<'_>, Work),
    ) -> Result<(), String> {
        let database = self.database;
        let columns = [&WORK_COLUMNS[..], more].concat();
        let rows = database.scan(table, &WORK_COLUMNS[..5], &columns, |row| {
            if let Some(work) = self.work(row) {
                each(self, row, work);
            }
            Ok(())
        })?;
        self.recording.events += rows;
        Ok(())
    }

    fn kernels(&mut self) -> Result<(), String> {
        self.scan_work(KERNEL, &["demangledName", "shortName"], |reader, row, work| {
            let known = |column| row.int(column).and_then(|id| reader.names.get(id));
            let name = known(7).or_else(|| known(8)).unwrap_or_else(|| "kernel".into());
            reader.add(work, WorkKind::Kernel, &name);
        })
    }

    fn copies(&mut self) -> Result<(), String> {
        self.scan_work(MEMCPY, &["copyKind", "srcKind", "dstKind"], |reader, row, work| {
            let name = copy_name(row.int(7), row.int(8), row.int(9));
            reader.add(work, WorkKind::Copy, &name);
        })
    }

    fn fills(&mut self) -> Result<(), String> {
        self.scan_work(MEMSET, &["memKind"], |reader, row, work| {
            let name = row
                .int(7)
                .map_or("Memset".to_owned(), |kind| format!("Memset ({})", memory_kind(kind)));
            reader.add(work, WorkKind::Fill, &name);
        })
    }

    fn graphs(&mut self) -> Result<(), String> {
        self.scan_work(GRAPH_TRACE, &["graphExecId", "graphId"], |reader, row, work| {
            let id = row.int(7).or_else(|| row.int(8));
            reader.graphs += 1;
            reader.add(
                work,
                WorkKind::Kernel,
                &id.map_or("graph".to_owned(), |id| format!("graph {id}")),
            );
        })
    }

    fn calls(&mut self) -> Result<(), String> {
        let columns = ["start", "end", "globalTid", "correlationId", "nameId"];
        let database = self.database;
        let mut meanings: HashMap<i64, Call> = HashMap::new();
        let rows = database.scan(RUNTIME, &["start", "end", "nameId"], &columns, |row| {
            let Some((start, end)) = interval(row.int(0), row.int(1)) else {
                self.unusable += 1;
                return Ok(());
            };
            let global = row.int(2).unwrap_or(0);
            let process = self.process(Some(global));
            let track = self.recording.track(process, global & THREAD);
            if track.index() == self.threads.len() {
                self.threads.push(global);
            }
            let name = row.int(4).unwrap_or(-1);
            let names = &self.names;
            let call = *meanings
                .entry(name)
                .or_insert_with(|| names.get(name).map_or(Call::Other, |name| call(&name)));
            self.recording.call(CallRecord { call, track, start, end, correlation: row.int(3) });
            Ok(())
        })?;
        self.recording.events += rows;
        self.name_threads()
    }

    /// Sets the recorded names of host threads.
    fn name_threads(&mut self) -> Result<(), String> {
        let database = self.database;
        let mut names = HashMap::new();
        database.scan("ThreadNames", &[], &["globalTid", "nameId"], |row| {
            if let (Some(global), Some(name)) =
                (row.int(0), row.int(1).and_then(|id| self.names.get(id)))
            {
                names.insert(global, name);
            }
            Ok(())
        })?;
        let several = self.recording.processes.len() > 1;
        for (track, global) in self.recording.tracks.iter_mut().zip(&self.threads) {
            if let Some(name) = names.get(global) {
                track.name = format!("{} ({name})", track.name);
            }
            if several {
                track.name =
                    format!("process {} {}", process_number(*global) & PROCESS, track.name);
            }
        }
        Ok(())
    }

    /// Counts the streams that implicitly wait for the default stream of their context.
    fn implicit_order(&mut self) -> Result<(), String> {
        let mut flags: HashMap<(i64, i64, i64), i64> = HashMap::new();
        let columns = ["processId", "contextId", "streamId", "flag"];
        self.database.scan(STREAM, &[], &columns, |row| {
            if let (Some(process), Some(context), Some(stream), Some(flag)) =
                (row.int(0), row.int(1), row.int(2), row.int(3))
            {
                flags.insert((process, context, stream), flag);
            }
            Ok(())
        })?;
        let used: HashSet<StreamId> = self.recording.work.iter().map(|work| work.stream).collect();
        let (mut defaults, mut blocking) = (HashSet::new(), Vec::new());
        for stream in used {
            let key = self.recording.streams[stream.index()].key;
            let process = self.recording.processes[key.process.index()] & PROCESS;
            match flags.get(&(process, key.context, key.stream)) {
                Some(&DEFAULT_STREAM) => drop(defaults.insert((key.process, key.context))),
                Some(&BLOCKING_STREAM) => blocking.push((key.process, key.context)),
                _ => {}
            }
        }
        let streams = blocking.iter().filter(|context| defaults.contains(context)).count() as u64;
        self.recording.remark(streams, |streams| Remark::ImplicitOrder { streams });
        Ok(())
    }

    fn finish(self) -> Recording {
        let mut recording = self.recording;
        recording.remark(self.graphs, |launches| Remark::WholeGraphs { launches });
        recording.remark(self.unusable, |rows| Remark::Unusable { rows });
        if recording.calls.is_empty() {
            recording.remarks.push(Remark::NoHostCalls);
        }
        // Only the process id, without the machine in the upper bits.
        for process in &mut recording.processes {
            *process &= PROCESS;
        }
        recording
    }
}

/// The name of a copy, in the words of the CUDA profiling interface.
fn copy_name(kind: Option<i64>, source: Option<i64>, destination: Option<i64>) -> String {
    let direction = match kind {
        Some(1) => "HtoD",
        Some(2) => "DtoH",
        Some(3) => "HtoA",
        Some(4) => "AtoH",
        Some(5) => "AtoA",
        Some(6) => "AtoD",
        Some(7) => "DtoA",
        Some(8) => "DtoD",
        Some(9) => "HtoH",
        Some(10) => "PtoP",
        Some(11) => "unified HtoD",
        Some(12) => "unified DtoH",
        Some(13) => "unified DtoD",
        _ => return "Memcpy".to_owned(),
    };
    match (source, destination) {
        (Some(source), Some(destination)) => {
            format!("Memcpy {direction} ({} -> {})", memory_kind(source), memory_kind(destination))
        }
        _ => format!("Memcpy {direction}"),
    }
}

/// `ENUM_CUDA_MEM_KIND`; older files have the numbers without the table.
fn memory_kind(kind: i64) -> &'static str {
    match kind {
        0 => "Pageable",
        1 => "Pinned",
        2 => "Device",
        3 => "Array",
        4 => "Managed",
        5 => "Device Static",
        6 => "Managed Static",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests;
