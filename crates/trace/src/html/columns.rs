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
//!
//! `data.js` reads it back. Entry point: [`packed`].

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;

use crate::model::{LinkId, Record, Trace};

/// The columns of `trace`, deflated and in base64.
pub(super) fn packed(trace: &Trace) -> String {
    let mut deflated = DeflateEncoder::new(Vec::new(), Compression::default());
    deflated.write_all(&encode(trace)).expect("a vector takes every byte");
    base64(&deflated.finish().expect("a vector takes every byte"))
}

/// The columns of `trace`; starts count from the earliest time of the trace.
fn encode(trace: &Trace) -> Vec<u8> {
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
    out
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
        let values = read(&encode(&trace));
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
        assert_eq!(values.len(), 10 * n + 1 + 2 * flows.len());
    }

    #[test]
    fn the_largest_numbers_come_back() {
        let trace = sample::awkward();
        let values = read(&encode(&trace));
        assert!(values.contains(&u64::MAX) && values.contains(&(u64::MAX - 1)));
    }
}
