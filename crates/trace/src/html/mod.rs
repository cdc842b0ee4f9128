//! Writes a trace as one self-contained HTML page: the timeline.
//!
//! - The page needs no network and no other file. Style and script are compiled into this crate and
//!   put inline.
//! - Meta data (lanes, fences, names) and columns come before the script, because the script runs
//!   as soon as it is read.
//! - A page opened with `#selftest` checks itself and leaves the result in `<pre id="selftest">`.
//!
//! Entry points: [`write()`] for one trace, `write_bands` for several traces with a common zoom.
//! The files beside this one: `timeline.html` the frame, `timeline.css` the style, and the script
//! in the order of `SCRIPTS`.

mod columns;
mod sheet;

use std::io::{self, BufWriter, Write};

use crate::model::Trace;
use crate::palette;
use sheet::Sheet;

const PAGE: &str = include_str!("timeline.html");
const STYLE: &str = include_str!("timeline.css");

/// The parts of the script, in the order in which they use each other.
const SCRIPTS: [&str; 17] = [
    include_str!("data.js"),
    include_str!("sums.js"),
    include_str!("layout.js"),
    include_str!("search.js"),
    include_str!("colours.js"),
    include_str!("draw.js"),
    include_str!("path.js"),
    include_str!("chain.js"),
    include_str!("arrows.js"),
    include_str!("findings.js"),
    include_str!("frame.js"),
    include_str!("details.js"),
    include_str!("range.js"),
    include_str!("input.js"),
    include_str!("print.js"),
    include_str!("selftest.js"),
    include_str!("timeline.js"),
];

/// Writes `trace` to `out`.
///
/// # Errors
/// Errors of `out`.
pub fn write(trace: &Trace, out: impl Write) -> io::Result<()> {
    write_page(&Sheet::of(trace), "", out)
}

/// Writes several traces as bands of one page, each with its name and makespan. `lead` is HTML that
/// is above them.
pub(crate) fn write_bands(
    title: &str,
    lead: &str,
    traces: &[(&str, u64, &Trace)],
    out: impl Write,
) -> io::Result<()> {
    write_page(&Sheet::of_bands(title, traces), lead, out)
}

fn write_page(sheet: &Sheet<'_>, lead: &str, out: impl Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    let mut rest = PAGE;
    while let Some((before, after)) = rest.split_once("{{") {
        let (slot, after) = after.split_once("}}").expect("a slot of the page is closed");
        out.write_all(before.as_bytes())?;
        match slot {
            "title" => out.write_all(escaped(&sheet.trace().title).as_bytes())?,
            "style" => {
                out.write_all(STYLE.as_bytes())?;
                out.write_all(palette::style().as_bytes())?;
            }
            "form" => out.write_all(if lead.is_empty() { b"timeline" } else { b"comparison" })?,
            "lead" => out.write_all(lead.as_bytes())?,
            "meta" => out.write_all(sheet.meta().as_bytes())?,
            "columns" => {
                out.write_all(columns::packed(sheet.trace(), &sheet.paths()).as_bytes())?;
            }
            "script" => SCRIPTS.iter().try_for_each(|part| out.write_all(part.as_bytes()))?,
            other => unreachable!("the page names a slot that is never filled: {other}"),
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())?;
    out.flush()
}

/// `text` as content of an element or of a quoted attribute.
pub(crate) fn escaped(text: &str) -> String {
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
        for outside in [
            "http:",
            "https:",
            "src=",
            "@import",
            "url(",
            "fetch(",
            "XMLHttpRequest",
            "WebSocket",
            "import(",
        ] {
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
        println!("{bytes} bytes");
        assert!(bytes < 2 << 20, "{bytes} bytes");
    }

    #[test]
    fn an_empty_trace_is_a_page() {
        let page = page(&sample::empty());
        let meta: serde_json::Value = serde_json::from_str(element(&page, "trace-meta")).unwrap();
        assert_eq!(meta["records"], 0);
    }
}
