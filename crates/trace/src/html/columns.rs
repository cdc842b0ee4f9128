//! The records of a page, packed: columns of LEB128 varints, deflated, in base64.
//!
//! Columns compress well because neighbours are alike. A start is stored as the step from the
//! previous start, an end as a duration, a queueing time as the time pending, a link as the step
//! from the previous link.
//! - Columns in this order, each as long as there are records: lane, kind, name, step of start,
//!   duration, pending, fence + 1 (0 for none), value, arg, link (0 for none, else the zigzag of
//!   its step, plus 1).
//! - Then the number of arrows. For each: the step of its head from the head before, the zigzag of
//!   its head less its tail.
//! - Then for each band the number of stretches of its critical path. For each: the step of its
//!   start from the end before, its duration, its part, its record (0 for none, else the zigzag of
//!   its step, plus 1), and without a record its lane + 1 (0 for none).
//!
//! `data.js` reads it back. Entry point: [`packed`].

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;

use crate::model::{LinkId, Record, Stretch, Trace};

/// The columns of `trace` and the critical path of each band, deflated and in base64.
pub(super) fn packed(trace: &Trace, paths: &[&[Stretch]]) -> String {
    let mut deflated = DeflateEncoder::new(Vec::new(), Compression::default());
    deflated.write_all(&encode(trace, paths)).expect("a vector takes every byte");
    base64(&deflated.finish().expect("a vector takes every byte"))
}

/// The columns of `trace`; starts count from the earliest time of the trace.
fn encode(trace: &Trace, paths: &[&[Stretch]]) -> Vec<u8> {
    let origin = trace.extent_ns().map_or(0, |(first, _)| first);
    let mut out = Vec::with_capacity(trace.records.len() * 16);
    let mut column = |value: &mut dyn FnMut(&Record) -> u64| {
        for record in &trace.records {
            varint(&mut out, value(record));
        }
    };
    column(&mut |r| u64::from(r.lane.0));
    column(&mut |r| r.kind as u64);
    column(&mut |r| u64::from(r.name.0));
    let mut last = origin;
    column(&mut |r| {
        let step = r.start_ns - last;
        last = r.start_ns;
        step
    });
    column(&mut Record::duration_ns);
    column(&mut Record::pending_ns);
    column(&mut |r| r.fence().map_or(0, |(fence, _)| u64::from(fence.0) + 1));
    column(&mut |r| r.fence().map_or(0, |(_, value)| value));
    column(&mut |r| r.arg);
    let mut last = 0;
    column(&mut |r| {
        if r.link == LinkId::NONE {
            return 0;
        }
        let step = zigzag(i64::from(r.link.0) - last);
        last = i64::from(r.link.0);
        step + 1
    });
    let flows = trace.flows();
    varint(&mut out, flows.len() as u64);
    let mut last = 0;
    for flow in flows {
        varint(&mut out, (flow.to - last) as u64);
        varint(&mut out, zigzag(flow.to as i64 - flow.from as i64));
        last = flow.to;
    }
    paths.iter().for_each(|path| encode_path(&mut out, path, origin));
    out
}

/// The stretches of a path; what lies before `origin` is not on the page.
fn encode_path(out: &mut Vec<u8>, path: &[Stretch], origin: u64) {
    let seen = || path.iter().filter(|stretch| stretch.end_ns > origin);
    varint(out, seen().count() as u64);
    let (mut ended, mut last) = (origin, 0);
    for stretch in seen() {
        let start_ns = stretch.start_ns.max(ended);
        varint(out, start_ns - ended);
        varint(out, stretch.end_ns.saturating_sub(start_ns));
        ended = stretch.end_ns.max(start_ns);
        varint(out, stretch.part as u64);
        match stretch.record {
            Some(record) => {
                varint(out, zigzag(record as i64 - last) + 1);
                last = record as i64;
            }
            None => {
                varint(out, 0);
                varint(out, stretch.lane.map_or(0, |lane| u64::from(lane.0) + 1));
            }
        }
    }
}

/// Small numbers of either sign as small numbers: 0, -1, 1, -2 become 0, 1, 2, 3.
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Standard base64 with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) as usize & 63;
            out.push(if digit <= chunk.len() { char::from(DIGITS[index]) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::critical_path::PathPart;
    use crate::model::LaneId;
    use crate::sample;

    #[test]
    fn base64_of_known_strings() {
        let known =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, coded) in known {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn zigzag_of_known_numbers() {
        assert_eq!([0, -1, 1, -2, 2].map(zigzag), [0, 1, 2, 3, 4]);
    }

    fn read(bytes: &[u8]) -> Vec<u64> {
        let (mut values, mut value, mut shift) = (Vec::new(), 0u64, 0);
        for byte in bytes {
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                values.push(value);
                (value, shift) = (0, 0);
            }
        }
        values
    }

    #[test]
    fn columns_come_back() {
        let trace = sample::frames(2);
        let values = read(&encode(&trace, &[&[]]));
        let n = trace.records.len();
        let origin = trace.extent_ns().unwrap().0;
        let mut start = origin;
        for (i, r) in trace.records.iter().enumerate() {
            start += values[3 * n + i];
            assert_eq!(values[i], u64::from(r.lane.0));
            assert_eq!(values[n + i], r.kind as u64);
            assert_eq!(start, r.start_ns);
            assert_eq!(start + values[4 * n + i], r.end_ns);
            assert_eq!(start - values[5 * n + i], r.queued_ns);
            assert_eq!(values[6 * n + i].checked_sub(1), r.fence().map(|(f, _)| u64::from(f.0)));
            assert_eq!(values[8 * n + i], r.arg);
            assert_eq!(values[9 * n + i] == 0, r.link == LinkId::NONE);
        }
        let flows = trace.flows();
        assert_eq!(values[10 * n], flows.len() as u64);
        assert_eq!(values.len(), 10 * n + 1 + 2 * flows.len() + 1, "and an empty path");
    }

    #[test]
    fn a_path_begins_with_the_page_and_names_its_records_and_lanes() {
        let stretch = |start_ns, end_ns, part, record| Stretch {
            part,
            start_ns,
            end_ns,
            lane: Some(LaneId(4)),
            record,
        };
        let path = [
            stretch(3, 8, PathPart::Host, None),
            stretch(8, 12, PathPart::Host, None),
            stretch(12, 20, PathPart::Gpu, Some(7)),
            stretch(20, 21, PathPart::Sync, Some(5)),
        ];
        let mut out = Vec::new();
        encode_path(&mut out, &path, 10);
        // Four in the list, of which the first lies before the page: 2, 8 and 1 ns remain.
        let host = [0, 2, 4, 0, 5];
        let gpu = [0, 8, 0, 15];
        let sync = [0, 1, 3, 4];
        assert_eq!(read(&out), [&[3][..], &host, &gpu, &sync].concat());
    }

    #[test]
    fn the_largest_numbers_come_back() {
        let trace = sample::awkward();
        let values = read(&encode(&trace, &[]));
        assert!(values.contains(&u64::MAX) && values.contains(&(u64::MAX - 1)));
    }
}
