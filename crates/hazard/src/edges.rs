//! Derives the missing edges from unordered pairs.
//!
//! The direction of a pair is the intended program's, in which one edge is missing. It is
//! derived from the following evidence, in this order:
//!
//! 1. signals: one side signals a fence after its access and the other never waits for it, while
//!    the other's own signal has a waiter. If the pairs with this evidence agree, it holds for all
//!    pairs of their group and for each pair that such an edge resolves. Otherwise, a falling
//!    signal behind only one side of a fence for which the other waits, or a signal without a
//!    waiter that covers only one side;
//! 2. data: a read that no write precedes comes after the write, unless the calls of the group's
//!    other pairs contradict that;
//! 3. calls: the order in which the CPU made the two calls, if they have one;
//! 4. the guess from the history of the bytes.
//!
//! An edge begins at the signal that a wait could use. It resolves all pairs that the wait would
//! order.

use crate::access::SpaceKey;
use crate::clock::{Clock, Epoch, Place, TimelineId};
use crate::fence::{Fault, Fence};
use crate::groups::{Group, Groups, Pair};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of edges that are compared with each other.
const COMPARED: usize = 4096;

/// A signal of a timeline.
struct Made<'a> {
    fence: &'a Fence,
    value: u64,
    tick: u32,
    clock: &'a Arc<Clock>,
    waiters: &'a [TimelineId],
}

impl Made<'_> {
    /// Returns whether it has no waiter, and no timeline except `to` waits for its fence. Some
    /// values of a fence that limits how far a thread runs ahead legitimately have no waiter.
    fn is_unused(&self, to: &Place) -> bool {
        self.waiters.is_empty()
            && self.fence.waiters.iter().all(|waiter| *waiter == to.epoch.timeline)
    }

    /// Returns whether only `to` waits for it, and too late: the signal does not precede the access
    /// of `to`.
    fn is_late(&self, to: &Place) -> bool {
        self.waiters.iter().all(|waiter| *waiter == to.epoch.timeline)
            && self.fence.waiters.iter().all(|waiter| *waiter == to.epoch.timeline)
    }
}

/// The signals of each timeline, in their order.
type ByTimeline<'a> = BTreeMap<TimelineId, Vec<Made<'a>>>;

/// All signals of a run by timeline.
pub(crate) struct Signals<'a> {
    raising: ByTimeline<'a>,
    /// Signals of a value that was reached before, on fences that fall.
    falling: ByTimeline<'a>,
}

impl<'a> Signals<'a> {
    pub(crate) fn of(fences: &'a [Fence]) -> Signals<'a> {
        let mut all = Signals { raising: BTreeMap::new(), falling: BTreeMap::new() };
        for fence in fences {
            for signal in fence.signals() {
                let Some(Epoch { timeline, tick }) = signal.epoch else {
                    continue;
                };
                let (value, clock, waiters) = (signal.value, &signal.clock, &signal.waiters);
                let made = Made { fence, value, tick, clock, waiters };
                let of = match fence.fault {
                    _ if signal.raises => &mut all.raising,
                    Some(Fault::Falls { .. }) => &mut all.falling,
                    _ => continue,
                };
                of.entry(timeline).or_default().push(made);
            }
        }
        for made in all.raising.values_mut().chain(all.falling.values_mut()) {
            made.sort_by_key(|made| made.tick);
        }
        all
    }

    /// Returns the first falling signal after `from` on a fence for which `to` waits.
    fn falling(&self, from: &Place, to: &Place) -> Option<(TimelineId, &Made<'a>)> {
        let (own, waiter) = (from.epoch.timeline, to.epoch.timeline);
        let mut made = self.falling.get(&own)?.iter().filter(|made| made.tick >= from.epoch.tick);
        made.find(|made| made.fence.waiters.contains(&waiter)).map(|made| (own, made))
    }

    /// Returns the first signal after a place and those that directly follow it.
    fn behind(&self, place: &Place) -> &[Made<'a>] {
        let Some(made) = self.raising.get(&place.epoch.timeline) else {
            return &[];
        };
        let made = &made[made.partition_point(|made| made.tick < place.epoch.tick)..];
        let run = made.windows(2).take_while(|two| two[1].tick <= two[0].tick + 1).count();
        &made[..made.len().min(run + 1)]
    }

    /// Returns whether `to` never waits for the signal after `from`, while the signal after `to`
    /// has a waiter.
    fn lacks_wait(&self, from: &Place, to: &Place) -> bool {
        let (ends, begins) = (self.behind(from), self.behind(to));
        let unused = ends.iter().any(|made| made.is_unused(to));
        let is_used = begins.iter().any(|made| !made.waiters.is_empty());
        let [from, to] = [from.epoch.timeline, to.epoch.timeline];
        let unused_here = !ends.is_empty() && ends.iter().all(|made| !made.waiters.contains(&to));
        let is_used_there = begins.iter().any(|made| made.waiters.contains(&from));
        unused && is_used || unused_here && is_used_there
    }

    /// Returns, for each timeline except the one of `to`, the first signal that covers `from`, does
    /// not depend on `to`, and has no waiter, or with `late` at most a late one.
    fn unused(
        &self,
        from: &Place,
        to: &Place,
        late: bool,
    ) -> impl Iterator<Item = (TimelineId, &Made<'a>)> {
        let others = self.raising.iter().filter(|(timeline, _)| **timeline != to.epoch.timeline);
        others.filter_map(move |(timeline, made)| {
            let mut covering = made.iter().filter(|made| made.clock.includes(from.epoch));
            let is_free = |made: &Made| {
                if late { made.is_late(to) } else { made.is_unused(to) }
            };
            let unused = covering.find(|made| is_free(made) && !made.clock.includes(to.epoch));
            unused.map(|made| (*timeline, made))
        })
    }

    /// Returns the signal that a wait before `to` could use. In order of preference: one directly
    /// after `from` without a waiter; a later one without a waiter, on a fence for which only `to`
    /// waits; one of another timeline without a waiter that covers `from`; any directly after
    /// `from`. A signal that depends on `to` would never be made.
    fn usable(&self, from: &Place, to: &Place) -> Option<(TimelineId, &Made<'a>)> {
        let own = from.epoch.timeline;
        let made = self.behind(from).iter().filter(|made| !made.clock.includes(to.epoch));
        let unused = made.clone().find(|made| made.is_unused(to));
        let direct = unused
            .or_else(|| made.clone().find(|made| made.is_late(to)))
            .or_else(|| made.clone().find(|made| made.waiters.is_empty()));
        let direct = direct.map(|made| (own, made));
        let mut unused = self.unused(from, to, false).chain(self.unused(from, to, true));
        let any = || made.clone().next().map(|made| (own, made));
        direct.or_else(|| unused.next()).or_else(any)
    }

    /// Returns the access of a pair that is followed by a signal without a waiter, if only one is.
    fn first_by_unused(&self, pair: &Pair) -> Option<usize> {
        let [one, other] = [&pair.of[0].place, &pair.of[1].place];
        [false, true].into_iter().find_map(|late| {
            let any = |from, to| self.unused(from, to, late).next().is_some();
            match (any(one, other), any(other, one)) {
                (true, false) => Some(0),
                (false, true) => Some(1),
                _ => None,
            }
        })
    }

    /// Returns the access of a pair that is followed by a falling signal of a fence for which the
    /// other side waits, if only one is.
    fn first_by_falling(&self, pair: &Pair) -> Option<usize> {
        let [one, other] = [&pair.of[0].place, &pair.of[1].place];
        match (self.falling(one, other).is_some(), self.falling(other, one).is_some()) {
            (true, false) => Some(0),
            (false, true) => Some(1),
            _ => None,
        }
    }

    /// Returns which access of a pair has a signal after it for which the other side does not wait.
    fn first_by_signals(&self, pair: &Pair) -> Option<usize> {
        let [one, other] = [&pair.of[0].place, &pair.of[1].place];
        match (self.lacks_wait(one, other), self.lacks_wait(other, one)) {
            (true, false) => Some(0),
            (false, true) => Some(1),
            _ => None,
        }
    }
}

/// Returns the common value of `votes`; `None` if there are none or they differ.
fn unanimous(mut votes: impl Iterator<Item = usize>) -> Option<usize> {
    let first = votes.next()?;
    votes.all(|vote| vote == first).then_some(first)
}

/// Returns for each pair of a group which access comes first, if signals determine it.
fn by_signals(group: &Group, signals: &Signals, kept: usize) -> Vec<Option<usize>> {
    let pairs = group.pairs.iter().take(kept);
    let each: Vec<_> = pairs.map(|pair| signals.first_by_signals(pair)).collect();
    match unanimous(each.iter().copied().flatten()) {
        Some(first) => vec![Some(first); each.len()],
        None => each,
    }
}

/// Returns which access of a pair comes first if signals do not determine it.
fn without_signals(group: &Group, pair: &Pair) -> usize {
    let others = group.pairs.iter().filter(|pair| pair.only_producer.is_none());
    let of_calls = unanimous(others.filter_map(Pair::issued_first));
    let by_data = pair.only_producer.map(|producer| of_calls.unwrap_or(producer));
    let by_calls = by_data.or_else(|| pair.issued_first()).or(of_calls);
    by_calls.unwrap_or(pair.guess)
}

/// A missing edge.
pub(crate) struct Edge<'a> {
    pub(crate) resource: &'a Option<String>,
    pub(crate) group: &'a Group,
    pub(crate) pair: &'a Pair,
    /// Which access of the pair comes first.
    pub(crate) first: usize,
    /// The clock that a wait for the signal would acquire.
    source: Arc<Clock>,
    pub(crate) signal: Option<UsableSignal>,
}

/// A signal that a wait could use.
pub(crate) struct UsableSignal {
    pub(crate) timeline: TimelineId,
    pub(crate) fence: String,
    pub(crate) value: u64,
    pub(crate) fault: Option<Fault>,
}

impl<'a> Edge<'a> {
    fn of(
        resource: &'a Option<String>,
        group: &'a Group,
        pair: &'a Pair,
        first: usize,
        signals: &Signals,
    ) -> Edge<'a> {
        let (from, to) = (&pair.of[first].place, &pair.of[1 - first].place);
        let usable = signals.usable(from, to).or_else(|| signals.falling(from, to));
        let source = usable.map_or(&from.clock, |(_, made)| made.clock).clone();
        let signal = usable.map(|(timeline, made)| UsableSignal {
            timeline,
            fence: made.fence.name.clone(),
            value: made.value,
            fault: made.fence.fault,
        });
        Edge { resource, group, pair, first, source, signal }
    }

    fn to(&self) -> &Place {
        &self.pair.of[1 - self.first].place
    }

    /// Returns whether adding this edge orders the pair of `other` too.
    fn implies(&self, other: &Edge) -> bool {
        self.source.includes(other.pair.of[other.first].place.epoch)
            && self.to().precedes_or_is(other.to())
    }
}

/// The edges of a run.
pub(crate) struct Edges<'a> {
    /// One per group and direction whose pairs no other edge resolves.
    pub(crate) needed: Vec<Edge<'a>>,
    /// One per other group and direction.
    pub(crate) implied: Vec<Edge<'a>>,
}

/// Returns the missing edges of one address space, or of all.
pub(crate) fn missing<'a>(
    groups: &'a Groups,
    signals: &Signals,
    only: Option<SpaceKey>,
) -> Edges<'a> {
    let is_wanted = |space: SpaceKey| only.is_none_or(|only| only == space);
    let wanted = || groups.of.iter().filter(|((_, space, _), _)| is_wanted(*space));
    let kept = (COMPARED / wanted().count().max(1)).max(1);
    let mut edges: Vec<Edge> = Vec::new();
    let mut open = Vec::new();
    for ((_, _, resource), group) in wanted() {
        for (pair, first) in group.pairs.iter().zip(by_signals(group, signals, kept)) {
            match first {
                Some(first) => edges.push(Edge::of(resource, group, pair, first, signals)),
                None => open.push((resource, group, pair)),
            }
        }
    }
    // A pair that an edge of stronger evidence resolves takes the direction of that edge. A wait of
    // the CPU that is left out leaves pairs of other queues unordered, which have weaker evidence.
    let by_unused =
        |pair: &Pair| signals.first_by_falling(pair).or_else(|| signals.first_by_unused(pair));
    for is_last in [false, true] {
        let found = edges.len();
        open = std::mem::take(&mut open)
            .into_iter()
            .filter(|(resource, group, pair)| {
                let ways = [0, 1].map(|first| Edge::of(resource, group, pair, first, signals));
                let is_ended = |way: &Edge| edges[..found].iter().any(|of| of.implies(way));
                let first = match ways.each_ref().map(is_ended) {
                    [true, false] => Some(0),
                    [false, true] => Some(1),
                    _ if is_last => Some(without_signals(group, pair)),
                    _ => by_unused(pair),
                };
                let kept = first.and_then(|first| ways.into_iter().nth(first));
                let is_open = kept.is_none();
                edges.extend(kept);
                is_open
            })
            .collect();
    }
    // Backwards, so that the first of two equal edges remains.
    let mut is_needed = vec![true; edges.len()];
    for at in (0..edges.len()).rev() {
        let others = edges.iter().zip(&is_needed).enumerate();
        let mut stronger = others.filter(|(other, (_, needed))| *other != at && **needed);
        is_needed[at] = !stronger.any(|(_, (other, _))| other.implies(&edges[at]));
    }
    one_for_each_group(edges, &is_needed)
}

fn one_for_each_group<'a>(edges: Vec<Edge<'a>>, is_needed: &[bool]) -> Edges<'a> {
    let same = |one: &Edge, other: &Edge| std::ptr::eq(one.group, other.group);
    let (mut needed, mut implied): (Vec<Edge>, Vec<Edge>) = (Vec::new(), Vec::new());
    let mut others = Vec::new();
    for (edge, is_needed) in edges.into_iter().zip(is_needed) {
        if !is_needed {
            others.push(edge);
        } else if !needed.iter().any(|of| same(of, &edge) && of.first == edge.first) {
            needed.push(edge);
        }
    }
    for edge in others {
        if !needed.iter().chain(&implied).any(|of| same(of, &edge)) {
            implied.push(edge);
        }
    }
    Edges { needed, implied }
}
