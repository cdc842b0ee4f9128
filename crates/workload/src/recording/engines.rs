//! Assigns engines to streams.
//!
//! Streams of a device run concurrently, so each gets a separate engine while engines last.
//! Streams that only copy use copy engines, all others compute engines. When engines run out,
//! streams that did not overlap in the recording share an engine first. Lost overlap is reported.
//! Entry point: [`assign`]. Reasons: `decisions/0036-engines-for-streams.md`.

use std::collections::BTreeMap;

use super::correlate::Joined;
use super::records::WorkKind;
use crate::model::EngineKind;
use crate::model::recorded::SharedEngine;

/// Compute engines and copy engines that a replay may use. With one 3D engine they are the 48 that
/// the modelled GPU has bits for in its interrupt cause.
const MOST_COMPUTE: usize = 32;
const MOST_COPY: usize = 15;

/// The engines of a replay.
pub struct Engines {
    /// The engine of each stream and its number.
    pub of_streams: Vec<(EngineKind, u32)>,
    /// Streams that share an engine with another.
    pub shares: Vec<bool>,
    /// Engines whose streams overlapped.
    pub overlapped: Vec<SharedEngine>,
}

/// Assigns engines.
pub fn assign(joined: &Joined) -> Engines {
    let busy = busy_times(joined);
    let mut kernels = vec![false; joined.streams.len()];
    joined.work.iter().for_each(|work| kernels[work.stream()] |= work.kind == WorkKind::Kernel);
    // A stream without work needs no engine of its own.
    let only_copies = |stream: usize| !kernels[stream] && !busy[stream].is_empty();
    let mut engines: Vec<(EngineKind, u32)> = (0..busy.len())
        .map(|stream| (if only_copies(stream) { EngineKind::Copy } else { EngineKind::Compute }, 0))
        .collect();
    overflow(&mut engines, &busy);
    let mut overlapped = Vec::new();
    let mut shares = vec![false; busy.len()];
    for (kind, most) in [(EngineKind::Compute, MOST_COMPUTE), (EngineKind::Copy, MOST_COPY)] {
        let of_kind = |stream: &usize| engines[*stream].0 == kind && !busy[*stream].is_empty();
        let streams: Vec<usize> = (0..busy.len()).filter(of_kind).collect();
        let device = |stream: usize| joined.streams[stream].device;
        let of_devices = by_device(&streams, device, most);
        let spread = of_devices.iter().flat_map(|(streams, most)| spread(streams, &busy, *most));
        for (node, (members, overlapped_ns)) in spread.enumerate() {
            if members.len() > 1 {
                members.iter().for_each(|stream| shares[*stream] = true);
            }
            members.iter().for_each(|stream| engines[*stream].1 = u32::try_from(node).unwrap_or(0));
            if overlapped_ns > 0 {
                let streams =
                    members.iter().map(|stream| joined.streams[*stream].name.clone()).collect();
                overlapped.push(SharedEngine {
                    engine: format!("{kind} {node}"),
                    streams,
                    overlapped_ns,
                });
            }
        }
    }
    Engines { of_streams: engines, shares, overlapped }
}

/// Gives copy engines that no copies need to the streams that are least busy, where there are more
/// than compute engines. Recorded work is timed work, which every engine runs.
fn overflow(engines: &mut [(EngineKind, u32)], busy: &[Busy]) {
    let of_kind = |engines: &[(EngineKind, u32)], kind: EngineKind| -> Vec<usize> {
        let used = |stream: &usize| engines[*stream].0 == kind && !busy[*stream].is_empty();
        (0..busy.len()).filter(used).collect()
    };
    let mut streams = of_kind(engines, EngineKind::Compute);
    let spare = MOST_COPY.saturating_sub(of_kind(engines, EngineKind::Copy).len());
    let more = streams.len().saturating_sub(MOST_COMPUTE).min(spare);
    streams.sort_by_key(|stream| (length(&busy[*stream]), std::cmp::Reverse(*stream)));
    streams[..more].iter().for_each(|stream| engines[*stream].0 = EngineKind::Copy);
}

/// Divides streams by their device, each with the number of engines that it may use. Only with more
/// devices than engines do streams of several devices share.
fn by_device<D: Ord>(
    streams: &[usize],
    device: impl Fn(usize) -> D,
    most: usize,
) -> Vec<(Vec<usize>, usize)> {
    let mut devices: BTreeMap<D, Vec<usize>> = BTreeMap::new();
    streams.iter().for_each(|stream| devices.entry(device(*stream)).or_default().push(*stream));
    if most >= streams.len() || devices.len() > most {
        return vec![(streams.to_vec(), most)];
    }
    let mut divided: Vec<(Vec<usize>, usize)> =
        devices.into_values().map(|streams| (streams, 1)).collect();
    for _ in divided.len()..most {
        // To the device with the most streams for each engine; of equal ones the first.
        let sharing = divided.iter_mut().rev().filter(|(streams, given)| streams.len() > *given);
        let worst = sharing.max_by_key(|(streams, given)| streams.len() * 1_000 / *given);
        worst.into_iter().for_each(|(_, given)| *given += 1);
    }
    divided
}

/// When a stream or an engine was at work: intervals in order, without overlap. Zero-length work
/// does not count.
type Busy = Vec<(u64, u64)>;

fn busy_times(joined: &Joined) -> Vec<Busy> {
    let mut busy: Vec<Busy> = vec![Vec::new(); joined.streams.len()];
    // Work is in the order of its start.
    for work in &joined.work {
        let busy = &mut busy[work.stream()];
        match busy.last_mut() {
            Some((_, end)) if work.start <= *end => *end = work.end.max(*end),
            _ => busy.push((work.start, work.end)),
        }
    }
    busy
}

/// Spreads streams over at most `most` engines; returns the streams of each engine and how long
/// they overlapped.
fn spread(streams: &[usize], busy: &[Busy], most: usize) -> Vec<(Vec<usize>, u64)> {
    if streams.len() <= most {
        return streams.iter().map(|stream| (vec![*stream], 0)).collect();
    }
    // The busiest first: the last streams may have to share, and lose least.
    let mut order = streams.to_vec();
    order.sort_by_key(|stream| (std::cmp::Reverse(length(&busy[*stream])), *stream));
    let mut engines: Vec<Taken> = Vec::new();
    for stream in order {
        let new = &busy[stream];
        let best = if engines.len() < most {
            engines.push(Taken::default());
            engines.last_mut()
        } else {
            engines.iter_mut().min_by_key(|engine| (overlap(&engine.busy, new), engine.load_ns))
        };
        let Some(best) = best else { continue };
        best.overlapped_ns += overlap(&best.busy, new);
        best.busy = union(&best.busy, new);
        best.load_ns += length(new);
        best.streams.push(stream);
    }
    engines.into_iter().map(|engine| (engine.streams, engine.overlapped_ns)).collect()
}

/// An engine with the streams that it has been given.
#[derive(Default)]
struct Taken {
    streams: Vec<usize>,
    busy: Busy,
    /// Work of all its streams together, in nanoseconds.
    load_ns: u64,
    overlapped_ns: u64,
}

/// How long it was at work.
fn length(busy: &Busy) -> u64 {
    busy.iter().map(|(start, end)| end - start).sum()
}

/// How long both are at work.
fn overlap(a: &Busy, b: &Busy) -> u64 {
    let (mut i, mut j, mut both) = (0, 0, 0);
    while let (Some((a_start, a_end)), Some((b_start, b_end))) = (a.get(i), b.get(j)) {
        both += a_end.min(b_end).saturating_sub(*a_start.max(b_start));
        *if a_end < b_end { &mut i } else { &mut j } += 1;
    }
    both
}

/// When at least one is at work.
fn union(a: &Busy, b: &Busy) -> Busy {
    let mut all: Busy = a.iter().chain(b).copied().collect();
    all.sort_unstable();
    let mut merged = Busy::new();
    for (start, end) in all {
        match merged.last_mut() {
            Some((_, last)) if start <= *last => *last = end.max(*last),
            _ => merged.push((start, end)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_belong_to_their_device() {
        let streams: Vec<usize> = (0..9).collect();
        // Five streams on device 0, two on device 1, two on device 2.
        let device = |stream: usize| [0, 0, 0, 0, 0, 1, 1, 2, 2][stream];
        let divided = |most| {
            let of_devices = by_device(&streams, device, most);
            of_devices.iter().map(|(streams, most)| (streams.len(), *most)).collect::<Vec<_>>()
        };
        assert_eq!(divided(9), [(9, 9)], "each stream has its own");
        assert_eq!(divided(6), [(5, 3), (2, 2), (2, 1)]);
        assert_eq!(divided(3), [(5, 1), (2, 1), (2, 1)]);
        assert_eq!(divided(2), [(9, 2)], "more devices than engines");
    }

    #[test]
    fn streams_that_did_not_overlap_share_first() {
        // 0 and 1 overlap all the time, 2 runs after both, 3 overlaps 0 for 5 and 1 for 2.
        let busy: Vec<Busy> = vec![
            vec![(0, 100)],
            vec![(0, 90)],
            vec![(100, 120)],
            vec![(88, 92), (95, 100), (120, 124)],
        ];
        let spread = |streams: &[usize], most| spread(streams, &busy, most);
        assert_eq!(spread(&[0, 1, 2], 3), [(vec![0], 0), (vec![1], 0), (vec![2], 0)]);
        let none_shares = [(vec![2], 0), (vec![1], 0)];
        assert_eq!(spread(&[2, 1], 2), none_shares, "and they keep their order");
        assert_eq!(spread(&[0, 1, 2], 2), [(vec![0], 0), (vec![1, 2], 0)]);
        assert_eq!(spread(&[0, 1, 3], 2), [(vec![0], 0), (vec![1, 3], 2)]);
        assert_eq!(spread(&[0, 1, 2, 3], 2), [(vec![0], 0), (vec![1, 2, 3], 2)]);
        assert_eq!(spread(&[0, 1], 1), [(vec![0, 1], 90)]);
        assert_eq!(union(&busy[0], &busy[3]), [(0, 100), (120, 124)]);
    }
}
