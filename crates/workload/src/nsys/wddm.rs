//! Reads the packets that Windows' graphics kernel handed to engines.
//!
//! Invariants: packets are read where the file has no work of CUDA, which they would repeat.
//! A packet enters the queue of its engine before the packet ahead of it has ended, so its work
//! begins with the later of the two. Packets with submit sequence 0 preempt, and are not work. With
//! hardware scheduling there are queue packets only. Entry point: `Reader::packets`.

use std::collections::HashMap;

use super::{Reader, THREAD};
use crate::database::Database;
use crate::recording::{
    Call, CallId, CallRecord, Launcher, Remark, StreamKey, WorkKind, WorkRecord,
};

const DMA_START: &str = "WDDM_DMA_PACKET_START_EVENTS";
const DMA_STOP: &str = "WDDM_DMA_PACKET_STOP_EVENTS";
const QUEUE_START: &str = "WDDM_QUEUE_PACKET_START_EVENTS";
const QUEUE_STOP: &str = "WDDM_QUEUE_PACKET_STOP_EVENTS";

/// The first types of queue packets are work: render, deferred and system commands. The others
/// flip, wait, signal and synchronise.
const TYPES_OF_WORK: i64 = 3;

/// A packet: its context and its number there.
type Key = (i64, i64);

/// The start of a packet.
struct Start {
    key: Key,
    at: i64,
    thread: i64,
    gpu: i64,
    engine: i64,
    /// The number of its queue packet.
    sequence: i64,
}

impl Reader<'_> {
    /// Reads the packets, or counts them where the file has work of CUDA.
    pub(super) fn packets(&mut self) -> Result<(), String> {
        read(self)
    }
}

fn read(reader: &mut Reader<'_>) -> Result<(), String> {
    let database = reader.database;
    let dma = starts(database, DMA_START, "uliSubmissionId", "ulQueueSubmitSequence")?;
    let queued = starts(database, QUEUE_START, "submitSequence", "submitSequence")?;
    let rows = (dma.len() + queued.len()) as u64;
    if !reader.recording.work.is_empty() {
        reader.recording.remark(rows, |packets| Remark::PacketsBesideWork { packets });
        return Ok(());
    }
    reader.recording.events += rows;
    let engines = labels(database)?;
    let calls = submissions(reader, &queued);
    if dma.is_empty() {
        let ends = ends(database, QUEUE_STOP, "submitSequence")?;
        let of_context = |start: &Start| (start.gpu, start.key.0);
        work(reader, queued, &ends, of_context, &engines, &calls);
    } else {
        let ends = ends(database, DMA_STOP, "uliCompletionId")?;
        let of_engine = |start: &Start| (start.gpu, start.engine);
        work(reader, dma, &ends, of_engine, &engines, &calls);
    }
    Ok(())
}

fn starts(
    database: &Database,
    table: &str,
    number: &str,
    sequence: &str,
) -> Result<Vec<Start>, String> {
    let columns =
        ["start", "context", number, "globalTid", "gpu", "engineType", sequence, "packetType"];
    let mut starts = Vec::new();
    database.scan(table, &columns[..3], &columns, |row| {
        let is_work = table == DMA_START || row.int(7).unwrap_or(0) < TYPES_OF_WORK;
        let sequence = row.int(6).unwrap_or(-1);
        if let (Some(at), Some(context), Some(number), true) =
            (row.int(0), row.int(1), row.int(2), is_work && sequence != 0)
        {
            let (thread, gpu) = (row.int(3).unwrap_or(0), row.int(4).unwrap_or(0));
            let (key, engine) = ((context, number), row.int(5).unwrap_or(-1));
            starts.push(Start { key, at, thread, gpu, engine, sequence });
        }
        Ok(())
    })?;
    starts.sort_by_key(|start| (start.at, start.key));
    Ok(starts)
}

/// The ends of each packet, sorted: numbers come again.
fn ends(database: &Database, table: &str, number: &str) -> Result<HashMap<Key, Vec<i64>>, String> {
    let mut ends: HashMap<Key, Vec<i64>> = HashMap::new();
    let columns = ["start", "context", number];
    database.scan(table, &columns, &columns, |row| {
        if let (Some(at), Some(context), Some(number)) = (row.int(0), row.int(1), row.int(2)) {
            ends.entry((context, number)).or_default().push(at);
        }
        Ok(())
    })?;
    ends.values_mut().for_each(|ends| ends.sort_unstable());
    Ok(ends)
}

/// The names of the kinds of engines.
fn labels(database: &Database) -> Result<HashMap<i64, String>, String> {
    let mut labels = HashMap::new();
    database.scan("ENUM_WDDM_ENGINE_TYPE", &["id"], &["id", "label"], |row| {
        if let Some(id) = row.int(0) {
            labels.insert(id, row.text(1).into_owned());
        }
        Ok(())
    })?;
    Ok(labels)
}

/// The submissions of queue packets, as calls without a length.
fn submissions(reader: &mut Reader<'_>, queued: &[Start]) -> HashMap<Key, CallId> {
    let mut calls = HashMap::new();
    for start in queued {
        let process = reader.process(Some(start.thread));
        let track = reader.recording.track(process, start.thread & THREAD);
        if track.index() == reader.threads.len() {
            reader.threads.push(start.thread);
        }
        let (start_ns, end) = (start.at, start.at);
        let call = CallRecord { call: Call::Other, track, start: start_ns, end, correlation: None };
        calls.insert(start.key, reader.recording.call(call));
    }
    calls
}

/// Makes work of packets. Those with the same `order` run one after the other.
fn work<K: Eq + std::hash::Hash>(
    reader: &mut Reader<'_>,
    starts: Vec<Start>,
    ends: &HashMap<Key, Vec<i64>>,
    order: impl Fn(&Start) -> K,
    engines: &HashMap<i64, String>,
    calls: &HashMap<Key, CallId>,
) {
    let mut ended: HashMap<K, i64> = HashMap::new();
    for packet in starts {
        let of_packet = ends.get(&packet.key).map_or(&[][..], Vec::as_slice);
        let Some(end) = of_packet.get(of_packet.partition_point(|end| *end < packet.at)) else {
            reader.unusable += 1;
            continue;
        };
        let before = ended.entry(order(&packet)).or_insert(i64::MIN);
        let start = packet.at.max(*before).min(*end);
        *before = (*end).max(*before);
        let process = reader.process(Some(packet.thread));
        let (context, _) = packet.key;
        let key = StreamKey { process, context, stream: packet.engine };
        let stream = reader.recording.stream(key, packet.gpu);
        let engine = engines.get(&packet.engine).map_or("engine", String::as_str);
        let facts = &mut reader.recording.streams[stream.index()];
        facts.name.get_or_insert_with(|| format!("{engine} context {context:#x}"));
        let kind = if engine == "Copy" { WorkKind::Copy } else { WorkKind::Kernel };
        let name = reader.recording.name(&format!("{engine} packet"));
        let call = calls.get(&(context, packet.sequence)).copied();
        let launcher = call.map_or(Launcher::Unknown, Launcher::Call);
        let end = *end;
        reader.recording.work(WorkRecord { kind, name, stream, start, end, launcher });
    }
}
