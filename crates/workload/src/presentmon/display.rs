//! The display that the frames of a swap chain were shown on.
//!
//! The file names neither refresh period nor frame latency. The shortest common distance between
//! frames on the screen is the period. The latency is the largest number of frames that were on
//! their way to the screen when a present call returned. Entry points: [`refresh`], [`facts`].

use super::frame::Frame;
use crate::recording::{DisplayFacts, StreamId};

/// Shortest and longest refresh period, in nanoseconds.
const PERIODS_NS: std::ops::RangeInclusive<i64> = 1_000_000..=100_000_000;

/// The period of a display that is not known, in nanoseconds: 60 Hz.
const USUAL_PERIOD_NS: i64 = 16_666_667;

/// Distances within one of this many parts of the period count as equal.
const EQUAL_PARTS: i64 = 20;

/// A period must be the distance of one of this many frames.
const COMMON_PARTS: usize = 10;

fn shown(frames: &[Frame]) -> Vec<i64> {
    let mut shown: Vec<i64> = frames.iter().filter_map(|frame| frame.shown).collect();
    shown.sort_unstable();
    shown
}

fn distances(shown: &[i64]) -> impl Iterator<Item = i64> {
    shown.windows(2).map(|pair| pair[1].saturating_sub(pair[0]))
}

/// The refresh period that the frames of a swap chain show, in nanoseconds.
pub fn refresh(frames: &[Frame]) -> Option<i64> {
    let shown = shown(frames);
    let mut sorted: Vec<i64> = distances(&shown).filter(|d| PERIODS_NS.contains(d)).collect();
    sorted.sort_unstable();
    let least = (sorted.len() / COMMON_PARTS).max(2);
    let equal = |first: usize| {
        let most = sorted[first] + sorted[first] / EQUAL_PARTS;
        sorted.partition_point(|distance| *distance <= most) - first
    };
    let first = (0..sorted.len()).find(|first| equal(*first) >= least)?;
    let near = sorted[first + equal(first) / 2];
    // The mean over whole numbers of periods.
    let mut sum = (0, 0);
    for distance in distances(&shown) {
        let periods = (distance + near / 2) / near;
        if periods > 0 && (distance - periods * near).abs() <= near / EQUAL_PARTS {
            sum = (sum.0 + i128::from(distance), sum.1 + i128::from(periods));
        }
    }
    i64::try_from((sum.0 + sum.1 / 2) / sum.1.max(1)).ok().filter(|ns| PERIODS_NS.contains(ns))
}

/// The display of a swap chain whose frames are sorted by their presents.
pub fn facts(frames: &[Frame], refresh: Option<i64>, stream: StreamId) -> DisplayFacts {
    let shown = shown(frames);
    let period = refresh.unwrap_or(USUAL_PERIOD_NS);
    let first = shown.first().copied().unwrap_or(0);
    let mut offsets: Vec<i64> = (shown.iter())
        .map(|at| (at.saturating_sub(first).saturating_add(period / 2)).rem_euclid(period))
        .collect();
    offsets.sort_unstable();
    let offset = offsets.get(offsets.len() / 2).copied().unwrap_or(period / 2) - period / 2;
    DisplayFacts {
        stream,
        refresh_ns: period.unsigned_abs(),
        vsync: first.saturating_add(offset),
        latency: latency(frames, &shown),
    }
}

/// The most frames on their way to the screen when a present call returned, from 1 to 14.
fn latency(frames: &[Frame], shown: &[i64]) -> u32 {
    let (mut presented, mut most) = (0usize, 1);
    for frame in frames {
        presented += usize::from(frame.shown.is_some());
        let arrived = shown.partition_point(|at| *at <= frame.returned);
        most = most.max(presented.saturating_sub(arrived));
    }
    most.min(14) as u32
}
