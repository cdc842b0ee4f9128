//! Who launched what, and who waits for whom.
//!
//! This room owns the joins: GPU work to its host call (same correlation, or a flow arrow where a file has no
//! correlations), synchronisation records to their host calls, event records to those who wait for them. The order
//! that matters: streams and threads get their numbers → launches → the meaning of each remaining call. Whatever
//! cannot be joined is counted and goes no further. `event` is read, `timeline` takes the result.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::call::Call;
use super::event::{RawCall, RawSync, RawWork, SyncKind, Trace, Track, WorkKind};
use super::report::ImportReport;

/// A stream of a device.
#[derive(Debug, Clone)]
pub struct Stream {
    pub device: i64,
    pub name: String,
}

/// GPU work. Times in nanoseconds since the start of the recording.
#[derive(Debug, Clone)]
pub struct Work {
    pub kind: WorkKind,
    pub name: Arc<str>,
    pub stream: usize,
    pub start: u64,
    pub end: u64,
    /// Whether its launch is known.
    pub launched: bool,
}

/// A host call that is replayed.
#[derive(Debug, Clone)]
pub struct HostCall {
    pub thread: usize,
    pub start: u64,
    pub end: u64,
    pub role: Role,
}

/// What a host call does.
#[derive(Debug, Clone)]
pub enum Role {
    /// Launches work, in the order of its start.
    Launch { work: Vec<usize>, blocks: bool },
    /// Records an event that something waits for.
    Record { stream: usize, correlation: i64 },
    /// Makes a stream wait.
    StreamWait { stream: usize, record: i64 },
    /// Waits for an event.
    EventSync { record: i64 },
    /// Waits for a stream.
    StreamSync { stream: usize },
    /// Waits for all streams of a device.
    DeviceSync { device: i64 },
}

/// A trace with everything joined that can be.
#[derive(Debug)]
pub struct Joined {
    pub streams: Vec<Stream>,
    pub threads: Vec<String>,
    pub work: Vec<Work>,
    /// In the order of their starts.
    pub calls: Vec<HostCall>,
    pub report: ImportReport,
}

/// Joins a trace.
pub fn correlate(trace: Trace) -> Joined {
    let mut joining = Joining::new(trace);
    let launched_by = joining.find_launches();
    let syncs = joining.index_syncs();
    let awaited = joining.awaited_records(&syncs);
    let roles = joining.roles(&launched_by, &syncs, &awaited);
    joining.finish(launched_by, roles)
}

struct Joining {
    trace: Trace,
    /// (correlation, start, index) of every call, sorted.
    by_correlation: Vec<(i64, i128, usize)>,
    streams: BTreeMap<(i64, i64), usize>,
    devices: Vec<i64>,
    report: ImportReport,
}

/// For each piece of work the call that launched it.
type Launches = Vec<Option<usize>>;

impl Joining {
    fn new(mut trace: Trace) -> Self {
        trace.work.sort_by_key(|work| (work.start, work.end));
        let mut by_correlation: Vec<_> = trace
            .calls
            .iter()
            .enumerate()
            .filter_map(|(k, call)| call.correlation.map(|id| (id, call.start, k)))
            .collect();
        by_correlation.sort_unstable();
        let mut devices: Vec<i64> = trace.work.iter().map(device_of).collect();
        devices.sort_unstable();
        devices.dedup();
        let report = ImportReport { events: trace.events, ..ImportReport::default() };
        let mut joining = Self { trace, by_correlation, streams: BTreeMap::new(), devices, report };
        let mut keys: Vec<(i64, i64)> = joining.trace.work.iter().map(stream_of).collect();
        keys.sort_unstable();
        keys.dedup();
        joining.report.streams = keys.len() as u64;
        for key in keys {
            joining.stream(key);
        }
        joining
    }

    /// The number of a stream; a new one when it is first named.
    fn stream(&mut self, key: (i64, i64)) -> usize {
        let next = self.streams.len();
        *self.streams.entry(key).or_insert(next)
    }

    /// The call with a correlation; of several (merged files) the last that began no later than `by`.
    fn call(&self, correlation: i64, by: i128) -> Option<usize> {
        let after = self.by_correlation.partition_point(|(id, start, _)| (*id, *start) <= (correlation, by));
        let before = after.checked_sub(1).map(|k| self.by_correlation[k]);
        match before {
            Some((id, _, call)) if id == correlation => Some(call),
            _ => {
                // A clock that runs a little ahead is better than a launch that is lost.
                self.by_correlation.get(after).filter(|(id, ..)| *id == correlation).map(|(.., call)| *call)
            }
        }
    }

    fn find_launches(&mut self) -> Launches {
        let flows = self.flows();
        let find = |work: &RawWork| match work.correlation {
            Some(id) => self.call(id, work.start),
            None => flows.get(&(work.track, work.start)).copied(),
        };
        self.trace.work.iter().map(find).collect()
    }

    /// Flow arrows: from the place of the work's end of an arrow to the call at its other end.
    fn flows(&self) -> HashMap<(Track, i128), usize> {
        if self.trace.work.iter().all(|work| work.correlation.is_some()) {
            return HashMap::new();
        }
        let calls: HashMap<(Track, i128), usize> =
            self.trace.calls.iter().enumerate().map(|(k, call)| ((call.track, call.start), k)).collect();
        let begins: HashMap<i64, usize> = (self.trace.flows.iter())
            .filter(|flow| flow.begins)
            .filter_map(|flow| Some((flow.id, *calls.get(&(flow.track, flow.at))?)))
            .collect();
        (self.trace.flows.iter())
            .filter(|flow| !flow.begins)
            .filter_map(|flow| Some(((flow.track, flow.at), *begins.get(&flow.id)?)))
            .collect()
    }

    /// Synchronisation records by the call that they describe.
    fn index_syncs(&self) -> HashMap<usize, RawSync> {
        let call = |sync: &RawSync| self.call(sync.correlation?, i128::MAX);
        self.trace.syncs.iter().filter_map(|sync| Some((call(sync)?, sync.clone()))).collect()
    }

    /// The event records that a wait names and that are in the trace, with the stream that the wait says. Only a
    /// record made before the wait can be meant.
    fn awaited_records(&mut self, syncs: &HashMap<usize, RawSync>) -> HashMap<i64, usize> {
        let mut awaited = HashMap::new();
        for (waiter, sync) in syncs {
            let waiter = &self.trace.calls[*waiter];
            let waits = matches!(waiter.call, Call::StreamWaitEvent | Call::EventSynchronize);
            let (Some(record), Some(stream), true) = (sync.wait_on_record, sync.wait_on_stream, waits) else {
                continue;
            };
            let call = self.call(record, waiter.start).map(|k| &self.trace.calls[k]);
            if call.is_some_and(|call| call.call == Call::EventRecord && call.start <= waiter.start) {
                awaited.insert(record, (device(sync, &self.devices).unwrap_or(0), stream));
            }
        }
        // Numbers are given out in the order of the records, so that two readings of one file agree.
        let mut records: Vec<_> = awaited.into_iter().collect();
        records.sort_unstable();
        records.into_iter().map(|(record, key)| (record, self.stream(key))).collect()
    }

    fn roles(
        &mut self,
        launched_by: &Launches,
        syncs: &HashMap<usize, RawSync>,
        awaited: &HashMap<i64, usize>,
    ) -> Vec<(usize, Role)> {
        let mut work_of: HashMap<usize, Vec<usize>> = HashMap::new();
        for (work, call) in launched_by.iter().enumerate() {
            if let Some(call) = call {
                work_of.entry(*call).or_default().push(work);
            }
        }
        let mut order: Vec<usize> = (0..self.trace.calls.len()).collect();
        order.sort_by_key(|k| (self.trace.calls[*k].start, *k));
        let mut roles = Vec::new();
        for k in order {
            let call = self.trace.calls[k].clone();
            let role = match work_of.remove(&k) {
                Some(work) => Some(self.launch(&call, work)),
                None => self.ordering(&call, syncs.get(&k), awaited),
            };
            roles.extend(role.map(|role| (k, role)));
        }
        roles
    }

    fn launch(&mut self, call: &RawCall, work: Vec<usize>) -> Role {
        self.report.launches += 1;
        if call.call == Call::GraphLaunch {
            self.report.graph_launches += 1;
            self.report.graph_work += work.len() as u64;
        }
        let names = &self.trace.names;
        // A copy from the device to pageable memory returns when the bytes are there, whatever the call's name.
        let pageable = |work: &RawWork| {
            let name = &names[work.name as usize];
            work.kind == WorkKind::Copy && name.contains("DtoH") && name.contains("Pageable")
        };
        let blocks = call.call == Call::BlockingCopy || work.iter().any(|w| pageable(&self.trace.work[*w]));
        self.report.blocking_copies += u64::from(blocks);
        Role::Launch { work, blocks }
    }

    /// The meaning of a call without work of its own.
    fn ordering(
        &mut self,
        call: &RawCall,
        sync: Option<&RawSync>,
        awaited: &HashMap<i64, usize>,
    ) -> Option<Role> {
        let record = sync.and_then(|sync| sync.wait_on_record).filter(|id| awaited.contains_key(id));
        let stream = sync.and_then(|sync| Some((device(sync, &self.devices).unwrap_or(0), sync.stream?)));
        match call.call {
            Call::StreamWaitEvent => {
                let is_wait = sync.is_some_and(|sync| sync.kind == SyncKind::StreamWaitEvent);
                let (Some(record), Some(key), true) = (record, stream, is_wait) else {
                    self.report.stream_waits_unpaired += 1;
                    return None;
                };
                self.report.stream_waits += 1;
                Some(Role::StreamWait { stream: self.stream(key), record })
            }
            Call::EventRecord => {
                self.report.event_records += 1;
                let correlation = call.correlation?;
                let stream = *awaited.get(&correlation)?;
                self.report.event_records_awaited += 1;
                Some(Role::Record { stream, correlation })
            }
            Call::EventSynchronize => {
                let counter = match record {
                    Some(_) => &mut self.report.event_syncs,
                    None => &mut self.report.event_syncs_unpaired,
                };
                *counter += 1;
                record.map(|record| Role::EventSync { record })
            }
            Call::StreamSynchronize => {
                let Some(key) = stream else {
                    self.report.stream_syncs_unpaired += 1;
                    return None;
                };
                self.report.stream_syncs += 1;
                Some(Role::StreamSync { stream: self.stream(key) })
            }
            Call::DeviceSynchronize => {
                // With one device in the trace there is no doubt which one is meant.
                let only = Some(&self.devices).filter(|d| d.len() == 1).map(|d| d[0]);
                let Some(device) = sync.and_then(|sync| sync.device).or(only) else {
                    self.report.device_syncs_unpaired += 1;
                    return None;
                };
                self.report.device_syncs += 1;
                Some(Role::DeviceSync { device })
            }
            Call::Query => {
                self.report.queries += 1;
                None
            }
            Call::GraphLaunch => {
                self.report.graph_launches += 1;
                None
            }
            Call::BlockingCopy | Call::Other => None,
        }
    }

    fn finish(mut self, launched_by: Launches, roles: Vec<(usize, Role)>) -> Joined {
        let trace = &self.trace;
        let first = (roles.iter().map(|(k, _)| trace.calls[*k].start))
            .chain(trace.work.iter().map(|work| work.start))
            .min()
            .unwrap_or(0);
        let relative = |at: i128| u64::try_from(at - first).unwrap_or(0);
        let mut threads: Vec<Track> = Vec::new();
        let mut calls = Vec::with_capacity(roles.len());
        for (k, role) in roles {
            let call = &trace.calls[k];
            let thread = threads.iter().position(|track| *track == call.track).unwrap_or_else(|| {
                threads.push(call.track);
                threads.len() - 1
            });
            calls.push(HostCall { thread, start: relative(call.start), end: relative(call.end), role });
        }
        let work: Vec<Work> = (trace.work.iter().zip(&launched_by))
            .map(|(work, call)| Work {
                kind: work.kind,
                name: Arc::clone(trace.text(work.name)),
                stream: self.streams[&stream_of(work)],
                start: relative(work.start),
                end: relative(work.end),
                launched: call.is_some(),
            })
            .collect();
        let mut streams = vec![Stream { device: 0, name: String::new() }; self.streams.len()];
        for ((device, id), number) in &self.streams {
            let name = match self.devices.len() {
                0 | 1 => format!("stream {id}"),
                _ => format!("gpu {device} stream {id}"),
            };
            streams[*number] = Stream { device: *device, name };
        }
        let names = threads.iter().map(|track| self.thread_name(*track)).collect();
        self.count(&work, &streams, threads.len());
        Joined { streams, threads: names, work, calls, report: self.report }
    }

    fn thread_name(&self, track: Track) -> String {
        match self.trace.thread_names.get(&track) {
            Some(name) if !name.is_empty() => name.clone(),
            _ => format!("thread {}", self.trace.text(track.1).trim_matches('"')),
        }
    }

    fn count(&mut self, work: &[Work], streams: &[Stream], threads: usize) {
        let of = |kind| work.iter().filter(|work| work.kind == kind).count() as u64;
        self.report.kernels = of(WorkKind::Kernel);
        self.report.copies = of(WorkKind::Copy);
        self.report.fills = of(WorkKind::Fill);
        self.report.host_threads = threads as u64;
        self.report.streams_without_work = streams.len() as u64 - self.report.streams;
        self.report.work_without_launch = work.iter().filter(|work| !work.launched).count() as u64;
    }
}

fn device_of(work: &RawWork) -> i64 {
    work.device.unwrap_or(0)
}

fn stream_of(work: &RawWork) -> (i64, i64) {
    (device_of(work), work.stream.unwrap_or(0))
}

/// The device of a synchronisation record: as it says, or the only one there is.
fn device(sync: &RawSync, devices: &[i64]) -> Option<i64> {
    sync.device.or_else(|| Some(devices).filter(|d| d.len() == 1).map(|d| d[0]))
}
