//! The content of a page: one trace, or several traces as bands with a common zoom.
//!
//! Several traces are merged into one list of lanes and records. Each trace begins at its own first
//! record, so that the bands are aligned. Lanes, fences, names and links stay distinct, because
//! their ids are shifted by the ids of the traces before. The script reads one trace in both cases.
//!
//! Entry points: [`Sheet::of`], [`Sheet::of_bands`].

use std::borrow::Cow;

use crate::builder::TraceBuilder;
use crate::finding::Finding;
use crate::json;
use crate::model::{
    ClockName, FenceId, Kind, Lane, LaneId, LaneKind, LinkId, Record, Stretch, Trace,
};
use crate::names::NameId;
use crate::palette;

/// One trace of a page.
struct Band {
    name: String,
    /// Makespan.
    makespan_ns: u64,
    /// Its last end, counted from its own first record.
    length_ns: u64,
    /// Its critical path, in times and records of the page.
    path: Vec<Stretch>,
}

pub(super) struct Sheet<'a> {
    trace: Cow<'a, Trace>,
    bands: Vec<Band>,
    /// For each lane, the index of its band.
    band_of_lane: Vec<usize>,
}

fn length_ns(trace: &Trace) -> u64 {
    trace.extent_ns().map_or(0, |(first, last)| last - first)
}

/// Merges several traces.
#[derive(Default)]
struct Merge {
    bands: Vec<Band>,
    band_of_lane: Vec<usize>,
    records: Vec<Record>,
    findings: Vec<Finding>,
    /// The largest link so far.
    links: u32,
}

impl Merge {
    fn add(&mut self, name: &str, makespan_ns: u64, trace: &Trace, merged: &mut TraceBuilder) {
        let band = self.bands.len();
        let names: Vec<NameId> = trace.names.iter().map(|text| merged.name(text)).collect();
        let lane =
            |lane: &Lane| merged.add_lane(lane.kind, lane.group.as_str(), lane.name.as_str());
        let lanes: Vec<LaneId> = trace.lanes.iter().map(lane).collect();
        let fences: Vec<FenceId> =
            trace.fences.iter().map(|f| merged.add_fence(f.name.as_str())).collect();
        self.band_of_lane.resize(self.band_of_lane.len() + lanes.len(), band);
        let (origin, links) = (trace.extent_ns().map_or(0, |(first, _)| first), self.links);
        let before = self.records.len();
        let path = trace.critical_path.iter().map(|stretch| Stretch {
            start_ns: stretch.start_ns.saturating_sub(origin),
            end_ns: stretch.end_ns.saturating_sub(origin),
            lane: stretch.lane.map(|lane| lanes[lane.0 as usize]),
            record: stretch.record.map(|index| before + index),
            ..*stretch
        });
        let (name_of_band, length_ns) = (name.to_owned(), length_ns(trace));
        let path = path.collect();
        self.bands.push(Band { name: name_of_band, makespan_ns, length_ns, path });
        self.findings.extend(trace.findings.iter().map(|finding| {
            let title = format!("{name}: {}", finding.title);
            Finding { title, ..finding.renumbered(|index| before + index) }
        }));
        self.records.extend(trace.records.iter().map(|record| {
            let queue = record.queue().and_then(|queue| lanes.get(queue.0 as usize).copied());
            let fence = record.fence().map(|(fence, value)| (fences[fence.0 as usize], value));
            let mut moved = record.on(fence).on_queue(queue);
            moved.lane = lanes[record.lane.0 as usize];
            moved.name = names[record.name.0 as usize];
            if record.link.is_some() {
                moved.link = LinkId(record.link.0 + links);
            }
            moved.queued_ns = record.queued_ns.saturating_sub(origin);
            moved.start_ns = record.start_ns - origin;
            moved.end_ns = record.end_ns.saturating_sub(origin);
            match record.engine() {
                Some(engine) => moved.on_engine(lanes[engine.0 as usize]),
                None => moved,
            }
        }));
        self.links += trace.records.iter().map(|record| record.link.0).max().unwrap_or(0);
    }
}

impl<'a> Sheet<'a> {
    /// A page with one trace and no band.
    pub(super) fn of(trace: &'a Trace) -> Sheet<'a> {
        Sheet {
            trace: Cow::Borrowed(trace),
            bands: Vec::new(),
            band_of_lane: vec![0; trace.lanes.len()],
        }
    }

    /// A page with one band for each trace; `title` is the page's.
    pub(super) fn of_bands(title: &str, traces: &[(&str, u64, &Trace)]) -> Sheet<'static> {
        let clock = traces.first().map_or(ClockName::Virtual, |(_, _, trace)| trace.clock);
        let mut merged = TraceBuilder::new(title, clock);
        let mut sheet = Merge::default();
        for (name, makespan_ns, trace) in traces {
            sheet.add(name, *makespan_ns, trace, &mut merged);
        }
        // Records of queueing and execution are joined in each trace already. Here they are only
        // sorted.
        let mut trace = merged.finish();
        let mut order: Vec<usize> = (0..sheet.records.len()).collect();
        order.sort_by_key(|index| sheet.records[*index].start_ns);
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(new, old)| place[*old] = new);
        trace.records = order.iter().map(|index| sheet.records[*index]).collect();
        for stretch in sheet.bands.iter_mut().flat_map(|band| &mut band.path) {
            stretch.record = stretch.record.map(|index| place[index]);
        }
        let renumbered = |finding: &Finding| finding.renumbered(|index| place[index]);
        trace.findings = sheet.findings.iter().map(renumbered).collect();
        trace.lost_records = traces.iter().map(|(_, _, trace)| trace.lost_records).sum();
        Sheet { trace: Cow::Owned(trace), bands: sheet.bands, band_of_lane: sheet.band_of_lane }
    }

    pub(super) fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The critical path of each band, or of the only trace.
    pub(super) fn paths(&self) -> Vec<&[Stretch]> {
        match &self.bands[..] {
            [] => vec![&self.trace.critical_path[..]],
            bands => bands.iter().map(|band| &band.path[..]).collect(),
        }
    }

    /// The metadata for the script, as one JSON object.
    pub(super) fn meta(&self) -> String {
        let trace = self.trace();
        let (first, _) = trace.extent_ns().unwrap_or((0, 0));
        let list = |items: Vec<String>| format!("[{}]", items.join(","));
        let lane = |(number, lane): (usize, &Lane)| {
            let (name, group) = (json::string(&lane.name), json::string(&lane.group));
            format!("[{},{name},{group},{}]", lane.kind as u8, self.band_of_lane[number])
        };
        let band = |b: &Band| {
            format!("[{},\"{}\",\"{}\"]", json::string(&b.name), b.length_ns, b.makespan_ns)
        };
        let finding = |finding: &Finding| {
            let texts = [finding.kind.label(), &finding.title, &finding.text].map(json::string);
            let edges = finding.edges.iter().map(|edge| format!("[{},{}]", edge.from, edge.to));
            let records = finding.records.iter().map(ToString::to_string).collect();
            format!("[{},{},{}]", texts.join(","), list(records), list(edges.collect()))
        };
        format!(
            "{{\"title\":{},\"clock\":{},\"unit\":\"{}\",\"lost\":\"{}\",\"origin_ns\":\"{first}\",\"records\":{},\
             \"verdict\":{},\"findings\":{},\"bands\":{},{},\"kinds\":{},\"lane_kinds\":{},\"lanes\":{},\"fences\":{},\"names\":{}}}",
            json::string(&trace.title),
            json::string(trace.clock.label()),
            trace.clock.unit(),
            trace.lost_records,
            trace.records.len(),
            list(trace.verdict.iter().map(|sentence| json::string(sentence)).collect()),
            list(trace.findings.iter().map(finding).collect()),
            list(self.bands.iter().map(band).collect()),
            palette::meta(),
            list(Kind::ALL.iter().map(|k| json::string(k.label())).collect()),
            list(LaneKind::ALL.iter().map(|k| json::string(k.label())).collect()),
            list(trace.lanes.iter().enumerate().map(lane).collect()),
            list(trace.fences.iter().map(|f| json::string(&f.name)).collect()),
            list(trace.names.iter().map(json::string).collect()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::critical_path::PathPart;
    use crate::sample;

    #[test]
    fn bands_begin_together_and_keep_their_lanes_and_arrows() {
        let (one, two) = (sample::frames(2), sample::frames(3));
        let sheet = Sheet::of_bands("both", &[("packet", 7, &one), ("user", 5, &two)]);
        let trace = sheet.trace();
        assert_eq!(trace.records.len(), one.records.len() + two.records.len());
        assert_eq!(trace.lanes.len(), one.lanes.len() + two.lanes.len());
        assert_eq!(trace.flows().len(), one.flows().len() + two.flows().len());
        assert_eq!(trace.names.len(), two.names.len(), "names are shared");
        for band in 0..2 {
            let of_band =
                trace.records.iter().filter(|r| sheet.band_of_lane[r.lane.0 as usize] == band);
            assert_eq!(of_band.map(|r| r.queued_ns).min(), Some(0), "band {band}");
        }
    }

    #[test]
    fn findings_of_bands_keep_their_records() {
        let (one, two) = (sample::frames(3), sample::unsynchronised());
        let sheet = Sheet::of_bands("both", &[("packet", 7, &one), ("user", 5, &two)]);
        let trace = sheet.trace();
        assert_eq!(trace.findings.len(), two.findings.len());
        for (merged, own) in trace.findings.iter().zip(&two.findings) {
            assert_eq!(merged.title, format!("user: {}", own.title));
            for (there, here) in merged.records.iter().zip(&own.records) {
                assert_eq!(sheet.band_of_lane[trace.records[*there].lane.0 as usize], 1);
                let (there, here) = (&trace.records[*there], &two.records[*here]);
                assert_eq!((there.kind, there.duration_ns()), (here.kind, here.duration_ns()));
            }
        }
    }

    #[test]
    fn paths_of_bands_count_from_their_first_records() {
        let (one, mut two) = (sample::frames(2), sample::frames(3));
        let (origin, _) = two.extent_ns().unwrap();
        let of = |record: usize, trace: &Trace| Stretch {
            part: PathPart::Gpu,
            start_ns: trace.records[record].start_ns,
            end_ns: trace.records[record].end_ns,
            lane: Some(trace.records[record].lane),
            record: Some(record),
        };
        two.critical_path = (0..two.records.len()).map(|record| of(record, &two)).collect();
        let sheet = Sheet::of_bands("both", &[("packet", 7, &one), ("user", 5, &two)]);
        let [first, second] = sheet.paths()[..] else { panic!("two bands") };
        assert_eq!((first.len(), second.len()), (0, two.records.len()));
        for (moved, own) in second.iter().zip(&two.critical_path) {
            let record = &sheet.trace().records[moved.record.unwrap()];
            assert_eq!(moved.start_ns + origin, own.start_ns);
            assert_eq!(
                (record.start_ns, record.end_ns, Some(record.lane)),
                (moved.start_ns, moved.end_ns, moved.lane)
            );
        }
        assert_eq!(Sheet::of(&two).paths(), [&two.critical_path[..]]);
    }

    #[test]
    fn links_of_two_bands_stay_apart() {
        let linked = || {
            let mut b = TraceBuilder::new("t", crate::ClockName::Virtual);
            let lane = b.add_lane(LaneKind::Queue, "app", "q");
            let engine = b.add_lane(LaneKind::Engine, "GPU", "3D");
            let executed = Record::span(lane, Kind::Execute, NameId::NONE, 5, 9);
            b.append(vec![executed.linked(LinkId(3)).on_engine(engine)]);
            b.append(vec![
                Record::span(engine, Kind::Draw, NameId::NONE, 6, 9)
                    .linked(LinkId(3))
                    .for_queue(lane),
            ]);
            b.finish()
        };
        let (one, two) = (linked(), linked());
        let sheet = Sheet::of_bands("both", &[("packet", 7, &one), ("user", 5, &two)]);
        let links: Vec<u32> = sheet.trace().records.iter().map(|r| r.link.0).collect();
        assert_eq!(links, [3, 6, 3, 6]);
        let queues: Vec<_> = sheet.trace().records.iter().filter_map(|r| r.queue()).collect();
        assert_eq!(queues, [LaneId(0), LaneId(2)]);
        let engines: Vec<_> = sheet.trace().records.iter().filter_map(Record::engine).collect();
        assert_eq!(engines, [LaneId(1), LaneId(3)]);
    }

    #[test]
    fn what_was_not_done_ends_with_its_own_trace() {
        let lasting = |end| {
            let mut b = TraceBuilder::new("t", ClockName::Virtual);
            let lane = b.add_lane(LaneKind::Queue, "app", "q");
            let fence = b.add_fence("f");
            b.append(vec![Record::span(lane, Kind::Execute, NameId::NONE, 0, end)]);
            b.append(vec![
                Record::instant(lane, Kind::WaitQueued, NameId::NONE, 1).on_fence(fence, 1),
            ]);
            b.finish()
        };
        let (short, long) = (lasting(10), lasting(90));
        let sheet = Sheet::of_bands("both", &[("packet", 7, &short), ("user", 5, &long)]);
        let waits = sheet.trace().records.iter().filter(|r| r.kind == Kind::WaitQueued);
        assert_eq!(waits.map(|r| r.end_ns).collect::<Vec<_>>(), [10, 90]);
    }
}
