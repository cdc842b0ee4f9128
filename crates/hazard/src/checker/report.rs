//! The hazards of a check: unordered pairs, the resources of their bytes, and the report.

use super::{Checker, Timeline};
use crate::access::{Access, SpaceKey, Table, side};
use crate::clock::TimelineId;
use crate::edges::{self, Edge, Signals};
use crate::fence::{Fault, Fence};
use crate::finding::{FenceFault, FenceSignal, Hazard, Hint, Report, Side, TimelineKind};
use crate::footprint::AccessKind;
use crate::groups::Pair;
use crate::open_waits::Findings;
use crate::shadow::{AccessId, Accesses, Conflict};
use crate::tiles::View;
use crate::waits::Remark;

impl Checker {
    /// Returns whether a read should precede the write that is unordered with it.
    ///
    /// A read that no write precedes is intended to read the data of this write. The first read
    /// after a write of its own timeline is intended to read that write's data, before its bytes
    /// are reused. Any other pair has the order of its calls.
    fn read_is_first(&self, read: AccessId, write: AccessId, conflict: &Conflict) -> bool {
        let at = |id: AccessId| &self.accesses[id.0 as usize];
        let Some(producer) = conflict.producer else {
            return false;
        };
        let is_first = |first: AccessId| at(first).place.epoch == at(read).place.epoch;
        if Table(&self.accesses).same_timeline(producer, write)
            && conflict.first_read.is_none_or(is_first)
        {
            return true;
        }
        at(read).sequence < at(write).sequence
    }

    pub(super) fn note(&mut self, space: SpaceKey, new: AccessId, conflict: Conflict) {
        let (earlier, kind) = (conflict.earlier, conflict.kind);
        let (new_access, old_access) =
            (&self.accesses[new.0 as usize], &self.accesses[earlier.0 as usize]);
        let no_producer = conflict.producer.is_none();
        let (only_producer, new_is_first) = match (kind, new_access.kind) {
            // A submission that read the bytes before the write is intended to read the same data
            // again.
            (AccessKind::Write, AccessKind::Read) => {
                let epoch_of = |id: AccessId| self.accesses[id.0 as usize].place.epoch;
                let repeats =
                    conflict.first_read.is_some_and(|first| epoch_of(first) == epoch_of(new));
                let new_is_first = repeats || self.read_is_first(new, earlier, &conflict);
                ((no_producer && !repeats).then_some(earlier), new_is_first)
            }
            (AccessKind::Read, AccessKind::Write) => {
                (no_producer.then_some(new), !self.read_is_first(earlier, new, &conflict))
            }
            _ => (None, new_access.sequence < old_access.sequence),
        };
        let first = if new_is_first { new } else { earlier };
        let timeline = |id: AccessId| self.accesses[id.0 as usize].place.epoch.timeline;
        let ids = if timeline(new) < timeline(earlier) { [new, earlier] } else { [earlier, new] };
        let tiles = [earlier, new].map(|id| {
            let submission = self.accesses[id.0 as usize].submission.as_ref()?;
            Some(submission.tiles.as_ref()?.views(&conflict.range))
        });
        let mut views: Vec<View> = tiles.into_iter().flatten().flatten().collect();
        views.sort_unstable_by_key(|view| view.address);
        views.dedup();
        let (resource, start) = self.resources.name_of(space, &conflict.range, &views);
        let pair = Pair {
            of: ids.map(|id| self.accesses[id.0 as usize].clone()),
            bytes: conflict.range.start - start..conflict.range.end - start,
            only_producer: only_producer.map(|id| usize::from(ids[1] == id)),
            guess: usize::from(ids[1] == first),
        };
        self.groups.add(pair, space, resource);
    }

    /// Returns the findings so far.
    pub fn report(&mut self) -> Report {
        self.report_on(None)
    }

    /// Returns the findings so far about one device: its memory, its queues and its fences. A
    /// circle of waits may have other devices in it, as long as they exist.
    pub fn report_of(&mut self, space: SpaceKey) -> Report {
        self.report_on(Some(space))
    }

    fn report_on(&mut self, only: Option<SpaceKey>) -> Report {
        for index in 0..self.timelines.len() {
            self.add_presents(TimelineId(index as u32), u32::MAX);
        }
        let edges = edges::missing(&self.groups, &Signals::of(&self.fences), only);
        let hazards_of = |edges: &[Edge]| edges.iter().map(|edge| self.hazard(edge)).collect();
        let (hazards, implied) = (hazards_of(&edges.needed), hazards_of(&edges.implied));
        let Findings { deadlocks, unsignalled } = self.wait_findings(only);
        Report { hazards, implied, hints: self.hints(only), deadlocks, unsignalled }
    }

    // spec: ME-074
    fn hazard(&self, edge: &Edge) -> Hazard {
        let Pair { of, bytes, .. } = edge.pair;
        let signal = edge.signal.as_ref().map(|signal| {
            let of = &self.timelines[signal.timeline.0 as usize];
            let (fence, timeline) = (signal.fence.clone(), of.name.clone());
            let fault = signal.fault.map(|fault| self.fault(fault));
            FenceSignal { fence, value: signal.value, kind: of.kind, timeline, fault }
        });
        Hazard {
            first: describe(&self.timelines, &of[edge.first]),
            second: describe(&self.timelines, &of[1 - edge.first]),
            resource: edge.resource.clone(),
            signal,
            bytes: bytes.clone(),
            count: edge.group.count,
        }
    }

    fn fault(&self, fault: Fault) -> FenceFault {
        let name = |id: TimelineId| self.timelines[id.0 as usize].name.clone();
        match fault {
            Fault::Unordered(timelines) => FenceFault::TwoSignallers(timelines.map(name)),
            Fault::Falls { timeline, from, to } => {
                FenceFault::Falls { timeline: name(timeline), from, to }
            }
        }
    }

    fn hints(&self, only: Option<SpaceKey>) -> Vec<Hint> {
        let is_wanted = |fence: &Fence| only.is_none_or(|only| fence.spaces.contains(&only));
        let mut hints = Vec::new();
        for timeline in &self.timelines {
            for (fence, remark) in timeline.waits.remarks(&self.fences) {
                let fence = &self.fences[fence as usize];
                let is_own = only == Some(timeline.space);
                // A queue of another device waits for a shared fence.
                let is_of_another = timeline.kind != TimelineKind::Thread && !is_own;
                if only.is_some() && (is_of_another || !is_wanted(fence)) {
                    continue;
                }
                // Such a wait adds no order because of the fence, and may be needed all the same.
                if fence.fault.is_some() {
                    continue;
                }
                let (waiter, fence) = (timeline.name.clone(), fence.name.clone());
                hints.push(match remark {
                    Remark::Redundant { first: value, count } => {
                        Hint::RedundantWait { waiter, fence, value, count, of: count }
                    }
                    Remark::OverWide { value, enough, count } => {
                        Hint::OverWideWait { waiter, fence, value, enough, count }
                    }
                });
            }
        }
        for fence in self.fences.iter().filter(|fence| is_wanted(fence)) {
            if let Some(fault) = fence.fault {
                let fault = self.fault(fault);
                hints.push(Hint::FaultyFence { fence: fence.name.clone(), fault });
            }
        }
        hints
    }
}

fn describe(timelines: &[Timeline], access: &Access) -> Side {
    let timeline = &timelines[access.place.epoch.timeline.0 as usize];
    side(timeline.kind, &timeline.name, access)
}
