//! Writes a trace as Chrome JSON trace events, which `chrome://tracing` and Perfetto's page open.
//!
//! - Group: process. Lane: thread, with a further one where execution overlaps. Record: complete
//!   event (`X`) or instant (`i`), from start to end, with its queueing time as an argument,
//!   because viewers drop events that overlap without nesting. Counter: `C`. Names: `M`. Arrow:
//!   `s`/`f`. Chain of a submission: `s`, `t` for each step, `f`. Missing edge of a finding:
//!   `s`/`f` of category `finding`, from its earlier record to its later one; its text: `i`.
//!   `otherData` describes the run and the lanes.
//! - Times are microseconds with a fraction of nanoseconds.
//! - An arrow lies within the slices that it binds to, and does not run backwards. The head of an
//!   arrow to a wait lies one nanosecond before the end of the wait, or on its tail where that is
//!   later.

use std::io::{self, BufWriter, Write};

use crate::args::{self, Value};
use crate::counters::Counter;
use crate::finding::Finding;
use crate::json;
use crate::model::{Record, Trace};
use crate::submission::Chain;
use crate::tracks::Tracks;

/// Version of the arguments and of `otherData`.
const FORMAT: u32 = 1;

/// Writes `trace` to `out`.
///
/// # Errors
/// Errors of `out`.
pub fn write(trace: &Trace, out: impl Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    let tracks = Tracks::of(trace);
    let about = other_data(trace, &tracks);
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{about},\"traceEvents\":[")?;
    let mut separator = "\n";
    let mut event = |text: String| -> io::Result<()> {
        out.write_all(separator.as_bytes())?;
        separator = ",\n";
        out.write_all(text.as_bytes())
    };
    for line in metadata(trace, &tracks) {
        event(line)?;
    }
    let (flows, chains) = (trace.flows(), trace.chains());
    let mut in_flow = vec![false; trace.records.len()];
    let ends = flows.iter().flat_map(|flow| [flow.from, flow.to]);
    let missing: Vec<[usize; 2]> = trace
        .findings
        .iter()
        .flat_map(|finding| &finding.edges)
        .map(|edge| trace.forward(*edge))
        .collect();
    let ends = ends.chain(missing.iter().flatten().copied());
    ends.chain(chains.iter().flat_map(Chain::records)).for_each(|index| in_flow[index] = true);
    for (index, record) in trace.records.iter().enumerate() {
        event(slice(trace, &tracks, index, record, in_flow[index]))?;
    }
    for (id, flow) in flows.iter().enumerate() {
        let tail = trace.records[flow.from].start_ns;
        let wait = &trace.records[flow.to];
        let head = wait.end_ns.saturating_sub(1).max(wait.start_ns).max(tail);
        let name = flow.kind.label();
        let category = if trace.records[flow.to].fence().is_some() { "fence" } else { "memory" };
        event(arrow_end("s", id, name, category, tail, place(trace, &tracks, flow.from)))?;
        event(arrow_end(
            "f\",\"bp\":\"e",
            id,
            name,
            category,
            head,
            place(trace, &tracks, flow.to),
        ))?;
    }
    for (number, chain) in chains.iter().enumerate() {
        for line in chain_events(trace, &tracks, chain, flows.len() + number) {
            event(line)?;
        }
    }
    let first = flows.len() + chains.len();
    for (number, ends) in missing.iter().enumerate() {
        for (phase, index) in ["s", "f\",\"bp\":\"e"].into_iter().zip(*ends) {
            let at_ns = trace.records[index].start_ns;
            let (name, id) = ("missing edge", first + number);
            event(arrow_end(phase, id, name, "finding", at_ns, place(trace, &tracks, index)))?;
        }
    }
    for finding in &trace.findings {
        event(finding_event(trace, finding))?;
    }
    for counter in &trace.queue_depths() {
        counter_events(trace, &tracks, counter, "depth", "operations").try_for_each(&mut event)?;
    }
    for counter in &trace.engine_loads() {
        counter_events(trace, &tracks, counter, "load", "percent").try_for_each(&mut event)?;
    }
    out.write_all(b"\n]}\n")?;
    out.flush()
}

/// A finding as an instant of the whole run, with its text.
fn finding_event(trace: &Trace, finding: &Finding) -> String {
    let [name, kind, text] =
        [&finding.title, finding.kind.label(), &finding.text].map(json::string);
    let ts = micros(trace.moment_of(finding));
    format!(
        "{{\"ph\":\"i\",\"s\":\"g\",\"name\":{name},\"cat\":\"finding\",\"ts\":{ts},\"pid\":1,\"tid\":1,\
         \"args\":{{\"kind\":{kind},\"text\":{text}}}}}"
    )
}

/// Describes the run, and the lane of each thread of the file.
fn other_data(trace: &Trace, tracks: &Tracks) -> String {
    let lane = |(index, track): (usize, &crate::tracks::Track)| {
        let lane = &trace.lanes[track.lane.0 as usize];
        let [kind, group, name] = [lane.kind.label(), &lane.group, &lane.name].map(json::string);
        let (pid, tid) = (track.group + 1, index + 1);
        format!("{{\"pid\":{pid},\"tid\":{tid},\"kind\":{kind},\"group\":{group},\"name\":{name}}}")
    };
    let lanes: Vec<String> = tracks.tracks.iter().enumerate().map(lane).collect();
    let verdict: Vec<String> =
        trace.verdict.iter().map(|sentence| json::string(sentence)).collect();
    format!(
        "{{\"writer\":\"tidegate\",\"format\":{FORMAT},\"title\":{},\"clock\":{},\"unit\":{},\"lost_records\":{},\
         \"verdict\":[{}],\"lanes\":[{}]}}",
        json::string(&trace.title),
        json::string(trace.clock.label()),
        json::string(trace.clock.unit()),
        trace.lost_records,
        verdict.join(","),
        lanes.join(",")
    )
}

/// The flow of a command buffer, from the call to the last slice. A single record has no flow.
fn chain_events(trace: &Trace, tracks: &Tracks, chain: &Chain, id: usize) -> Vec<String> {
    let records: Vec<usize> = chain.records().collect();
    let last = records.len() - 1;
    let (mut events, mut at_ns) = (Vec::new(), 0);
    for (step, &index) in records.iter().enumerate().filter(|_| last > 0) {
        at_ns = trace.records[index].start_ns.max(at_ns);
        let phase = match step {
            0 => "s",
            step if step == last => "f\",\"bp\":\"e",
            _ => "t",
        };
        let name = "submission";
        events.push(arrow_end(phase, id, name, name, at_ns, place(trace, tracks, index)));
    }
    events
}

fn counter_events<'a>(
    trace: &'a Trace,
    tracks: &'a Tracks,
    counter: &'a Counter,
    what: &'a str,
    unit: &'a str,
) -> impl Iterator<Item = String> + 'a {
    let lane = &trace.lanes[counter.lane.0 as usize];
    let pid = tracks.group_of(counter.lane) + 1;
    let name = json::string(&format!("{} {what}", lane.name));
    counter.samples.iter().map(move |&(at_ns, value)| {
        let ts = micros(at_ns);
        // Counters of one process with one name are one series, so that each has the number of its
        // lane.
        let id = counter.lane.0;
        format!(
            "{{\"ph\":\"C\",\"name\":{name},\"id\":{id},\"pid\":{pid},\"ts\":{ts},\"args\":{{\"{unit}\":{value}}}}}"
        )
    })
}

fn metadata(trace: &Trace, tracks: &Tracks) -> Vec<String> {
    let mut lines = Vec::new();
    for (pid, group) in tracks.groups.iter().enumerate() {
        let pid = pid + 1;
        lines.push(format!(
            "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{pid},\"args\":{{\"name\":{}}}}}",
            json::string(group)
        ));
        lines.push(format!(
            "{{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":{pid},\"args\":{{\"sort_index\":{pid}}}}}"
        ));
    }
    for (index, track) in tracks.tracks.iter().enumerate() {
        let (pid, tid) = (track.group + 1, index + 1);
        let name = json::string(&tracks.name(trace, index));
        lines.push(format!(
            "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{pid},\"tid\":{tid},\"args\":{{\"name\":{name}}}}}"
        ));
        lines.push(format!(
            "{{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":{pid},\"tid\":{tid},\"args\":{{\"sort_index\":{tid}}}}}"
        ));
    }
    lines
}

/// The process and thread numbers of a record, as members of an event.
fn place(trace: &Trace, tracks: &Tracks, index: usize) -> String {
    let track = tracks.of_record[index];
    let pid = tracks.group_of(trace.records[index].lane) + 1;
    format!("\"pid\":{pid},\"tid\":{}", track + 1)
}

fn slice(trace: &Trace, tracks: &Tracks, index: usize, record: &Record, in_flow: bool) -> String {
    let place = place(trace, tracks, index);
    let name = json::string(title(trace, record));
    let kind = json::string(record.kind.label());
    let ts = micros(record.start_ns);
    let args = arguments(trace, record);
    // Arrows bind to slices only, so an instant with an arrow is an empty slice.
    if record.duration_ns() == 0 && !in_flow {
        return format!(
            "{{\"ph\":\"i\",\"s\":\"t\",\"name\":{name},\"cat\":{kind},\"ts\":{ts},{place},\"args\":{args}}}"
        );
    }
    let dur = micros(record.duration_ns());
    format!(
        "{{\"ph\":\"X\",\"name\":{name},\"cat\":{kind},\"ts\":{ts},\"dur\":{dur},{place},\"args\":{args}}}"
    )
}

/// The label of a slice: the record's name, or its kind if it has none.
pub(crate) fn title<'a>(trace: &'a Trace, record: &Record) -> &'a str {
    match trace.name_of(record) {
        "" => record.kind.label(),
        name => name,
    }
}

fn arguments(trace: &Trace, record: &Record) -> String {
    let member = |(name, value): args::Argument| {
        let value = match value {
            Value::Number(value) => number(value),
            Value::Fence(fence) => json::string(&trace.fences[fence.0 as usize].name),
            Value::Lane(lane) => json::string(&trace.lanes[lane.0 as usize].name),
        };
        format!("\"{}\":{value}", args::NAMES[name])
    };
    let members: Vec<String> = args::of(trace, record).map(member).collect();
    format!("{{{}}}", members.join(","))
}

/// Readers take numbers as doubles; a value that a double cannot hold is written as text.
fn number(value: u64) -> String {
    if value < 1 << 53 { value.to_string() } else { format!("\"{value}\"") }
}

fn arrow_end(
    phase: &str,
    id: usize,
    name: &str,
    category: &str,
    at_ns: u64,
    place: String,
) -> String {
    let ts = micros(at_ns);
    format!(
        "{{\"ph\":\"{phase}\",\"id\":{id},\"name\":\"{name}\",\"cat\":\"{category}\",\"ts\":{ts},{place}}}"
    )
}

fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000, ns % 1_000)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::{
        ClockName, Finding, FindingKind, Kind, LaneKind, LinkId, MissingEdge, Record, sample,
    };

    fn events(trace: &crate::Trace) -> Vec<Value> {
        let mut out = Vec::new();
        super::write(trace, &mut out).unwrap();
        let mut whole: Value = serde_json::from_slice(&out).unwrap();
        match whole["traceEvents"].take() {
            Value::Array(events) => events,
            other => panic!("not an array: {other}"),
        }
    }

    fn of_phase<'a>(events: &'a [Value], phase: &str) -> Vec<&'a Value> {
        events.iter().filter(|e| e["ph"] == phase).collect()
    }

    #[test]
    fn every_record_is_one_event_and_every_arrow_two() {
        let trace = sample::frames(3);
        let events = events(&trace);
        let slices = of_phase(&events, "X").len() + of_phase(&events, "i").len();
        assert_eq!(slices, trace.records.len());
        let (tails, heads) = (of_phase(&events, "s"), of_phase(&events, "f"));
        let chains = trace.chains().iter().filter(|chain| chain.records().count() > 1).count();
        assert_eq!(tails.len(), trace.flows().len() + chains);
        assert!(!tails.is_empty());
        for (tail, head) in tails.iter().zip(&heads) {
            assert_eq!(tail["id"], head["id"]);
            assert_eq!(head["bp"], "e");
            assert!(tail["ts"].as_f64() <= head["ts"].as_f64());
        }
    }

    #[test]
    fn findings_are_instants_and_their_missing_edges_arrows_that_run_forward() {
        let trace = sample::unsynchronised();
        let events = events(&trace);
        let found = |e: &&&Value| e["cat"] == "finding";
        let instants = of_phase(&events, "i");
        let texts: Vec<&Value> =
            instants.iter().filter(found).map(|e| &e["args"]["text"]).collect();
        assert_eq!(texts, trace.findings.iter().map(|f| &*f.text).collect::<Vec<_>>());
        let (tails, heads) = (of_phase(&events, "s"), of_phase(&events, "f"));
        let (tails, heads) = (tails.iter().filter(found), heads.iter().filter(found));
        let mut arrows = 0;
        for (tail, head) in tails.zip(heads) {
            assert_eq!((&tail["id"], &tail["name"]), (&head["id"], &Value::from("missing edge")));
            assert!(tail["ts"].as_f64() <= head["ts"].as_f64());
            arrows += 1;
        }
        assert_eq!(arrows, 4);
    }

    #[test]
    fn events_carry_what_the_format_demands() {
        let trace = sample::frames(2);
        for event in events(&trace) {
            let phase = event["ph"].as_str().unwrap();
            assert!(event["name"].is_string() && event["pid"].is_u64(), "{event}");
            match phase {
                "M" => assert!(!event["args"].as_object().unwrap().is_empty()),
                "X" => assert!(
                    event["ts"].is_number() && event["dur"].is_number() && event["tid"].is_u64()
                ),
                "i" => assert_eq!(event["s"], "t"),
                "s" | "t" | "f" => assert!(event["id"].is_u64() && event["cat"].is_string()),
                "C" => assert!(
                    event["ts"].is_number() && event["args"].as_object().unwrap().len() == 1
                ),
                other => panic!("phase {other}"),
            }
        }
    }

    #[test]
    fn slices_of_one_thread_nest() {
        let events = events(&sample::frames(4));
        let mut open: std::collections::HashMap<u64, Vec<(u64, u64)>> = Default::default();
        let ns = |v: &Value| (v.as_f64().unwrap() * 1000.0).round() as u64;
        let mut slices = of_phase(&events, "X");
        slices.sort_by_key(|e| (ns(&e["ts"]), std::cmp::Reverse(ns(&e["dur"]))));
        for e in slices {
            let (start, end) = (ns(&e["ts"]), ns(&e["ts"]) + ns(&e["dur"]));
            let stack = open.entry(e["tid"].as_u64().unwrap()).or_default();
            stack.retain(|&(_, until)| until > start);
            assert!(stack.iter().all(|&(_, until)| end <= until), "{e}");
            stack.push((start, end));
        }
    }

    #[test]
    fn times_keep_their_nanoseconds_and_large_values_their_digits() {
        let trace = sample::awkward();
        let mut out = Vec::new();
        super::write(&trace, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("\"ts\":1.234"), "{text}");
        assert!(text.contains("\"value\":\"18446744073709551615\""), "{text}");
        assert!(!text.contains("</script>"));
        serde_json::from_str::<Value>(&text).unwrap();
    }

    #[test]
    fn a_submission_is_one_flow_from_the_call_to_the_last_slice() {
        let mut b = crate::TraceBuilder::new("t", ClockName::Virtual);
        let main = b.add_lane(LaneKind::CpuThread, "app", "main");
        let queue = b.add_lane(LaneKind::Queue, "app", "q");
        let engine = b.add_lane(LaneKind::Engine, "GPU", "copy");
        let list = b.name("upload");
        let span = |lane, kind, start, end| Record::span(lane, kind, list, start, end);
        b.append(vec![
            span(main, Kind::Submit, 1_000, 3_000).for_queue(queue).linked(LinkId(1)).with_arg(1),
            Record::instant(queue, Kind::ExecuteQueued, list, 2_000).linked(LinkId(1)),
            span(queue, Kind::Execute, 5_000, 9_000).queued(2_000).linked(LinkId(1)),
            span(engine, Kind::Fill, 6_000, 7_000).for_queue(queue).with_arg(64),
            span(engine, Kind::Copy, 7_000, 9_000).for_queue(queue).with_arg(32),
        ]);
        let events = events(&b.finish());
        let flow: Vec<_> = events
            .iter()
            .filter(|e| e["cat"] == "submission")
            .map(|e| {
                (e["ph"].as_str().unwrap(), e["tid"].as_u64().unwrap(), e["ts"].as_f64().unwrap())
            })
            .collect();
        assert_eq!(flow, [("s", 1, 1.0), ("t", 2, 5.0), ("t", 3, 6.0), ("f", 3, 7.0)]);
        let args = |name: &str| events.iter().find(|e| e["cat"] == name).unwrap()["args"].clone();
        assert_eq!(args("submit"), serde_json::json!({"submission": 1, "queue": "q", "lists": 1}));
        assert_eq!(args("execute"), serde_json::json!({"queued_ns": 2_000, "submission": 1}));
        assert_eq!(args("fill"), serde_json::json!({"submission": 1, "queue": "q", "bytes": 64}));
        let counted = |name: &str| {
            let of_name = events.iter().filter(move |e| e["ph"] == "C" && e["name"] == name);
            of_name.map(|e| (e["ts"].as_f64().unwrap(), e["args"].clone())).collect::<Vec<_>>()
        };
        let depth = |n: u64| serde_json::json!({ "operations": n });
        assert_eq!(counted("q depth"), [(2.0, depth(1)), (9.0, depth(0))]);
        assert_eq!(counted("copy load").first().unwrap().0, 1.0);
    }

    #[test]
    fn an_empty_trace_is_valid() {
        assert!(events(&sample::empty()).is_empty());
    }

    #[test]
    fn every_arrow_has_a_number_of_its_own() {
        let mut b = crate::TraceBuilder::new("t", ClockName::Virtual);
        let main = b.add_lane(LaneKind::CpuThread, "app", "main");
        let queue = b.add_lane(LaneKind::Queue, "app", "q");
        let fence = b.add_fence("f");
        let span =
            |lane, kind, start, end| Record::span(lane, kind, crate::NameId::NONE, start, end);
        b.append(vec![
            span(main, Kind::Submit, 1, 2).for_queue(queue).linked(LinkId(1)),
            span(queue, Kind::Execute, 3, 4).queued(2).linked(LinkId(1)),
            span(queue, Kind::Signal, 4, 4).on_fence(fence, 1),
            span(main, Kind::CpuWait, 2, 5).on_fence(fence, 1),
        ]);
        let mut each_once = b.finish();
        each_once.findings.push(Finding {
            kind: FindingKind::Hazard,
            title: String::new(),
            text: String::new(),
            records: Vec::new(),
            edges: vec![MissingEdge { from: 0, to: 1 }],
        });
        for (trace, arrows) in [(each_once, 3..4), (sample::frames(3), 4..1_000)] {
            let events = events(&trace);
            let ids: Vec<u64> =
                of_phase(&events, "s").iter().map(|e| e["id"].as_u64().unwrap()).collect();
            let distinct: std::collections::BTreeSet<u64> = ids.iter().copied().collect();
            assert_eq!(distinct.len(), ids.len(), "{ids:?}");
            assert!(arrows.contains(&ids.len()), "{ids:?}");
        }
    }

    #[test]
    fn arrows_never_run_back_in_time() {
        let mut b = crate::TraceBuilder::new("t", ClockName::Virtual);
        let main = b.add_lane(LaneKind::CpuThread, "app", "main");
        let [queue, other] = ["q", "other"].map(|name| b.add_lane(LaneKind::Queue, "app", name));
        let fences = ["f", "g"].map(|name| b.add_fence(name));
        let span =
            |lane, kind, start, end| Record::span(lane, kind, crate::NameId::NONE, start, end);
        b.append(vec![
            // A wait without length, long after its signal.
            span(other, Kind::Signal, 3_000, 3_000).on_fence(fences[0], 1),
            span(queue, Kind::Wait, 9_000, 9_000).on_fence(fences[0], 1),
            // A signal whose clock is late: the wait ends before it.
            span(queue, Kind::Wait, 11_000, 12_000).on_fence(fences[1], 1),
            span(other, Kind::Signal, 13_000, 13_000).on_fence(fences[1], 1),
            // A command buffer that begins before its call.
            span(main, Kind::Submit, 21_000, 22_000).for_queue(queue).linked(LinkId(1)),
            span(queue, Kind::Execute, 20_000, 29_000).linked(LinkId(1)),
        ]);
        let events = events(&b.finish());
        let times = |phase| -> Vec<f64> {
            of_phase(&events, phase).iter().map(|e| e["ts"].as_f64().unwrap()).collect()
        };
        assert_eq!((times("s"), times("f")), (vec![3.0, 13.0, 21.0], vec![9.0, 13.0, 21.0]));
    }
}
