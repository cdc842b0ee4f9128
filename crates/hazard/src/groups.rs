//! Unordered pairs of conflicting accesses, grouped by timelines and resource.

use crate::access::{Access, SpaceKey};
use crate::clock::TimelineId;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

/// Number of pairs that a group keeps in addition to its count.
const KEPT_PAIRS: usize = 64;

/// Two unordered conflicting accesses, the lower timeline's first.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) of: [Access; 2],
    /// From the start of the resource.
    pub(crate) bytes: Range<u64>,
    /// The index of the write, if the other access is a read that no write precedes.
    pub(crate) only_producer: Option<usize>,
    /// The index of the access assumed first without other evidence.
    pub(crate) guess: usize,
}

impl Pair {
    /// Returns the index of the access issued first, if the calls are ordered on the CPU.
    pub(crate) fn issued_first(&self) -> Option<usize> {
        let [one, other] = [&self.of[0].issued, &self.of[1].issued];
        match (one.precedes_or_is(other), other.precedes_or_is(one)) {
            (true, false) => Some(0),
            (false, true) => Some(1),
            _ => None,
        }
    }
}

/// The pairs of two timelines and a resource.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) count: u64,
    /// The first pairs of different operations.
    pub(crate) pairs: Vec<Pair>,
    seen: HashSet<[u32; 2]>,
}

/// Two timelines, the lower first, the address space, and the resource's name.
pub(crate) type Key = ([TimelineId; 2], SpaceKey, Option<String>);

/// All pairs of a run.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(crate) of: BTreeMap<Key, Group>,
}

impl Groups {
    pub(crate) fn add(&mut self, pair: Pair, space: SpaceKey, resource: Option<String>) {
        let epochs = [pair.of[0].place.epoch, pair.of[1].place.epoch];
        let key = (epochs.map(|epoch| epoch.timeline), space, resource);
        let group = self.of.entry(key).or_default();
        group.count += 1;
        if group.pairs.len() < KEPT_PAIRS && group.seen.insert(epochs.map(|epoch| epoch.tick)) {
            group.pairs.push(pair);
        }
    }
}
