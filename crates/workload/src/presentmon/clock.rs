//! The unit of the times of frames.
//!
//! Versions and options write seconds, milliseconds, ticks of the performance counter, or dates.
//! The file has each frame's length in milliseconds as well, so the distances of the frames of a
//! swap chain tell the unit. The column's name decides where they do not. Entry points: [`times`],
//! [`date`].

use super::columns::Unit;
use super::frame::{Frame, Gpu};

/// The time of a row as it is written.
#[derive(Debug, Clone, Copy)]
pub struct Raw {
    /// Counted from the first row, in the unit of the file. A date is in nanoseconds.
    pub at: f64,
    /// The distance to a neighbour of the same swap chain, in nanoseconds.
    pub frame_ns: Option<i64>,
    /// Whether the neighbour is the next frame; else it is the one before.
    pub is_of_next: bool,
}

/// Units of the performance counter, and of the other columns, in nanoseconds.
const UNITS_NS: [f64; 4] = [1e9, 1e6, 100.0, 1.0];

/// Frames whose times count from the first row.
pub fn times(rows: Vec<(Raw, Frame)>, unit: Unit) -> Vec<Frame> {
    let named_ns = match unit {
        Unit::Seconds => 1e9,
        Unit::Milliseconds => 1e6,
        Unit::Ticks => 100.0,
        Unit::Date => 1.0,
    };
    let unit_ns = measured_ns(&rows).map_or(named_ns, |measured| {
        let is_near = |of: &&f64| (measured / **of - 1.0).abs() < 0.01;
        match UNITS_NS.iter().find(is_near) {
            Some(unit_ns) => *unit_ns,
            None if unit == Unit::Ticks => measured,
            None => named_ns,
        }
    });
    let placed = |(raw, frame): (Raw, Frame)| {
        let at = (raw.at * unit_ns).round() as i64;
        let moved = |ns: i64| ns.saturating_add(at);
        Frame {
            cpu_start: moved(frame.cpu_start),
            present: moved(frame.present),
            returned: moved(frame.returned),
            gpu: frame.gpu.map(|gpu| Gpu { end: moved(gpu.end), ..gpu }),
            shown: frame.shown.map(moved),
            ..frame
        }
    };
    rows.into_iter().map(placed).collect()
}

/// The median of frame lengths in nanoseconds for each unit of their distances.
fn measured_ns(rows: &[(Raw, Frame)]) -> Option<f64> {
    let mut newest: Vec<Option<&Raw>> = Vec::new();
    let mut ratios = Vec::new();
    for (raw, frame) in rows {
        if newest.len() <= frame.chain {
            newest.resize(frame.chain + 1, None);
        }
        let Some(before) = newest[frame.chain].replace(raw) else { continue };
        let length = if raw.is_of_next { before.frame_ns } else { raw.frame_ns };
        let distance = raw.at - before.at;
        if let Some(length) = length.filter(|length| *length > 0 && distance > 0.0) {
            ratios.push(length as f64 / distance);
        }
    }
    let middle = ratios.len() / 2;
    (!ratios.is_empty()).then(|| *ratios.select_nth_unstable_by(middle, f64::total_cmp).1)
}

/// Nanoseconds of a date such as `2024-5-1 13:02:03.123456789`, counted from the year 2000.
pub fn date(text: &str) -> Option<i64> {
    let (day, time) = text.split_once([' ', 'T'])?;
    let mut parts = day.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let valid = (1970..=2199).contains(&year) && (1..=12).contains(&month);
    if !valid || !(1..=31).contains(&day) {
        return None;
    }
    let mut parts = time.trim_end_matches('Z').splitn(3, ':');
    let (hour, minute) = (parts.next()?.parse::<i64>().ok()?, parts.next()?.parse::<i64>().ok()?);
    let (second, fraction) = match parts.next()?.split_once('.') {
        Some((second, fraction)) => (second.parse::<i64>().ok()?, format!("{fraction:0<9}")),
        None => return None,
    };
    let ns = fraction.get(..9)?.parse::<i64>().ok()?;
    if !(0..24).contains(&hour) || !(0..60).contains(&minute) || !(0..61).contains(&second) {
        return None;
    }
    // Years that begin in March, so that the leap day is the last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let from_2000 = days - 730_425;
    let seconds = ((from_2000 * 24 + hour) * 60 + minute) * 60 + second;
    Some(seconds * 1_000_000_000 + ns)
}
