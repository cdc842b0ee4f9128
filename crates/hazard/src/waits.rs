//! The waits of a timeline. Finds waits that earlier waits imply, and waits for a later value than
//! any access needs.

use crate::clock::{Clock, Epoch};
use crate::fence::{Fence, Relay};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Maximum number of waits of a timeline on one fence that are compared with later accesses.
const KEPT: usize = 1024;

/// A wait that added order.
#[derive(Debug)]
struct Edge {
    value: u64,
    sequence: u64,
    relay: Option<Relay>,
    seen: Arc<Clock>,
    /// For each timeline, its last access that this wait orders before a later access.
    needed: Vec<Epoch>,
}

/// The waits of a timeline on one fence.
#[derive(Debug, Default)]
struct OnFence {
    count: u64,
    redundant: u64,
    first_redundant: u64,
    edges: VecDeque<Edge>,
}

/// The waits of a timeline.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    of: BTreeMap<u32, OnFence>,
}

/// A remark on all waits of a timeline on a fence.
pub(crate) enum Remark {
    /// All of them are redundant.
    Redundant { first: u64, count: u64 },
    /// All that order accesses could wait for a lower value.
    OverWide { value: u64, enough: u64, count: u64 },
}

impl Waits {
    /// Adds the call with number `sequence`, a satisfied wait. `before` is the clock without it,
    /// and `seen` the clock that it acquires.
    pub(crate) fn add(
        &mut self,
        fence: u32,
        value: u64,
        sequence: u64,
        relay: Option<Relay>,
        before: &Clock,
        seen: Arc<Clock>,
    ) {
        let waits = self.of.entry(fence).or_default();
        waits.count += 1;
        if before.covers(&seen) {
            if waits.redundant == 0 {
                waits.first_redundant = value;
            }
            waits.redundant += 1;
            return;
        }
        waits.edges.push_back(Edge { value, sequence, relay, seen, needed: Vec::new() });
        if waits.edges.len() > KEPT {
            waits.edges.pop_front();
        }
    }

    /// Records that the call `before` requires `epoch` to precede, which makes the last wait on
    /// each fence that implies it needed. Calls `relay` with each signal that passes it on, unless
    /// already known. Returns whether there is such a wait.
    pub(crate) fn need(&mut self, epoch: Epoch, before: u64, mut relay: impl FnMut(Relay)) -> bool {
        let mut found = false;
        for waits in self.of.values_mut() {
            let until = waits.edges.partition_point(|edge| edge.sequence < before);
            let Some(edge) = until.checked_sub(1).and_then(|last| waits.edges.get_mut(last)) else {
                continue;
            };
            if !edge.seen.includes(epoch) {
                continue;
            }
            found = true;
            match edge.needed.iter_mut().find(|needed| needed.timeline == epoch.timeline) {
                Some(needed) if needed.tick >= epoch.tick => continue,
                Some(needed) => needed.tick = epoch.tick,
                None => edge.needed.push(epoch),
            }
            edge.relay.filter(|by| by.timeline != epoch.timeline).into_iter().for_each(&mut relay);
        }
        found
    }

    /// Returns the fences with a remark.
    pub(crate) fn remarks(&self, fences: &[Fence]) -> Vec<(u32, Remark)> {
        let mut remarks = Vec::new();
        for (fence, waits) in &self.of {
            if waits.count == waits.redundant {
                let (first, count) = (waits.first_redundant, waits.count);
                remarks.push((*fence, Remark::Redundant { first, count }));
                continue;
            }
            let mut of_use = waits.edges.iter().filter(|edge| !edge.needed.is_empty()).peekable();
            let Some(first) = of_use.peek() else { continue };
            let enough = |edge: &Edge| fences[*fence as usize].enough(edge.value, &edge.needed);
            let Some(value) = enough(first) else { continue };
            let (mut count, wide) = (0, first.value);
            if of_use.all(|edge| {
                count += 1;
                enough(edge).is_some()
            }) {
                remarks.push((*fence, Remark::OverWide { value: wide, enough: value, count }));
            }
        }
        remarks
    }
}
