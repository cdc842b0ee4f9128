//! Joins the records of a recording: launches, synchronisations, event records.
//!
//! Purpose: finds the host call that launched each piece of GPU work, the host call of each
//! synchronisation, and the event record of each wait. A record without a partner is counted in
//! the report and dropped. Invariants: work is sorted by start. A wait refers only to a record made
//! before it. Streams with work are numbered first, in the order of their keys, so that two
//! readings of one file agree. Entry point: [`correlate`].

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use smallvec::SmallVec;

use super::blocked::{Blocked, CLOCK_SKEW_NS, WorkByEnd};
use super::call::Call;
use super::overrun;
use super::presents::{Presents, WAITS_FROM_NS};
use super::records::{
    Awaited, CallId, CallRecord, CallRef, EventId, Launcher, NameId, PresentRecord, ProcessId,
    Recording, StreamFacts, StreamId, SyncKind, SyncRecord, TrackId, WorkId, WorkKind, WorkRecord,
};
use crate::model::recorded::{ImportReport, Remark, Source};

/// A stream of a device.
#[derive(Debug, Clone)]
pub struct Stream {
    /// The process and the device's number in that process.
    pub(super) device: (ProcessId, i64),
    pub name: String,
}

/// GPU work. Times in nanoseconds since the start of the recording.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    pub start: u64,
    pub end: u64,
    /// Index into [`Joined::names`].
    pub name: NameId,
    stream: u32,
    pub kind: WorkKind,
    /// Whether its launch is known.
    pub launched: bool,
}

impl Work {
    /// Index into [`Joined::streams`].
    pub fn stream(&self) -> usize {
        self.stream as usize
    }
}

/// Work of a call, as indices into [`Joined::work`]: mostly one, which takes no memory of its own.
pub type WorkList = SmallVec<[WorkId; 4]>;

/// The thread and interval of a host call.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub thread: u32,
    pub start: u64,
    pub end: u64,
}

/// A host call that is replayed.
#[derive(Debug, Clone)]
pub struct HostCall {
    pub at: Moment,
    pub role: Role,
}

/// What a host call does.
#[derive(Debug, Clone)]
pub enum Role {
    /// Launches work, in the order of its start.
    Launch { work: WorkList, blocks: bool },
    /// Records an awaited event.
    Record { stream: usize, record: CallId },
    /// Makes a stream wait.
    StreamWait { stream: usize, record: CallId },
    /// Waits for an event.
    EventSync { record: CallId },
    /// Waits for a stream.
    StreamSync { stream: usize },
    /// Waits for all streams of a device.
    DeviceSync { device: (ProcessId, i64) },
    /// Waits for a piece of work.
    WorkSync { work: WorkId },
    /// Presents on the display. `waits`: until the display has room for another frame.
    Present { stream: usize, interval: u32, waits: bool },
    /// Waits for something that is not recorded.
    Blocked,
}

/// The display. Times in nanoseconds since the start of the recording.
#[derive(Debug, Clone, Copy)]
pub struct Screen {
    /// Index into [`Joined::streams`].
    pub stream: usize,
    pub refresh_ns: u64,
    /// The time of one vertical sync.
    pub vsync_ns: u64,
    /// When the last frame had been on the screen for a refresh.
    pub shown_ns: u64,
    pub latency: u32,
}

/// A joined trace.
#[derive(Debug)]
pub struct Joined {
    pub streams: Vec<Stream>,
    pub threads: Vec<String>,
    /// Names of work.
    pub names: Vec<Arc<str>>,
    pub work: Vec<Work>,
    /// In the order of their starts.
    pub calls: Vec<HostCall>,
    /// Explicit dependencies between streams: the first waits for the second. Sorted.
    pub dependencies: Vec<(WorkId, WorkId)>,
    pub display: Option<Screen>,
    pub report: ImportReport,
}

impl Joined {
    /// A piece of work.
    pub fn work(&self, work: WorkId) -> &Work {
        &self.work[work.index()]
    }

    /// The work of other streams that a piece of work waits for.
    pub fn awaited_by(&self, work: WorkId) -> impl Iterator<Item = WorkId> {
        let first = self.dependencies.partition_point(|(waiter, _)| *waiter < work);
        let of = self.dependencies[first..].iter().take_while(move |(waiter, _)| *waiter == work);
        of.map(|(_, awaited)| *awaited)
    }
}

/// Joins a recording.
pub fn correlate(recording: Recording) -> Joined {
    let mut joining = Joining::new(recording);
    let launched_by = joining.find_launches();
    joining.cut_overruns(&launched_by);
    let syncs = joining.index_syncs();
    let awaited = joining.awaited_records(&syncs);
    joining.by_correlation = Vec::new();
    let roles = joining.roles(&launched_by, &syncs, &awaited);
    joining.finish(&launched_by, roles)
}

/// A synchronisation with the event record that it is for, if that is in the recording and precedes
/// the wait.
struct Sync {
    record: SyncRecord,
    awaited: Option<CallId>,
}

struct Joining {
    recording: Recording,
    /// (process, correlation, start, call) of every call, sorted.
    by_correlation: Vec<(ProcessId, i64, i64, CallId)>,
    /// The queue number of each stream that has one.
    numbers: Vec<Option<usize>>,
    /// Streams by number.
    streams: Vec<StreamId>,
    /// Devices with work, sorted.
    devices: Vec<(ProcessId, i64)>,
    report: ImportReport,
}

/// For each piece of work the call that launched it.
type Launches = Vec<Option<CallId>>;

impl Joining {
    fn new(mut recording: Recording) -> Self {
        sort_work(&mut recording);
        let mut by_correlation: Vec<_> = (recording.calls.iter().enumerate())
            .filter_map(|(k, call)| {
                let id = call.correlation?;
                Some((recording.process_of_call(call), id, call.start, CallId::new(k)))
            })
            .collect();
        by_correlation.sort_unstable();
        let mut used: Vec<StreamId> = recording.work.iter().map(|work| work.stream).collect();
        used.sort_unstable();
        used.dedup();
        used.sort_by_key(|stream| {
            let facts = &recording.streams[stream.index()];
            (facts.key.process, facts.device, facts.key)
        });
        let mut devices: Vec<_> =
            used.iter().map(|stream| device_of(&recording.streams[stream.index()])).collect();
        devices.dedup();
        let numbers = vec![None; recording.streams.len()];
        let report = ImportReport {
            source: recording.source,
            remarks: std::mem::take(&mut recording.remarks),
            events: recording.events,
            damage: std::mem::take(&mut recording.damage),
            streams: used.len() as u64,
            ..ImportReport::default()
        };
        let mut joining =
            Self { recording, by_correlation, numbers, streams: Vec::new(), devices, report };
        for stream in used {
            joining.stream(stream);
        }
        joining
    }

    /// The number of a stream; a new one when it is first named.
    fn stream(&mut self, stream: StreamId) -> usize {
        *self.numbers[stream.index()].get_or_insert_with(|| {
            self.streams.push(stream);
            self.streams.len() - 1
        })
    }

    /// The call of a process with a correlation; of several (merged files) the last that began no
    /// later than `by`.
    fn call(&self, process: ProcessId, correlation: i64, by: i64) -> Option<CallId> {
        let of = |at: usize| {
            self.by_correlation.get(at).filter(|(p, id, ..)| (*p, *id) == (process, correlation))
        };
        let after = self
            .by_correlation
            .partition_point(|(p, id, start, _)| (*p, *id, *start) <= (process, correlation, by));
        // A clock may run a little ahead; the launch is kept.
        after.checked_sub(1).and_then(of).or_else(|| of(after)).map(|(.., call)| *call)
    }

    fn find_launches(&self) -> Launches {
        let find = |work: &WorkRecord| match work.launcher {
            Launcher::Unknown => None,
            Launcher::Correlation(id) => {
                self.call(self.recording.process_of_work(work), id, work.start)
            }
            Launcher::Call(call) => Some(call),
        };
        self.recording.work.iter().map(find).collect()
    }

    /// Cuts work that its successors contradict.
    fn cut_overruns(&mut self, launched_by: &Launches) {
        // The queues of these formats are hardware queues, which can run several pieces at once.
        if matches!(self.report.source, Source::Perfetto | Source::Tidegate) {
            return;
        }
        let calls = &self.recording.calls;
        let is_of_graph = |work: WorkId| {
            let call = launched_by[work.index()].map(|call| calls[call.index()].call);
            call == Some(Call::GraphLaunch)
        };
        let streams = self.recording.streams.len();
        let overruns = overrun::cut(&mut self.recording.work, streams, is_of_graph);
        if let Some(first) = overruns.first() {
            let name = self.recording.text(self.recording.work[first.work.index()].name);
            self.report.remarks.push(Remark::OverrunsCut {
                work: overruns.len() as u64,
                first: name.chars().take(60).collect(),
                length_ns: first.length_ns.unsigned_abs(),
                over: first.over as u64,
            });
        }
    }

    /// The call that a record describes.
    fn described(&self, call: CallRef) -> Option<CallId> {
        match call {
            CallRef::Correlation(process, id) => self.call(process, id, i64::MAX),
            CallRef::Call(call) => Some(call),
        }
    }

    /// Synchronisation records by the call that they describe.
    fn index_syncs(&self) -> HashMap<CallId, Sync> {
        let events = EventIndex::new(self);
        let sync = |record: &SyncRecord| {
            let waiter = self.described(record.call)?;
            let awaited = record.awaited.and_then(|awaited| self.awaited(waiter, awaited, &events));
            Some((waiter, Sync { record: *record, awaited }))
        };
        self.recording.syncs.iter().filter_map(sync).collect()
    }

    /// The record call of a wait, made before the wait.
    fn awaited(&self, waiter: CallId, awaited: Awaited, events: &EventIndex) -> Option<CallId> {
        let calls = &self.recording.calls;
        let wait = &calls[waiter.index()];
        let record = match awaited {
            Awaited::Correlation(id) => {
                self.call(self.recording.process_of_call(wait), id, wait.start)?
            }
            Awaited::Call(call) => call,
            Awaited::Event(event, sequence) => events.record(event, sequence, wait.start)?,
        };
        let call = &calls[record.index()];
        (call.call == Call::EventRecord && call.start <= wait.start).then_some(record)
    }

    /// The event records of a wait, each with its stream.
    fn awaited_records(&mut self, syncs: &HashMap<CallId, Sync>) -> HashMap<CallId, usize> {
        let known: HashMap<CallId, StreamId> = (self.recording.event_records.iter())
            .filter_map(|record| Some((self.described(record.call)?, record.stream)))
            .collect();
        let mut awaited = HashMap::new();
        for (waiter, sync) in syncs {
            let waiter = &self.recording.calls[waiter.index()];
            let waits = matches!(waiter.call, Call::StreamWaitEvent | Call::EventSynchronize);
            let Some(record) = sync.awaited.filter(|_| waits) else { continue };
            if let Some(stream) = known.get(&record).copied().or(sync.record.awaited_stream) {
                awaited.insert(record, stream);
            }
        }
        // Numbers are given out in the order of the records, so that two readings of one file
        // agree.
        let mut records: Vec<_> = awaited.into_iter().collect();
        records.sort_unstable();
        records.into_iter().map(|(record, stream)| (record, self.stream(stream))).collect()
    }

    fn roles(
        &mut self,
        launched_by: &Launches,
        syncs: &HashMap<CallId, Sync>,
        awaited: &HashMap<CallId, usize>,
    ) -> Vec<(CallId, Role)> {
        let calls = self.recording.calls.len();
        let work_of = WorkOfCalls::new(launched_by, calls);
        let mut hosts = Hosts::new(self, launched_by);
        let presents = Presents::of(&self.recording);
        let mut order: Vec<CallId> = (0..calls).map(CallId::new).collect();
        order.sort_unstable_by_key(|call| (self.recording.calls[call.index()].start, *call));
        let mut roles = Vec::new();
        for id in order {
            let call = self.recording.calls[id.index()];
            if let Some(present) = presents.get(id) {
                let of_call = self.present(present, &call, &presents, &mut hosts);
                roles.extend(of_call.into_iter().flatten().map(|role| (id, role)));
                continue;
            }
            let role = match work_of.of(id) {
                [] => self.ordering(id, &call, syncs.get(&id), awaited, &mut hosts),
                work => {
                    hosts.launch(self, &call, work);
                    Some(self.launch(&call, WorkList::from_slice(work)))
                }
            };
            roles.extend(role.map(|role| (id, role)));
        }
        roles
    }

    fn launch(&mut self, call: &CallRecord, work: WorkList) -> Role {
        self.report.launches += 1;
        if call.call == Call::GraphLaunch {
            self.report.graph_launches += 1;
            self.report.graph_work += work.len() as u64;
        }
        // A copy from the device to pageable memory returns when the bytes are there, whatever the
        // call's name.
        let pageable = |work: &WorkRecord| {
            let name = self.recording.text(work.name);
            work.kind == WorkKind::Copy && name.contains("DtoH") && name.contains("Pageable")
        };
        let blocks = call.call == Call::BlockingCopy
            || work.iter().any(|w| pageable(&self.recording.work[w.index()]));
        self.report.blocking_copies += u64::from(blocks);
        Role::Launch { work, blocks }
    }

    /// The action of a call without GPU work.
    fn ordering(
        &mut self,
        id: CallId,
        call: &CallRecord,
        sync: Option<&Sync>,
        awaited: &HashMap<CallId, usize>,
        hosts: &mut Hosts<'_>,
    ) -> Option<Role> {
        let record =
            sync.and_then(|sync| sync.awaited).filter(|record| awaited.contains_key(record));
        let stream = sync.and_then(|sync| sync.record.stream);
        match call.call {
            Call::StreamWaitEvent => {
                let is_wait =
                    sync.is_some_and(|sync| sync.record.kind == SyncKind::StreamWaitEvent);
                let (Some(record), Some(stream), true) = (record, stream, is_wait) else {
                    self.report.stream_waits_unpaired += 1;
                    return None;
                };
                self.report.stream_waits += 1;
                Some(Role::StreamWait { stream: self.stream(stream), record })
            }
            Call::EventRecord => {
                self.report.event_records += 1;
                let stream = *awaited.get(&id)?;
                self.report.event_records_awaited += 1;
                Some(Role::Record { stream, record: id })
            }
            Call::EventSynchronize => {
                let Some(record) = record else {
                    self.report.event_syncs_unpaired += 1;
                    return self.blocked(call, hosts);
                };
                self.report.event_syncs += 1;
                Some(Role::EventSync { record })
            }
            Call::StreamSynchronize => {
                let Some(stream) = stream else {
                    self.report.stream_syncs_unpaired += 1;
                    if let Some(stream) = self.only_stream(call, hosts) {
                        self.report.syncs_of_only_stream += 1;
                        return Some(Role::StreamSync { stream });
                    }
                    return self.blocked(call, hosts);
                };
                self.report.stream_syncs += 1;
                Some(Role::StreamSync { stream: self.stream(stream) })
            }
            Call::DeviceSynchronize => {
                let process = self.recording.process_of_call(call);
                let said = sync.and_then(|sync| sync.record.device).map(|device| (process, device));
                let Some(device) = said.or_else(|| self.only_device(process)) else {
                    self.report.device_syncs_unpaired += 1;
                    return self.blocked(call, hosts);
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
            Call::BlockingCopy | Call::Free => match hosts.awaited_by(self, call) {
                Blocked::For(work) => {
                    self.report.syncs_of_other_calls += 1;
                    Some(Role::WorkSync { work })
                }
                Blocked::Nothing | Blocked::Unknown => None,
            },
            Call::Present | Call::Other => None,
        }
    }

    /// The actions of a present call: the present on the display, and a wait.
    fn present(
        &mut self,
        present: &PresentRecord,
        call: &CallRecord,
        presents: &Presents,
        hosts: &mut Hosts<'_>,
    ) -> [Option<Role>; 2] {
        self.report.presents += 1;
        self.report.presents_shown += u64::from(present.shown.is_some());
        let mut waits = false;
        let wait = match call.end.saturating_sub(call.start) >= WAITS_FROM_NS {
            false => None,
            true => match hosts.awaited_by(self, call) {
                Blocked::For(work) => {
                    self.report.presents_for_work += 1;
                    Some(Role::WorkSync { work })
                }
                _ if presents.ended_with_frame(present, call) => {
                    self.report.presents_for_display += 1;
                    waits = presents.is_on_display(present);
                    // Without a display the recorded length stays.
                    (!waits).then_some(Role::Blocked)
                }
                _ => Some(self.unresolved(call)),
            },
        };
        let present = presents.is_on_display(present).then(|| {
            self.report.presents_replayed += 1;
            let stream = self.stream(present.stream);
            Role::Present { stream, interval: present.interval, waits }
        });
        [present, wait]
    }

    /// The action of a wait for something that is not recorded.
    fn unresolved(&mut self, call: &CallRecord) -> Role {
        self.report.syncs_unresolved += 1;
        self.report.syncs_unresolved_ns += call.end.abs_diff(call.start);
        Role::Blocked
    }

    /// The action of a wait whose object is not recorded.
    fn blocked(&mut self, call: &CallRecord, hosts: &mut Hosts<'_>) -> Option<Role> {
        match hosts.awaited_by(self, call) {
            Blocked::For(work) => {
                self.report.syncs_by_time += 1;
                Some(Role::WorkSync { work })
            }
            Blocked::Nothing => {
                self.report.syncs_of_nothing += 1;
                None
            }
            Blocked::Unknown => Some(self.unresolved(call)),
        }
    }

    /// The stream of a process that uses only one, unless the call returned while that was at work.
    fn only_stream(&self, call: &CallRecord, hosts: &Hosts<'_>) -> Option<usize> {
        let process = self.recording.process_of_call(call);
        let of = |stream: &StreamId| self.recording.streams[stream.index()].key.process == process;
        let with_work = self.streams.iter().take(usize::try_from(self.report.streams).ok()?);
        let mut streams = with_work.enumerate().filter(|(_, stream)| of(stream));
        let (number, _) = streams.next().filter(|_| streams.next().is_none())?;
        let pending_until = hosts.pending_until.get(&process).copied().unwrap_or(i64::MIN);
        (pending_until <= call.end.saturating_add(CLOCK_SKEW_NS)).then_some(number)
    }

    /// The device of a process that uses only one.
    fn only_device(&self, process: ProcessId) -> Option<(ProcessId, i64)> {
        let mut of = self.devices.iter().filter(|(p, _)| *p == process);
        of.next().copied().filter(|_| of.next().is_none())
    }

    fn finish(mut self, launched_by: &Launches, roles: Vec<(CallId, Role)>) -> Joined {
        let recording = &self.recording;
        let call = |id: CallId| &recording.calls[id.index()];
        let first = (roles.iter().map(|(id, _)| call(*id).start))
            .chain(recording.work.iter().map(|work| work.start))
            .min()
            .unwrap_or(0);
        let relative = |at: i64| u64::try_from(i128::from(at) - i128::from(first)).unwrap_or(0);
        let mut numbers: Vec<Option<u32>> = vec![None; recording.tracks.len()];
        let mut threads: Vec<TrackId> = Vec::new();
        let mut calls = Vec::with_capacity(roles.len());
        for (id, role) in roles {
            let CallRecord { track, start, end, .. } = *call(id);
            let thread = *numbers[track.index()].get_or_insert_with(|| {
                threads.push(track);
                // Tracks have numbers of 32 bits.
                (threads.len() - 1) as u32
            });
            calls.push(HostCall {
                at: Moment { thread, start: relative(start), end: relative(end) },
                role,
            });
        }
        let work: Vec<Work> = (recording.work.iter().zip(launched_by))
            .map(|(work, call)| Work {
                kind: work.kind,
                name: work.name,
                // Streams have numbers of 32 bits.
                stream: self.numbers[work.stream.index()].unwrap_or(0) as u32,
                start: relative(work.start),
                end: relative(work.end),
                launched: call.is_some(),
            })
            .collect();
        let dependencies = self.dependencies(&work);
        let display = recording.display.and_then(|display| {
            let vsync = i128::from(display.vsync) - i128::from(first);
            let since_vsync = vsync.rem_euclid(i128::from(display.refresh_ns.max(1)));
            let of_display = |present: &&PresentRecord| present.stream == display.stream;
            let shown = recording.presents.iter().filter(of_display).filter_map(|p| p.shown).max();
            Some(Screen {
                stream: self.numbers[display.stream.index()]?,
                refresh_ns: display.refresh_ns,
                vsync_ns: u64::try_from(since_vsync).unwrap_or(0),
                shown_ns: shown.map_or(0, |at| relative(at).saturating_add(display.refresh_ns)),
                latency: display.latency,
            })
        });
        let streams = self.named_streams();
        let of_threads =
            threads.iter().map(|track| recording.tracks[track.index()].name.clone()).collect();
        self.count(&work, &streams, threads.len());
        Joined {
            streams,
            threads: of_threads,
            names: self.recording.names,
            work,
            calls,
            dependencies,
            display,
            report: self.report,
        }
    }

    /// The dependencies that a stream's own order does not imply.
    fn dependencies(&self, work: &[Work]) -> Vec<(WorkId, WorkId)> {
        let stream = |of: WorkId| work[of.index()].stream;
        let mut between: Vec<(WorkId, WorkId)> = (self.recording.dependencies.iter().copied())
            .filter(|(waiter, awaited)| stream(*waiter) != stream(*awaited))
            .collect();
        between.sort_unstable();
        between.dedup();
        between
    }

    /// The streams in the order of their numbers. A name says the device and process only where
    /// there are several, and the context only where the shorter name is taken.
    fn named_streams(&self) -> Vec<Stream> {
        let processes: HashSet<ProcessId> =
            self.devices.iter().map(|(process, _)| *process).collect();
        let mut taken = HashSet::new();
        let name = |stream: &StreamId| {
            let facts = &self.recording.streams[stream.index()];
            let (process, device) = device_of(facts);
            let mut name = match &facts.name {
                Some(name) => name.clone(),
                None if self.devices.len() <= 1 => format!("stream {}", facts.key.stream),
                None => format!("gpu {device} stream {}", facts.key.stream),
            };
            if processes.len() > 1 {
                name = format!("process {} {name}", self.recording.processes[process.index()]);
            }
            if taken.contains(&name) {
                name = format!("{name} context {}", facts.key.context);
            }
            taken.insert(name.clone());
            Stream { device: (process, device), name }
        };
        self.streams.iter().map(name).collect()
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

/// What resolves blocked calls, in the order of the calls.
struct Hosts<'a> {
    launched_by: &'a Launches,
    /// Made when it is first needed.
    by_end: Option<WorkByEnd>,
    /// The end of the last work that each process has launched so far, and of all its work without
    /// a launch.
    pending_until: HashMap<ProcessId, i64>,
}

impl<'a> Hosts<'a> {
    fn new(joining: &Joining, launched_by: &'a Launches) -> Self {
        let recording = &joining.recording;
        let mut pending_until: HashMap<ProcessId, i64> = HashMap::new();
        for (work, _) in recording.work.iter().zip(launched_by).filter(|(_, by)| by.is_none()) {
            let until = pending_until.entry(recording.process_of_work(work)).or_insert(i64::MIN);
            *until = work.end.max(*until);
        }
        Self { launched_by, by_end: None, pending_until }
    }

    fn launch(&mut self, joining: &Joining, call: &CallRecord, work: &[WorkId]) {
        let recording = &joining.recording;
        let ends = work.iter().map(|work| recording.work[work.index()].end);
        let until = self.pending_until.entry(recording.process_of_call(call)).or_insert(i64::MIN);
        *until = ends.max().unwrap_or(i64::MIN).max(*until);
    }

    /// What a call without a recorded object waited for.
    fn awaited_by(&mut self, joining: &Joining, call: &CallRecord) -> Blocked {
        let recording = &joining.recording;
        let launched_by = self.launched_by;
        let by_end = self.by_end.get_or_insert_with(|| {
            let ending = ending_launches(recording, launched_by);
            WorkByEnd::new(ending.map(|(work, call)| {
                let end = recording.work[work.index()].end;
                (end, work, recording.calls[call.index()].start)
            }))
        });
        let process = recording.process_of_call(call);
        let of = |work: WorkId| recording.process_of_work(&recording.work[work.index()]) == process;
        by_end.awaited_by(call, of)
    }
}

/// Work with which a launch ends on a stream, and that launch: a replay can wait for its end.
fn ending_launches<'a>(
    recording: &'a Recording,
    launched_by: &'a Launches,
) -> impl Iterator<Item = (WorkId, CallId)> {
    let mut next_on: Vec<Option<Option<CallId>>> = vec![None; recording.streams.len()];
    let pieces = recording.work.iter().zip(launched_by).enumerate().rev();
    pieces.filter_map(move |(number, (work, by))| {
        let next = next_on[work.stream.index()].replace(*by);
        // Work without a launch is replayed with the launch before it.
        let ends = next.is_none_or(|next| next.is_some() && next != *by);
        by.filter(|_| ends).map(|by| (WorkId::new(number), by))
    })
}

/// The work of each call, in the order of its start.
struct WorkOfCalls {
    /// Where the work of each call begins in `work`; one more than there are calls.
    begins: Vec<u32>,
    work: Vec<WorkId>,
}

impl WorkOfCalls {
    fn new(launched_by: &Launches, calls: usize) -> Self {
        let mut begins = vec![0u32; calls + 1];
        for call in launched_by.iter().flatten() {
            begins[call.index()] += 1;
        }
        // A place for each piece of work, from the last one of each call to its first.
        let mut launched = 0;
        for begin in &mut begins {
            launched += *begin;
            *begin = launched;
        }
        let mut work = vec![WorkId::new(0); launched as usize];
        for (number, call) in launched_by.iter().enumerate().rev() {
            if let Some(call) = call {
                let place = &mut begins[call.index()];
                *place -= 1;
                work[*place as usize] = WorkId::new(number);
            }
        }
        Self { begins, work }
    }

    fn of(&self, call: CallId) -> &[WorkId] {
        let at = |call: usize| self.begins[call] as usize;
        &self.work[at(call.index())..at(call.index() + 1)]
    }
}

/// Event records by event, for waits that name an event and not a call.
struct EventIndex {
    /// (event, start of the record call, record call), sorted.
    by_start: Vec<(EventId, i64, CallId)>,
    by_sequence: HashMap<(EventId, i64), CallId>,
}

impl EventIndex {
    fn new(joining: &Joining) -> Self {
        let mut index = Self { by_start: Vec::new(), by_sequence: HashMap::new() };
        for record in &joining.recording.event_records {
            let Some(call) = joining.described(record.call) else { continue };
            let start = joining.recording.calls[call.index()].start;
            index.by_start.push((record.event, start, call));
            if let Some(sequence) = record.sequence {
                index.by_sequence.insert((record.event, sequence), call);
            }
        }
        index.by_start.sort_unstable();
        index
    }

    /// The record of `event` with this sequence number; without a number, the last one no later
    /// than `by`.
    fn record(&self, event: EventId, sequence: Option<i64>, by: i64) -> Option<CallId> {
        if let Some(sequence) = sequence {
            return self.by_sequence.get(&(event, sequence)).copied();
        }
        let after = self.by_start.partition_point(|(e, start, _)| (*e, *start) <= (event, by));
        let (found, _, call) = *self.by_start.get(after.checked_sub(1)?)?;
        (found == event).then_some(call)
    }
}

/// Sorts work by start, and renumbers what refers to it.
fn sort_work(recording: &mut Recording) {
    let mut order: Vec<WorkId> = (0..recording.work.len()).map(WorkId::new).collect();
    order.sort_by_key(|work| {
        let work = &recording.work[work.index()];
        (work.start, work.end)
    });
    recording.work = order.iter().map(|work| recording.work[work.index()]).collect();
    if recording.dependencies.is_empty() {
        return;
    }
    let mut numbers = vec![WorkId::new(0); order.len()];
    for (number, work) in order.iter().enumerate() {
        numbers[work.index()] = WorkId::new(number);
    }
    for (waiter, awaited) in &mut recording.dependencies {
        (*waiter, *awaited) = (numbers[waiter.index()], numbers[awaited.index()]);
    }
}

fn device_of(stream: &StreamFacts) -> (ProcessId, i64) {
    (stream.key.process, stream.device)
}
