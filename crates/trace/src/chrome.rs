//! Writes a trace as Chrome JSON trace events, which `chrome://tracing` and Perfetto's page open.
//!
//! A group becomes a process, a lane a thread, a record a complete event (`X`) or an instant (`i`), an arrow a pair
//! `s`/`f`, and what they are called metadata (`M`). Times are microseconds with a fraction of nanoseconds. An event
//! runs from start to end and carries its queueing time as an argument: the viewers drop events that overlap without
//! nesting, which boxes from queued to executed do. Where execution itself overlaps, the lane gets a further thread.
//!
//! An arrow binds to the slice that is open at its time, so its head lies one nanosecond before the end of the wait;
//! where that would be before its tail (a wait released in the very nanosecond of the signal) it lies on the tail.

use std::io::{self, BufWriter, Write};

use crate::json;
use crate::model::{Kind, LaneKind, Record, Trace};
use crate::tracks::Tracks;

/// Writes `trace` to `out`.
///
/// # Errors
/// What `out` reports.
pub fn write(trace: &Trace, out: impl Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    let tracks = Tracks::of(trace);
    write!(
        out,
        "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"title\":{},\"clock\":{},\"lost_records\":{}}},\"traceEvents\":[",
        json::string(&trace.title),
        json::string(trace.clock.label()),
        trace.lost_records
    )?;
    let mut separator = "\n";
    let mut event = |text: String| -> io::Result<()> {
        out.write_all(separator.as_bytes())?;
        separator = ",\n";
        out.write_all(text.as_bytes())
    };
    for line in metadata(trace, &tracks) {
        event(line)?;
    }
    let flows = trace.flows();
    let mut in_flow = vec![false; trace.records.len()];
    for flow in &flows {
        in_flow[flow.from] = true;
        in_flow[flow.to] = true;
    }
    for (index, record) in trace.records.iter().enumerate() {
        event(slice(trace, &tracks, index, record, in_flow[index]))?;
    }
    for (id, flow) in flows.iter().enumerate() {
        let tail = trace.records[flow.from].start_ns;
        let wait = &trace.records[flow.to];
        let head = wait.end_ns.saturating_sub(1).max(wait.start_ns).max(tail);
        event(arrow_end("s", id, tail, place(trace, &tracks, flow.from)))?;
        event(arrow_end("f\",\"bp\":\"e", id, head, place(trace, &tracks, flow.to)))?;
    }
    out.write_all(b"\n]}\n")?;
    out.flush()
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
    // Arrows bind to slices alone, so an instant with an arrow is a slice of no length.
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

/// What a viewer writes on the slice: the record's name, or its kind where it has none.
pub(crate) fn title<'a>(trace: &'a Trace, record: &Record) -> &'a str {
    match trace.name_of(record) {
        "" => record.kind.label(),
        name => name,
    }
}

fn arguments(trace: &Trace, record: &Record) -> String {
    let mut members = Vec::new();
    let queue = trace.lanes[record.lane.0 as usize].kind == LaneKind::Queue;
    if queue || record.pending_ns() > 0 {
        members.push(format!("\"queued_us\":{}", micros(record.queued_ns)));
    }
    if let Some((fence, value)) = record.fence {
        members.push(format!("\"fence\":{}", json::string(&trace.fences[fence.0 as usize].name)));
        members.push(format!("\"value\":{}", number(value)));
    }
    if record.arg != 0 || record.kind == Kind::Lost {
        members.push(format!("\"arg\":{}", number(record.arg)));
    }
    format!("{{{}}}", members.join(","))
}

/// Readers take numbers as doubles; a value that a double cannot hold is written as text.
fn number(value: u64) -> String {
    if value < 1 << 53 { value.to_string() } else { format!("\"{value}\"") }
}

fn arrow_end(phase: &str, id: usize, at_ns: u64, place: String) -> String {
    format!(
        "{{\"ph\":\"{phase}\",\"id\":{id},\"name\":\"release\",\"cat\":\"fence\",\"ts\":{},{place}}}",
        micros(at_ns)
    )
}

fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000, ns % 1_000)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::sample;

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
        assert_eq!(tails.len(), trace.flows().len());
        assert!(!tails.is_empty());
        for (tail, head) in tails.iter().zip(&heads) {
            assert_eq!(tail["id"], head["id"]);
            assert_eq!(head["bp"], "e");
            assert!(tail["ts"].as_f64() <= head["ts"].as_f64());
        }
    }

    #[test]
    fn events_carry_what_the_format_demands() {
        let trace = sample::frames(2);
        for event in events(&trace) {
            let phase = event["ph"].as_str().unwrap();
            assert!(event["name"].is_string() && event["pid"].is_u64(), "{event}");
            match phase {
                "M" => assert!(!event["args"].as_object().unwrap().is_empty()),
                "X" => assert!(event["ts"].is_number() && event["dur"].is_number() && event["tid"].is_u64()),
                "i" => assert_eq!(event["s"], "t"),
                "s" | "f" => assert!(event["id"].is_u64() && event["cat"] == "fence"),
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
    fn an_empty_trace_is_valid() {
        assert!(events(&sample::empty()).is_empty());
    }
}
