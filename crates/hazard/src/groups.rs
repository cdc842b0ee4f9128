//! Pairs of conflicting accesses, grouped by their timelines and resource, and reduced to the edges
//! that end them all.

use crate::clock::{Clock, Epoch, TimelineId};
use crate::finding::Hazard;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pairs that a group remembers beside its count.
const KEPT_PAIRS: usize = 32;

/// The place of an access in the order.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) epoch: Epoch,
    pub(crate) clock: Arc<Clock>,
}

impl Place {
    fn precedes_or_is(&self, other: &Place) -> bool {
        other.clock.includes(self.epoch)
    }
}

/// The edge that would order a pair.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) from: Place,
    pub(crate) to: Place,
}

impl Edge {
    /// Returns whether adding this edge orders the pair of `other` too.
    fn implies(&self, other: &Edge) -> bool {
        other.from.precedes_or_is(&self.from) && self.to.precedes_or_is(&other.to)
    }
}

#[derive(Debug)]
struct Group {
    hazard: Hazard,
    edges: Vec<Edge>,
}

/// From, to, and the resource's name.
type Key = (TimelineId, TimelineId, Option<String>);

/// All hazards of a run.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    of: BTreeMap<Key, Group>,
}

impl Groups {
    pub(crate) fn add(
        &mut self,
        edge: Edge,
        resource: Option<String>,
        hazard: impl FnOnce() -> Hazard,
    ) {
        let key = (edge.from.epoch.timeline, edge.to.epoch.timeline, resource);
        let group =
            self.of.entry(key).or_insert_with(|| Group { hazard: hazard(), edges: Vec::new() });
        group.hazard.count += 1;
        if group.edges.len() < KEPT_PAIRS {
            group.edges.push(edge);
        }
    }

    /// Returns the hazards whose edges no other missing edge implies, and the others.
    pub(crate) fn reduced(&self) -> (Vec<Hazard>, Vec<Hazard>) {
        let groups: Vec<&Group> = self.of.values().collect();
        let first = |group: &Group| group.edges[0].clone();
        let (mut needed, mut implied) = (Vec::new(), Vec::new());
        for (at, group) in groups.iter().enumerate() {
            let edge = first(group);
            let is_implied = groups.iter().enumerate().any(|(other_at, other)| {
                other_at != at
                    && other.edges.iter().any(|other| {
                        other.implies(&edge) && (!edge.implies(other) || other_at < at)
                    })
            });
            let list = if is_implied { &mut implied } else { &mut needed };
            list.push(group.hazard.clone());
        }
        (needed, implied)
    }
}
