//! Writes a trace as one self-contained HTML page: the timeline.
//!
//! The page needs no network and no other file: style and script are compiled into this crate and put inline, the
//! records follow as columns of varints in base64 (`columns`), which the script decodes. The order that matters: meta
//! data (lanes, fences, names) before columns before script, because the script runs as soon as it is read.
//!
//! What the page looks like and can do is in the files beside this one: `timeline.html` the frame, `timeline.css` the
//! style, and the script in the order of `SCRIPTS`. A page opened with `#selftest` checks itself and leaves the
//! result in `<pre id="selftest">`.

mod columns;

use std::io::{self, BufWriter, Write};

use crate::json;
use crate::model::{Kind, LaneKind, Trace};

const PAGE: &str = include_str!("timeline.html");
const STYLE: &str = include_str!("timeline.css");

/// The parts of the script, in the order in which they use each other.
const SCRIPTS: [&str; 8] = [
    include_str!("data.js"),
    include_str!("layout.js"),
    include_str!("search.js"),
    include_str!("draw.js"),
    include_str!("details.js"),
    include_str!("input.js"),
    include_str!("selftest.js"),
    include_str!("timeline.js"),
];

/// Writes `trace` to `out`.
///
/// # Errors
/// What `out` reports.
pub fn write(trace: &Trace, out: impl Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    let mut rest = PAGE;
    while let Some((before, after)) = rest.split_once("{{") {
        let (slot, after) = after.split_once("}}").expect("a slot of the page is closed");
        out.write_all(before.as_bytes())?;
        fill(slot, trace, &mut out)?;
        rest = after;
    }
    out.write_all(rest.as_bytes())?;
    out.flush()
}

fn fill(slot: &str, trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    match slot {
        "title" => out.write_all(escaped(&trace.title).as_bytes()),
        "style" => out.write_all(STYLE.as_bytes()),
        "meta" => out.write_all(meta(trace).as_bytes()),
        "columns" => out.write_all(columns::base64(&columns::encode(trace)).as_bytes()),
        "script" => SCRIPTS.iter().try_for_each(|part| out.write_all(part.as_bytes())),
        other => unreachable!("the page names a slot that nobody fills: {other}"),
    }
}

fn meta(trace: &Trace) -> String {
    let (first, _) = trace.extent_ns().unwrap_or((0, 0));
    let list = |items: Vec<String>| format!("[{}]", items.join(","));
    let lane = |kind: LaneKind, name: &str, group: &str| {
        format!("[{},{},{}]", kind as u8, json::string(name), json::string(group))
    };
    format!(
        "{{\"title\":{},\"clock\":{},\"lost\":\"{}\",\"origin_ns\":\"{first}\",\"records\":{},\
         \"kinds\":{},\"lane_kinds\":{},\"lanes\":{},\"fences\":{},\"names\":{}}}",
        json::string(&trace.title),
        json::string(trace.clock.label()),
        trace.lost_records,
        trace.records.len(),
        list(Kind::ALL.iter().map(|k| json::string(k.label())).collect()),
        list(LaneKind::ALL.iter().map(|k| json::string(k.label())).collect()),
        list(trace.lanes.iter().map(|l| lane(l.kind, &l.name, &l.group)).collect()),
        list(trace.fences.iter().map(|f| json::string(&f.name)).collect()),
        list(trace.names.iter().map(json::string).collect()),
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use crate::sample;

    fn page(trace: &crate::Trace) -> String {
        let mut out = Vec::new();
        super::write(trace, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn element<'a>(page: &'a str, id: &str) -> &'a str {
        let (_, rest) = page.split_once(&format!("id=\"{id}\"")).unwrap();
        let (_, rest) = rest.split_once('>').unwrap();
        rest.split_once("</script>").unwrap().0
    }

    #[test]
    fn nothing_points_outside() {
        let page = page(&sample::frames(3));
        for outside in
            ["http:", "https:", "src=", "@import", "url(", "fetch(", "XMLHttpRequest", "WebSocket", "import("]
        {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.starts_with("<!doctype html>"));
        assert!(!page.contains("{{"));
    }

    #[test]
    fn no_string_of_a_trace_can_close_a_script_or_the_title() {
        let trace = sample::awkward();
        let page = page(&trace);
        assert_eq!(page.matches("<script").count(), 3);
        assert_eq!(page.matches("</script>").count(), 3);
        assert_eq!(page.matches("</title>").count(), 1);
        let meta: serde_json::Value = serde_json::from_str(element(&page, "trace-meta")).unwrap();
        assert_eq!(meta["title"], trace.title);
        assert_eq!(meta["lanes"][0][1], trace.lanes[0].name);
        assert_eq!(meta["lost"], "12");
    }

    #[test]
    fn a_hundred_thousand_boxes_stay_far_below_twelve_megabytes() {
        let trace = sample::large(100_000, 40);
        assert_eq!(trace.records.len(), 100_000);
        let bytes = page(&trace).len();
        assert!(bytes < 6 << 20, "{bytes} bytes");
    }

    #[test]
    fn an_empty_trace_is_a_page() {
        let page = page(&sample::empty());
        let meta: serde_json::Value = serde_json::from_str(element(&page, "trace-meta")).unwrap();
        assert_eq!(meta["records"], 0);
    }
}
