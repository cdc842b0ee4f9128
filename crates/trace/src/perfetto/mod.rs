//! Writes a trace as Perfetto's protobuf packets (`perfetto.protos.Trace`), for ui.perfetto.dev.
//! Field numbers come from the public schema, `protos/perfetto/trace/`. One packet sequence:
//!
//! 1. a clock snapshot, because the trace's clock starts at 0 with the run;
//! 2. a packet that clears the incremental state, names the clock, and interns every name;
//! 3. track descriptors: the run, its groups, their lanes and counters;
//! 4. begins and ends of slices, instants, arrows as flow ids, values of counters.
//!
//! The flow of a release goes from the begin of the signal to the *end* of the wait, because the
//! wait began earlier. The flow of a command buffer goes through the begins of its call, box and
//! slices; the arrow of a missing edge leads from begin to begin.

mod order;
pub mod wire;

use std::io::{self, BufWriter, Write};

use order::Step;
use wire::Message;

use crate::args::{self, Value};
use crate::chrome::title;
use crate::counters::Counter;
use crate::finding::FindingKind;
use crate::model::{Kind, Record, Trace};
use crate::tracks::Tracks;

/// The only sequence; any number but 0.
const SEQUENCE_ID: u64 = 1;
/// The first id that the schema leaves to a sequence for a clock of its own.
const OWN_CLOCK_ID: u64 = 64;
/// `BUILTIN_CLOCK_BOOTTIME`, the time line of readers.
const READER_CLOCK_ID: u64 = 6;
const INCREMENTAL_STATE_CLEARED: u64 = 1;
const NEEDS_INCREMENTAL_STATE: u64 = 2;
/// `TrackDescriptor.ChildTracksOrdering.EXPLICIT`: by rank.
const CHILDREN_BY_RANK: u64 = 3;
const RUN_UUID: u64 = 1;

/// Fields of `TracePacket`.
mod packet {
    pub const CLOCK_SNAPSHOT: u32 = 6;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE_ID: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const INTERNED_DATA: u32 = 12;
    pub const SEQUENCE_FLAGS: u32 = 13;
    pub const DEFAULTS: u32 = 59;
    pub const TRACK_DESCRIPTOR: u32 = 60;
    pub const FIRST_ON_SEQUENCE: u32 = 87;
}

/// Fields of `TrackEvent`.
mod event {
    pub const CATEGORY: u32 = 3;
    pub const ANNOTATION: u32 = 4;
    pub const TYPE: u32 = 9;
    pub const NAME: u32 = 10;
    pub const TRACK: u32 = 11;
    pub const COUNTER_VALUE: u32 = 30;
    pub const FLOW: u32 = 47;
    pub const TERMINATING_FLOW: u32 = 48;
    pub const SLICE_BEGIN: u64 = 1;
    pub const SLICE_END: u64 = 2;
    pub const INSTANT: u64 = 3;
    pub const COUNTER: u64 = 4;
}

/// Writes `trace` to `out`.
///
/// # Errors
/// Errors of `out`.
pub fn write(trace: &Trace, out: impl Write) -> io::Result<()> {
    let mut packets = Packets { out: BufWriter::new(out) };
    let tracks = Tracks::of(trace);
    packets.put(clock_snapshot)?;
    packets.put(|p| sequence_start(p, trace))?;
    describe_tracks(&mut packets, trace, &tracks)?;
    let counters = Counters::of(trace, &tracks);
    counters.describe(&mut packets, trace, &tracks)?;
    if trace.lost_records > 0 {
        packets.put(|p| lost(p, trace))?;
    }
    write_events(&mut packets, trace, &tracks, &counters)?;
    packets.out.flush()
}

struct Packets<W: Write> {
    out: BufWriter<W>,
}

impl<W: Write> Packets<W> {
    fn put(&mut self, fill: impl FnOnce(&mut Message)) -> io::Result<()> {
        let mut file = Message::new();
        file.message(1, |p| {
            p.uint(packet::SEQUENCE_ID, SEQUENCE_ID);
            fill(p);
        });
        self.out.write_all(file.bytes())
    }
}

fn clock_snapshot(p: &mut Message) {
    p.message(packet::CLOCK_SNAPSHOT, |snapshot| {
        for id in [READER_CLOCK_ID, OWN_CLOCK_ID] {
            snapshot.message(1, |clock| {
                clock.uint(1, id).uint(2, 0);
            });
        }
        snapshot.uint(2, READER_CLOCK_ID);
    });
}

fn sequence_start(p: &mut Message, trace: &Trace) {
    p.uint(packet::FIRST_ON_SEQUENCE, 1);
    p.uint(packet::SEQUENCE_FLAGS, INCREMENTAL_STATE_CLEARED | NEEDS_INCREMENTAL_STATE);
    p.message(packet::DEFAULTS, |d| {
        d.uint(58, OWN_CLOCK_ID);
    });
    p.message(packet::INTERNED_DATA, |data| {
        for kind in Kind::ALL {
            intern(data, 1, category_iid(kind), kind.label());
            // A record without a name is shown by its kind.
            intern(data, 2, category_iid(kind), kind.label());
        }
        for (index, name) in trace.names.iter().enumerate().skip(1) {
            intern(data, 2, name_iid(index), name);
        }
        for (index, name) in args::NAMES.iter().enumerate() {
            intern(data, 3, index as u64 + 1, name);
        }
        for (index, fence) in trace.fences.iter().enumerate() {
            intern(data, 29, fence_iid(index), &fence.name);
        }
        for (index, lane) in trace.lanes.iter().enumerate() {
            intern(data, 29, lane_iid(trace, index), &lane.name);
        }
        for kind in FindingKind::ALL {
            intern(data, 1, finding_category_iid(kind), kind.label());
        }
        intern(data, 3, args::NAMES.len() as u64 + 1, "text");
        for (number, finding) in trace.findings.iter().enumerate() {
            intern(data, 2, finding_name_iid(trace, number), &finding.title);
            intern(data, 29, finding_text_iid(trace, number), &finding.text);
        }
    });
}

fn intern(data: &mut Message, field: u32, iid: u64, text: &str) {
    data.message(field, |entry| {
        entry.uint(1, iid).text(2, text);
    });
}

fn category_iid(kind: Kind) -> u64 {
    kind as u64 + 1
}

fn name_iid(index: usize) -> u64 {
    Kind::ALL.len() as u64 + index as u64
}

/// Fences and lanes are the string values of annotations.
fn fence_iid(index: usize) -> u64 {
    index as u64 + 1
}

fn lane_iid(trace: &Trace, index: usize) -> u64 {
    fence_iid(trace.fences.len() + index)
}

/// Findings have a category for each kind, a name and a string value each.
fn finding_category_iid(kind: FindingKind) -> u64 {
    (Kind::ALL.len() + 1) as u64 + kind as u64
}

fn finding_name_iid(trace: &Trace, number: usize) -> u64 {
    name_iid(trace.names.len() + number)
}

fn finding_text_iid(trace: &Trace, number: usize) -> u64 {
    lane_iid(trace, trace.lanes.len() + number)
}

fn group_uuid(group: usize) -> u64 {
    RUN_UUID + 1 + group as u64
}

fn track_uuid(tracks: &Tracks, track: usize) -> u64 {
    group_uuid(tracks.groups.len()) + track as u64
}

fn describe_tracks<W: Write>(
    packets: &mut Packets<W>,
    trace: &Trace,
    tracks: &Tracks,
) -> io::Result<()> {
    let run = format!("{} ({})", trace.title, trace.clock.label());
    packets.put(|p| track(p, RUN_UUID, None, 0, &run))?;
    for (index, group) in tracks.groups.iter().enumerate() {
        packets.put(|p| track(p, group_uuid(index), Some(RUN_UUID), index, group))?;
    }
    for (index, t) in tracks.tracks.iter().enumerate() {
        let name = tracks.name(trace, index);
        packets.put(|p| {
            track(p, track_uuid(tracks, index), Some(group_uuid(t.group)), index, &name)
        })?;
    }
    Ok(())
}

fn track(p: &mut Message, uuid: u64, parent: Option<u64>, rank: usize, name: &str) {
    p.message(packet::TRACK_DESCRIPTOR, |t| {
        t.uint(1, uuid).text(2, name);
        if let Some(parent) = parent {
            t.uint(5, parent);
        }
        t.uint(11, CHILDREN_BY_RANK).uint(12, rank as u64);
    });
}

fn lost(p: &mut Message, trace: &Trace) {
    let at = trace.extent_ns().map_or(0, |(first, _)| first);
    p.uint(packet::TIMESTAMP, at).uint(packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
    p.message(packet::TRACK_EVENT, |e| {
        e.uint(event::TYPE, event::INSTANT).uint(event::TRACK, RUN_UUID);
        e.uint(event::CATEGORY, category_iid(Kind::Lost))
            .uint(event::NAME, category_iid(Kind::Lost));
        let record = Record::instant(crate::LaneId(0), Kind::Lost, crate::NameId::NONE, at);
        annotations(e, trace, &record.with_arg(trace.lost_records));
    });
}

/// A finding as an instant on the track of the run, with its text.
fn finding(p: &mut Message, trace: &Trace, number: usize) {
    let finding = &trace.findings[number];
    p.uint(packet::TIMESTAMP, trace.moment_of(finding))
        .uint(packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
    p.message(packet::TRACK_EVENT, |e| {
        e.uint(event::TYPE, event::INSTANT).uint(event::TRACK, RUN_UUID);
        e.uint(event::CATEGORY, finding_category_iid(finding.kind));
        e.uint(event::NAME, finding_name_iid(trace, number));
        e.message(event::ANNOTATION, |a| {
            a.uint(1, args::NAMES.len() as u64 + 1).uint(17, finding_text_iid(trace, number));
        });
    });
}

/// The counter tracks: of queues, then of engines.
struct Counters {
    list: Vec<(Counter, &'static str, &'static str)>,
    first_uuid: u64,
}

impl Counters {
    fn of(trace: &Trace, tracks: &Tracks) -> Counters {
        let depths =
            trace.queue_depths().into_iter().map(|counter| (counter, "depth", "operations"));
        let loads = trace.engine_loads().into_iter().map(|counter| (counter, "load", "%"));
        Counters {
            list: depths.chain(loads).collect(),
            first_uuid: track_uuid(tracks, tracks.tracks.len()),
        }
    }

    fn describe<W: Write>(
        &self,
        packets: &mut Packets<W>,
        trace: &Trace,
        tracks: &Tracks,
    ) -> io::Result<()> {
        for (index, (counter, what, unit)) in self.list.iter().enumerate() {
            let name = format!("{} {what}", trace.lanes[counter.lane.0 as usize].name);
            let parent = group_uuid(tracks.group_of(counter.lane));
            let rank = tracks.tracks.len() + index;
            packets.put(|p| {
                p.message(packet::TRACK_DESCRIPTOR, |t| {
                    t.uint(1, self.first_uuid + index as u64).text(2, &name).uint(5, parent);
                    t.message(8, |c| {
                        c.text(6, unit);
                    });
                    t.uint(11, CHILDREN_BY_RANK).uint(12, rank as u64);
                });
            })?;
        }
        Ok(())
    }

    /// Every value with its time and its track, in the order of time.
    fn values(&self) -> Vec<(u64, u64, u64)> {
        let of = |(index, (counter, ..)): (usize, &(Counter, _, _))| {
            let uuid = self.first_uuid + index as u64;
            counter
                .samples
                .iter()
                .map(move |&(at_ns, value)| (at_ns, uuid, value))
                .collect::<Vec<_>>()
        };
        let mut values: Vec<_> = self.list.iter().enumerate().flat_map(of).collect();
        values.sort_unstable();
        values
    }
}

fn count(p: &mut Message, (at_ns, uuid, value): (u64, u64, u64)) {
    p.uint(packet::TIMESTAMP, at_ns).uint(packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
    p.message(packet::TRACK_EVENT, |e| {
        e.uint(event::TYPE, event::COUNTER)
            .uint(event::TRACK, uuid)
            .uint(event::COUNTER_VALUE, value);
    });
}

fn write_events<W: Write>(
    packets: &mut Packets<W>,
    trace: &Trace,
    tracks: &Tracks,
    counters: &Counters,
) -> io::Result<()> {
    let edges = order::Edges::of(trace);
    let arrows = Arrows::of(trace, &edges);
    let mut values = counters.values().into_iter().peekable();
    let mut findings: Vec<usize> = (0..trace.findings.len()).collect();
    findings.sort_by_key(|number| trace.moment_of(&trace.findings[*number]));
    let mut findings = findings.into_iter().peekable();
    for step in order::steps(trace, tracks, &edges) {
        let at_ns = step.at_ns(trace);
        // Findings and values of counters are written in the order of time.
        loop {
            let until = values.peek().map_or(at_ns, |(at, ..)| at_ns.min(*at));
            let is_due = |number: &usize| trace.moment_of(&trace.findings[*number]) <= until;
            if let Some(number) = findings.next_if(is_due) {
                packets.put(|p| finding(p, trace, number))?;
            } else if let Some(value) = values.next_if(|(at, ..)| *at <= at_ns) {
                packets.put(|p| count(p, value))?;
            } else {
                break;
            }
        }
        match step {
            Step::Begin(index) => packets.put(|p| begin(p, trace, tracks, &arrows, index))?,
            Step::End(index) if is_slice(trace, &arrows, index) => {
                packets.put(|p| end(p, trace, tracks, &arrows, index))?;
            }
            Step::End(_) => {}
        }
    }
    values.try_for_each(|value| packets.put(|p| count(p, value)))
}

/// Flow ids of each record: those that its begin starts or goes on with, those that its begin
/// terminates, and the one that its end terminates.
struct Arrows {
    passes: Vec<Vec<u64>>,
    arrives: Vec<Vec<u64>>,
    terminates: Vec<Option<u64>>,
}

impl Arrows {
    fn of(trace: &Trace, edges: &order::Edges) -> Arrows {
        let count = trace.records.len();
        let none = vec![Vec::new(); count];
        let mut arrows =
            Arrows { passes: none.clone(), arrives: none, terminates: vec![None; count] };
        let mut id = 0;
        for flow in &edges.flows {
            id += 1;
            arrows.passes[flow.from].push(id);
            arrows.terminates[flow.to] = Some(id);
        }
        for chain in &edges.chains {
            id += 1;
            if let [through @ .., last] = &chain[..] {
                through.iter().for_each(|&index| arrows.passes[index].push(id));
                arrows.arrives[*last].push(id);
            }
        }
        arrows
    }
}

/// An instant stays a slice where an arrow hangs on it: the end of a wait needs a packet of its
/// own.
fn is_slice(trace: &Trace, arrows: &Arrows, index: usize) -> bool {
    trace.records[index].duration_ns() > 0
        || arrows.terminates[index].is_some()
        || !arrows.passes[index].is_empty()
        || !arrows.arrives[index].is_empty()
}

fn begin(p: &mut Message, trace: &Trace, tracks: &Tracks, arrows: &Arrows, index: usize) {
    let record = &trace.records[index];
    p.uint(packet::TIMESTAMP, record.start_ns)
        .uint(packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
    p.message(packet::TRACK_EVENT, |e| {
        let slice = is_slice(trace, arrows, index);
        e.uint(event::TYPE, if slice { event::SLICE_BEGIN } else { event::INSTANT });
        e.uint(event::TRACK, track_uuid(tracks, tracks.of_record[index]));
        e.uint(event::CATEGORY, category_iid(record.kind));
        let named = title(trace, record) != record.kind.label();
        e.uint(
            event::NAME,
            if named { name_iid(record.name.0 as usize) } else { category_iid(record.kind) },
        );
        for id in &arrows.passes[index] {
            e.fixed64(event::FLOW, *id);
        }
        for id in &arrows.arrives[index] {
            e.fixed64(event::TERMINATING_FLOW, *id);
        }
        annotations(e, trace, record);
    });
}

fn end(p: &mut Message, trace: &Trace, tracks: &Tracks, arrows: &Arrows, index: usize) {
    let record = &trace.records[index];
    let at = record.start_ns + record.duration_ns();
    p.uint(packet::TIMESTAMP, at).uint(packet::SEQUENCE_FLAGS, NEEDS_INCREMENTAL_STATE);
    p.message(packet::TRACK_EVENT, |e| {
        e.uint(event::TYPE, event::SLICE_END);
        e.uint(event::TRACK, track_uuid(tracks, tracks.of_record[index]));
        if let Some(id) = arrows.terminates[index] {
            e.fixed64(event::TERMINATING_FLOW, id);
        }
    });
}

fn annotations(e: &mut Message, trace: &Trace, record: &Record) {
    for (name, value) in args::of(trace, record) {
        e.message(event::ANNOTATION, |a| {
            a.uint(1, name as u64 + 1);
            match value {
                Value::Number(number) => a.uint(3, number),
                Value::Fence(fence) => a.uint(17, fence_iid(fence.0 as usize)),
                Value::Lane(lane) => a.uint(17, lane_iid(trace, lane.0 as usize)),
            };
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::wire::{Fields, Value};
    use super::*;
    use crate::sample;

    fn packets(trace: &Trace) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        write(trace, &mut out).unwrap();
        let packet = |field: Option<(u64, Value<'_>)>| {
            let (field, packet) = field.expect("a protobuf message");
            assert_eq!(field, 1);
            packet.bytes().to_vec()
        };
        Fields::of(&out).map(packet).collect()
    }

    /// The values of a field.
    fn of(message: &[u8], number: u32) -> impl Iterator<Item = Value<'_>> {
        let fields = Fields::of(message).map(|field| field.expect("a nested message"));
        fields.filter(move |(n, _)| *n == u64::from(number)).map(|(_, value)| value)
    }

    fn uints(message: &[u8], number: u32) -> Vec<u64> {
        of(message, number).map(Value::number).collect()
    }

    fn child(message: &[u8], number: u32) -> Option<&[u8]> {
        of(message, number).next().map(Value::bytes)
    }

    #[test]
    fn packets_of_findings_stand_in_the_order_of_time() {
        let stamps: Vec<u64> = packets(&sample::unsynchronised())
            .iter()
            .filter(|packet| of(packet, packet::TRACK_EVENT).next().is_some())
            .flat_map(|packet| uints(packet, packet::TIMESTAMP))
            .collect();
        let falls: Vec<_> = stamps.windows(2).filter(|w| w[0] > w[1]).collect();
        assert_eq!(falls, Vec::<&[u64]>::new());
    }

    #[test]
    fn one_sequence_with_its_clock_and_state() {
        let all = packets(&sample::frames(2));
        assert!(all.iter().all(|p| uints(p, packet::SEQUENCE_ID) == [SEQUENCE_ID]));
        let snapshot =
            child(&all[0], packet::CLOCK_SNAPSHOT).expect("the clock snapshot comes first");
        let clocks: Vec<_> = of(snapshot, 1).map(|clock| uints(clock.bytes(), 1)).collect();
        assert_eq!(clocks, [[READER_CLOCK_ID], [OWN_CLOCK_ID]]);
        assert_eq!(uints(&all[1], packet::SEQUENCE_FLAGS), [3]);
        assert_eq!(uints(child(&all[1], packet::DEFAULTS).unwrap(), 58), [OWN_CLOCK_ID]);
        let events = all.iter().filter(|p| child(p, packet::TRACK_EVENT).is_some());
        for p in events {
            assert_eq!(uints(p, packet::SEQUENCE_FLAGS), [NEEDS_INCREMENTAL_STATE]);
            assert_eq!(uints(p, packet::TIMESTAMP).len(), 1);
        }
    }

    #[test]
    fn every_id_used_was_interned_or_described() {
        let all = packets(&sample::frames(2));
        let data = child(&all[1], packet::INTERNED_DATA).unwrap();
        let iids = |number: u32| -> HashSet<u64> {
            of(data, number).flat_map(|entry| uints(entry.bytes(), 1)).collect()
        };
        let uuids: HashSet<u64> = all
            .iter()
            .filter_map(|p| child(p, packet::TRACK_DESCRIPTOR))
            .flat_map(|t| uints(t, 1))
            .collect();
        for e in all.iter().filter_map(|p| child(p, packet::TRACK_EVENT)) {
            assert!(uints(e, event::CATEGORY).iter().all(|i| iids(1).contains(i)));
            assert!(uints(e, event::NAME).iter().all(|i| iids(2).contains(i)));
            assert!(uints(e, event::TRACK).iter().all(|u| uuids.contains(u)));
            for a in of(e, event::ANNOTATION).map(Value::bytes) {
                assert!(uints(a, 1).iter().all(|i| iids(3).contains(i)));
                assert!(uints(a, 17).iter().all(|i| iids(29).contains(i)));
            }
        }
    }

    #[test]
    fn slices_balance_and_times_rise() {
        let trace = sample::frames(4);
        let mut depth: HashMap<u64, i64> = HashMap::new();
        let mut last = 0;
        for p in packets(&trace) {
            let Some(e) = child(&p, packet::TRACK_EVENT) else { continue };
            let at = uints(&p, packet::TIMESTAMP)[0];
            assert!(at >= last);
            last = at;
            let open = depth.entry(uints(e, event::TRACK)[0]).or_default();
            match uints(e, event::TYPE)[0] {
                event::SLICE_BEGIN => *open += 1,
                event::SLICE_END => *open -= 1,
                _ => {}
            }
            assert!(*open >= 0);
        }
        assert!(depth.values().all(|open| *open == 0));
    }

    #[test]
    fn each_arrow_starts_before_it_terminates() {
        let trace = sample::frames(4);
        let (mut started, mut terminated) = (HashSet::new(), 0);
        for e in packets(&trace).iter().filter_map(|p| child(p, packet::TRACK_EVENT)) {
            for id in uints(e, event::TERMINATING_FLOW) {
                assert!(started.contains(&id));
                terminated += 1;
            }
            started.extend(uints(e, event::FLOW));
        }
        let chains = trace.chains().iter().filter(|chain| chain.records().count() > 1).count();
        let arrows = trace.flows().len() + chains;
        assert_eq!((started.len(), terminated), (arrows, arrows));
        assert!(terminated > 0);
    }

    #[test]
    fn an_empty_trace_is_a_trace() {
        assert_eq!(packets(&sample::empty()).len(), 3);
    }
}
