//! Vector clocks: for each timeline, the number of its operations that precede.
//!
//! Ticks of a timeline count from 1. A clock that lacks a timeline has seen none of its operations.

use std::sync::Arc;

/// The number of a timeline: a queue, a CPU thread or the display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TimelineId(pub u32);

/// One operation of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Epoch {
    /// The timeline.
    pub timeline: TimelineId,
    /// Its tick.
    pub tick: u32,
}

/// For each timeline, the tick of its last operation that precedes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    ticks: Vec<u32>,
}

impl Clock {
    /// Returns the tick of a timeline.
    pub fn tick(&self, timeline: TimelineId) -> u32 {
        self.ticks.get(timeline.0 as usize).copied().unwrap_or(0)
    }

    /// Returns whether an operation precedes, or is the clock's own.
    pub fn includes(&self, epoch: Epoch) -> bool {
        self.tick(epoch.timeline) >= epoch.tick
    }

    /// Advances a timeline by one and returns its tick.
    pub fn advance(&mut self, timeline: TimelineId) -> u32 {
        let index = timeline.0 as usize;
        if self.ticks.len() <= index {
            self.ticks.resize(index + 1, 0);
        }
        self.ticks[index] += 1;
        self.ticks[index]
    }

    /// Adds everything that precedes `other`. Returns whether the clock changed.
    pub fn join(&mut self, other: &Clock) -> bool {
        if self.ticks.len() < other.ticks.len() {
            self.ticks.resize(other.ticks.len(), 0);
        }
        let mut changed = false;
        for (mine, theirs) in self.ticks.iter_mut().zip(&other.ticks) {
            changed |= *theirs > *mine;
            *mine = (*mine).max(*theirs);
        }
        changed
    }

    /// Returns whether everything that precedes `other` also precedes this.
    pub fn covers(&self, other: &Clock) -> bool {
        let mut others = other.ticks.iter().enumerate();
        others.all(|(index, tick)| self.tick(TimelineId(index as u32)) >= *tick)
    }

    /// Keeps only what also precedes `other`.
    pub fn meet(&mut self, other: &Clock) {
        self.ticks.truncate(other.ticks.len());
        for (mine, theirs) in self.ticks.iter_mut().zip(&other.ticks) {
            *mine = (*mine).min(*theirs);
        }
    }
}

/// The place of an access in the order.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) epoch: Epoch,
    pub(crate) clock: Arc<Clock>,
}

impl Place {
    pub(crate) fn precedes_or_is(&self, other: &Place) -> bool {
        other.clock.includes(self.epoch)
    }
}

/// The operations that a thread has released.
#[derive(Clone, Debug, Default)]
pub struct Released(pub(crate) Clock);

impl Released {
    /// Adds the operations that another thread released.
    pub fn join(&mut self, other: &Released) {
        self.0.join(&other.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_is_an_upper_bound_and_meet_a_lower_one() {
        let (a, b) = (TimelineId(0), TimelineId(3));
        let (mut left, mut right) = (Clock::default(), Clock::default());
        left.advance(a);
        right.advance(b);
        right.advance(b);
        let mut both = left.clone();
        assert!(both.join(&right));
        assert!(!both.join(&right));
        assert!(both.covers(&left) && both.covers(&right) && !left.covers(&both));
        assert_eq!((both.tick(a), both.tick(b)), (1, 2));
        let mut neither = left.clone();
        neither.meet(&right);
        assert_eq!((neither.tick(a), neither.tick(b)), (0, 0));
        both.meet(&left);
        assert_eq!(both.tick(a), 1);
        assert!(both.includes(Epoch { timeline: a, tick: 1 }));
        assert!(!both.includes(Epoch { timeline: b, tick: 1 }));
    }
}
