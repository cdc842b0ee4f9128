//! Lays records out on tracks with nested slices, as the Chrome and Perfetto viewers require.
//!
//! Each lane has one track, and further ones for slices that would overlap without nesting (a queue
//! that runs on two engines, a preempted command). Records are placed by start, the longer first,
//! so that outer slices come before inner ones.

use crate::model::{LaneId, Trace};

pub(crate) struct Track {
    /// Index into [`Tracks::groups`].
    pub group: usize,
    pub lane: LaneId,
    /// 0 for the lane's own track, 1 and up for further ones.
    pub number: usize,
}

pub(crate) struct Tracks {
    /// Distinct groups in the order of their first lane.
    pub groups: Vec<String>,
    pub tracks: Vec<Track>,
    /// For each record, the index of its track.
    pub of_record: Vec<usize>,
    group_of_lane: Vec<usize>,
}

impl Tracks {
    pub(crate) fn of(trace: &Trace) -> Tracks {
        let mut groups: Vec<String> = Vec::new();
        let mut group_of_lane = Vec::new();
        for lane in &trace.lanes {
            let found = groups.iter().position(|g| *g == lane.group);
            group_of_lane.push(found.unwrap_or(groups.len()));
            if found.is_none() {
                groups.push(lane.group.clone());
            }
        }
        let (tracks, of_record) = lay_out(trace, &group_of_lane);
        Tracks { groups, tracks, of_record, group_of_lane }
    }

    pub(crate) fn group_of(&self, lane: LaneId) -> usize {
        self.group_of_lane[lane.0 as usize]
    }

    /// The name of the track: its lane's name, with a number from the second track on.
    pub(crate) fn name(&self, trace: &Trace, index: usize) -> String {
        let track = &self.tracks[index];
        let lane = &trace.lanes[track.lane.0 as usize];
        match track.number {
            0 => format!("{} ({})", lane.name, lane.kind.label()),
            n => format!("{} ({}, {})", lane.name, lane.kind.label(), n + 1),
        }
    }
}

fn lay_out(trace: &Trace, group_of_lane: &[usize]) -> (Vec<Track>, Vec<usize>) {
    let mut by_lane: Vec<Vec<usize>> = vec![Vec::new(); trace.lanes.len()];
    for (index, record) in trace.records.iter().enumerate() {
        by_lane[record.lane.0 as usize].push(index);
    }
    let mut tracks = Vec::new();
    let mut of_record = vec![0; trace.records.len()];
    for (lane, mut members) in by_lane.into_iter().enumerate() {
        members.sort_by_key(|&i| {
            let r = &trace.records[i];
            (r.start_ns, std::cmp::Reverse(r.duration_ns()))
        });
        // For each track of this lane, the ends of the slices that are still open, the innermost
        // last.
        let mut open: Vec<Vec<u64>> = vec![Vec::new()];
        let first = tracks.len();
        for index in members {
            let record = &trace.records[index];
            let end = record.start_ns + record.duration_ns();
            let number = free_track(&mut open, record.start_ns, end);
            open[number].push(end);
            of_record[index] = first + number;
        }
        for number in 0..open.len() {
            tracks.push(Track { group: group_of_lane[lane], lane: LaneId(lane as u32), number });
        }
    }
    (tracks, of_record)
}

/// Returns the first track on which a slice from `start` to `end` nests, or a new one.
fn free_track(open: &mut Vec<Vec<u64>>, start: u64, end: u64) -> usize {
    for (number, ends) in open.iter_mut().enumerate() {
        while ends.last().is_some_and(|&until| until <= start) {
            ends.pop();
        }
        if ends.last().is_none_or(|&until| end <= until) {
            return number;
        }
    }
    open.push(Vec::new());
    open.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClockName, Kind, LaneKind, NameId, Record, TraceBuilder};

    #[test]
    fn overlap_takes_a_further_track_and_nesting_does_not() {
        let mut b = TraceBuilder::new("t", ClockName::Virtual);
        let lane = b.add_lane(LaneKind::CpuThread, "app", "main");
        let span = |s, e| Record::span(lane, Kind::KernelCall, NameId::NONE, s, e);
        b.append(vec![span(0, 10), span(2, 5), span(5, 10), span(8, 12), span(12, 13)]);
        let trace = b.finish();
        let tracks = Tracks::of(&trace);
        assert_eq!(tracks.of_record, [0, 0, 0, 1, 0]);
        assert_eq!(tracks.name(&trace, 1), "main (CPU thread, 2)");
    }
}
