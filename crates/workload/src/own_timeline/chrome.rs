//! Reads Chrome JSON that tidegate wrote.
//!
//! Entry points: [`is_own`], [`read`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Lanes, Raw};
use crate::kineto::us_to_ns;
use crate::recording::Recording;

#[derive(Deserialize)]
struct File<'a> {
    #[serde(rename = "traceEvents", borrow)]
    events: Vec<Event<'a>>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    ph: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    cat: Cow<'a, str>,
    #[serde(default)]
    pid: u64,
    #[serde(default)]
    tid: u64,
    #[serde(borrow, default)]
    ts: Option<&'a RawValue>,
    #[serde(borrow, default)]
    dur: Option<&'a RawValue>,
    #[serde(borrow, default)]
    args: Args<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Args<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    queued_ns: Option<&'a RawValue>,
    #[serde(borrow)]
    fence: Option<Cow<'a, str>>,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    submission: Option<u64>,
    #[serde(borrow)]
    queue: Option<Cow<'a, str>>,
}

/// Whether the first bytes of a JSON file have tidegate's mark.
pub fn is_own(head: &[u8]) -> bool {
    let written: Vec<u8> =
        head.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    written.windows(WRITER.len()).any(|window| window == WRITER)
}

/// The writer's entry in `otherData`.
const WRITER: &[u8] = b"\"writer\":\"tidegate\"";

fn ns(raw: Option<&RawValue>) -> Option<i64> {
    us_to_ns(raw?.get()).ok()
}

/// Reads a file.
///
/// # Errors
/// Truncated JSON, and JSON of another kind, with the place.
pub fn read(bytes: &[u8]) -> Result<Recording, String> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let file: File<'_> = serde_json::from_str(text).map_err(|error| match error.is_eof() {
        true => format!(
            "the timeline ends in the middle, at line {}; it was cut short: write it again",
            error.line()
        ),
        false => format!("{error}; give a timeline that tidegate wrote"),
    })?;
    let mut lanes = Lanes::default();
    let (mut groups, mut tracks) = (BTreeMap::new(), BTreeMap::new());
    for event in file.events.iter().filter(|event| event.ph == "M") {
        let Some(name) = &event.args.name else { continue };
        match event.name.as_ref() {
            "process_name" => drop(groups.insert(event.pid, name.as_ref())),
            "thread_name" => drop(tracks.insert(event.tid, (event.pid, name.as_ref()))),
            _ => {}
        }
    }
    for (number, (group, name)) in tracks {
        lanes.track(number, groups.get(&group).copied().unwrap_or(""), name);
    }
    for event in file.events.iter().filter(|event| matches!(event.ph.as_ref(), "X" | "i")) {
        let Some(start) = ns(event.ts) else { continue };
        // A number that a double cannot hold is written as text.
        let whole = |raw: Option<&RawValue>| raw?.get().trim_matches('"').parse::<u64>().ok();
        lanes.record(&Raw {
            track: event.tid,
            kind: &event.cat,
            name: &event.name,
            start,
            end: start.saturating_add(ns(event.dur).unwrap_or(0).max(0)),
            queued: whole(event.args.queued_ns),
            fence: event.args.fence.as_deref().zip(whole(event.args.value)),
            submission: event.args.submission,
            queue: event.args.queue.as_deref(),
        });
    }
    lanes.finish()
}
