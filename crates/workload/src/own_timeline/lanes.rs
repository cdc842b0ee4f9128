//! Restores the timeline from the events of a file.
//!
//! Invariant: a lane has one track, and further ones `(queue, 2)` for slices that overlap; they
//! follow it in the order of the tracks' numbers. Entry points: [`Lanes::track`],
//! [`Lanes::record`], [`Lanes::finish`].

use std::collections::HashMap;

use tidegate_trace::{ClockName, FenceId, Kind, LaneId, LaneKind, LinkId, Record, TraceBuilder};

use crate::recording::Recording;

/// An event of a file. Times in nanoseconds.
pub struct Raw<'a> {
    pub track: u64,
    /// The label of its kind.
    pub kind: &'a str,
    pub name: &'a str,
    pub start: i64,
    pub end: i64,
    pub queued: Option<u64>,
    pub fence: Option<(&'a str, u64)>,
    pub submission: Option<u64>,
    /// The name of its queue.
    pub queue: Option<&'a str>,
}

/// A timeline that is being read.
pub struct Lanes {
    builder: TraceBuilder,
    /// The lane of a track.
    tracks: HashMap<u64, LaneId>,
    /// The newest lane of a name.
    newest: HashMap<(String, String, LaneKind), LaneId>,
    fences: HashMap<String, FenceId>,
    records: Vec<Record>,
    /// The lanes of the queues of a name.
    queues: HashMap<String, Vec<LaneId>>,
    /// The queue of a submission.
    queue_of: HashMap<LinkId, LaneId>,
    /// Records whose queue's name several lanes have.
    open: Vec<usize>,
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            builder: TraceBuilder::new("", ClockName::Virtual),
            tracks: HashMap::new(),
            newest: HashMap::new(),
            fences: HashMap::new(),
            records: Vec::new(),
            queues: HashMap::new(),
            queue_of: HashMap::new(),
            open: Vec::new(),
        }
    }
}

/// The lane's name, its kind, and whether it is a further track: `render (queue, 2)`.
fn parts(name: &str) -> Option<(&str, LaneKind, bool)> {
    let (lane, kind) = name.strip_suffix(')')?.rsplit_once(" (")?;
    let (kind, number) =
        kind.split_once(", ").map_or((kind, None), |(kind, number)| (kind, Some(number)));
    let kind = LaneKind::ALL.into_iter().find(|known| known.label() == kind)?;
    Some((lane, kind, number.is_some()))
}

impl Lanes {
    /// Adds a track. Tracks come in the order of their numbers; tracks that are not lanes are
    /// skipped.
    pub fn track(&mut self, number: u64, group: &str, name: &str) {
        let Some((lane, kind, further)) = parts(name) else { return };
        let key = (group.to_owned(), lane.to_owned(), kind);
        let id = match self.newest.get(&key).filter(|_| further) {
            Some(id) => *id,
            None => self.builder.add_lane(kind, group, lane),
        };
        if kind == LaneKind::Queue && !further {
            self.queues.entry(lane.to_owned()).or_default().push(id);
        }
        self.newest.insert(key, id);
        self.tracks.insert(number, id);
    }

    /// Adds an event. Events of an unknown kind or outside the lanes are skipped.
    pub fn record(&mut self, raw: &Raw<'_>) {
        let kind = Kind::ALL.into_iter().find(|kind| kind.label() == raw.kind);
        let (Some(kind), Some(lane)) = (kind, self.tracks.get(&raw.track).copied()) else { return };
        let name = self.builder.name(if raw.name == kind.label() { "" } else { raw.name });
        let time = |at: i64| u64::try_from(at).unwrap_or(0);
        let mut record = Record::span(lane, kind, name, time(raw.start), time(raw.end));
        if let Some(queued) = raw.queued {
            record = record.queued(queued);
        }
        if let Some(link) = raw.submission.and_then(|number| u32::try_from(number).ok()).map(LinkId)
        {
            record = record.linked(link);
            if kind == Kind::Execute {
                self.queue_of.insert(link, lane);
            }
        }
        match raw.queue.and_then(|queue| self.queues.get(queue)).map(Vec::as_slice) {
            Some([queue]) => record = record.for_queue(*queue),
            Some(_) => self.open.push(self.records.len()),
            None => {}
        }
        if let Some((fence, value)) = raw.fence {
            let id = match self.fences.get(fence) {
                Some(id) => *id,
                None => self.builder.add_fence(fence),
            };
            self.fences.insert(fence.to_owned(), id);
            record = record.on_fence(id, value);
        }
        self.records.push(record);
    }

    /// The recording of the timeline.
    ///
    /// # Errors
    /// A timeline whose engine slices name no queue.
    pub fn finish(mut self) -> Result<Recording, String> {
        for index in self.open {
            let record = &mut self.records[index];
            *record = record.on_queue(self.queue_of.get(&record.link).copied());
        }
        self.builder.append(self.records);
        super::recording(&self.builder.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_track_says_its_lane() {
        assert_eq!(parts("render (queue)"), Some(("render", LaneKind::Queue, false)));
        assert_eq!(parts("a (b) (CPU thread, 2)"), Some(("a (b)", LaneKind::CpuThread, true)));
        assert_eq!(parts("render"), None);
        assert_eq!(parts("render (song)"), None);
    }
}
